"""Sums of what several workers have, slice by slice, always in the same order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ordbm.runtime.arrays import Array


def sliced(tables: Sequence[Array], n: int) -> list[list[Array]]:
    """n slices of about the same length of each table."""
    flat = [table.reshape(-1) for table in tables]
    return [
        [one[one.size * part // n : one.size * (part + 1) // n] for one in flat]
        for part in range(n)
    ]


def summed(parts: Sequence[Sequence[Array]]) -> list[Array]:
    """For each table the sum over workers in their order, in float64, in the table's own type."""
    found = []
    for tables in zip(*parts, strict=True):
        if np.issubdtype(tables[0].dtype, np.integer):
            total = sum(tables[1:], tables[0].copy())
        else:
            total = tables[0].astype(np.float64)
            for table in tables[1:]:
                total += table
        found.append(total.astype(tables[0].dtype, copy=False))
    return found


def put_back(tables: Sequence[Array], slices: Sequence[Sequence[Array]]) -> None:
    """Fill the tables from slices of theirs."""
    for number, table in enumerate(tables):
        table[...] = np.concatenate([one[number] for one in slices]).reshape(table.shape)
