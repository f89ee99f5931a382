"""A fitted model that takes in a batch of ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ordbm.data.context_columns import ContextColumns
from ordbm.data.csr import CSRPair
from ordbm.data.ids import IdMap
from ordbm.errors import DivergedError
from ordbm.inference.ensemble_tables import EnsembleTables
from ordbm.inference.fitted import FittedModel
from ordbm.inference.fold_in import OwnPrior
from ordbm.model.feature_effects import described_machines
from ordbm.model.learners import Learner, Priors
from ordbm.model.machine import Machine, Side
from ordbm.model.rounding import round_columns_of
from ordbm.priors.co_occurrence import CoOccurrence, co_occurrence_embedding
from ordbm.priors.counts import count_adaptive_precision, count_potentials
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.priors.resolved import ResolvedPriors, smoothing_of
from ordbm.priors.response_styles import BiasPrior
from ordbm.runtime.arrays import Array, Codes, Numbers
from ordbm.runtime.threads import run_on_threads, share
from ordbm.updates.column_steps import ColumnRules, fit_columns, step_biases
from ordbm.updates.merging import Heard, Places, RatedPairs, RatingBatch, joined_by, without
from ordbm.updates.presence_growth import grown_presence
from ordbm.updates.shared_levels import moved_levels, scores_of

GROWN = 1.1  # times as many ratings for which a column is fitted anew
MOST_FITTED = (30, 300)  # ratings of items and of users that are: of more, learning all together
# tells more than a fit of one


@dataclass(frozen=True)
class Update:
    """What a batch changed."""

    new: int  # ratings
    changed: int
    withdrawn: int
    same: int  # given again as they were, or older than what is there
    new_users: int
    new_items: int
    described_users: int = 0  # of whom features came
    described_items: int = 0

    def __str__(self) -> str:
        counts = {"new": self.new, "changed": self.changed, "withdrawn": self.withdrawn}
        counts["as they were"] = self.same
        said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        found = (
            f"ratings: {said or 'none'}; new users: {self.new_users:,}, items: {self.new_items:,}"
        )
        if self.described_users or self.described_items:
            users, items = self.described_users, self.described_items
            found += f"; features of users: {users:,}, of items: {items:,}"
        return found


def grown(fitted: FittedModel, batch: RatingBatch, learner: Learner) -> tuple[FittedModel, Update]:
    """The model with these ratings; `fitted` is left as it was. `learner` is that of its scale.

    What leaves goes before anything comes, in the opposite order, so that what came and leaves
    again takes back what it did.
    """
    found = fitted
    if len(batch.leaving):
        found = _after_leaving(found, batch.leaving, learner)
    if len(batch.coming.user):
        found = _after_coming(found, batch, learner)
    left = RatedPairs.of(fitted, batch.leaving)
    people, items = (
        np.unique(np.concatenate([getattr(left, name), getattr(batch.coming, name)]))
        for name in ("user", "item")
    )
    moved = [
        machine.of_columns(number, columns)
        for machine in found.machines
        for number, columns in enumerate((items, people))
    ]
    if any(part.has_diverged for part in moved):
        raise DivergedError(
            "with these ratings parameters would be no numbers any more: the model is as it was; "
            "learn it anew with all ratings"
        )
    if found is not fitted and fitted.is_quick:
        found.is_quick = EnsembleTables.serve(moved)
    if fitted.presence is not None and found is not fitted:
        found.presence = grown_presence(
            fitted.presence, fitted.given, found.given, people, fitted.threads
        )
    update = Update(
        len(batch.coming.user) - batch.n_changed,
        batch.n_changed,
        len(batch.leaving) - batch.n_changed,
        batch.n_same,
        len(found.users) - len(fitted.users),
        len(found.items) - len(fitted.items),
    )
    if found is not fitted:
        was = fitted.growth
        found.growth = was._replace(
            new=was.new + update.new,
            changed=was.changed + update.changed,
            withdrawn=was.withdrawn + update.withdrawn,
        )
    return found, update


def _after_leaving(fitted: FittedModel, leaving: Places, learner: Learner) -> FittedModel:
    """Items first: they came last."""
    given, times, context, heard = without(fitted, leaving)
    found = with_ratings(fitted, fitted.users, fitted.items, given, times, context)
    found.count_levels_from(fitted, heard.rated.user, heard.rated.item, heard.rated.level, -1)
    found.fold_in_priors = grown_priors(fitted, found, learner)
    plans = [_Plan(fitted, found, heard, number, learner) for number in (0, 1)]

    def change(member: int) -> None:
        machine = found.machines[member]
        for plan in plans:
            plan.step(machine, member, fitted, back=True)
        _move_levels(machine, machine, fitted, found, heard, back=True)
        for plan in plans:
            plan.fit(machine, member, found)

    _each_member(found, change)
    return found


def _after_coming(fitted: FittedModel, batch: RatingBatch, learner: Learner) -> FittedModel:
    """People first: they change most."""
    given, times, context, heard = joined_by(fitted, batch)
    found = with_ratings(fitted, batch.users, batch.items, given, times, context)
    found.count_levels_from(fitted, heard.rated.user, heard.rated.item, heard.rated.level, 1)
    found.fold_in_priors = grown_priors(fitted, found, learner)
    plans = [_Plan(found, fitted, heard, number, learner, after=found) for number in (1, 0)]

    def change(member: int) -> None:
        machine = found.machines[member]
        _move_levels(machine, fitted.machines[member], found, fitted, heard, back=False)
        for plan in plans:
            plan.fit(machine, member, found)
            plan.step(machine, member, found, back=False)

    _each_member(found, change)
    return found


def _move_levels(
    machine: Machine,
    before: Machine,
    larger: FittedModel,
    smaller: FittedModel,
    heard: Heard,
    *,
    back: bool,
) -> None:
    """The shared potential, by what `before` says of the ratings that only `larger` has."""
    rows, place = larger.ratings.by_user, heard.by_user
    value = rows.value[place] if rows.value.size else rows.value
    scores = scores_of(before, smaller.ratings, heard.rated)
    had = smaller.level_counts.by_user.sum(axis=0)
    machine.level_bias[:] = moved_levels(
        machine.level_bias, scores, rows.level[place], value, had, back=back
    )


def _each_member(found: FittedModel, change: Callable[[int], None]) -> None:
    threads = min(found.threads, len(found.machines))

    def work(thread: int) -> None:
        for member in range(*share(len(found.machines), thread, threads)):
            change(member)

    run_on_threads(threads, work)


class _Plan:
    """What the columns of one side do when ratings come or leave: some step, some are fitted.

    `larger` has the ratings `heard`, `smaller` has not; one of both is the model after.
    """

    def __init__(
        self,
        larger: FittedModel,
        smaller: FittedModel,
        heard: Heard,
        number: int,
        learner: Learner,
        after: FittedModel | None = None,
    ) -> None:
        after = after or smaller
        self.number = number
        column, places = heard.columns_of(number)
        n_columns = larger.given[1 - number].n_rows
        fewer, more, now = (_counts(model, number, n_columns) for model in (smaller, larger, after))
        further = (stage_of(fewer) != stage_of(more)) & (now <= MOST_FITTED[number])
        fitted = further | ((fewer == 0) & (now > 0))
        self.steps = places[~fitted[column]]
        self.fits = np.unique(column[fitted[column] & (now[column] > 0)])
        self.rules = _rules(larger, smaller, after, self.fits, number, learner)

    def step(self, machine: Machine, member: int, larger: FittedModel, *, back: bool) -> None:
        if self.rules:
            rules = self.rules[member]
            step_biases(machine, larger.ratings, self.number, self.steps, rules, back=back)

    def fit(self, machine: Machine, member: int, after: FittedModel) -> None:
        if self.rules:
            fit_columns(machine, after.ratings, self.number, self.fits, self.rules[member])
            round_columns_of(machine, self.number, self.fits)


def fit_again(found: FittedModel, number: int, columns: Codes, learner: Learner) -> None:
    """Columns of a side that have ratings are fitted to them: what is expected of them changed."""
    rules = _rules(found, found, found, columns, number, learner)

    def change(member: int) -> None:
        if rules:
            machine = found.machines[member]
            fit_columns(machine, found.ratings, number, columns, rules[member])
            round_columns_of(machine, number, columns)

    _each_member(found, change)


def stage_of(count: Array) -> Array:
    """floor(log_1.1 count), by which columns are fitted anew; -1 for none."""
    stage = np.floor(np.log(np.maximum(count, 1)) / np.log(GROWN) + 1e-9)
    return np.where(count > 0, stage, -1)


def _counts(model: FittedModel, number: int, n_columns: int) -> Array:
    """How many ratings a side's columns have, (C,); those that are not there have none."""
    count = np.diff(model.given[1 - number].start)
    return np.append(count, np.zeros(n_columns - len(count), count.dtype))


# -- tables that grow -----------------------------------------------------------------------------


def with_ratings(
    fitted: FittedModel,
    users: IdMap,
    items: IdMap,
    given: CSRPair,
    times: Numbers,
    context: ContextColumns,
) -> FittedModel:
    """A copy of the model with these ratings instead."""
    known_users, known_items = fitted.described
    described = (
        known_users and known_users.for_ids(len(users)),
        known_items and known_items.for_ids(len(items)),
    )
    machines = [_grown_machine(machine, len(users), len(items)) for machine in fitted.machines]
    newcomers = tuple(
        np.pad(known.new, (0, len(ids) - len(known.new)), constant_values=True)
        for known, ids in zip(fitted.newcomers, (users, items), strict=True)
    )
    return FittedModel(
        users,
        items,
        fitted.scale,
        fitted.standardiser,
        described_machines(machines, described),
        given,
        fitted.threads,
        fitted.origin,
        times=times,
        growth=fitted.growth,
        described=described,
        structure=fitted.structure,
        context=fitted.context,
        context_columns=context,
        newcomers=(newcomers[0], newcomers[1]),
    )


def _grown_machine(machine: Machine, n_users: int, n_items: int) -> Machine:
    """A copy with columns for so many; new ones own nothing yet."""
    user_side, item_side = (
        None if side is None else _grown_side(side, n_columns)
        for side, n_columns in zip(machine.sides, (n_items, n_users), strict=True)
    )
    return Machine(machine.features, machine.level_bias.copy(), user_side, item_side)


def _grown_side(side: Side, n_columns: int) -> Side:
    own, links = side.parameters, side.links
    more = n_columns - side.n_columns
    bias = own.rating_bias.copy()
    if bias.size:
        bias = np.concatenate([bias, np.tile(side.unknown_bias, (more, 1))])
    nothing = np.zeros((more, *own.coupling.shape[1:]), own.coupling.dtype)
    return replace(
        side,
        parameters=own._replace(rating_bias=bias, coupling=np.concatenate([own.coupling, nothing])),
        links=links._replace(start=np.append(links.start, np.full(more, links.start[-1]))),
    )


# -- where their parameters are expected ----------------------------------------------------------


def _rules(
    larger: FittedModel,
    smaller: FittedModel,
    after: FittedModel,
    fits: Codes,
    number: int,
    learner: Learner,
) -> list[ColumnRules]:
    """For each machine; empty if there is no such side."""
    one, priors = after.machines[0], learner.priors
    side = one.sides[number]
    if side is None:
        return []
    own = after.fold_in_priors if number else _item_priors(after, priors, traits=len(fits) > 0)
    assert own is not None
    columns = after.ratings[1 - number]
    means = {int(column): own.coupling_means(columns.columns_of(column)) for column in fits}
    n_columns = larger.ratings[1 - number].n_rows
    typical, fewer = (_typical(model, number, n_columns, priors) for model in (larger, smaller))
    # (C, 1) how much of what is expected of newcomers is of each column
    share, share_fewer = (_newcomer_share(model, number, n_columns) for model in (larger, smaller))
    now, share_now = (typical, share) if after is larger else (fewer, share_fewer)
    curvature = learner.optimiser.bias_curvature * one.features.curvature(side.n_hidden)
    found = []
    for member, machine in enumerate(after.machines):
        mean = {column: tables[member] for column, tables in means.items()}
        expected, change = now, typical - fewer
        own_side = machine.sides[number]
        if own_side is not None and own_side.newcomer_bias is not None:
            # Of newcomers between what is of the unknown and what is of so many ratings.
            unknown = own_side.unknown_bias
            expected = now + share_now * (unknown - now)
            change = change + share * (unknown - typical) - share_fewer * (unknown - fewer)
        expected = expected.copy()
        _expect_by_features(after, member, number, mean, expected)
        prior = OwnPrior.of(machine, own.precision, own.unit, own.bias, number)
        found.append(ColumnRules(prior, curvature, expected, change, mean))
    return found


def _expect_by_features(
    after: FittedModel, member: int, number: int, mean: dict[int, Array], typical: Array
) -> None:
    """Let biases of described columns be expected where their features say.

    So are couplings of those that had no ratings when effects were learnt.
    """
    about, side = after.described[1 - number], after.machines[member].sides[number]
    columns = np.array(list(mean), np.int64)
    if about is None or side is None or not len(columns):
        return
    typical[columns] += about.centre_of(member, columns)
    columns = columns[(about.described & about.unrated)[columns]]
    said = about.effects[member].of(about.design[columns])
    typical[columns] = side.unknown_bias + said.bias
    for column, coupling in zip(columns.tolist(), said.coupling, strict=True):
        mean[column] = mean[column] + coupling


def _typical(model: FittedModel, number: int, n_columns: int, priors: Priors) -> Array:
    """Where numbers of ratings expect the biases of so many columns, (C, n)."""
    levels = model.level_counts[1 - number]
    known, unknown = model.kept(
        f"count potentials {number}", lambda: count_potentials(levels, priors.count_weight)
    )
    return np.concatenate([known, np.tile(unknown, (n_columns - len(known), 1))])


def _newcomer_share(model: FittedModel, number: int, n_columns: int) -> Array:
    """Of so many columns, those that the model has not as well, (C, 1)."""
    known = model.newcomers[1 - number].share
    return np.append(known, np.ones(n_columns - len(known), known.dtype))[:, None]


def _item_priors(found: FittedModel, priors: Priors, *, traits: bool) -> FoldInPriors:
    """Those of what items own: as those of users, with the roles swapped."""
    one, swapped = found.machines[0], CSRPair(found.ratings.by_item, found.ratings.by_user)
    by_who = co_occurrence_embedding(
        swapped, priors.co_occurrence, priors.embedding, found.threads, sides=(False, traits)
    )
    resolved = ResolvedPriors(
        BiasPrior(smoothing_of(one.features.single, priors), priors.bias_precision),
        CoOccurrence(*(table.astype(one.dtype) for table in by_who)),
    )
    machines = [
        Machine(machine.features, machine.level_bias, machine.item_side, machine.user_side)
        for machine in found.machines
    ]
    return FoldInPriors.of(machines, swapped, priors.of_side(0), found.threads, resolved)


def grown_priors(before: FittedModel, found: FittedModel, learner: Learner) -> FoldInPriors:
    """Those of what users own: new items tell nothing of traits yet."""
    known, side = before.fold_in_priors, found.machines[0].item_side
    assert known is not None
    rows = known.read_by_row
    more = np.zeros((len(found.items) - len(rows), rows.shape[1]), rows.dtype)
    counts = np.diff(found.ratings.by_user.start)
    n_hidden = 0 if side is None else side.n_hidden
    tightness = found.machines[0].features.tightness(n_hidden)
    return known._replace(
        read_by_row=np.concatenate([rows, more]),
        precision=count_adaptive_precision(learner.priors.of_side(1), counts, n_hidden, tightness),
    )
