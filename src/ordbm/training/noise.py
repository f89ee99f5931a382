"""How noisy the Gaussian ratings of each row and of each column are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.data.csr import CSR
from ordbm.runtime.arrays import Array, Numbers


class Noise:
    """Var(rating) = row column, relative to that of all ratings.

    Some rate more at random than others: while learning, their ratings count for less. Ratings on
    levels have none of this, and all of them count for one.
    """

    def __init__(self, rows: CSR, column_count: Array, dtype: Any) -> None:
        self.rows, self.column_count = rows, column_count
        self.column_weight = column_count  # (C,) the sum of its ratings' precisions
        n_ratings = len(rows.value)
        self.row = np.ones(rows.n_rows if n_ratings else 0)
        self.column = np.ones(len(column_count) if n_ratings else 0)
        self.precision = np.ones(n_ratings, dtype)  # of each rating, one on average
        self.residual = np.zeros(n_ratings, dtype)  # what a pass leaves unexplained

    def begin_pass(self) -> None:
        """Precisions of the ratings by the variances as they are."""
        if len(self.precision):
            precision = 1 / (self.row[self.rows.row] * self.column[self.rows.column])
            self.precision[:] = precision / precision.mean()
            self.column_weight = np.bincount(
                self.rows.column, self.precision, len(self.column_count)
            )

    def end_pass(self, weight: float) -> None:
        """Follow what was left unexplained: rows given the columns as they are, then columns.

        As if each had `weight` ratings more, with the noise of all.
        """
        if not len(self.precision) or not weight:
            return
        squared = self.residual.astype(np.float64) ** 2
        squared /= max(squared.mean(), np.finfo(np.float64).tiny)
        row_count = np.diff(self.rows.start)
        of_column = self.column[self.rows.column]
        self.row[:] = _means(self.rows.row, squared / of_column, row_count, weight)
        of_row = self.row[self.rows.row]
        self.column[:] = _means(self.rows.column, squared / of_row, self.column_count, weight)


def _means(owner: Array, values: Numbers, count: Array, weight: float) -> Numbers:
    """The mean of each owner's values and of `weight` ones."""
    found: Numbers = (np.bincount(owner, values, len(count)) + weight) / (count + weight)
    return found
