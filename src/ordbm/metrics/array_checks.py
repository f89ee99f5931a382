"""Arrays as metrics need them, or an error that names the first offending rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.numeric_columns import finite_numbers
from ordbm.errors import RatingsError, offending_rows
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.runtime.arrays import Numbers

_SUM_TOLERANCE = 1e-4  # single precision over 255 levels stays well within


def probability_table(values: Any, name: str = "probabilities") -> Numbers:
    """`values` (rows, levels) as float64, each row a distribution."""
    proba = _table(values, name)
    if not proba.shape[1]:
        raise RatingsError(f"{name} need a column per level, got none")
    for bad, what in (
        (~np.isfinite(proba).all(axis=1), "must be finite numbers"),
        ((proba < 0).any(axis=1), "must not be negative"),
        (np.abs(proba.sum(axis=1) - 1) > _SUM_TOLERANCE, "of a row must sum to one"),
    ):
        if bad.any():
            raise RatingsError(f"{name} {what}: {offending_rows(bad, values=proba.tolist())}")
    return proba


def probability_column(values: Any, name: str = "probabilities") -> Numbers:
    """`values` (rows,) as float64, each between zero and one."""
    found = finite_numbers(values, name)
    bad = (found < 0) | (found > 1 + _SUM_TOLERANCE)
    if bad.any():
        where = offending_rows(bad, probability=found)
        raise RatingsError(f"{name} must be between 0 and 1: {where}")
    return found


def level_codes(values: Any, n_levels: int) -> NDArray[np.int64]:
    """`values` as levels counted from zero."""
    found = finite_numbers(values, "levels")
    bad = (found != np.round(found)) | (found < 0) | (found >= n_levels)
    if bad.any():
        raise RatingsError(
            f"levels must be whole numbers from 0 to {n_levels - 1}: "
            f"{offending_rows(bad, level=found)}; a scale's codes(values) gives them"
        )
    return found.astype(np.int64)


def gain_table(values: Any, name: str) -> Numbers:
    """`values` (users, positions) as float64, none of them negative."""
    table = _table(values, name)
    bad = ~np.isfinite(table).all(axis=1) | (table < 0).any(axis=1)
    if bad.any():
        raise RatingsError(
            f"{name} must be finite and not negative: {offending_rows(bad, values=table.tolist())}"
        )
    return table


def check_same_length(**columns: Any) -> None:
    """An error unless all columns have as many rows."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length:,} {name}" for name, length in lengths.items())
        raise RatingsError(f"lengths differ: {found}; give one of each per row")


def check_prediction(predicted: object, n_pairs: int) -> RatingDistribution:
    """`predicted` as a distribution of `n_pairs` ratings that is one."""
    if not isinstance(predicted, RatingDistribution):
        raise RatingsError(
            "a model's distribution() must give a LevelDistribution or a NormalDistribution, not "
            f"{type(predicted).__name__}"
        )
    if isinstance(predicted, LevelDistribution):
        proba = probability_table(predicted.proba, "predicted probabilities")
        if proba.shape != (n_pairs, len(predicted.scale)):
            raise RatingsError(
                f"predicted probabilities have shape {proba.shape}: need one row for each of "
                f"{n_pairs:,} pairs and one column for each of {len(predicted.scale)} levels"
            )
    else:
        positive_column(predicted.spread, "predicted deviations")
        finite_numbers(predicted.centre, "predicted means")
        check_same_length(
            means=predicted.centre,
            deviations=predicted.spread,
            pairs=range(n_pairs),
        )
    return predicted


def positive_column(values: Any, name: str) -> Numbers:
    """`values` (rows,) as float64, all above zero."""
    found = finite_numbers(values, name)
    if (found <= 0).any():
        raise RatingsError(f"{name} must be above zero: {offending_rows(found <= 0, value=found)}")
    return found


def _table(values: Any, name: str) -> Numbers:
    try:
        table = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise RatingsError(f"{name} must be a table of numbers, one row each") from None
    if table.ndim != 2:
        raise RatingsError(f"{name} need two dimensions, got an array of shape {table.shape}")
    if not len(table):
        raise RatingsError(f"no {name}: need at least one row")
    return table
