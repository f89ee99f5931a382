"""Where rating files are: alone, in a folder, in an archive; compressed or not.

Archives may come from anywhere: members are read into memory and never extracted, so their paths
cannot reach the disk, and all that is unpacked is counted in a `Budget` while it is.
"""

from __future__ import annotations

import bz2
import copy
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
from typing import IO, Any, NamedTuple

from ordbm.datasets.limits import Budget, ReadLimits
from ordbm.errors import RatingsError

UNPACKED_AT_ONCE = 2**20
_PACKED_AT_ONCE = 2**12  # of LZMA in a zip, which unpacks all that it is handed, 7,000-fold
_BEYOND_ALL_CLAIMS = 2**62
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
    budget: Budget


class SourceFile(NamedTuple):
    """A file's content, unpacked, what messages call it, and what it may still unfold to."""

    label: str
    name: str
    content: bytes
    budget: Budget


@contextmanager
def open_source(
    path: str | os.PathLike[str], limits: ReadLimits | None = None
) -> Iterator[FileSource]:
    """The files at `path`: of a folder and those in it, of a zip or tar archive, or the one.

    `limits` are those that an error may say how to raise; without, the usual ones hold.
    """
    place = Path(path)
    label = str(place)
    budget = Budget(limits)
    if _is_folder(place):
        names = _names_in_folder(place)
        yield FileSource(label, names, lambda name: _read(place / name, budget), False, budget)
    elif _is_zip(place):
        with _zip_source(place, label, budget) as source:
            yield source
    else:
        content = gunzip(_read(place, budget), label, budget)
        if _TAR in content[257:262]:
            with _tar_source(content, label, budget) as source:
                yield source
        else:
            yield FileSource(label, [place.name], lambda _name: content, True, budget)


def read_file(source: FileSource, name: str) -> SourceFile:
    """One file of a source, unpacked if it is compressed on its own."""
    label = source.label if source.single else f"{source.label} ({name})"
    content = gunzip(source.read(name), label, source.budget)
    return SourceFile(label, PurePosixPath(name).name.removesuffix(".gz"), content, source.budget)


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


def gunzip(content: bytes, label: str, budget: Budget) -> bytes:
    """`content`, decompressed if it is gzip."""
    if not content.startswith(_GZIP):
        return content
    found = BytesIO()
    at = 0
    try:
        while at < len(content):
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                packed = content[at : at + _SLICE]
                part = stream.decompress(packed, UNPACKED_AT_ONCE)
                at += len(packed) - len(stream.unconsumed_tail or stream.unused_data)
                if not part and not packed and not stream.eof:
                    raise EOFError("it ends in the middle")
                budget.add_bytes(len(part), label)
                found.write(part)
            while content[at : at + 1] == b"\0":  # padding between and after streams
                packed = content[at : at + _SLICE]
                at += len(packed) - len(packed.lstrip(b"\0"))
    except _DAMAGE as problem:
        if isinstance(problem, RatingsError):
            raise
        raise RatingsError(f"{label} is damaged: {problem}") from problem
    return found.getvalue()


@contextmanager
def _zip_source(path: Path, label: str, budget: Budget) -> Iterator[FileSource]:
    with _reporting(label):
        archive = zipfile.ZipFile(path)
        budget.add_stored(path.stat().st_size)
    with archive:
        with _reporting(label):
            members: dict[str, zipfile.ZipInfo] = {}
            for member in archive.infolist():
                budget.add_member(label)
                if members.setdefault(member.filename, member) is not member:
                    raise RatingsError(
                        f"{label} has several files called {member.filename!r}: refused, as nobody "
                        "can tell which is meant; make the archive anew"
                    )
            names = [name for name, member in members.items() if not member.is_dir()]

        def read(name: str) -> bytes:
            with _reporting(f"{label} ({name})"):
                return _zip_member(archive, members[name], f"{label} ({name})", budget)

        yield FileSource(label, names, read, False, budget)


def _zip_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, label: str, budget: Budget
) -> bytes:
    """All that a member holds, whatever size it claims."""
    unclaimed: Any = copy.copy(member)
    unclaimed.file_size = _BEYOND_ALL_CLAIMS
    is_bzip2 = member.compress_type == zipfile.ZIP_BZIP2
    if is_bzip2:  # of which zipfile would unpack 4 KB at once, which may be five gigabytes
        unclaimed.compress_type = zipfile.ZIP_STORED
        unclaimed.CRC = None  # it is that of what is unpacked: compared below
    is_lzma = member.compress_type == zipfile.ZIP_LZMA
    with archive.open(unclaimed) as packed, bz2.open(packed) if is_bzip2 else packed as file:
        content = _counted(file, _PACKED_AT_ONCE if is_lzma else UNPACKED_AT_ONCE, label, budget)
    if len(content) != member.file_size:
        raise EOFError(f"it claims {member.file_size:,} bytes and holds {len(content):,}")
    if zlib.crc32(content) != member.CRC:
        raise EOFError("its checksum is another")
    return content


def _counted(file: IO[bytes], step: int, label: str, budget: Budget) -> bytes:
    """The content of an open member, counted as it comes."""
    found = BytesIO()
    while part := file.read(step):
        budget.add_bytes(len(part), label)
        found.write(part)
    return found.getvalue()


@contextmanager
def _tar_source(content: bytes, label: str, budget: Budget) -> Iterator[FileSource]:
    with _reporting(label):
        archive = tarfile.open(fileobj=BytesIO(content), mode="r:")  # noqa: SIM115
        members: dict[str, tarfile.TarInfo] = {}  # of one name the last, as tar has it
        for member in archive:
            budget.add_member(label)
            if member.isreg():
                members[member.name] = member
    with archive:

        def read(name: str) -> bytes:
            with _reporting(f"{label} ({name})"):
                file = archive.extractfile(members[name])  # in memory, in spite of its name
                assert file is not None
                found = _counted(file, UNPACKED_AT_ONCE, f"{label} ({name})", budget)
                if len(found) != members[name].size:
                    raise EOFError("it ends in the middle")
                return found

        yield FileSource(label, list(members), read, False, budget)


@contextmanager
def _reporting(label: str) -> Iterator[None]:
    """Whatever a damaged archive makes its library raise, as one clear error."""
    try:
        yield
    except RatingsError:
        raise
    except MemoryError:
        raise RatingsError(f"{label} asks for more memory than there is to unpack it") from None
    except _DAMAGE as problem:
        raise RatingsError(
            f"{label} is damaged or of an unknown kind: {problem}; get it anew"
        ) from problem


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


def _read(path: Path, budget: Budget) -> bytes:
    with _reading(path):
        content = path.read_bytes()
    budget.add_stored(len(content))
    return content


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise RatingsError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except ValueError as problem:  # a NUL in the path
        raise RatingsError(f"cannot read {str(path)!r}: {problem}") from problem
