"""SVD for incomplete data: a low-rank product fitted to the ratings that there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ordbm.baselines.base import Watch
from ordbm.baselines.points import PointLearnt, PointModel, Points, inner_split, spread_of
from ordbm.baselines.spread import Spread
from ordbm.data.ratings import Ratings
from ordbm.errors import DivergedError, SettingsError
from ordbm.metrics.prediction import validation_scores
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.checks import check_count, check_finite_amount
from ordbm.runtime.printable import shown
from ordbm.training.loop import train

INITIAL_SPREAD = 0.1


class SVD(PointModel):
    """Matrix factorisation of the ratings that there are, as Salakhutdinov et al. (2007):

    Σ (z − b_u − c_i − p_u·q_i)² + regularisation · (‖p_u‖² + ‖q_i‖² + b_u² + c_i²) over ratings,

    where z is the rating less the overall mean, over the overall deviation. Learnt by stochastic
    gradient, a rating at a time in a new random order each epoch. `biases=False` leaves out b and c
    as the original does. The defaults are as is usual, a hundred factors under an L2 penalty, whose
    strength was best on held-out training ratings of three sets. With validation ratings the epoch
    with their best log-loss is kept, and `patience` epochs without a better one end the training
    (0: never).
    """

    def __init__(
        self,
        rank: int = 100,
        epochs: int = 40,
        rate: float = 0.01,
        regularisation: float = 0.1,
        biases: bool = True,
        seed: int = 0,
        *,
        patience: int = 3,
    ) -> None:
        check_count("rank", rank)
        check_count("epochs", epochs)
        check_count("seed", seed)
        check_count("patience", patience)
        check_finite_amount("rate", rate)
        check_finite_amount("regularisation", regularisation)
        if not isinstance(biases, bool):
            raise SettingsError(f"biases={shown(biases)}: must be True or False")
        super().__init__(
            rank=rank,
            epochs=epochs,
            rate=rate,
            regularisation=regularisation,
            biases=biases,
            seed=seed,
            patience=patience,
        )

    def _points(self, ratings: Ratings) -> FactorPoints:
        told = self._params
        return new_factors(
            ratings,
            told["rank"],
            told["seed"],
            regularisation=told["regularisation"],
            biases=told["biases"],
            duration=told["rate"] * told["epochs"],
        )

    def _learn(self, ratings: Ratings, watch: Watch) -> PointLearnt:
        training = _Training(self, ratings)
        validation, validate = watch.validation, None
        if validation is not None:
            users, items = watch.known.validation_codes(validation)

            def validate() -> dict[str, float]:
                points = training.machine.at(users, items)
                return validation_scores(training.spread().around(points), validation)

        try:
            self.history, self.interrupted = train(
                cast("Any", training),  # what the loop asks of a trainer, it has
                self._params["epochs"],
                validate=validate,
                patience=self._params["patience"],
                callbacks=watch.callbacks,
            )
        except DivergedError:
            raise DivergedError(
                f"the factors diverged: lower rate ({self._params['rate']}), or raise "
                f"regularisation ({self._params['regularisation']})"
            ) from None
        return PointLearnt(training.machine, training.spread())


@dataclass(frozen=True, eq=False)
class FactorPoints(Points):
    """mean + unit · (b_u + c_i + p_u·q_i); the last user and item are the unknown, all zero."""

    mean: float
    unit: float
    user_factors: Numbers  # (users + 1, rank)
    item_factors: Numbers
    user_bias: Numbers  # (users + 1,)
    item_bias: Numbers
    regularisation: float
    biases: bool
    duration: float  # rate times epochs

    def at(self, users: Codes, items: Codes) -> Numbers:
        product = np.einsum("nk,nk->n", self.user_factors[users], self.item_factors[items])
        return self.mean + self.unit * (self.user_bias[users] + self.item_bias[items] + product)

    def of_all_items(self, users: Codes) -> Numbers:
        product = self.user_factors[users] @ self.item_factors[:-1].T
        bias = self.user_bias[users, None] + self.item_bias[:-1]
        return self.mean + self.unit * (bias + product)

    def fold_in(self, items: Codes, values: Numbers) -> FactorPoints:
        """b and p of somebody new: where the training's steps would have led, all else fixed.

        Steps that small follow the curve dx/dt = g − H x for as long as all rates together; with
        few ratings that ends well before the minimum, which would take each rating at its word.
        """
        left = (values - self.mean) / self.unit - self.item_bias[items]
        design = np.column_stack([self.item_factors[items], np.full(len(items), self.biases)])
        curvature, axes = np.linalg.eigh(design.T @ design)
        curvature = np.maximum(curvature, 0.0) + self.regularisation * len(items) + 1e-12
        reached = -np.expm1(-self.duration * curvature) / curvature
        own = axes @ (reached * (axes.T @ (design.T @ left)))
        return replace(
            self,
            user_factors=np.stack([own[:-1], np.zeros(len(own) - 1)]),
            user_bias=np.array([own[-1], 0.0]),
        )

    @property
    def arrays(self) -> list[Numbers]:
        return [self.user_factors, self.item_factors, self.user_bias, self.item_bias]


def new_factors(
    ratings: Ratings,
    rank: int,
    seed: int,
    regularisation: float,
    biases: bool,
    duration: float,
) -> FactorPoints:
    """Small random factors for whoever has ratings, zero for the others."""
    rng = np.random.default_rng(seed)
    factors = []
    for rows in (ratings.by_user, ratings.by_item):
        drawn = rng.normal(0.0, INITIAL_SPREAD, (rows.n_rows + 1, rank))
        drawn[np.append(np.diff(rows.start) == 0, True)] = 0.0
        factors.append(drawn)
    values = ratings.values
    return FactorPoints(
        mean=float(values.mean()),
        unit=float(values.std()) or 1.0,
        user_factors=factors[0],
        item_factors=factors[1],
        user_bias=np.zeros(ratings.n_users + 1),
        item_bias=np.zeros(ratings.n_items + 1),
        regularisation=regularisation,
        biases=biases,
        duration=duration,
    )


class _Training:
    """Factors being learnt, and beside them those of most ratings, for the spread of the others."""

    def __init__(self, model: SVD, ratings: Ratings) -> None:
        self.rate, self.seed = model._params["rate"], model._params["seed"]
        self.ratings = ratings
        inner, self.left_out = inner_split(ratings)
        parts = [ratings] if self.left_out is None else [ratings, inner]
        self.pairs = [(part.user_codes, part.item_codes) for part in parts]
        self.points = [model._points(part) for part in parts]
        self.targets = [
            (part.values - points.mean) / points.unit
            for part, points in zip(parts, self.points, strict=True)
        ]

    @property
    def machine(self) -> FactorPoints:
        return self.points[0]

    def epoch(self, epoch: int, tell: object = None) -> float:  # noqa: ARG002
        """One pass over the ratings; minus their mean squared error on the way, standardised."""
        loss = [
            factor_pass(points, *pairs, target, self.rate, [self.seed, epoch])
            for points, pairs, target in zip(self.points, self.pairs, self.targets, strict=True)
        ]
        return -loss[0] / len(self.ratings)

    def collect(self) -> None:
        """They are here at any time."""

    def arrays(self) -> list[Numbers]:
        return [array for points in self.points for array in points.arrays]

    @property
    def has_diverged(self) -> bool:
        return not all(np.isfinite(array).all() for array in self.arrays())

    def spread(self) -> Spread:
        return spread_of(self.points[-1], self.ratings, self.left_out)


def factor_pass(
    points: FactorPoints,
    users: Codes,
    items: Codes,
    target: Numbers,
    rate: float,
    seed: list[int],
) -> float:
    """A step for each rating, in an order that depends on the seed; the sum of errors²."""
    from ordbm.baselines.kernels import factor_epoch  # noqa: PLC0415

    order = np.random.default_rng(seed).permutation(len(target))
    return factor_epoch(
        order, users, items, target, rate, points.regularisation, points.user_factors,
        points.item_factors, points.user_bias, points.item_bias, points.biases,
    )  # fmt: skip
