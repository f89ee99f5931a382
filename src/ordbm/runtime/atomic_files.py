"""Files that are whole at every moment."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ordbm.runtime.file_locks import is_at, lock

_PRIVATE = 0o600

Ours = Callable[[BinaryIO], bool]  # whether an open file is one that may be replaced


class NotOursError(OSError):
    """A file would be replaced that is not known to have been written here."""

    def __init__(self) -> None:
        super().__init__(errno.EEXIST, "it is there already, and may be somebody's own file")


def begins_with(*beginnings: bytes) -> Ours:
    """Files that begin with one of these, as those do that are written here."""
    return lambda file: file.read(max(map(len, beginnings))).startswith(beginnings)


def none_is_ours(file: BinaryIO) -> bool:  # noqa: ARG001
    """No file with content, where what is in it does not tell who wrote it."""
    return False


def check_replaceable(path: str | os.PathLike[str], ours: Ours) -> None:
    """An error if there is a file with content that is not `ours`."""
    target = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        if _ordinary(target) and target.stat().st_size:
            with target.open("rb") as file:
                if not ours(file):
                    raise NotOursError


@contextmanager
def atomic_file(path: str | os.PathLike[str], ours: Ours | None = None) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` at once, when it is whole and on disk.

    Of files that are there, only `ours` are replaced, and empty ones; without `ours`, all. On any
    error `path` stays as it was. Only an ordinary file is replaced, never a folder or a
    device; a link stays a link. Who may read and write the old file may do so with the new one, and
    nobody else while it is being written. What killed writers of the same file left is removed.
    """
    target = Path(os.path.realpath(path))
    old = _ordinary(target)
    if ours is not None:
        check_replaceable(target, ours)
    remove_left_overs(target)
    file, temporary = _temporary(target, 0o666 if old is None else _PRIVATE)
    try:
        yield file
        file.flush()
        if ours is not None:
            check_replaceable(target, ours)
        old = _ordinary(target)  # as it is now: it may have been a long time
        if old is not None:
            _take_permissions(file.fileno(), old)
        os.fsync(file.fileno())
        if os.name == "nt":
            file.close()  # what is open cannot be moved there
        temporary.replace(target)
        _flush_folder(target.parent)
    finally:
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_left_overs(target: Path) -> None:
    """Remove what killed writers of `target` left beside it.

    A writer has its temporary file locked as long as it lives; those of others are not touched.
    """
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_if_left(Path(entry.path))


def _remove_if_left(temporary: Path) -> None:
    with suppress(OSError, AttributeError):  # locked, or not ours, or there are no locks here
        handle = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            ours = os.fstat(handle).st_uid == os.geteuid()
            if ours and lock(handle) and is_at(handle, temporary):
                temporary.unlink()
        finally:
            os.close(handle)


def _ordinary(target: Path) -> os.stat_result | None:
    """The file that is to be replaced; None if there is none yet."""
    try:
        old = target.lstat()  # links have been followed: one that is left leads nowhere
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "it is not an ordinary file")
    return old


def _temporary(target: Path, mode: int) -> tuple[BinaryIO, Path]:
    """A new file beside `target`, locked while it is open, and its name."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            handle = os.open(temporary, flags, mode)
        except FileExistsError:
            continue
        file = os.fdopen(handle, "wb")
        # Before it is locked it looks like a left-over, and may be locked or gone by now.
        with suppress(BlockingIOError):
            lock(handle)
            if is_at(handle, temporary):
                return file, temporary
        file.close()


def _take_permissions(handle: int, old: os.stat_result) -> None:
    """Owner, group and mode of the old file, as far as the system permits.

    A group that cannot be kept must not pass its rights on to another.
    """
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if os.name == "nt":
        return
    with suppress(OSError):
        os.fchown(handle, old.st_uid, -1)
    try:
        os.fchown(handle, -1, old.st_gid)
    except OSError:
        mode &= 0o707 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


def _flush_folder(folder: Path) -> None:
    """Make sure that a new name outlives a power cut (where a folder can be opened at all)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
