"""Values read from shared memory, in a form that kernels take without being compiled anew."""

from __future__ import annotations

import ctypes
import io
import pickle
from typing import Any, TypeVar

import numpy as np

from ordbm.runtime.arrays import Array

Value = TypeVar("Value")


def as_own(value: Value) -> Value:
    """The same value on the same memory, whose arrays do not say that they are read-only.

    For Numba that is another type: it would compile every kernel a second time. Only for what no
    kernel writes to.
    """
    arrays: list[Array] = []
    message = io.BytesIO()
    _Taking(message, arrays).dump(value)
    message.seek(0)
    own: Value = _Giving(message, arrays).load()
    return own


class _Taking(pickle.Pickler):
    """Leaves arrays out of the message and collects them."""

    def __init__(self, message: io.BytesIO, arrays: list[Array]) -> None:
        super().__init__(message, 5)
        self._arrays = arrays

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return None
        self._arrays.append(value)
        return len(self._arrays) - 1


class _Giving(pickle.Unpickler):
    """Puts them back, as arrays that may be written."""

    def __init__(self, message: io.BytesIO, arrays: list[Array]) -> None:
        super().__init__(message)
        self._arrays = arrays

    def persistent_load(self, number: int) -> Array:
        return _writable(self._arrays[number])


def _writable(array: Array) -> Array:
    """A view that may be written; it keeps the array alive."""
    if array.flags.writeable or not array.flags.forc:
        return array
    if not array.size:
        return np.empty_like(array)
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array  # type: ignore[attr-defined]
    return np.ndarray(array.shape, array.dtype, memoryview(memory), strides=array.strides)
