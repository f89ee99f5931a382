"""Tables in a model file: packed where that loses nothing, as they are otherwise.

`header["packed"]` has the lengths of the planes by the name of the table, whose bytes are the array
`NAME.packed`; a table that is not there is an array of its own. Parameters are in quanta; indices,
which mostly increase, are the differences of one to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.inference.fitted import FittedModel
from ordbm.model.rounding import (
    LARGEST_ROUNDED,
    PRESENCE_QUANTUM,
    QUANTUM,
    from_quanta,
    level_axes,
    restore_table,
    rounded_table,
    whole_numbers,
)
from ordbm.persistence.container import Arrays, Header, taken
from ordbm.persistence.packed import join_columns, packed_planes, planes_of, unpacked_planes
from ordbm.runtime.arrays import Array, Numbers
from ordbm.runtime.threads import run_on_threads

PLAIN = {"link_weight": QUANTUM, "link": PRESENCE_QUANTUM}  # in quanta, but not along axes
_RESTORED_AT_ONCE = 2**15  # of a table that is restored
INDICES = ("ratings.column", "ratings.level", "link_low", "link_high")


class MemoryClaimError(Exception):
    """What a file claims to hold needs so many bytes, and not so many may be used."""


def packed_tables(arrays: Arrays, fitted: FittedModel) -> tuple[Header, Arrays]:
    """The lengths of planes by name, and the arrays with tables packed that can be without loss."""
    axes = level_axes(fitted.machines[0].features)
    hidden = [side.n_hidden if side else 0 for side in fitted.machines[0].sides]
    lengths, found = {}, {}
    for name, array in arrays.items():
        whole = None
        if name.endswith("_side.coupling"):
            n_hidden = hidden["item_side" in name]
            whole = _whole(array, axes, n_hidden, fitted.threads)
        elif name.rpartition(".")[2] in PLAIN:
            whole = _whole(array, PLAIN[name.rpartition(".")[2]], 0, fitted.threads)
        elif name.endswith(INDICES) and len(array):
            whole = array.astype(np.int32)
            whole[1:] -= whole[:-1].copy()
        if whole is None:
            found[name] = array
        else:
            lengths[name], found[f"{name}.packed"] = packed_planes(whole)
    return lengths, found


def _whole(
    table: Array, axes: Numbers | float, n_hidden: int, threads: int
) -> NDArray[np.int32] | None:
    """The table in quanta, or along axes, if that is all there is of it."""
    largest = np.abs(table).max(initial=0.0) * (1 if isinstance(axes, float) else len(axes))
    if table.dtype != np.float32 or not table.size or not largest < LARGEST_ROUNDED / 4:
        return None
    again = np.zeros_like(table)
    if isinstance(axes, float):
        whole = whole_numbers(table, axes)
        again[...] = from_quanta(whole, axes)
    else:
        whole = rounded_table(table, axes, n_hidden, threads)
        restore_table(whole, axes, threads, again)
    return whole if np.array_equal(again, table) else None


class PackedTables:
    """The tables of a file: `taken` has room for one, `restore` fills all that were taken."""

    def __init__(
        self, lengths: Any, arrays: Arrays, memory: float = math.inf, threads: int = 1
    ) -> None:
        if not isinstance(lengths, dict):
            raise TypeError("packed tables must have names")
        self._lengths, self._arrays = lengths, arrays
        self._memory, self._threads, self._claimed = memory, threads, 0
        self._tasks: list[Callable[[], None]] = []

    def taken(
        self,
        name: str,
        dtype: Any,
        shape: tuple[int, ...],
        n_hidden: int = 0,
        axes: Numbers | float = QUANTUM,
        then: Callable[[Array], None] | None = None,
    ) -> Array:
        """The table of this name, which may be filled later; it is in quanta, or along axes.

        `then` is what to do with it once it is.
        """
        if name not in self._lengths:
            table = taken(self._arrays, name, dtype, *shape)
            if then:
                self._tasks.append(partial(then, table))
            return table
        data = taken(self._arrays, f"{name}.packed", np.uint8, None)
        if np.dtype(dtype) != np.float32:
            raise ValueError(f"{name} is packed, and of double precision")
        self._claim(4 * math.prod(shape))
        table = np.zeros(shape, np.float32)

        def restore() -> None:
            _restore(self._lengths[name], data, table, n_hidden, axes)
            if then:
                then(table)

        self._tasks.append(restore)
        return table

    def restore_indices(self, sizes: dict[str, int]) -> None:
        """Arrays of indices take the place of what they are packed into; so many of each."""
        for name, size in sizes.items():
            if name in self._lengths:
                data = taken(self._arrays, f"{name}.packed", np.uint8, None)
                self._claim(8 * size)
                kind = np.uint8 if name.endswith("level") else np.int32
                found = np.cumsum(
                    unpacked_planes(self._lengths[name], data, (size,)), dtype=np.int64
                )
                if size and (found.min() < 0 or found.max() > np.iinfo(kind).max):
                    raise ValueError(f"{name} is out of range")
                self._arrays[name] = found.astype(kind)

    def _claim(self, n_bytes: int) -> None:
        self._claimed += n_bytes
        if self._claimed > self._memory:
            raise MemoryClaimError(self._claimed)

    def restore(self) -> None:
        """Fill the tables, several at a time."""
        tasks, self._tasks = iter(self._tasks), []

        def work(_: int) -> None:
            for task in tasks:  # whoever is free takes the next
                task()

        run_on_threads(self._threads, work)


def _restore(
    lengths: Any, data: NDArray[np.uint8], table: Array, n_hidden: int, axes: Numbers | float
) -> None:
    if isinstance(axes, float):
        table[...] = from_quanta(unpacked_planes(lengths, data, table.shape), axes)
        return
    planes = planes_of(lengths, data, (len(axes), len(table), n_hidden))
    at_once = max(1, _RESTORED_AT_ONCE // max(1, len(axes) * n_hidden))
    room = np.empty((len(axes), at_once, n_hidden), np.int32)
    for begin in range(0, len(table), at_once):  # what is joined stays in the cache
        end = min(begin + at_once, len(table))
        join_columns(begin, end, planes, room)
        restore_table(room, axes, 1, table[begin:end])
