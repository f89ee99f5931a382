"""Arrays that may be larger than memory: in memory, or in files that are mapped and go with them.

A file has no name once it is made: when the last array of it is gone, or the process, however that
ends, its place on the disk is free again.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ordbm.errors import CostError
from ordbm.runtime.memory import Memory, bytes_of, gigabytes

_SMALL = 2**20  # bytes: what is smaller is never in a file
_LARGE_FILES = "/var/tmp"  # noqa: S108 -- where systems have them; /tmp may be memory


class Scratch:
    """Room for arrays: in memory up to `memory`, in mapped files beyond.

    `memory` is in bytes or like "8GB"; None for what is free now, less some room. Files are in
    `folder`; unless given, in that of the environment's TMPDIR, or where the system has large ones.
    """

    def __init__(self, memory: Memory = None, folder: str | os.PathLike[str] | None = None) -> None:
        self.memory = bytes_of(memory)
        self.in_memory = 0  # bytes of the arrays that are
        self._folder = folder

    def room(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """An array of zeros; it may outlive this object."""
        kind = np.dtype(dtype)
        sizes = (shape,) if isinstance(shape, int | np.integer) else shape
        n_bytes = prod(map(int, sizes)) * kind.itemsize
        if n_bytes > _SMALL and self.in_memory + n_bytes > self.memory:
            return mapped(sizes, kind, self._folder)
        array = np.zeros(sizes, kind)
        self.in_memory += n_bytes
        weakref.finalize(array, self._give_back, n_bytes)
        return array

    def copy_of(self, array: NDArray[Any]) -> NDArray[Any]:
        """The same numbers in an array of its own."""
        found = self.room(array.shape, array.dtype)
        found[...] = array
        return found

    def __repr__(self) -> str:
        return f"Scratch({self.memory})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Scratch, (self.memory, self._folder)  # a copy has no arrays yet

    def _give_back(self, n_bytes: int) -> None:
        self.in_memory -= n_bytes


IN_MEMORY = Scratch(2**61)  # whatever it takes


def mapped(
    shape: tuple[int, ...], dtype: DTypeLike, folder: str | os.PathLike[str] | None = None
) -> NDArray[Any]:
    """An array of zeros in a mapped file without a name."""
    kind = np.dtype(dtype)
    n_bytes = prod(map(int, shape)) * kind.itemsize
    if not n_bytes:
        return np.zeros(shape, kind)
    place = scratch_folder() if folder is None else Path(folder)
    try:
        with tempfile.TemporaryFile(prefix="ordbm-", dir=place) as file:
            _reserve(file.fileno(), n_bytes)
            content = mmap.mmap(file.fileno(), n_bytes)
    except OSError as problem:
        what = "is full" if problem.errno == errno.ENOSPC else f"({problem.strerror or problem})"
        raise CostError(
            f"no room for {gigabytes(n_bytes)} in a scratch file: {place} {what}; name a folder on "
            "a disk with more room in the environment variable TMPDIR, or allow more memory="
        ) from problem
    return np.frombuffer(content, kind).reshape(shape)


def is_mapped(array: NDArray[Any]) -> bool:
    """Whether an array, or what it is a view of, lies in a mapped file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return isinstance(base, mmap.mmap)


def scratch_folder() -> Path:
    """Where scratch files are unless said otherwise."""
    if "TMPDIR" not in os.environ and os.access(_LARGE_FILES, os.W_OK | os.X_OK):
        return Path(_LARGE_FILES)
    return Path(tempfile.gettempdir())


def _reserve(handle: int, n_bytes: int) -> None:
    """Take the place on the disk now: a file with holes would end the process when it is full."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, n_bytes)
    else:
        os.ftruncate(handle, n_bytes)
