"""One file of named arrays and a JSON header: the form of model files and checkpoints.

The form is safetensors, whose `__metadata__` holds one JSON text with the kind of file, its format
number, the header, and a checksum over all of it. Opening such a file never runs code from it.
Arrays are copied into memory, not mapped: a mapped file that somebody changes in place would
change numbers after they were checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import ModelFileError
from ordbm.persistence.migrations import migrated
from ordbm.runtime.atomic_files import atomic_file

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

FORMAT = {"model": 1, "checkpoint": 1}  # the newest format of each kind
METADATA = "ordbm"
LARGEST_PARAMETER = 1e6  # far beyond what any machine learns, far below what overflows in a sum
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
) -> None:
    """Write one file, at once: at every moment `path` is the old file or the whole new one.

    The same header and arrays give the same bytes.
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    try:
        text = _signed(kind, FORMAT[kind], dict(header), plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the header of a {kind} file cannot be stored: {error}") from None
    try:
        with atomic_file(path) as file:
            for part in _parts(text, plain):
                file.write(part)
    except ValueError as error:
        raise ModelFileError(f"cannot write {_shown(path)}: {error}") from None
    except OSError as error:
        raise ModelFileError(
            f"cannot write {_shown(path)}: {error.strerror or error}; choose a file name in a "
            "folder that exists and has room"
        ) from error


def read_container(path: str | os.PathLike[str], kind: str) -> tuple[Header, Arrays]:
    """The header and the arrays of a file of this kind, checked against its checksum."""
    from safetensors import SafetensorError  # noqa: PLC0415

    try:
        return _read(path, kind)
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(f"cannot read {_shown(path)}: {error.strerror or error}") from error
    except (SafetensorError, ValueError, RecursionError):
        raise _altered(path) from None


def taken(arrays: Arrays, name: str, dtype: Any, *shape: int | None) -> NDArray[Any]:
    """The array of this name, out of `arrays`; None stands for any length."""
    array = arrays.pop(name)
    same = len(shape) == array.ndim and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not same:
        raise ValueError(f"{name} has another type or shape")
    return array


def _read(path: str | os.PathLike[str], kind: str) -> tuple[Header, Arrays]:
    from safetensors import safe_open  # noqa: PLC0415

    fault = _fault_at_first_sight(Path(path), kind)
    if fault:
        raise ModelFileError(f"{_shown(path)} {fault}")
    with safe_open(path, framework="numpy") as content:
        text = (content.metadata() or {}).get(METADATA)
        if text is None:
            raise ModelFileError(
                f"{_shown(path)} is a safetensors file, but not one of ordbm's: it has no "
                f"{METADATA!r} entry; check the name"
            )
        found = _read_metadata(path, kind, text)
        if not all(content.get_slice(name).get_dtype() in DTYPES for name in content.keys()):  # noqa: SIM118
            raise _altered(path)
    arrays = _read_arrays(path)
    if _signed(kind, found["format"], found["header"], arrays) != text:
        raise _altered(path)
    return migrated(kind, found["format"], FORMAT[kind], found["header"], arrays)


def _read_arrays(path: str | os.PathLike[str]) -> Arrays:
    """The arrays of a file whose layout safetensors has checked.

    Its own way to read them maps the whole file beside the copies: twice the memory at the peak.
    """
    arrays = {}
    with Path(path).open("rb") as file:
        head = int.from_bytes(file.read(8), "little")
        layout = json.loads(file.read(head))
        layout.pop("__metadata__", None)
        for name, entry in layout.items():
            begin, end = entry["data_offsets"]
            dtype = np.dtype(DTYPES[entry["dtype"]]).newbyteorder("<")
            array = np.empty(end - begin, np.uint8)
            file.seek(8 + head + begin)
            if file.readinto(array.data) != end - begin:
                raise ValueError(f"{name} is not whole")
            arrays[name] = array.view(dtype).reshape(entry["shape"])
    return arrays


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
    that is flushed to disk before it takes its place; before its release 0.8 it copies all arrays.
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


def _fault_at_first_sight(file: Path, kind: str) -> str | None:
    """What is wrong with the file before anything else reads it; None if nothing is."""
    if not file.exists():
        return "does not exist: check the name"
    if not file.is_file():
        what = "a folder" if file.is_dir() else "not an ordinary file"
        return f"is {what}: give the name of a {kind} file"
    with file.open("rb") as opened:
        first = opened.read(9)
        size = os.fstat(opened.fileno()).st_size
    head = int.from_bytes(first[:8], "little")
    if first[8:] == b"{" and head <= LONGEST_HEADER:
        return None if head <= size - 8 else "is incomplete: save or fetch it again"
    if len(first) < 9:
        return f"is {'incomplete' if first else 'empty'}: save or fetch it again"
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


def _shown(path: str | os.PathLike[str]) -> str:
    return repr(os.fspath(path))
