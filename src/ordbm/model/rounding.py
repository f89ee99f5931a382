"""Learnt parameters in whole quanta: what is left of them after learning, in memory as in files.

Couplings act on log-odds, so what matters of them is absolute. In quanta of 5e-5 along the
eigenvectors of F F' (few of which carry much, since couplings are smooth along the scale), they
pack into a third of their bytes, and predictions hardly move. They are rounded once, at the end
of learning, so that a model and its file say the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ordbm.kernels import rounding as kernels
from ordbm.model.features import Features
from ordbm.model.machine import Machine
from ordbm.model.presence import Presence
from ordbm.runtime.arrays import Array, Numbers
from ordbm.runtime.threads import run_on_threads, share

QUANTUM = 5e-5
PRESENCE_QUANTUM = QUANTUM / 4  # links of presence are summed over all that somebody has rated
MOST_AXES = 16  # levels beyond which each is rounded by itself: turning them would take too long
_AT_ONCE = 2**15  # columns rounded at a time: of all of them the quanta may be gigabytes
LARGEST_ROUNDED = 2.0**31 * QUANTUM / 2  # whole numbers are of 32 bits


def level_axes(features: Features) -> Numbers:
    """The axes (n, n) along which couplings are rounded."""
    n = features.n_levels
    return np.eye(n) if n > MOST_AXES else np.linalg.eigh(features.smoothing)[1]


def rounded_table(table: Array, axes: Numbers, n_hidden: int, threads: int) -> NDArray[np.int32]:
    """Columns (C, n, d) along the axes in quanta, (n, C, n_hidden)."""
    out = np.empty((len(axes), len(table), n_hidden), np.int32)

    def work(thread: int) -> None:
        begin, end = share(len(table), thread, threads)
        kernels.round_columns(begin, end, table, axes, QUANTUM, out)

    run_on_threads(threads, work)
    return out


def restore_table(
    whole: NDArray[np.int32], axes: Numbers, threads: int, out: NDArray[np.float32]
) -> None:
    """The columns that whole numbers stand for, into out (C, n, d)."""

    def work(thread: int) -> None:
        begin, end = share(len(out), thread, threads)
        kernels.restore_columns(begin, end, whole, axes, QUANTUM, out)

    run_on_threads(threads, work)


def is_rounded(machine: Machine) -> bool:
    """Whether such machines are kept in quanta: those of single precision, of any usual size."""
    return machine.dtype == np.float32 and all(
        _largest(table) * len(machine.level_bias) < LARGEST_ROUNDED
        for side in machine.sides
        if side is not None
        for table in (side.parameters.coupling, side.parameters.link_weight)
    )


def _largest(table: Array) -> float:
    """max |table|, without a copy of it."""
    return float(max(table.max(initial=0.0), -table.min(initial=0.0)))


def round_machine(machine: Machine, threads: int) -> None:
    """Couplings and links become what is left of them in quanta, in their place."""
    if not is_rounded(machine):
        return
    axes = level_axes(machine.features)
    for side in filter(None, machine.sides):
        coupling, links = side.parameters.coupling, side.parameters.link_weight
        for first in range(0, len(coupling), _AT_ONCE):
            part = coupling[first : first + _AT_ONCE]
            restore_table(rounded_table(part, axes, side.n_hidden, threads), axes, threads, part)
        links[:] = whole_numbers(links) * np.float32(QUANTUM)


def round_columns_of(machine: Machine, number: int, columns: Array) -> None:
    """The couplings of some columns of a side become what is left of them, in their place.

    Those of other columns are so already, and stay.
    """
    side = machine.sides[number]
    if side is None or not is_rounded(machine.of_columns(number, columns)):
        return
    axes = level_axes(machine.features)
    coupling = side.parameters.coupling[columns]
    restore_table(rounded_table(coupling, axes, side.n_hidden, 1), axes, 1, coupling)
    side.parameters.coupling[columns] = coupling


def whole_numbers(table: Array, quantum: float = QUANTUM) -> NDArray[np.int32]:
    """Numbers in quanta."""
    return np.rint(table.astype(np.float64) / quantum).astype(np.int32)


def in_quanta(table: Array, quantum: float = QUANTUM) -> NDArray[np.float32]:
    """What is left of numbers in quanta."""
    return from_quanta(whole_numbers(table, quantum), quantum)


def from_quanta(whole: NDArray[np.int32], quantum: float) -> NDArray[np.float32]:
    """What so many quanta are."""
    return whole.astype(np.float32) * np.float32(quantum)


def rounded_presence(presence: Presence | None) -> Presence | None:
    """The same with links in quanta, unless some are beyond all that is usual."""
    if presence is None or np.abs(presence.weight).max(initial=0.0) > LARGEST_ROUNDED / 4:
        return presence
    return replace(presence, weight=in_quanta(presence.weight, PRESENCE_QUANTUM))
