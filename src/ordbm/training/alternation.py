"""A machine being learnt: epochs that alternate over its sides (section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.data.level_counts import level_counts
from ordbm.errors import SettingsError
from ordbm.kernels.structures import Tables
from ordbm.model.feature_effects import KINDS, Told
from ordbm.model.features import Features
from ordbm.model.learners import Learner, Priors, PseudoLikelihood
from ordbm.model.machine import Machine, Parameters, Side
from ordbm.model.rules import FeatureRules
from ordbm.priors.counts import count_potentials
from ordbm.priors.resolved import ResolvedPriors, priors_of, smoothing_of
from ordbm.priors.response_styles import BiasPrior
from ordbm.runtime.arrays import Array
from ordbm.runtime.scratch import IN_MEMORY, Scratch
from ordbm.training.bias_centres import BiasCentres
from ordbm.training.engine import LOCAL, Engine
from ordbm.training.plan import cut_rows, lay_out
from ordbm.training.shards import Shard, SummedAtSeat
from ordbm.training.side_pass import SideTraining


class Trainer:
    """Changes `machine` in place, an epoch at a time. The same seed gives the same bits."""

    def __init__(
        self,
        machine: Machine,
        ratings: CSRPair,
        learner: Learner,
        seed: int = 0,
        threads: int = 1,
        *,
        is_new: bool = False,
        priors: ResolvedPriors | None = None,
        told: Told = (None, None),
        feature_rules: FeatureRules | None = None,
        scratch: Scratch = IN_MEMORY,
        engine: Engine = LOCAL,
        shard: Shard | None = None,
    ) -> None:
        """`is_new`: the machine has learnt nothing, so that neither side has anything to say yet.

        Scoring all ratings by the other side would cost as much as several epochs. `priors` is what
        `priors_of` gives, if it is known already. `told` are features, which need rules. What grows
        with ratings comes from `scratch`. Where ratings are those of a `shard`, so is the machine,
        and `engine` adds up what all shards have.
        """
        self.machine = machine
        self.is_new = is_new
        self.learner = learner
        self.ratings = ratings
        counts = shard.counts if shard else tuple(np.diff(rows.start) for rows in ratings)
        self.n_ratings = int(counts[0].sum())  # of all shards
        self.told, self.feature_rules = told, feature_rules
        smoothing = smoothing_of(machine.features.single, learner.priors)
        by_group = smoothing_of(machine.features.of_group, learner.priors)
        group = machine.features.group
        if not isinstance(learner, PseudoLikelihood):  # levels are drawn, each by its couplings
            by_group = by_group[np.ix_(group, group)]
            group = np.arange(len(group), dtype=group.dtype)
        priors = priors or priors_of(machine, ratings, learner.priors, threads)
        # Items own the user side's biases, users the item side's.
        bias_priors = (BiasPrior(smoothing, learner.priors.bias_precision), priors.user_bias)
        self.by_count = by_count = (
            shard.by_count if shard else potentials(machine, ratings, learner)
        )
        tables = [
            Tables(
                by_group.astype(machine.dtype),
                prior.smoothing.astype(machine.dtype),
                machine.features.pair.astype(machine.dtype),
                potential.astype(machine.dtype),
                _nowhere(side, len(by_group), machine.dtype),
            )
            for side, prior, (potential, _) in zip(
                machine.sides, bias_priors, by_count, strict=True
            )
        ]
        if is_new:
            for side, (potential, unknown) in zip(machine.sides, by_count, strict=True):
                if side is not None and side.parameters.rating_bias.size:
                    side.parameters.rating_bias[:] = potential
                    side.unknown_bias[:] = unknown
        joint = None not in machine.sides
        kept_in = isinstance(learner, PseudoLikelihood) and not learner.leave_out
        if joint and kept_in and learner.other_side == "exact" and machine.features.is_gaussian:
            raise SettingsError(
                "leave_out=False with two sides needs other_side='mean_field_with_own': a rating "
                "would be evidence about itself on one side only"
            )
        cuts = [
            None
            if side is None
            else cut_rows(
                counts[number], len(counts[1 - number]), learner.optimiser, 2 * seed + number
            )
            for number, side in enumerate(machine.sides)
        ]
        whole = list(cuts)
        if shard and cuts[0] is not None:
            cuts[0] = shard.own_cut(cuts[0])
        asked = not (self._keeps_scores and is_new) or machine.features.is_gaussian
        with_position = [
            asked or (side is not None and side.links.n_edges > 0) for side in machine.sides
        ]
        in_place = isinstance(learner, PseudoLikelihood)  # others walk rows
        blocks = lay_out(ratings, cuts, group, scratch, with_position, in_place=in_place)
        orders = [
            np.arange(rows.n_rows) if cut is None or not in_place else cut.order(rows.n_rows)
            for cut, rows in zip(cuts, ratings, strict=True)
        ]
        if shard:
            assert isinstance(engine, SummedAtSeat)
            blocks = shard.blocks_of_all(blocks, whole, engine)
        n_scored = len(ratings.by_user.column) if joint else 0
        self.scored = scratch.room((n_scored, machine.features.n_levels), machine.dtype)
        self.sides = [
            SideTraining(
                side,
                ratings[number],
                counts[1] if number == 0 else np.diff(ratings.by_user.start),
                blocks[number],
                orders[1 - number],
                replace(learner, priors=_priors_of(number, learner, machine.features)),
                tables[number],
                group,
                2 * seed + number,
                threads,
                curvature=machine.features.curvature(side.n_hidden),
                tightness=machine.features.tightness(side.n_hidden),
                bias_precision=bias_priors[number].precision,
                co_occurrence=priors.co_occurrence.of_columns(number),
                number=number,
                engine=engine,
                scratch=scratch,
                counts_of_all=counts[1 - number],
            )
            for number, side in enumerate(machine.sides)
            if side is not None
        ]
        self.bias_centres = [self._bias_centres(kind) for kind in range(2)]
        self.level_velocity = np.zeros(
            len(machine.level_bias) if learner.initialisation.shared_potential else 0,
            machine.dtype,
        )

    def epoch(self, number: int, tell: Callable[[float], object] | None = None) -> float:
        """Learn both sides in turn, each beside the other as it is; objective per rating.

        `tell` is given the share of the epoch that is done, now and then.
        """
        if self.feature_rules is not None and number >= self.feature_rules.epochs_without:
            self._follow_features()
        total = 0.0
        for here, side in enumerate(self.sides):
            other = self.sides[1 - here] if len(self.sides) == 2 else None
            if other is not None and self._needs_refresh(number, here):
                other.fill_scores(self.learner.other_side, number, self.scored)
            if tell is not None:
                side.tell = partial(_tell_part, tell, here, len(self.sides))
            total += side.learn(number, self.machine.level_bias, self.level_velocity, self.scored)
        return total / self.n_ratings / max(len(self.sides), 1)

    def arrays(self) -> list[Array]:
        """All parameters being learnt."""
        return [
            self.machine.level_bias,
            *(array for side in self.sides for array in side.side.parameters),
        ]

    def state(self) -> dict[str, Array]:
        """All that one epoch hands to the next, by name."""
        state = {"level_bias": self.machine.level_bias, "level_velocity": self.level_velocity}
        for number, side in enumerate(self.sides):
            for name in Parameters._fields:
                state[f"{number}.{name}"] = getattr(side.side.parameters, name)
                state[f"{number}.{name}.velocity"] = getattr(side.velocity, name)
            if self.machine.features.is_gaussian:
                state[f"{number}.noise.row"] = side.noise.row
                state[f"{number}.noise.column"] = side.noise.column
            if self.feature_rules is not None:
                state[f"{number}.bias_mean"] = side.tables.bias_mean
        for kind, found in zip(KINDS, self.bias_centres, strict=True):
            if found is not None:
                state[f"{kind}_features.variance"] = found.variance
                state[f"{kind}_features.effects"] = found.effects
        if len(self.sides) == 2 and self._keeps_scores:
            state["scores"] = self.scored
        return state

    @property
    def centres(self) -> tuple[Array, Array]:
        """What features are found to say of the biases of users, and of items: (q, n) each."""
        users, items = (
            np.zeros((0 if about is None else about.design.shape[1], len(self.machine.level_bias)))
            if found is None
            else found.effects
            for about, found in zip(self.told, self.bias_centres, strict=True)
        )
        return users.astype(np.float32), items.astype(np.float32)

    def _follow_features(self) -> None:
        """Priors have biases where features, beside counts, expect them."""
        for kind, found in enumerate(self.bias_centres):
            owner = self._training_of(1 - kind)
            if found is None or owner is None:
                continue
            by_count = self.by_count[1 - kind][0]
            found.learn(owner.side.parameters.rating_bias - by_count)
            owner.tables.bias_mean[:] = (by_count + found.centre())[owner.order]

    def _bias_centres(self, kind: int) -> BiasCentres | None:
        """What features of users (kind 0) or items may say of the biases that these own."""
        about, owner, rules = self.told[kind], self._training_of(1 - kind), self.feature_rules
        if about is None or rules is None or owner is None:
            return None
        if not owner.side.parameters.rating_bias.size or not owner.bias_precision:
            return None
        curvature = self.learner.optimiser.bias_curvature * owner.curvature
        return BiasCentres(
            about, np.diff(self.ratings[kind].start), owner.tables.bias_smoothing,
            owner.bias_precision, curvature, rules,
        )  # fmt: skip

    def _training_of(self, number: int) -> SideTraining | None:
        """Of the user side (0) or the item side (1)."""
        side = self.machine.sides[number]
        return next((one for one in self.sides if one.side is side), None)

    def _needs_refresh(self, number: int, here: int) -> bool:
        """Whether the other side's scores are not there already."""
        if not self._keeps_scores:
            return True
        return number == 0 and here == 0 and not self.is_new

    @property
    def _keeps_scores(self) -> bool:
        """Whether a pass leaves the side's scores behind for the other side."""
        return isinstance(self.learner, PseudoLikelihood) and self.learner.other_side == "exact"


def potentials(
    machine: Machine, ratings: CSRPair, learner: Learner
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """What counts say of the levels of each item and of each user, and of unknown ones."""
    n_levels, weight = machine.features.n_levels, learner.priors.count_weight
    of_items, of_users = (
        count_potentials(level_counts(rows, n_levels), weight)
        for rows in (ratings.by_item, ratings.by_user)
    )
    return of_items, of_users


def _priors_of(number: int, learner: Learner, table: Features) -> Priors:
    """A side's priors."""
    priors = learner.priors.of_side(number)
    return replace(priors, link_precision=priors.link_precision * table.link_tightness)


def _nowhere(side: Side | None, n_groups: int, dtype: Any) -> Array:
    """Zero for the couplings of any column, (1, G, d)."""
    d = 0 if side is None else side.parameters.coupling.shape[2]
    return np.zeros((1, n_groups, d), dtype)


def _tell_part(tell: Callable[[float], object], part: int, parts: int, share: float) -> None:
    """Tell how much of the whole is done when `share` of one of its parts is."""
    tell((part + share) / parts)
