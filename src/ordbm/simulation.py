"""Ratings drawn from a known machine: data whose truth is at hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ordbm.data.csr import CSR, CSRPair, starts
from ordbm.data.ids import IdMap
from ordbm.data.ratings import Ratings
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.data.standardiser import Standardiser
from ordbm.errors import SettingsError
from ordbm.inference.distributions import RatingDistribution
from ordbm.inference.fitted import FittedModel
from ordbm.inference.people import Users
from ordbm.model.features import Features
from ordbm.model.features import features as feature_tables
from ordbm.model.machine import Machine, Side, new_side
from ordbm.model.neighbours import Links, links_between, no_links
from ordbm.model.settings import FeatureKind, Settings, Sides
from ordbm.runtime.arrays import Codes
from ordbm.runtime.checks import check_count, float_of
from ordbm.runtime.printable import shown
from ordbm.runtime.threads import thread_count

_RATINGS_AT_ONCE = 100_000  # ratings drawn together, to keep their tables small
_MOST_LEVELS = 100
_TYPICAL, _SPREAD = 0.65, 0.3  # of the levels' shared potential, on a scale from 0 to 1
_OWN_TASTE = 0.5  # deviation of the columns' own potentials
# Of a link on two levels: weights multiply a distance, a coincidence, or a product.
_LINK_WEIGHT = {"ordinal": -2.0, "categorical": 4.0, "gaussian": 0.2}
_MACHINE_UNIT = Standardiser(0.0, 1.0)  # Gaussian ratings are drawn in the machine's own unit


class Simulated(NamedTuple):
    """Ratings, and the machine that they were drawn from; user u has id u, item i has id i."""

    ratings: Ratings
    machine: Machine

    def distribution(self, users: Any, items: Any) -> RatingDistribution:
        """What the machine says of each pair given all other ratings: the best prediction."""
        known = self.ratings
        standardiser = _MACHINE_UNIT if self.machine.features.is_gaussian else None
        fitted = FittedModel(
            known.users, known.items, known.scale, standardiser, [self.machine],
            CSRPair(known.by_user, known.by_item), thread_count(None),
        )  # fmt: skip
        codes = known.users.codes(users), known.items.codes(items)
        return fitted.distribution(Users(fitted), *codes)


def simulate(
    n_users: int = 500,
    n_items: int = 200,
    n_ratings: int = 20_000,
    *,
    levels: int = 5,
    hidden: int | tuple[int, int] = 4,
    sides: Sides = "joint",
    features: FeatureKind = "ordinal",
    strength: float = 1.0,
    links: int = 0,
    sweeps: int = 30,
    seed: int = 0,
) -> Simulated:
    """Ratings drawn from a random machine by Gibbs sampling; the same for a seed.

    Some users rate much more than others, and some items are rated much more, as in real data;
    levels are 1 to `levels`. `hidden`, `sides` and `features` are those of `OrdinalBM`, and
    Gaussian ratings are continuous. `strength` scales the couplings with the hidden units: at 0 a
    user's ratings say nothing about each other but through `links`, so many between random items of
    a user side, every other one negative. `sweeps` is the number of Gibbs steps.
    """
    asked = Settings(features=features, sides=sides, hidden=hidden, seed=seed)
    for name, count in (("n_users", n_users), ("n_items", n_items), ("n_ratings", n_ratings)):
        check_count(name, count, least=1)
    check_count("sweeps", sweeps, least=1)
    check_count("levels", levels, least=2)
    if levels > _MOST_LEVELS:
        raise SettingsError(f"levels={shown(levels)}: at most {_MOST_LEVELS}")
    if not 0 <= float_of(strength) < np.inf:
        raise SettingsError(f"strength={shown(strength)}: must be a number, 0 or more")
    check_count("links", links, most=n_items * (n_items - 1) // 2)
    if links and sides == "item":
        raise SettingsError(f"links={shown(links)} are a user side's: sides='item' has none")
    if n_ratings > n_users * n_items:
        raise SettingsError(
            f"n_ratings={shown(n_ratings)}: {n_users:,} users and {n_items:,} items make only "
            f"{n_users * n_items:,} pairs"
        )
    rng = np.random.default_rng(seed)
    table = feature_tables(features, levels)
    sizes = n_users, n_items
    graph = _random_links(np.random.default_rng((seed, links)), n_items, links)
    machine = _random_machine(rng, table, sizes, asked.hidden_sizes, sides, float(strength), graph)
    users, items = _rated_pairs(rng, n_users, n_items, n_ratings)
    drawn = draw_ratings(machine, users, items, rng, sweeps)
    gaussian = table.is_gaussian
    rows = CSR(
        start=starts(users, n_users),
        column=items,
        level=np.zeros(n_ratings, np.uint8) if gaussian else drawn.astype(np.uint8),
        value=drawn if gaussian else np.empty(0, np.float32),
        in_transpose=np.empty(0, np.int32),
    )
    scale = ContinuousScale.of(drawn) if gaussian else RatingScale(range(1, levels + 1))
    user_ids, item_ids = IdMap(tuple(range(n_users))), IdMap(tuple(range(n_items)))
    return Simulated(Ratings.of_rows(user_ids, item_ids, scale, rows), machine)


def draw_ratings(
    machine: Machine, users: Codes, items: Codes, rng: np.random.Generator, sweeps: int
) -> NDArray[Any]:
    """Levels (or values of a Gaussian machine) of all pairs, after `sweeps` steps of h | r, r | h.

    Given both sides' hidden units the ratings of a machine without links are independent, so a step
    draws all hidden units, and then all ratings; with links, item after item.
    """
    gaussian, n = machine.features.is_gaussian, machine.features.n_levels
    rating = np.zeros(len(users)) if gaussian else rng.integers(n, size=len(users))
    sides = [
        (side, row, column)
        for side, row, column in (
            (machine.user_side, users, items),
            (machine.item_side, items, users),
        )
        if side is not None
    ]
    steps = _steps(machine, users, items)
    for _ in range(sweeps):
        hidden = [_drawn_hidden(side, row, column, rating, rng) for side, row, column in sides]
        for part, linked in steps:
            potential = np.tile(machine.level_bias.astype(np.float64), (len(users[part]), 1))
            for (side, row, column), h in zip(sides, hidden, strict=True):
                coupling = side.parameters.coupling[column[part], :, : side.n_hidden]
                potential += np.einsum("psk,pk->ps", coupling, h[row[part]])
                if len(side.parameters.rating_bias):
                    potential += side.parameters.rating_bias[column[part]]
            for own, other, weight in linked:
                pull = rating[other, None] if gaussian else machine.features.pair[0][rating[other]]
                potential[own] += weight * pull
            if gaussian:
                rating[part] = potential[:, 0] + rng.standard_normal(len(potential))
            else:  # the largest of potentials with Gumbel noise is a draw from their softmax
                rating[part] = np.argmax(potential + rng.gumbel(size=potential.shape), axis=1)
    return rating


def _steps(machine: Machine, users: Codes, items: Codes) -> list[tuple[Any, list[Any]]]:
    """Ratings drawn together, and of each link of theirs: which, beside which, its weight."""
    side = machine.user_side
    if side is None or not side.links.n_edges:
        firsts = range(0, len(users), _RATINGS_AT_ONCE)
        return [(slice(first, first + _RATINGS_AT_ONCE), []) for first in firsts]
    links, order = side.links, np.lexsort((users, items))
    parts = np.split(order, np.cumsum(np.bincount(items, minlength=side.n_columns))[:-1])
    steps = []
    for item, part in enumerate(parts):
        linked = []
        for place in range(links.start[item], links.start[item + 1]):
            others = parts[links.neighbour[place]]
            _, own, other = np.intersect1d(users[part], users[others], True, return_indices=True)
            weight = side.parameters.link_weight[links.edge[place], 0]
            linked.append((own, others[other], weight))
        steps.append((part, linked))
    return steps


def _drawn_hidden(
    side: Side, row: Codes, column: Codes, rating: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.float32]:
    """h of every row of a side given its ratings, (rows, units)."""
    parameters, d = side.parameters, side.n_hidden
    n_rows = int(row.max()) + 1
    gaussian = parameters.coupling.shape[1] == 1
    level, weight = (0, rating) if gaussian else (rating, 1.0)
    inputs = np.empty((n_rows, d))
    for unit in range(d):
        term = weight * parameters.coupling[column, level, unit].astype(np.float64)
        inputs[:, unit] = parameters.hidden_bias[unit] + np.bincount(row, term, n_rows)
    return (rng.random(inputs.shape) < expit(inputs)).astype(np.float32)


def _random_machine(
    rng: np.random.Generator,
    table: Features,
    sizes: tuple[int, int],
    hidden: tuple[int, int],
    sides: Sides,
    strength: float,
    links: Links,
) -> Machine:
    """A machine over `sizes` users and items whose hidden units are on about half of the time."""
    made = [
        _random_side(rng, table, n_columns, d, strength) if sides in (name, "joint") else None
        for name, n_columns, d in (("user", sizes[1], hidden[0]), ("item", sizes[0], hidden[1]))
    ]
    if made[0] is not None and links.n_edges:
        weight = _LINK_WEIGHT[table.kind] * links.similarity / max(table.n_levels - 1, 1)
        parameters = made[0].parameters._replace(link_weight=weight[:, None])
        made[0] = replace(made[0], links=links, parameters=parameters)
    place = np.linspace(0.0, 1.0, table.n_levels)
    bias = np.zeros(1) if table.is_gaussian else -0.5 * ((place - _TYPICAL) / _SPREAD) ** 2
    return Machine(table, bias.astype(np.float32), made[0], made[1])


def _random_links(rng: np.random.Generator, n_items: int, n: int) -> Links:
    """Between so many pairs of items, every other one negative."""
    pair = np.sort(rng.choice(n_items * (n_items - 1) // 2, n, replace=False))
    low, high = (ends[pair] for ends in np.triu_indices(n_items, 1))
    sign = np.where(np.arange(n) % 2, -1.0, 1.0).astype(np.float32)
    return links_between(low.astype(np.int32), high.astype(np.int32), sign, n_items)


def _random_side(
    rng: np.random.Generator, table: Features, n_columns: int, n_hidden: int, strength: float
) -> Side:
    side = new_side(table, no_links(n_columns), n_hidden, has_bias=True, spread=1.0, rng=rng)
    taste = new_side(table, no_links(n_columns), 1, has_bias=True, spread=1.0, rng=rng)
    coupling = side.parameters.coupling[:, :, :n_hidden]
    _standardise(coupling, strength / np.sqrt(max(n_hidden, 1)))
    own = taste.parameters.coupling[:, :, :1]
    _standardise(own, _OWN_TASTE)
    # Half of all couplings taken off, a unit says as much when it is off as when it is on.
    side.parameters.rating_bias[:] = own[:, :, 0] - 0.5 * coupling.sum(axis=2)
    return side


def _standardise(weights: NDArray[Any], deviation: float) -> None:
    """Weights (columns, levels, units) without mean over levels, and of this deviation overall."""
    if weights.shape[1] > 1:
        weights -= weights.mean(axis=1, keepdims=True)
    weights *= deviation / np.sqrt(np.sum(weights**2) / max(weights.size, 1) + 1e-12)


def _rated_pairs(
    rng: np.random.Generator, n_users: int, n_items: int, n_ratings: int
) -> tuple[Codes, Codes]:
    """Distinct pairs by user, then item: users of very different zeal, items of fame by rank."""
    zeal = rng.lognormal(0.0, 1.0, n_users)
    counts = np.minimum(n_items, n_ratings * zeal / zeal.sum()).astype(np.int64)
    while (left := n_ratings - int(counts.sum())) > 0:
        counts[rng.permutation(np.flatnonzero(counts < n_items))[:left]] += 1
    fame = -np.log(rng.permutation(n_items) + 1.0 + n_items / 20)
    items = np.empty(n_ratings, np.int32)
    end = 0
    for count in counts.tolist():
        # The largest of log-weights with Gumbel noise are a weighted draw without replacement.
        keys = fame + rng.gumbel(size=n_items)
        begin, end = end, end + count
        items[begin:end] = np.sort(np.argpartition(-keys, min(count, n_items - 1))[:count])
    return np.repeat(np.arange(n_users, dtype=np.int32), counts), items
