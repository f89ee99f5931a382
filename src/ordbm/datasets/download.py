"""Public MovieLens archives fetched from GroupLens: resumed where a download broke off, checked.

A file is written beside its place as `NAME.part`, with `NAME.part.json` saying which version of the
remote file it is the beginning of, and moved to its place once its checksum is right. One process
at a time fetches a file; others that want it wait, and take what came.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ordbm.errors import OrdbmError, SettingsError
from ordbm.runtime.file_locks import locked_file
from ordbm.runtime.printable import shown

BASE_URL = "https://files.grouplens.org/datasets/movielens/"
TERMS = (
    "MovieLens data may be used for research, with acknowledgement; not commercially, and not "
    "passed on, without permission of GroupLens. The conditions are in the README of each archive."
)
_CHUNK = 256 * 1024
_MOST_BYTES = 8 * 2**30
PATIENCE = 5  # attempts in a row that bring nothing new
_AGENT = "ordbm (https://pypi.org/project/ordbm)"

ByteProgress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


class DownloadError(OrdbmError, OSError):
    """A data set that could not be fetched; the message says why and what to do."""


class Download(NamedTuple):
    """An archive: its size in bytes and its MD5, unless GroupLens replaces it at times."""

    about: str
    size: int | None
    md5: str | None


DOWNLOADS = {
    "ml-100k": Download(
        "100,000 ratings by 943 users of 1,682 movies, 1998",
        4_924_029,
        "0e33842e24a9c977be4e0107933c0723",
    ),
    "ml-1m": Download(
        "1,000,209 ratings by 6,040 users of 3,706 movies, 2003",
        5_917_549,
        "c4d9eecfca2ab87c1945afe126590906",
    ),
    "ml-10m": Download(
        "10,000,054 ratings by 69,878 users of 10,677 movies, in half stars, 2009",
        65_566_137,
        "ce571fd55effeba0271552578f2648bd",
    ),
    "ml-20m": Download(
        "20,000,263 ratings by 138,493 users of 26,744 movies, in half stars, 2015",
        198_702_078,
        "cd245b17a1ae2cc31bb14903e1204af3",
    ),
    "ml-25m": Download(
        "25,000,095 ratings by 162,541 users of 59,047 movies, in half stars, 2019",
        261_978_986,
        "6b51fb2759a8657d3bfcbfc42b592ada",
    ),
    "ml-32m": Download(
        "32,000,204 ratings by 200,948 users of 84,432 movies, in half stars, 2023",
        238_950_008,
        "d472be332d4daa821edc399621853b57",
    ),
    "ml-latest-small": Download("about 100,000 ratings, replaced now and then", None, None),
    "ml-latest": Download("all ratings of late, replaced now and then", None, None),
}


def get_dataset(
    name: str,
    folder: str | os.PathLike[str] = ".",
    progress: ByteProgress | None = None,
    *,
    base_url: str = BASE_URL,
    insecure: bool = False,
    timeout: float = 30.0,
    pause: float = 1.0,
) -> Path:
    """Fetch the archive of a public data set into `folder`; its path, for `read_ratings`.

    A file that is there already with the right checksum is left alone, and a download that broke
    off goes on where it stopped; one that another process is at is waited for. `progress` is called
    with the bytes so far and the bytes in all.
    The checksum is known for the archives that never change and fetched for the others.
    `insecure` permits plain http; `pause` is the first of the growing waits between attempts.
    """
    if name not in DOWNLOADS:
        raise SettingsError(f"no data set {shown(name)}; there are {', '.join(DOWNLOADS)}")
    url = urllib.parse.urljoin(base_url, f"{name}.zip")
    fetcher = _Fetcher(url, insecure, timeout, pause)
    target = Path(folder) / f"{name}.zip"
    md5 = DOWNLOADS[name].md5 or fetcher.published_md5()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file() and _md5_of(target) == md5:
            return target
        with locked_file(target.with_name(f".{target.name}.lock"), wait=True):
            if not (target.is_file() and _md5_of(target) == md5):  # another process had none either
                fetcher.fetch(target, md5, progress or (lambda _done, _total: None))
    except DownloadError:
        raise
    except OSError as problem:
        raise DownloadError(_disk_problem(target, problem)) from problem
    return target


class _Version(NamedTuple):
    """What tells versions of a remote file apart."""

    url: str
    validator: str | None  # for If-Range: a strong ETag, or the time of the last change
    size: int | None


class _DroppedError(Exception):
    """The connection broke, or the server was busy: worth another attempt."""


class _Fetcher:
    """Attempts at one URL."""

    def __init__(self, url: str, insecure: bool, timeout: float, pause: float) -> None:
        self.url, self.timeout, self.pause = url, timeout, pause
        self.schemes = ("https", "http") if insecure else ("https",)
        _check_scheme(url, self.schemes)
        self.opener = urllib.request.build_opener(_Redirects(self.schemes))

    def published_md5(self) -> str:
        """The MD5 in the file that GroupLens keeps beside each archive."""
        url = f"{self.url}.md5"
        answer = self._patiently(lambda: self._short_text(url))
        found = re.search(r"\b[0-9a-fA-F]{32}\b", answer)
        if not found:
            raise DownloadError(f"{url} has no checksum: the archive could not be checked")
        return found.group().lower()

    def fetch(self, target: Path, md5: str, progress: ByteProgress) -> None:
        """The remote file at `target`, complete and checked."""
        part = target.with_name(target.name + ".part")
        record = target.with_name(target.name + ".part.json")
        self._patiently(lambda: self._attempt(part, record, progress), lambda: _size(part))
        found = _md5_of(part)
        if found != md5:
            part.unlink()
            record.unlink(missing_ok=True)
            raise DownloadError(
                f"{self.url} came with MD5 {found} instead of {md5}, and was removed: try again; "
                "if it happens again, the file has changed or something alters it on the way"
            )
        part.replace(target)
        record.unlink(missing_ok=True)

    def _patiently(self, attempt: Callable[[], Any], gained: Callable[[], int] = int) -> Any:
        """The result of `attempt`, tried again as long as it gains something, or PATIENCE times."""
        most, failures = gained(), 0
        while True:
            try:
                return attempt()
            except _DroppedError as problem:
                now = gained()
                failures = 0 if now > most else failures + 1
                most = max(most, now)
                if failures >= PATIENCE:
                    raise DownloadError(
                        f"{self.url}: {problem}, {failures} times in a row; what has come is kept: "
                        "run it again to go on"
                    ) from problem
                time.sleep(self.pause * 2 ** min(failures, 5))

    def _attempt(self, part: Path, record: Path, progress: ByteProgress) -> None:
        """One request for what is missing of `part`."""
        before = _recorded(record)
        have = _size(part) if before and before.url == self.url and before.validator else 0
        if have and before and have == before.size:
            return
        headers = {}
        if have and before and before.validator:
            headers = {"Range": f"bytes={have}-", "If-Range": before.validator}
        with self._response(self.url, headers) as response:
            now = _version_of(self.url, response)
            if response.status != http.HTTPStatus.PARTIAL_CONTENT or now != before:
                if response.status == http.HTTPStatus.PARTIAL_CONTENT:
                    _forget(part, record)  # a part of another version: never joined
                    raise _DroppedError("the remote file changed")
                have = 0
                _forget(part, record)
                record.write_text(json.dumps(now._asdict()))
            elif not str(response.headers["Content-Range"]).startswith(f"bytes {have}-"):
                _forget(part, record)
                raise _DroppedError("the server sent another part than asked for")
            _check_room(part, now.size, have)
            with part.open("ab") as file:
                progress(have, now.size)
                while chunk := self._chunk(response):
                    file.write(chunk)
                    have += len(chunk)
                    if have > (now.size or _MOST_BYTES):
                        raise DownloadError(
                            f"{self.url} sends more than {now.size or _MOST_BYTES:,} bytes: refused"
                        )
                    progress(have, now.size)
            if now.size is not None and have < now.size:
                raise _DroppedError("the connection broke off")

    def _short_text(self, url: str) -> str:
        with self._response(url, {}) as response:
            return str(self._chunk(response)[:4096].decode("latin-1"))

    def _chunk(self, response: Any) -> bytes:
        try:
            chunk: bytes = response.read(_CHUNK)
        except (OSError, http.client.HTTPException) as problem:
            raise _DroppedError(f"the connection broke off ({_reason(problem)})") from problem
        return chunk

    def _response(self, url: str, headers: dict[str, str]) -> Any:
        request = urllib.request.Request(url, headers={"User-Agent": _AGENT, **headers})  # noqa: S310
        try:
            return self.opener.open(request, timeout=self.timeout)
        except DownloadError:  # a redirect that is not followed
            raise
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and headers:
                return self._response(url, {})
            if problem.code in {408, 425, 429} or problem.code >= 500:
                raise _DroppedError(
                    f"the server answers {problem.code} {problem.reason}"
                ) from problem
            raise DownloadError(
                f"{url}: the server answers {problem.code} {problem.reason}; it may have moved"
            ) from problem
        except (OSError, http.client.HTTPException) as problem:
            cause = getattr(problem, "reason", problem)
            if isinstance(cause, ssl.SSLError):
                raise DownloadError(f"{url}: no trusted connection: {cause}") from problem
            if isinstance(cause, socket.gaierror):
                raise DownloadError(
                    f"{url}: the host is not found; is there a network? ({_reason(cause)})"
                ) from problem
            raise _DroppedError(f"no connection ({_reason(cause)})") from problem


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects are followed to permitted schemes only."""

    def __init__(self, schemes: tuple[str, ...]) -> None:
        self.schemes = schemes

    def redirect_request(self, *arguments: Any, **named: Any) -> Any:
        request = super().redirect_request(*arguments, **named)
        if request is not None:
            _check_scheme(request.full_url, self.schemes)
        return request


def _check_scheme(url: str, schemes: tuple[str, ...]) -> None:
    if urllib.parse.urlsplit(url).scheme not in schemes:
        raise DownloadError(f"{url}: only {' and '.join(schemes)} addresses are fetched from")


def _version_of(url: str, response: Any) -> _Version:
    tag = response.headers["ETag"]
    validator = tag if tag and not tag.startswith("W/") else response.headers["Last-Modified"]
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        total = str(response.headers["Content-Range"]).rpartition("/")[2]
    else:
        total = response.headers["Content-Length"] or ""
    return _Version(url, validator, int(total) if total.isascii() and total.isdigit() else None)


def _recorded(record: Path) -> _Version | None:
    """The version that a part is of; None if that is not known."""
    try:
        return _Version(**json.loads(record.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _forget(part: Path, record: Path) -> None:
    """Remove both, the part first: it must never meet the record of another version."""
    part.unlink(missing_ok=True)
    record.unlink(missing_ok=True)


def _check_room(part: Path, size: int | None, have: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if size is not None and size - have > free:
        raise DownloadError(
            f"{part.parent}: {size - have:,} bytes are needed and {free:,} are free: make room, or "
            "choose another folder"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _disk_problem(target: Path, problem: OSError) -> str:
    if problem.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{target}: the disk is full; make room and run it again to go on"
    return f"{target}: {problem.strerror or problem}"


def _reason(problem: object) -> str:
    return str(getattr(problem, "strerror", None) or problem or type(problem).__name__)
