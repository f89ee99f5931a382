"""Locks on open files, by which processes keep out of each other's way.

A lock ends with the process that holds it, however that ends: nothing has to be cleaned up before
the next one can have it. Where there is no `flock`, nothing is locked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def lock(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file for as long as it is open; False where files cannot be locked.

    If it is locked already, by another process or another opening of the file, `wait` until it is
    not; otherwise that is a `BlockingIOError`.
    """
    if os.name == "nt":
        return False
    import fcntl  # noqa: PLC0415 -- not there, there

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return False
    return True


def is_at(handle: int, path: str | os.PathLike[str]) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


@contextmanager
def locked_file(path: str | os.PathLike[str], *, wait: bool = False) -> Iterator[None]:
    """Within it nobody else has `path` locked, a file made for the purpose and removed at the end.

    If somebody has, `wait` for them; otherwise that is a `BlockingIOError` with the number of their
    process.
    """
    handle = _open_locked(path, wait)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        with suppress(OSError):
            Path(path).unlink()  # while it is locked: from here on the name is another file's
        os.close(handle)


def _open_locked(path: str | os.PathLike[str], wait: bool) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            lock(handle, wait=wait)
            if is_at(handle, path):
                return handle  # otherwise its last holder has just removed it
        except BlockingIOError as error:
            error.args = (error.errno, error.strerror, os.read(handle, 20).decode("latin-1"))
            os.close(handle)
            raise
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


@contextmanager
def waited_lock(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within it nobody else is within the same; the file `path` stays.

    Without a word where there is no such folder, or none that can be written to.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        lock(handle, wait=True)
        yield
    finally:
        os.close(handle)
