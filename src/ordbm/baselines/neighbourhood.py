"""Nearest neighbours by Pearson correlation, between items or between users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.baselines.bias import BiasPoints, bias_points, damped_means
from ordbm.baselines.points import PointModel, Points
from ordbm.data.csr import CSR
from ordbm.data.ratings import Ratings
from ordbm.data.scale import level_values
from ordbm.model.correlation import group_correlations
from ordbm.model.neighbours import BUDGET, Links, correlation_links
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.checks import check_count, check_finite_amount
from ordbm.runtime.threads import run_on_threads, share, thread_count


class _Neighbourhood(PointModel):
    """The constructor of both kinds."""

    _between_items: bool

    def __init__(
        self,
        k: int = 40,
        pool: int | None = 500,
        shrinkage: float = 30.0,
        min_support: int = 3,
        damping: float = 5.0,
        *,
        budget: float = BUDGET,
        threads: int | None = None,
    ) -> None:
        check_count("k", k, least=1)
        check_count("min_support", min_support, least=2)
        for name, count in (("pool", pool), ("threads", threads)):
            if count is not None:
                check_count(name, count, least=1)
        for name, number in (("shrinkage", shrinkage), ("damping", damping), ("budget", budget)):
            check_finite_amount(name, number)
        super().__init__(
            k=k,
            pool=pool,
            shrinkage=shrinkage,
            min_support=min_support,
            damping=damping,
            budget=budget,
            threads=threads,
        )

    def _points(self, ratings: Ratings) -> NeighbourPoints:
        told = self._params
        rows = (ratings.by_user, ratings.by_item)
        by_row, by_column = rows if self._between_items else rows[::-1]
        links = correlation_links(
            by_row,
            by_column,
            level_values(ratings.scale),
            n_neighbours=told["pool"] or by_column.n_rows,
            shrinkage=told["shrinkage"],
            min_support=told["min_support"],
            budget=told["budget"],
            threads=told["threads"],
        )
        overall = float(ratings.values.mean())
        values = _values(by_row, ratings)
        centre = overall + damped_means(
            by_row.column, values - overall, by_column.n_rows, told["damping"]
        )
        return NeighbourPoints(
            between_items=self._between_items,
            rows=by_row,
            deviation=values - centre[by_row.column],
            centre=centre,
            links=links,
            bias=bias_points(ratings, told["damping"]),
            told=told,
        )


class ItemKNN(_Neighbourhood):
    """Item-based neighbours: the item's mean, moved by how the user rated its nearest items.

    r̂_ui = m_i + Σ_j s_ij (r_uj − m_j) / Σ_j s_ij over the `k` items j most similar to i that u has
    rated; where there is none, the prediction is `Bias`'s. s is the Pearson correlation over n
    common users (positive ones only, `min_support` users at least) times n / (n + shrinkage), kept
    for the `pool` items most similar to either of the two (None: all); m is an item's mean with
    `damping` ratings of the overall mean added. `budget` is as `OrdinalBM`'s link_budget.
    """

    _between_items = True


class UserKNN(_Neighbourhood):
    """User-based neighbours: the user's mean, moved by how the nearest users rated the item.

    `ItemKNN` with the roles of users and items swapped; see there for the settings.
    """

    _between_items = False


@dataclass(frozen=True, eq=False)
class NeighbourPoints(Points):
    """centre[column] + the neighbours' mean deviation in the row; columns are what is linked."""

    between_items: bool
    rows: CSR
    deviation: Numbers  # of each rating from its column's centre, in the order of `rows`
    centre: Numbers  # (columns + 1,), the last for the unknown
    links: Links
    bias: BiasPoints
    told: dict[str, Any]

    def at(self, users: Codes, items: Codes) -> Numbers:
        from ordbm.baselines.kernels import neighbour_means  # noqa: PLC0415

        rows, columns = (users, items) if self.between_items else (items, users)
        moved = np.empty(len(rows))
        threads = thread_count(self.told["threads"])

        def work(thread: int) -> None:
            part = slice(*share(len(rows), thread, threads))
            neighbour_means(
                rows[part], columns[part], self.rows.start, self.rows.column, self.deviation,
                self.links.start, self.links.neighbour, self.links.edge, self.links.similarity,
                min(self.told["k"], self.links.n_columns), moved[part],
            )  # fmt: skip

        run_on_threads(threads, work)
        alone = np.isnan(moved)
        return np.where(alone, self.bias.at(users, items), self.centre[columns] + moved)

    def of_all_items(self, users: Codes) -> Numbers:
        items = np.arange(len(self.bias.item) - 1, dtype=np.int32)
        if self.between_items:
            every = np.meshgrid(users, items, indexing="ij")
            return self.at(every[0].ravel(), every[1].ravel()).reshape(every[0].shape)
        every = np.meshgrid(users, items)  # by item, for pairs of a row are fastest together
        return self.at(every[0].ravel(), every[1].ravel()).reshape(every[0].shape).T

    def fold_in(self, items: Codes, values: Numbers) -> NeighbourPoints:
        bias = self.bias.fold_in(items, values)
        if self.between_items:
            rows = CSR(np.array([0, len(items)]), items, np.zeros(0, np.uint8), values, items[:0])
            return replace(self, rows=rows, deviation=values - self.centre[items], bias=bias)
        overall = self.bias.mean
        away = damped_means(np.zeros(len(items), np.int64), values - overall, 1, self.bias.damping)
        return replace(self, links=self._links_to(items, values), centre=overall + away, bias=bias)

    def _links_to(self, rows: Codes, values: Numbers) -> Links:
        """The columns most similar to a new column with these ratings, as links of column 0."""
        n = len(self.centre) - 1
        place = self.rows.positions_of(rows)
        other = self.rows.column[place]
        x = np.repeat(values, np.diff(self.rows.start)[rows]) - self.bias.mean
        y = self.deviation[place] + self.centre[other] - self.bias.mean
        correlation, shared = group_correlations(other, x, y, n)
        similarity = np.where(shared >= self.told["min_support"], correlation, 0.0)
        similarity *= shared / np.maximum(shared + self.told["shrinkage"], 1.0)
        found = np.flatnonzero(similarity > 0)
        order = np.argsort(-similarity[found], kind="stable")[: self.told["pool"]]
        listed: Codes = np.sort(found[order]).astype(np.int32)
        edge = np.arange(len(listed), dtype=np.int32)
        start = np.full(n + 1, len(listed), np.int64)
        start[0] = 0
        return Links(start, listed.astype(np.int32), edge, similarity[listed].astype(np.float32))


def _values(rows: CSR, ratings: Ratings) -> NDArray[np.float64]:
    values = level_values(ratings.scale)
    return np.asarray(rows.value, np.float64) if values is None else values[rows.level]
