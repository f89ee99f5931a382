"""Where rating files are: alone, in a folder, in an archive; compressed or not.

Archives may come from anywhere: members are read into memory and never extracted, so their paths
cannot reach the disk, and all that is unpacked is counted in a `Budget` while it is.
"""

from __future__ import annotations

import bz2
import copy
import os
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ordbm.datasets.limits import Budget, ReadLimits
from ordbm.datasets.unpacking import (
    DAMAGE,
    UNPACKED_AT_ONCE,
    counted,
    unpacked_content,
    unpacked_name,
)
from ordbm.errors import RatingsError
from ordbm.runtime.interruption import raised_at_once

_PACKED_AT_ONCE = 2**12  # of LZMA in a zip, which unpacks all that it is handed, 7,000-fold
_BEYOND_ALL_CLAIMS = 2**62
_SHOWN_NAMES = 12

_ZIP, _TAR = b"PK\x03\x04", b"ustar"


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
    path: str | os.PathLike[str] | BinaryIO, limits: ReadLimits | None = None
) -> Iterator[FileSource]:
    """The files at `path`: of a folder and those in it, of a zip or tar archive, or the one.

    An open binary file, such as standard input, is read to its end. `limits` are those that an
    error may say how to raise; without, the usual ones hold.
    """
    budget = Budget(limits)
    if not isinstance(path, str | os.PathLike):
        label = stream_label(path)
        with _source_in(_stream_content(path, label, budget), label, label, budget) as source:
            yield source
        return
    place = Path(path)
    label = str(place)
    if _is_folder(place):
        names = _names_in_folder(place)
        yield FileSource(label, names, lambda name: _read(place / name, budget), False, budget)
    elif _is_zip(place):
        with _reporting(label):
            budget.add_stored(place.stat().st_size)
        with _zip_source(place, label, budget) as source:
            yield source
    else:
        with _source_in(_read(place, budget), place.name, label, budget) as source:
            yield source


@contextmanager
def _source_in(content: bytes, name: str, label: str, budget: Budget) -> Iterator[FileSource]:
    """The files in what was read: of an archive, or the one."""
    content = unpacked_content(content, label, budget)
    if content.startswith(_ZIP):
        with _zip_source(BytesIO(content), label, budget) as source:
            yield source
    elif _TAR in content[257:262]:
        with _tar_source(content, label, budget) as source:
            yield source
    else:
        yield FileSource(label, [name], lambda _name: content, True, budget)


def stream_label(file: Any) -> str:
    """What messages call an open file."""
    if file is getattr(sys.stdin, "buffer", None):
        return "standard input"
    name = getattr(file, "name", None)
    return str(name) if isinstance(name, str | os.PathLike) else "the open file"


def _stream_content(file: Any, label: str, budget: Budget) -> bytes:
    if not hasattr(file, "read"):
        raise RatingsError(
            f"need the path of a file, or an open binary file, not {type(file).__name__}"
        )
    with _reading(Path(label)), raised_at_once():
        content = file.read()
    if not isinstance(content, bytes):
        raise RatingsError(f"{label} is open as text: open it as binary, open(path, 'rb')")
    budget.add_stored(len(content))
    return content


def read_file(source: FileSource, name: str) -> SourceFile:
    """One file of a source, unpacked if it is compressed on its own."""
    label = source.label if source.single else f"{source.label} ({name})"
    content = unpacked_content(source.read(name), label, source.budget)
    return SourceFile(label, unpacked_name(PurePosixPath(name).name), content, source.budget)


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


@contextmanager
def _zip_source(file: Path | BytesIO, label: str, budget: Budget) -> Iterator[FileSource]:
    with _reporting(label):
        archive = zipfile.ZipFile(file)
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
        content = counted(file, _PACKED_AT_ONCE if is_lzma else UNPACKED_AT_ONCE, label, budget)
    if len(content) != member.file_size:
        raise EOFError(f"it claims {member.file_size:,} bytes and holds {len(content):,}")
    if zlib.crc32(content) != member.CRC:
        raise EOFError("its checksum is another")
    return content


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
                found = counted(file, UNPACKED_AT_ONCE, f"{label} ({name})", budget)
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
    except DAMAGE as problem:
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
