"""The files of a parquet dataset: one file, or all in a folder, here or at an address.

An address (`s3://bucket/ratings/`) is for fsspec, which need not be installed otherwise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from ordbm.datasets.limits import Budget
from ordbm.datasets.netflix import NETFLIX_FILE
from ordbm.errors import RatingsError, SettingsError

PARQUET_MAGIC = b"PAR1"
_SUFFIXES = (".parquet", ".parq", ".pq")
_OTHERS = (".csv", ".tsv", ".txt", ".dat", ".data", ".feather", ".arrow")  # that may be ratings
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+(::[a-z][a-z0-9+.-]+)*://", re.ASCII | re.IGNORECASE)
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_BLOCK = 2**16


class StoredFile(NamedTuple):
    """A file as it lies there, with its name in the dataset.

    `keys` are what the folders that it is in say (`year=2020`).
    """

    label: str
    name: str
    size: int
    open: Callable[[], Any]  # a file of Arrow's
    keys: dict[str, str | None]


class FileContent:
    """The bytes of a file, read where they are asked for."""

    def __init__(self, file: Any, size: int) -> None:
        self._file, self._size = file, size
        self._begin, self._block = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            begin, end, _ = place.indices(self._size)
            return bytes(self._file.read_at(end - begin, begin)) if end > begin else b""
        if not 0 <= place < self._size:
            raise IndexError(place)
        if not self._begin <= place < self._begin + len(self._block):
            self._begin, self._block = place, bytes(self._file.read_at(_BLOCK, place))
            if not self._block:
                raise OSError("it is shorter than it was")
        return self._block[place - self._begin]


def content_file(content: bytes, label: str) -> StoredFile:
    """A file that has been read already."""
    import pyarrow as pa  # noqa: PLC0415

    return StoredFile(label, label, len(content), lambda: pa.BufferReader(content), {})


def is_address(path: Any) -> bool:
    """Whether a path is an address such as `s3://bucket/ratings/`."""
    return isinstance(path, str) and bool(_ADDRESS.match(path))


def dataset_files(path: Any, budget: Budget) -> list[StoredFile] | None:
    """The parquet files at `path`, in the order of their names; None if it is something else.

    A folder is a dataset if parquet files are all that may be ratings in it and below.
    """
    files = _found_files(path, budget)
    for file in files or ():
        budget.add_stored(file.size)
    return files


def _found_files(path: Any, budget: Budget) -> list[StoredFile] | None:
    if is_address(path):
        return _files_at_address(path, budget)
    if not isinstance(path, str | os.PathLike):
        return None
    place = Path(path)
    with _reading(str(place)):
        if not place.is_dir():
            return [_local(place, str(place), place.name)] if _is_parquet(place) else None
        inside = sorted(_names_below(place))
    names = [name for name in inside if name.lower().endswith(_SUFFIXES)]
    if not names or any(_may_be_ratings(name) for name in inside):
        return None
    files = []
    for name in names:
        budget.add_member(str(place))
        with _reading(str(place / name)):
            files.append(_local(place / name, f"{place} ({name})", name))
    return files


def check_keys(files: list[StoredFile], label: str) -> None:
    """An error unless all files are in folders of the same keys."""
    for file in files:
        if list(file.keys) != list(files[0].keys):
            said = ", ".join(files[0].keys) or "none"
            raise RatingsError(
                f"{label}: folders are named after other columns than those before "
                f"({', '.join(file.keys) or 'none'}; before: {said}), as in {file.label}: move it"
            )


def _may_be_ratings(name: str) -> bool:
    """Whether a file that is no part of a dataset may be the ratings, or is known to be."""
    base = PurePosixPath(name).name.lower()
    if base.endswith(_SUFFIXES):
        return base == "ratings.parquet"
    return base.removesuffix(".gz").endswith(_OTHERS) or bool(NETFLIX_FILE.fullmatch(base))


def _names_below(folder: Path) -> Iterator[str]:
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_visible(name)]
        for name in files:
            if _is_visible(name):
                yield (Path(at) / name).relative_to(folder).as_posix()


def _is_visible(name: str) -> bool:
    """Whether a file or folder is not one that systems and writers leave beside the data."""
    return not name.startswith((".", "_")) or "=" in name


def _keys(name: str) -> dict[str, str | None]:
    """What the folders of a path say: `year=2020/part.parquet` is of year 2020."""
    found: dict[str, str | None] = {}
    for folder in PurePosixPath(name).parts[:-1]:
        key, equals, value = folder.partition("=")
        if equals and key:
            found[unquote(key)] = None if value == _NOTHING else unquote(value)
    return found


def _local(place: Path, label: str, name: str) -> StoredFile:
    import pyarrow as pa  # noqa: PLC0415

    return StoredFile(label, name, place.stat().st_size, lambda: pa.OSFile(str(place)), _keys(name))


def _is_parquet(place: Path) -> bool:
    if not place.is_file():  # a pipe can be read only once
        return False
    with place.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def _files_at_address(address: str, budget: Budget) -> list[StoredFile]:
    system, root = _file_system(address)
    with _reading(address):
        if system.isfile(root):
            found = {root: system.info(root)}
        else:
            found = {
                name: about
                for name, about in sorted(system.find(root, detail=True).items())
                if name.lower().endswith(_SUFFIXES)
                and all(map(_is_visible, PurePosixPath(name[len(root) :].lstrip("/")).parts))
            }
    if not found:
        raise RatingsError(
            f"{address} has no parquet files: only these are read from an address; fetch others"
        )
    files = []
    for name, about in found.items():
        budget.add_member(address)
        inside = name[len(root) :].lstrip("/")
        label = f"{address} ({inside})" if inside else address
        base = inside or PurePosixPath(name).name
        files.append(
            StoredFile(label, base, int(about["size"]), _opener(system, name), _keys(inside))
        )
    return files


def _opener(system: Any, name: str) -> Callable[[], Any]:
    def opened() -> Any:
        import pyarrow as pa  # noqa: PLC0415

        return pa.PythonFile(system.open(name, "rb"), mode="r")

    return opened


def _file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    try:
        import fsspec  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    except ImportError:
        raise SettingsError(
            f"{address} is an address, and reading from there needs fsspec: pip install "
            "'ordbm[remote]', and what its kind of address needs, such as s3fs or gcsfs"
        ) from None
    try:
        system, root = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as problem:
        raise SettingsError(f"{address}: {problem}") from None
    return system, root.rstrip("/")


@contextmanager
def _reading(label: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as problem:  # also a NUL in the path
        said = getattr(problem, "strerror", None) or problem
        raise RatingsError(f"cannot read {label}: {said}") from problem
