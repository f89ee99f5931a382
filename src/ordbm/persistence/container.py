"""One file of named arrays and a JSON header: the form of model files and checkpoints.

The form is safetensors, whose `__metadata__` holds one JSON text with the kind of file, its format
number, the header, and a checksum over all of it. Opening such a file never runs code from it.
Arrays are copied into memory, not mapped: a mapped file that somebody changes in place would
change numbers after they were checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import ModelFileError
from ordbm.persistence.migrations import migrated
from ordbm.runtime.atomic_files import NotOursError, atomic_file

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

FORMAT = {"model": 2, "checkpoint": 1}  # the newest format of each kind
METADATA = "ordbm"
_BEGIN = f'{{"__metadata__":{{"{METADATA}":'.encode()  # after eight bytes of length
LONGEST_HEADER = 100_000_000  # bytes; safetensors' own limit

DTYPES = {
    "F64": "float64", "I64": "int64", "U64": "uint64", "F32": "float32", "I32": "int32",
    "U32": "uint32", "F16": "float16", "I16": "int16", "U16": "uint16", "I8": "int8",
    "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
FOREIGN = {
    b"PK": "a zip archive", b"\x80\x02": "a pickle", b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle", b"\x80\x05": "a pickle", b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip archive",
}  # fmt: skip
FAULTS = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip  # of a header and arrays that are not what they should be
TENSOR_TYPES = {name: tensor_type for tensor_type, name in DTYPES.items()}


def write_container(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    overwrite: bool = False,
) -> None:
    """Write one file, at once: at every moment `path` is the old file or the whole new one.

    Only a file of this form is replaced, unless with `overwrite`. The same header and arrays give
    the same bytes.
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    try:
        text = _signed(kind, FORMAT[kind], dict(header), plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the header of a {kind} file cannot be stored: {error}") from None
    try:
        with atomic_file(path, None if overwrite else is_container) as file:
            for part in _parts(text, plain):
                file.write(part)
    except NotOursError as error:
        raise ModelFileError(
            f"cannot write {_shown(path)}: {error.strerror}, not a {kind}; choose another name, or "
            "say overwrite=True"
        ) from None
    except ValueError as error:
        raise ModelFileError(f"cannot write {_shown(path)}: {error}") from None
    except OSError as error:
        raise ModelFileError(
            f"cannot write {_shown(path)}: {error.strerror or error}; choose a file name in a "
            "folder that exists and has room"
        ) from error


def is_container(file: BinaryIO) -> bool:
    """Whether an open file begins as those do that are written here."""
    begin = file.read(8 + len(_BEGIN))
    return begin[8:] == _BEGIN


def read_container(path: str | os.PathLike[str], kind: str) -> tuple[Header, Arrays]:
    """The header and the arrays of a file of this kind, checked against its checksum."""
    with opened_container(path, kind) as file:
        return read_opened(file, path, kind)


@contextmanager
def opened_container(path: str | os.PathLike[str], kind: str) -> Iterator[BinaryIO]:
    """The ordinary file that `path` names now, open to be read; errors within name it.

    It is opened once: whoever puts another file in its place meanwhile changes nothing.
    """
    handle = _opened(path, kind)
    with os.fdopen(handle, "rb", buffering=0) as file:
        try:
            yield file
        except ModelFileError:
            raise
        except OSError as error:
            raise _unreadable(path, error) from error
        except FAULTS:
            raise _altered(path) from None


def read_opened(file: BinaryIO, path: str | os.PathLike[str], kind: str) -> tuple[Header, Arrays]:
    """What `read_container` gives, of a file that `opened_container` has opened."""
    size = os.fstat(file.fileno()).st_size
    layout, data = _layout(file, size, path, kind)
    metadata = layout.pop("__metadata__", {})
    text = metadata.get(METADATA)
    if text is None:
        raise ModelFileError(
            f"{_shown(path)} is a safetensors file, but not one of ordbm's: it has no "
            f"{METADATA!r} entry; check the name"
        )
    found = _read_metadata(path, kind, text)
    arrays = _read_arrays(file, layout, data, size)
    if _signed(kind, found["format"], found["header"], arrays) != text:
        raise _altered(path)
    return migrated(kind, found["format"], FORMAT[kind], found["header"], arrays)


def taken(arrays: Arrays, name: str, dtype: Any, *shape: int | None) -> NDArray[Any]:
    """The array of this name, out of `arrays`; None stands for any length."""
    array = arrays.pop(name)
    same = len(shape) == array.ndim and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not same:
        raise ValueError(f"{name} has another type or shape")
    return array


def _opened(path: str | os.PathLike[str], kind: str) -> int:
    try:
        # A pipe is not waited for: it is none of ours, whoever is at its other end.
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except FileNotFoundError:
        raise ModelFileError(f"{_shown(path)} does not exist: check the name") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    what = "a folder" if stat.S_ISDIR(mode) else "not an ordinary file"
    raise ModelFileError(f"{_shown(path)} is {what}: give the name of a {kind} file")


def _layout(
    file: BinaryIO, size: int, path: str | os.PathLike[str], kind: str
) -> tuple[Header, int]:
    """The JSON text that a safetensors file starts with, and where its data begin."""
    first = file.read(9)
    head = int.from_bytes(first[:8], "little")
    fault = _fault_at_first_sight(first, head, size, kind)
    if fault:
        raise ModelFileError(f"{_shown(path)} {fault}")
    layout = json.loads(_whole(file, head, 8).tobytes())
    if not isinstance(layout, dict):
        raise ValueError("no layout")  # noqa: TRY004 -- a fault of the file
    return layout, 8 + head


def _read_arrays(file: BinaryIO, layout: Header, data: int, size: int) -> Arrays:
    """The arrays of a file, once it is known that they fill it, one after the other.

    Ours, because `safetensors` opens files by name and maps them beside the copies: that is twice
    the memory, and a crash of the process if somebody cuts the file short in place.
    """
    place = data
    for name, entry in sorted(layout.items(), key=lambda one: tuple(one[1]["data_offsets"])):
        begin, end = (data + _count(offset) for offset in entry["data_offsets"])
        n_bytes = math.prod(map(_count, entry["shape"])) * np.dtype(DTYPES[entry["dtype"]]).itemsize
        if begin != place or end - begin != n_bytes:
            raise ValueError(f"{name} is not where it should be")
        place = end
    if place != size:
        raise ValueError("there is more or less than there should be")
    arrays = {}
    for name, entry in layout.items():
        begin, end = entry["data_offsets"]
        dtype = np.dtype(DTYPES[entry["dtype"]]).newbyteorder("<")
        arrays[name] = _whole(file, end - begin, data + begin).view(dtype).reshape(entry["shape"])
    return arrays


def _whole(file: BinaryIO, size: int, place: int) -> NDArray[np.uint8]:
    """`size` bytes from `place` on; a ValueError if there are not so many."""
    found = np.empty(size, np.uint8)
    file.seek(place)
    read = 0
    while read < size:
        more = file.readinto(found.data[read:])  # type: ignore[attr-defined]
        if not more:
            raise ValueError("the file ends too early")
        read += more
    return found


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError("not a size")
    return number


def _signed(kind: str, version: int, header: Header, arrays: Arrays) -> str:
    """The metadata, with a checksum over it and over every byte of the arrays."""
    told = {"kind": kind, "format": version, "header": header}
    digest = hashlib.sha256(json.dumps(told, allow_nan=False).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(_raw(array))
    return json.dumps({**told, "sha256": digest.hexdigest()})


def _raw(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in C order and little-endian, as the file has it."""
    if array.dtype.name not in TENSOR_TYPES:
        raise ModelFileError(f"array {name!r} of type {array.dtype} cannot be stored")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _parts(text: str, arrays: Arrays) -> list[bytes | memoryview]:
    """The pieces of a safetensors file, in order; wide types first, so that all are aligned.

    `safetensors.numpy.save_file` opens a file by its name, where ours goes through one descriptor
    that is flushed to disk before it takes its place.
    """
    layout: Header = {"__metadata__": {METADATA: text}}
    ordered = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    begin = 0
    for name in ordered:
        array = arrays[name]
        layout[name] = {
            "dtype": TENSOR_TYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [begin, begin + array.nbytes],
        }
        begin += array.nbytes
    head = json.dumps(layout, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    if len(head) > LONGEST_HEADER:
        raise ModelFileError(f"a header of {len(head):,} bytes is too large to store")
    return [len(head).to_bytes(8, "little"), head, *(_raw(arrays[name]) for name in ordered)]


def _fault_at_first_sight(first: bytes, head: int, size: int, kind: str) -> str | None:
    """What is wrong with a file of `size` bytes that starts so; None if nothing is."""
    if len(first) < 9:
        return f"is {'incomplete' if first else 'empty'}: save or fetch it again"
    if first[8:] == b"{" and head <= LONGEST_HEADER:
        return None if head <= size - 8 else "is incomplete: save or fetch it again"
    if first[8:] == b"{" and head <= size - 8:
        return f"has a header of {head:,} bytes, and ordbm reads and writes {LONGEST_HEADER:,}"
    foreign = next((f"{name}, " for start, name in FOREIGN.items() if first.startswith(start)), "")
    return f"is {foreign}not an ordbm {kind} file: check the name"


def _read_metadata(path: str | os.PathLike[str], kind: str, text: str) -> Header:
    """The metadata's fields, if this version can read them and they are of the right kind."""
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise _altered(path) from None
    shape = {"kind": str, "format": int, "header": dict, "sha256": str}
    if (
        not isinstance(found, dict)
        or {name: type(value) for name, value in found.items()} != shape
        or found["kind"] not in FORMAT
    ):
        raise _altered(path)
    if found["kind"] != kind:
        raise ModelFileError(f"{_shown(path)} is a {found['kind']}, and a {kind} is needed here")
    newest = FORMAT[kind]
    if found["format"] > newest:
        raise ModelFileError(
            f"{_shown(path)} was written by a newer ordbm (format {found['format']}; this one "
            f"reads up to {newest}): upgrade ordbm"
        )
    if found["format"] < 1:
        raise _altered(path)
    return found


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def _altered(path: str | os.PathLike[str]) -> ModelFileError:
    return ModelFileError(
        f"{_shown(path)} is incomplete or was altered after it was written: save or fetch it again"
    )


def _unreadable(path: str | os.PathLike[str], error: Exception) -> ModelFileError:
    return ModelFileError(
        f"cannot read {_shown(path)}: {getattr(error, 'strerror', None) or error}"
    )


def _shown(path: str | os.PathLike[str]) -> str:
    return repr(os.fspath(path))
