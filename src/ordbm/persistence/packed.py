"""Whole numbers packed into bytes: planes of bytes, each compressed by Zstandard."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ordbm.kernels import rounding as kernels

CODEC = "zstd"
MOST_PLANES = 4


def packed_planes(whole: NDArray[np.int32]) -> tuple[list[int], NDArray[np.uint8]]:
    """The lengths of the planes, as many as the numbers need, and their bytes."""
    flat = whole.reshape(-1)
    largest = max(int(flat.max(initial=0)), -int(flat.min(initial=0)) - 1)
    if largest >= 2**30:
        raise ValueError("a number too large to be packed")
    planes = np.empty((largest.bit_length() // 8 + 1, flat.size), np.uint8)
    kernels.split_planes(flat, planes)
    parts = [pa.compress(plane, codec=CODEC, asbytes=True) for plane in planes]
    return [len(part) for part in parts], np.frombuffer(b"".join(parts), np.uint8)


def unpacked_planes(
    lengths: Any, data: NDArray[np.uint8], shape: tuple[int, ...]
) -> NDArray[np.int32]:
    """The numbers, in this shape; a ValueError if the bytes are not of so many."""
    out = np.empty((1, 1, math.prod(shape)), np.int32)
    join_columns(0, 1, planes_of(lengths, data, out.shape), out)
    return out.reshape(shape)


def planes_of(
    lengths: Any, data: NDArray[np.uint8], shape: tuple[int, ...]
) -> list[NDArray[np.uint8]]:
    """Each byte of all numbers, the lowest first."""
    sound = isinstance(lengths, list) and all(type(one) is int and one >= 0 for one in lengths)
    if not sound or not 1 <= len(lengths) <= MOST_PLANES or sum(lengths) != len(data):
        raise ValueError("packed numbers do not add up")
    size, ends = math.prod(shape), np.cumsum([0, *lengths])
    try:
        parts = [
            pa.decompress(data[begin:end], decompressed_size=size, codec=CODEC)
            for begin, end in pairwise(ends)
        ]
        return [np.frombuffer(part, np.uint8).reshape(shape) for part in parts]
    except (OSError, pa.ArrowException, ValueError) as error:
        raise ValueError("packed numbers cannot be unpacked") from error


def join_columns(
    begin: int, end: int, planes: list[NDArray[np.uint8]], out: NDArray[np.int32]
) -> None:
    """The numbers of these columns, of planes (n, C, d), into out (n, end - begin, d) or larger."""
    for p, plane in enumerate(planes):
        kernels.join_plane(begin, end, plane, p, len(planes), out)
