"""Ids and settings as plain JSON values and arrays, and back, with their types kept.

Numbers, text and None are written as they are; what JSON has no word for is written as
{"type": parts}. Reading makes values of the types listed here and nothing else.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ids import check_hashes

STORABLE = "numbers, text, bytes, dates, UUIDs or tuples of them"
DATE_UNIT = re.compile(r"<[mM]8(\[\d*(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?")
LARGEST = 2**63  # whole numbers below it are written as they are


def packed(value: Any) -> Any:
    """`value` in JSON's terms; a TypeError that says what it is if it cannot be."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        value = value.item()
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -LARGEST < value < LARGEST else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if kind is str:
        return value if _is_unicode(value) else {"text": _utf8(value).hex()}
    if kind is list:
        return [packed(part) for part in value]
    if kind in _PACKERS and (kind is not dt.datetime or type(value.tzinfo) in _TIME_ZONES):
        name, pack = _PACKERS[kind]
        return {name: pack(value)}
    raise TypeError(f"{value!r} is of type {kind.__module__}.{kind.__qualname__}")


def unpacked(plain: Any) -> Any:
    """The value that `packed` made `plain` of; a ValueError if it made no such thing."""
    if isinstance(plain, list):
        return [unpacked(part) for part in plain]
    if not isinstance(plain, dict):
        return plain
    ((name, parts),) = plain.items()
    if name not in _UNPACKERS:
        raise ValueError(f"there is no type {name!r}")
    value = _UNPACKERS[name](parts)
    if packed(value) != plain:
        raise ValueError(f"{plain!r} is not how {value!r} is written")
    return value


def packed_ids(name: str, ids: Sequence[Hashable]) -> dict[str, NDArray[Any]]:
    """Arrays that hold these ids: whole numbers and text as such, anything else as JSON."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        try:
            return {f"{name}.number": np.array(ids, np.int64)}
        except OverflowError:
            pass
    if kinds == {str}:
        text = _utf8("".join(map(str, ids)))
        length = np.fromiter(map(len, map(str, ids)), np.int64, len(ids))
        return {f"{name}.text": np.frombuffer(text, np.uint8), f"{name}.length": length}
    text = json.dumps([packed(value) for value in ids], allow_nan=False).encode()
    return {f"{name}.json": np.frombuffer(text, np.uint8)}


def unpacked_ids(name: str, arrays: dict[str, NDArray[Any]]) -> tuple[Hashable, ...]:
    """The ids in the arrays of `packed_ids`, which are taken out of `arrays`."""
    if f"{name}.number" in arrays:
        number = arrays.pop(f"{name}.number")
        _check_column(number, np.int64)
        ids = tuple(number.tolist())
    elif f"{name}.text" in arrays:
        raw, length = arrays.pop(f"{name}.text"), arrays.pop(f"{name}.length")
        _check_column(raw, np.uint8)
        _check_column(length, np.int64)
        text = raw.tobytes().decode("utf-8", "surrogatepass")
        if len(length) and not 0 <= length.min() <= length.max() <= len(text):
            raise ValueError("lengths out of range")
        end = np.cumsum(length).tolist()
        if len(text) != (end[-1] if end else 0):
            raise ValueError("lengths do not add up")
        ids = tuple(text[first:last] for first, last in pairwise([0, *end]))
    else:
        raw = arrays.pop(f"{name}.json")
        _check_column(raw, np.uint8)
        found = json.loads(raw.tobytes())
        if not isinstance(found, list):
            raise ValueError("not a list")
        ids = tuple(map(unpacked, found))
        if any(value is None or value != value for value in ids):  # noqa: PLR0124
            raise ValueError("an id is missing")
    check_hashes(ids)
    if len(set(ids)) < len(ids):
        raise ValueError("an id is there twice")
    return ids


def _check_column(array: NDArray[Any], dtype: Any) -> None:
    if array.ndim != 1 or array.dtype != dtype:
        raise ValueError("an array of another type is needed")


def _is_unicode(text: str) -> bool:
    """Whether there is no half of a surrogate pair in `text`: JSON would join two of them."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _numpy_date(parts: Any) -> Any:
    number, unit = parts
    if not DATE_UNIT.fullmatch(unit):
        raise ValueError(f"there is no unit {unit!r}")
    return np.array(number, np.int64).view(unit)[()]


def _packed_numpy_date(value: Any) -> list[Any]:
    return [int(value.astype(np.int64)), value.dtype.newbyteorder("<").str]


_TIME_ZONES = {type(None), dt.timezone}  # others have names and rules that cannot be written down

_PACKERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", bytes.hex),
    tuple: ("tuple", lambda value: [packed(part) for part in value]),
    dt.date: ("date", dt.date.isoformat),
    dt.datetime: ("datetime", lambda value: [value.isoformat(), value.fold]),
    np.datetime64: ("datetime64", _packed_numpy_date),
    np.timedelta64: ("datetime64", _packed_numpy_date),
    UUID: ("uuid", str),
    Decimal: ("decimal", str),
}

_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "text": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "bytes": bytes.fromhex,
    "tuple": lambda parts: tuple(map(unpacked, parts)),
    "date": dt.date.fromisoformat,
    "datetime": lambda parts: dt.datetime.fromisoformat(parts[0]).replace(fold=parts[1]),
    "datetime64": _numpy_date,
    "uuid": UUID,
    "decimal": Decimal,
}
