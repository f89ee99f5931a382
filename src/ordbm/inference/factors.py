"""Hidden means of users and items as tables: all machines' side by side, apart, or reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import SettingsError
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.runtime.arrays import Array, Codes, Numbers
from ordbm.runtime.checks import check_count
from ordbm.runtime.printable import shown

Members = Literal["joined", "apart"]


class PrincipalAxes(NamedTuple):
    """Where rows vary most: (row - mean) @ direction."""

    mean: Numbers  # (units,)
    direction: Numbers  # (units, k), orthonormal

    @classmethod
    def of(cls, rows: Array, k: int) -> PrincipalAxes:
        """The first k of rows (rows, units), each with its largest entry above zero."""
        mean = rows.mean(axis=0, dtype=np.float64)
        centred = rows - mean
        _, axes = np.linalg.eigh(centred.T @ centred)
        direction = axes[:, ::-1][:, :k]
        largest = np.abs(direction).argmax(axis=0)
        return cls(mean, direction * np.sign(direction[largest, np.arange(k)]))


def hidden_means(
    conditioned: Sequence[ConditionedMachine], side: int, codes: Codes | None = None
) -> NDArray[np.float32]:
    """P(h = 1) of users (side 0) or items (side 1), (machines, rows, hidden units).

    Of all of them if not said; the hidden bias alone speaks for code -1.
    """
    return np.stack([_rows_or_prior(one, side, codes) for one in conditioned])


def joined(means: Array) -> Array:
    """(machines, rows, units) side by side, (rows, machines × units)."""
    return np.concatenate(list(means), axis=1)


def check_layout(members: str, dimensions: int | None, n_units: int) -> None:
    """An error unless hidden means of so many units can be laid out like this."""
    if members not in get_args(Members):
        raise SettingsError(f"members={shown(members)}: use one of {', '.join(get_args(Members))}")
    if dimensions is not None:
        if members == "apart":
            raise SettingsError("dimensions are of all members together: leave members='apart' out")
        check_count("dimensions", dimensions, least=1, most=n_units)


def _rows_or_prior(
    conditioned: ConditionedMachine, number: int, codes: Codes | None
) -> NDArray[np.float32]:
    factors = conditioned.item_factors() if number else conditioned.user_factors()
    side = conditioned.machine.sides[number]
    if codes is None or side is None:
        return factors if codes is None else np.zeros((len(codes), 0), np.float32)
    prior = 1.0 / (1.0 + np.exp(-side.unknown_hidden_bias[: side.n_hidden]))
    return np.where((codes >= 0)[:, None], factors[codes], prior).astype(factors.dtype)
