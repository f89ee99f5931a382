"""Learning what features say: ratings predicted as if nobody had rated their item, or their user.

For features of items, the sum over ratings of

    log P(r_ui | all that else u has rated, the features of i, nothing else of i)

is maximised under Gaussian priors of the effects, and the same on the transpose. A column's
ratings have in common what features do not say of it, so that they tell less than as many of
different columns: all count 1 / (1 + rho c), with c ratings of the column of a rating on average.
How far a table's column is trusted is learnt: the variance of its effects is the sum of their
squares over the number of them that the ratings determine (MacKay's fixed point of the evidence).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.model.feature_effects import (
    Described,
    FeatureEffects,
    KnownFeatures,
    Told,
    fill_columns,
    fill_row_inputs,
)
from ordbm.model.machine import Machine
from ordbm.model.rules import FeatureRules
from ordbm.runtime.arrays import Array, Numbers
from ordbm.runtime.interruption import safe_point
from ordbm.training.cold_ratings import ColdLogLikelihood, ColdSquares
from ordbm.training.lbfgs import Parts, minimise


class EffectsLearning:
    """One machine's effects of the features of its users (kind 0) or items (1)."""

    def __init__(
        self,
        machine: Machine,
        ratings: CSRPair,
        kind: int,
        design: Array,
        group: Array,
        cold_rows: FeatureEffects | None,
        rules: FeatureRules,
        threads: int,
        *,
        chosen: Array | None = None,
        some: Array | None = None,
        couplings: bool = True,
    ) -> None:
        """`cold_rows` are the parameters of those who rated them, if they had rated nothing.

        `design` (C, q) is of `some` columns, whose ratings at `chosen` positions are looked at; if
        not said, of all columns some of the ratings. With `couplings`, or these stay zero.
        """
        self._couplings = couplings
        self.rules, self.group, self.design = rules, group, design
        if chosen is None:
            chosen = some_of(np.arange(len(ratings[kind].column)), rules.most_ratings)
        if some is None:
            some = np.arange(ratings[kind].n_rows)
        likelihood = ColdSquares if machine.features.is_gaussian else ColdLogLikelihood
        self.log_likelihood = likelihood(machine, ratings, kind, chosen, cold_rows, threads, some)
        times = 1 if cold_rows is None else 2  # that a rating counts
        size = np.diff(self.log_likelihood.start) / times
        self.weight = 1 / times / (1 + rules.alike * float(size @ size) / max(len(chosen), 1))
        self.base = unknown_parameters(machine, kind)
        side = machine.sides[1 - kind]
        self._has_bias = side is not None and bool(side.parameters.rating_bias.size)
        table = machine.features
        self._level_group = table.group if table.n_groups < table.n_levels else None
        gradient = self.log_likelihood.gradient
        (_, n, d), (_, units) = gradient.coupling.shape, gradient.hidden.shape
        self.effects = FeatureEffects.zeros(design.shape[1], n, d, units)
        start = np.array([rules.bias, rules.coupling, rules.hidden])
        self.trust = np.tile(start, (int(group.max()) + 1, 1))
        self.trust[0] *= rules.constant

    def run(self) -> None:
        """Rounds of maximisation, and of what it says of how far columns are trusted."""
        self.slopes(self.effects)
        known = self.information()
        for _ in range(self.rules.rounds):
            safe_point()
            self._maximise(known)
            self.slopes(self.effects)
            known = self.information()
            self._trust_anew(known)

    def slopes(self, effects: FeatureEffects) -> tuple[float, Parts]:
        """The weighed log-likelihood of effects, and its gradient."""
        cold = cold_parameters(self.base, effects, self.design)
        value = self.weight * self.log_likelihood(cold)
        by_bias, by_coupling, by_hidden = self.log_likelihood.gradient
        if not self._has_bias:
            by_bias = 0 * by_bias
        if not self._couplings:
            by_coupling = 0 * by_coupling
        if self._level_group is not None:
            by_coupling = _by_group(by_coupling, self._level_group)
        slopes = [
            self.weight * np.tensordot(self.design.T, part, 1)
            for part in (by_bias, by_coupling, by_hidden)
        ]
        return value, slopes

    def information(self) -> Parts:
        """About the second derivative by each effect: the squares of the columns' slopes, added."""
        square = (self.weight * self.design.T.astype(np.float64)) ** 2
        return [
            np.tensordot(square, part.astype(np.float64) ** 2, 1)
            for part in self.log_likelihood.gradient
        ]

    def _maximise(self, known: Parts) -> None:
        """By L-BFGS, in units of the deviation of each effect given the others."""
        precision = self._precision()
        unit = [((k + p) ** -0.5).astype(np.float32) for k, p in zip(known, precision, strict=True)]

        def loss(parts: Parts) -> tuple[float, Parts]:
            found = [part * u for part, u in zip(parts, unit, strict=True)]
            value, slopes = self.slopes(FeatureEffects(*found))
            pulls = [p * part for p, part in zip(precision, found, strict=True)]
            held = sum(float((part * pull).sum()) for part, pull in zip(found, pulls, strict=True))
            return held / 2 - value, [
                ((pull - slope) * u).astype(np.float32)
                for pull, slope, u in zip(pulls, slopes, unit, strict=True)
            ]

        start = [part / u for part, u in zip(self.effects, unit, strict=True)]
        found = minimise(loss, start, self.rules.iterations, lambda _: None)
        self.effects = FeatureEffects(*(part * u for part, u in zip(found, unit, strict=True)))

    def _trust_anew(self, known: Parts) -> None:
        """deviation^2 = sum of squares / (number of effects that the ratings determine)."""
        precisions = self._precision()
        for of, (part, k, p) in enumerate(zip(self.effects, known, precisions, strict=True)):
            for column in range(1, len(self.trust) if part.size else 0):
                mine = self.group == column
                determined = float((k[mine] / (k[mine] + p[mine])).sum())
                square = float((part[mine].astype(np.float64) ** 2).sum())
                found = np.sqrt(square / max(determined, 1e-9))
                self.trust[column, of] = np.clip(found, self.rules.least, self.rules.most)

    def _precision(self) -> Parts:
        """Of each effect's prior, to go with the effects."""
        return [
            (self.trust[self.group, of] ** -2.0).reshape(-1, *[1] * (part.ndim - 1))
            for of, part in enumerate(self.effects)
        ]


def some_of(positions: Array, most: int) -> Array:
    """At most so many of them, drawn at random, in their order."""
    if len(positions) <= most:
        return positions
    return np.sort(np.random.default_rng(0).choice(positions, most, replace=False))


def unknown_parameters(machine: Machine, kind: int) -> tuple[Array, Array, Array]:
    """Bias, couplings and hidden inputs of a user (kind 0) or item (1) without ratings."""
    side, other = machine.sides[1 - kind], machine.sides[kind]
    n, dtype = len(machine.level_bias), machine.dtype
    return (
        np.zeros(n, dtype) if side is None else side.unknown_bias,
        np.zeros((n, 0 if side is None else side.n_hidden), dtype),
        np.zeros(0, dtype) if other is None
        else other.unknown_hidden_bias[: other.n_hidden],
    )  # fmt: skip


def cold_parameters(
    base: tuple[Array, Array, Array], effects: FeatureEffects, design: Array
) -> FeatureEffects:
    """What those of these features (ids, q) have if there are no ratings; `base` of the unknown."""
    parts = zip(effects.of(design), base, strict=True)
    return FeatureEffects(*(np.ascontiguousarray(said + known) for said, known in parts))


def _by_group(by_coupling: Array, group: Array) -> Array:
    """The mean over the levels of a group, (C, n, d): they share couplings."""
    of_group = np.eye(int(group.max()) + 1, dtype=np.float32)[group]  # (n, groups)
    share = of_group @ (of_group / of_group.sum(axis=0)).T
    return np.ascontiguousarray(np.einsum("st,ctd->csd", share, by_coupling))


def learn_features(
    machines: Sequence[Machine],
    ratings: CSRPair,
    told: Told,
    rules: FeatureRules,
    threads: int,
    centres: Sequence[tuple[Array, Array]],
) -> Described:
    """What the machines learn of features of users and of items; who has no ratings is filled in.

    The machines have room for it (`with_row_inputs`). `centres` is what each has learnt of biases
    of users, and of items, that have ratings.
    """
    each = [_learnt(machine, ratings, told, rules, threads) for machine in machines]
    found: list[KnownFeatures | None] = []
    for kind, about in enumerate(told):
        if about is None:
            found.append(None)
            continue
        learning = [one for both in each if (one := both[kind]) is not None]
        trust: Numbers = np.mean([one.trust for one in learning], axis=0)[1:]
        effects = tuple(one.effects for one in learning)
        centre = tuple(one[kind] for one in centres)
        unrated = np.diff(ratings[kind].start) == 0
        found.append(KnownFeatures(about.encoder, about.design, effects, trust, unrated, centre))
    for kind, known in enumerate(found):
        if known is not None:
            for machine, said in zip(machines, known.effects, strict=True):
                fill_columns(machine, kind, said, known.expected)
                fill_row_inputs(machine, kind, said, known.expected)
    return found[0], found[1]


def _learnt(
    machine: Machine, ratings: CSRPair, told: Told, rules: FeatureRules, threads: int
) -> list[EffectsLearning | None]:
    """One machine's effects of users and of items: users', items' beside them, users' again."""
    found: list[EffectsLearning | None] = [None, None]
    cold = [_cold(machine, ratings, kind) for kind in range(2)]
    for kind in (0, 1, 0) if told[1] is not None else (0,):
        about = told[kind]
        if about is None:
            continue
        one = EffectsLearning(
            machine, ratings, kind, about.design, about.encoder.group, cold[1 - kind], rules,
            threads,
        )  # fmt: skip
        one.run()
        found[kind] = one
        cold[kind] = cold_parameters(one.base, one.effects, one.design)
    return found


def _cold(machine: Machine, ratings: CSRPair, kind: int) -> FeatureEffects:
    """What users (kind 0) or items have of whom nothing is known."""
    base, n = unknown_parameters(machine, kind), ratings[kind].n_rows
    return FeatureEffects(*(np.broadcast_to(part, (n, *part.shape)) for part in base))
