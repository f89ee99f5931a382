"""Where Numba keeps compiled kernels, so that versions and processes do not disturb each other.

Numba alone notices that a kernel's own file has changed, but not a file that it calls into; an
index that is damaged, or names a type that is no more, is an error; and processes that compile at
the same time can mix up each other's code. Here the kernels of one state of the sources have a
folder of their own, one process at a time is in it, and what cannot be read is compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import AbstractContextManager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ordbm.runtime.file_locks import waited_lock

caching: Any = import_module("numba.core.caching")  # which has no types
dispatcher: Any = import_module("numba.core.dispatcher")
PACKAGE = Path(__file__).parents[1]


def use_kernel_cache() -> None:
    """Let Numba keep the kernels of this package as described above, and all else as ever."""
    usual = dispatcher.FunctionCache
    if usual is not caching.FunctionCache:  # done before
        return

    def cache_of(function: Any) -> Any:
        ours = PACKAGE in Path(function.__code__.co_filename).parents
        return (KernelCache if ours else usual)(function)

    dispatcher.FunctionCache = cache_of


@cache
def sources_digest() -> str:
    """Of all files with kernels."""
    digest = hashlib.sha256()
    for path in sorted([*PACKAGE.glob("kernels/*.py"), *PACKAGE.glob("*/kernels.py")]):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """The cache of one kernel."""

    def __init__(self, function: Any) -> None:
        try:
            super().__init__(function)
        except RuntimeError:  # there is no place that can be written to: as long as we live, then
            self._impl_class = _ImplForNow
            super().__init__(function)
        folder = Path(self._impl.locator.get_cache_path()) / f"ordbm-{sources_digest()}"
        self._cache_path = str(folder)
        self._cache_file = _KernelFile(self._cache_path, self._impl.filename_base, sources_digest())


class _KernelFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """An index and its data, read and written by one process at a time."""

    def load(self, key: Any) -> Any:
        with self._alone():
            try:
                return super().load(key)
            except Exception:  # there is nothing that a damaged pickle could not raise
                return None

    def save(self, key: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk, for one: then it is compiled again next time
            Path(self._cache_path).mkdir(parents=True, exist_ok=True)
            with self._alone():
                super().save(key, data)

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:
            return {}

    def _alone(self) -> AbstractContextManager[None]:
        return waited_lock(Path(self._cache_path) / "lock")


class _LocatorForNow(caching.UserProvidedCacheLocator):  # type: ignore[misc]
    """A folder of this process alone."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._cache_path = os.path.join(_folder_for_now().name, Path(file).stem)  # noqa: PTH118

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        return cls(function, file)


class _ImplForNow(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_LocatorForNow,)


@cache
def _folder_for_now() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ordbm-")
