"""Where rating files are: alone, in a folder, in an archive; compressed or not.

Archives may come from anywhere: members are read into memory and never extracted, so their paths
cannot reach the disk, and what claims or proves to be far larger than its compressed form is
refused.
"""

from __future__ import annotations

import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ordbm.errors import RatingsError

_MOST_BYTES = 8 * 2**30  # of one file, unpacked
_MOST_RATIO = 200  # of unpacked to packed size, for what unpacks to more than _HARMLESS
_HARMLESS = 64 * 2**20
UNPACKED_AT_ONCE = 2**20
_SLICE = 2**14  # packed bytes at a time: what a stream leaves of them is copied
_SHOWN_NAMES = 12

_GZIP, _ZIP, _TAR = b"\x1f\x8b", b"PK\x03\x04", b"ustar"
# All that reading a damaged archive may raise: the libraries check some fields, and trip on others.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    IndexError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,  # an encrypted member, an unknown compression
    ValueError,
)


class FileSource(NamedTuple):
    """Files by name, and how to read one; `single` if the path is a file of its own."""

    label: str
    names: list[str]
    read: Callable[[str], bytes]
    single: bool


class SourceFile(NamedTuple):
    """A file's content, unpacked, and what messages call it."""

    label: str
    name: str
    content: bytes


@contextmanager
def open_source(path: str | os.PathLike[str]) -> Iterator[FileSource]:
    """The files at `path`: of a folder and those in it, of a zip or tar archive, or the one."""
    place = Path(path)
    label = str(place)
    if _is_folder(place):
        yield FileSource(label, _names_in_folder(place), lambda name: _read(place / name), False)
    elif _is_zip(place):
        with _zip_source(place, label) as source:
            yield source
    else:
        content = gunzip(_read(place), label)
        if _TAR in content[257:262]:
            with _tar_source(content, label) as source:
                yield source
        else:
            yield FileSource(label, [place.name], lambda _name: content, True)


def read_file(source: FileSource, name: str) -> SourceFile:
    """One file of a source, unpacked if it is compressed on its own."""
    label = source.label if source.single else f"{source.label} ({name})"
    content = gunzip(source.read(name), label)
    return SourceFile(label, PurePosixPath(name).name.removesuffix(".gz"), content)


def visible_names(names: list[str]) -> list[str]:
    """`names` without those that systems leave behind in folders and archives."""
    return [
        name
        for name in names
        if not PurePosixPath(name).name.startswith(".") and "__MACOSX" not in name
    ]


def name_list(names: list[str]) -> str:
    """`a.csv, b.csv, ... (17,770 in all)`"""
    shown = ", ".join(sorted(names)[:_SHOWN_NAMES]) or "nothing"
    return f"{shown}, ... ({len(names):,} in all)" if len(names) > _SHOWN_NAMES else shown


def gunzip(content: bytes, label: str) -> bytes:
    """`content`, decompressed if it is gzip, within bounds."""
    if not content.startswith(_GZIP):
        return content
    parts: list[bytes] = []
    size = at = 0
    try:
        while at < len(content):
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                packed = content[at : at + _SLICE]
                part = stream.decompress(packed, UNPACKED_AT_ONCE)
                at += len(packed) - len(stream.unconsumed_tail or stream.unused_data)
                if not part and not packed and not stream.eof:
                    raise EOFError("it ends in the middle")
                parts.append(part)
                size += len(part)
                _check_size(size, len(content), label)
            while content[at : at + 1] == b"\0":  # padding between and after streams
                packed = content[at : at + _SLICE]
                at += len(packed) - len(packed.lstrip(b"\0"))
    except _DAMAGE as problem:
        if isinstance(problem, RatingsError):
            raise
        raise RatingsError(f"{label} is damaged: {problem}") from problem
    return b"".join(parts)


@contextmanager
def _zip_source(path: Path, label: str) -> Iterator[FileSource]:
    with _reporting(label):
        archive = zipfile.ZipFile(path)
    with archive:
        with _reporting(label):
            names = [member.filename for member in archive.infolist() if not member.is_dir()]

        def read(name: str) -> bytes:
            with _reporting(f"{label} ({name})"):
                member = archive.getinfo(name)
                _check_size(member.file_size, member.compress_size, f"{label} ({name})")
                return archive.read(member)

        yield FileSource(label, names, read, False)


@contextmanager
def _tar_source(content: bytes, label: str) -> Iterator[FileSource]:
    with _reporting(label):
        archive = tarfile.open(fileobj=BytesIO(content), mode="r:")  # noqa: SIM115
        members = {member.name: member for member in archive.getmembers() if member.isreg()}
    with archive:

        def read(name: str) -> bytes:
            with _reporting(f"{label} ({name})"):
                file = archive.extractfile(members[name])  # in memory, in spite of its name
                found = file.read() if file else b""
                if len(found) != members[name].size:
                    raise EOFError("it ends in the middle")
                return found

        yield FileSource(label, list(members), read, False)


@contextmanager
def _reporting(label: str) -> Iterator[None]:
    """Whatever a damaged archive makes its library raise, as one clear error."""
    try:
        yield
    except RatingsError:
        raise
    except _DAMAGE as problem:
        raise RatingsError(
            f"{label} is damaged or of an unknown kind: {problem}; get it anew"
        ) from problem


def _check_size(size: int, packed: int, label: str) -> None:
    if size > _MOST_BYTES or (size > _HARMLESS and size > _MOST_RATIO * packed):
        raise RatingsError(
            f"{label} unpacks to {size:,} bytes or more from {packed:,}: refused, as rating files "
            "do not; if you trust it, unpack it yourself"
        )


def _is_folder(path: Path) -> bool:
    with _reading(path):
        return path.is_dir()


def _is_zip(path: Path) -> bool:
    """Whether it is a file that begins as zip archives do; a pipe can be read only once."""
    with _reading(path):
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_ZIP)) == _ZIP


def _names_in_folder(folder: Path) -> list[str]:
    """Files of the folder and of the folders in it, no deeper."""
    with _reading(folder):
        direct = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
        inside = [file for entry in direct if entry.is_dir() for file in entry.iterdir()]
        files = [file for file in [*direct, *inside] if file.is_file()]
    return sorted(file.relative_to(folder).as_posix() for file in files)


def _read(path: Path) -> bytes:
    with _reading(path):
        return path.read_bytes()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise RatingsError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except ValueError as problem:  # a NUL in the path
        raise RatingsError(f"cannot read {str(path)!r}: {problem}") from problem
