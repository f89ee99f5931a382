"""The referee: slow, obvious twins of the engine, read straight off the energy.

    -E = sum over ratings            b[s]                       (shared by both sides, once)
       + sum over sides { sum over rows and units    alpha_k h_k
                        + sum over ratings           beta[column, s]
                        + sum over ratings and units h_k W[column, s, k]
                        + sum over linked pairs of columns that a row rated
                                                     lambda[edge, b] f_b(s, s') }

The user side's rows are users and its columns items; the item side has them the other way round. A
Gaussian rating v has a single level whose terms are multiplied by v (a link's by v v'), and adds
-v^2 / 2 once.

Ratings are a table (users, items) of levels or, for Gaussian machines, of values; NaN is "not
rated". Nothing here knows of padding, blocks, softplus or leave-one-out tricks.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logit

from ordbm.data.csr import CSR, CSRPair, starts, with_transpose
from ordbm.kernels.structures import padded
from ordbm.model.features import features
from ordbm.model.machine import Machine, Parameters, Side
from ordbm.model.neighbours import Links, no_links
from ordbm.model.presence import KNOTS

KINDS = ("categorical", "ordinal", "gaussian")
SIDES = ("user", "item", "joint")
LINKS = ("none", "items", "users", "both")
COMBINATIONS = list(product(KINDS, SIDES, LINKS))
DISCRETE = [combination for combination in COMBINATIONS if combination[0] != "gaussian"]
GAUSSIAN = [combination for combination in COMBINATIONS if combination[0] == "gaussian"]

N_USERS, N_ITEMS, N_LEVELS = 3, 4, 3
ITEM_PAIRS = ((0, 1), (0, 3), (1, 2), (2, 3))
USER_PAIRS = ((0, 1), (1, 2))
ONE_BLOCK = 10**9  # rows per block, for learners that take all ratings at once


class Case(NamedTuple):
    """A machine and the ratings it has seen, for the engine and for the referee."""

    machine: Machine
    ratings: CSRPair
    table: np.ndarray


# Making cases


def case(kind, sides, links, *, hidden=(2, 2), seed=0, **settings):
    """A random machine of one combination, with a table that has rated and unrated pairs."""
    rng = np.random.default_rng((seed, KINDS.index(kind), SIDES.index(sides), LINKS.index(links)))
    machine = random_machine(rng, kind, sides, links, hidden=hidden, **settings)
    table = random_table(rng, gaussian=kind == "gaussian", n_levels=machine.features.n_levels)
    return Case(machine, orientations(table, machine), table)


def random_table(rng, *, gaussian, n_users=N_USERS, n_items=N_ITEMS, n_levels=N_LEVELS, rated=0.7):
    """A table in which the last item of the last user is never rated and the first always is."""
    if gaussian:  # the engine keeps ratings in single precision
        table = rng.normal(size=(n_users, n_items)).astype(np.float32).astype(float)
    else:
        table = rng.integers(n_levels, size=(n_users, n_items)).astype(float)
    missing = rng.random(table.shape) > rated
    missing[0, 0] = False
    missing[-1, -1] = True
    table[missing] = np.nan
    return table


def orientations(table, machine):
    """The table as the engine reads it."""
    user, item = np.nonzero(~np.isnan(table))
    found = table[user, item]
    gaussian = machine.features.is_gaussian
    by_user = CSR(
        start=starts(user.astype(np.int32), len(table)),
        column=item.astype(np.int32),
        level=np.zeros(len(found), np.uint8) if gaussian else found.astype(np.uint8),
        value=found.astype(np.float32) if gaussian else np.zeros(0, np.float32),
        in_transpose=np.zeros(len(found), np.int32),
    )
    return CSRPair(*with_transpose(by_user, table.shape[1]))


def random_machine(
    rng,
    kind,
    sides,
    links="none",
    *,
    hidden=(2, 2),
    n_users=N_USERS,
    n_items=N_ITEMS,
    n_levels=N_LEVELS,
    n_groups=None,
    item_pairs=ITEM_PAIRS,
    user_pairs=USER_PAIRS,
    spread=0.8,
    link_spread=0.3,
    dtype=np.float64,
    lanes=None,
):
    """A machine of one combination with every parameter drawn at random.

    A side that `sides` leaves out has neither hidden units nor biases, and is there only if it has
    links. `lanes` is the stored number of hidden units, by default padded as in learning.
    """
    table = features(kind, n_levels, n_groups)

    def side(present, n_columns, n_hidden, pairs):
        if not present and not pairs:
            return None
        return random_side(
            rng, table, n_columns, n_hidden if present else 0, pairs, has_bias=present,
            spread=spread, link_spread=link_spread, dtype=dtype, lanes=lanes if present else None,
        )  # fmt: skip

    return Machine(
        table,
        rng.normal(0, spread, table.n_levels).astype(dtype),
        side(sides != "item", n_items, hidden[0], item_pairs if links in {"items", "both"} else ()),
        side(sides != "user", n_users, hidden[1], user_pairs if links in {"users", "both"} else ()),
    )


def random_side(
    rng, table, n_columns, n_hidden, pairs, *, has_bias, spread, link_spread, dtype, lanes=None
):
    """One side: couplings and biases drawn in feature space, as new_side does."""
    lanes = padded(n_hidden) if lanes is None else lanes
    n, n_features = table.single.shape
    n_shared = table.coupling.shape[1]
    links = linked(pairs, n_columns)
    hidden_bias = np.zeros(lanes, dtype)
    hidden_bias[:n_hidden] = rng.normal(0, spread, n_hidden)
    coupling = np.zeros((n_columns, n, lanes), dtype)
    coupling[:, :, :n_hidden] = np.einsum(
        "sa,cak->csk", table.coupling, rng.normal(0, spread, (n_columns, n_shared, n_hidden))
    )
    bias = rng.normal(0, spread, (n_columns if has_bias else 0, n_features)) @ table.single.T
    weight = rng.normal(0, link_spread, (links.n_edges, table.n_pair))
    unknown = (rng.normal(0, spread, n) if has_bias else np.zeros(n)).astype(dtype)
    parameters = Parameters(hidden_bias, bias.astype(dtype), coupling, weight.astype(dtype))
    return Side(parameters, n_hidden, links, unknown)


def linked(pairs, n_columns):
    """Links between the given pairs of columns; edges are numbered in the order of the pairs."""
    pairs = sorted(tuple(sorted(pair)) for pair in pairs)
    if not pairs:
        return no_links(n_columns)
    ends = sorted((i, j, e) for e, pair in enumerate(pairs) for i, j in (pair, pair[::-1]))
    column, neighbour, edge = np.array(ends, np.int32).T
    return Links(
        start=starts(column, n_columns),
        neighbour=neighbour.copy(),
        edge=edge.copy(),
        similarity=np.ones(len(pairs), np.float32),
    )


def edges(links):
    """(i, j, edge) of every link, i < j."""
    for i in range(links.n_columns):
        for place in range(links.start[i], links.start[i + 1]):
            if links.neighbour[place] > i:
                yield i, int(links.neighbour[place]), int(links.edge[place])


def copied(machine):
    """The same machine in arrays of its own."""

    def side(given):
        if given is None:
            return None
        parameters = Parameters(*(array.copy() for array in given.parameters))
        return Side(parameters, given.n_hidden, given.links, given.unknown_bias.copy())

    return Machine(
        machine.features,
        machine.level_bias.copy(),
        side(machine.user_side),
        side(machine.item_side),
    )


def extended(machine):
    """`machine` with one more user and one more item, the last, that nobody has rated."""

    def side(given):
        if given is None:
            return None
        p = given.parameters
        grown = p._replace(
            coupling=np.concatenate([p.coupling, np.zeros_like(p.coupling[:1])]),
            rating_bias=np.concatenate(
                [p.rating_bias, given.unknown_bias[None][: len(p.rating_bias)]]
            ),
        )
        links = given.links
        longer = links._replace(start=np.append(links.start, links.start[-1]))
        return Side(grown, given.n_hidden, longer, given.unknown_bias)

    return Machine(
        machine.features, machine.level_bias, side(machine.user_side), side(machine.item_side)
    )


# The energy, and sums over it


def negative_energy(machine, table, user_hidden, item_hidden):
    """-E of the ratings in `table` for each of many hidden configurations.

    `user_hidden` is (configurations, users, units), `item_hidden` (configurations, items, units).
    Hidden values may be anything between 0 and 1: the energy is linear in them.
    """
    gaussian = machine.features.is_gaussian
    total = np.zeros(max(len(user_hidden), len(item_hidden)))
    for rating in table[~np.isnan(table)]:
        level, amount = (0, rating) if gaussian else (int(rating), 1.0)
        total += amount * machine.level_bias[level]
        if gaussian:
            total -= rating**2 / 2
    for side, ratings, hidden in (
        (machine.user_side, table, user_hidden),
        (machine.item_side, table.T, item_hidden),
    ):
        if side is not None:
            total = total + _side_negative_energy(machine.features, side, ratings, hidden)
    return total


def _side_negative_energy(table, side, ratings, hidden):
    alpha, beta, coupling, link_weight = side.parameters
    d = side.n_hidden
    total = np.zeros(len(hidden))
    for row, of_row in enumerate(ratings):
        h = hidden[:, row]
        total += h @ alpha[:d]
        seen = {}
        for column in np.flatnonzero(~np.isnan(of_row)):
            rating = of_row[column]
            level, amount = (0, rating) if table.is_gaussian else (int(rating), 1.0)
            seen[column] = level, amount
            if len(beta):
                total += amount * beta[column, level]
            total += amount * (h @ coupling[column, level, :d])
        for i, j, edge in edges(side.links):
            if i in seen and j in seen:
                (s, v), (t, w) = seen[i], seen[j]
                total += v * w * (link_weight[edge] @ table.pair[:, s, t])
    return total


def configurations(machine, table, users=None, items=None):
    """Every state of the hidden units: (states, users, units) and (states, items, units).

    With `users` and `items`, only those rows' units vary; the others stay off.
    """
    n_users, n_items = table.shape
    d = machine.user_side.n_hidden if machine.user_side else 0
    d_item = machine.item_side.n_hidden if machine.item_side else 0
    users = range(n_users) if users is None else users
    items = range(n_items) if items is None else items
    units = [(0, u, k) for u in users for k in range(d)]
    units += [(1, i, k) for i in items for k in range(d_item)]
    states = 2 ** len(units)
    hidden = np.zeros((states, n_users, d)), np.zeros((states, n_items, d_item))
    for number, (side, row, unit) in enumerate(units):
        hidden[side][:, row, unit] = np.arange(states) >> number & 1
    return hidden


def log_weight(machine, table, hidden=None):
    """log sum_h e^-E(h, ratings), over all hidden states or those given."""
    user_hidden, item_hidden = configurations(machine, table) if hidden is None else hidden
    return np.logaddexp.reduce(negative_energy(machine, table, user_hidden, item_hidden))


def with_rating(table, user, item, rating):
    changed = table.copy()
    changed[user, item] = rating
    return changed


def conditional(machine, table, user, item, hidden=None):
    """P(level of (user, item) | all other ratings), (n,), by summing over all hidden states."""
    hidden = configurations(machine, table) if hidden is None else hidden
    weight = [
        log_weight(machine, with_rating(table, user, item, level), hidden)
        for level in range(machine.features.n_levels)
    ]
    return np.exp(weight - np.logaddexp.reduce(weight))


def mixture(machine, table, user, item, hidden=None):
    """(weights, means) of the normals of deviation 1 that a Gaussian rating is a mixture of.

    For a fixed hidden state -E is c + a v - v^2 / 2, so that state has mean a and weight
    e^(c + a^2 / 2).
    """
    hidden = configurations(machine, table) if hidden is None else hidden
    at_zero = negative_energy(machine, with_rating(table, user, item, 0.0), *hidden)
    at_one = negative_energy(machine, with_rating(table, user, item, 1.0), *hidden)
    mean = at_one - at_zero + 0.5
    log_mass = at_zero + mean**2 / 2
    return np.exp(log_mass - np.logaddexp.reduce(log_mass)), mean


def hidden_posterior(machine, table):
    """P(h = 1 | ratings) of all users, (users, d), and of all items, (items, d')."""
    hidden = configurations(machine, table)
    log_mass = negative_energy(machine, table, *hidden)
    mass = np.exp(log_mass - np.logaddexp.reduce(log_mass))
    return tuple(np.tensordot(mass, states, 1) for states in hidden)


def mean_field_scores(machine, table, user, item, *, leave_out=True):
    """-E_Q of each level (equation 2): the energy with hidden units at their posterior means.

    For a Gaussian machine, the mean of the rating. `leave_out=False` lets the pair's own rating be
    among the evidence for the hidden units.
    """
    without = with_rating(table, user, item, np.nan) if leave_out else table
    soft = [mean[None] for mean in hidden_posterior(machine, without)]

    def at(rating):
        return negative_energy(machine, with_rating(table, user, item, rating), *soft)[0]

    if machine.features.is_gaussian:
        return np.array([at(1.0) - at(0.0) + 0.5])
    return np.array([at(float(level)) for level in range(machine.features.n_levels)])


def softmax(scores):
    return np.exp(scores - np.logaddexp.reduce(scores))


def log_pseudo_likelihood(machine, table):
    """sum over ratings of log P(rating | all other ratings), discrete.

    Only the pair's own user and item have hidden units that its level can move: the others' sums
    cancel, and are left out to save time (test_exactness checks that this is the same).
    """
    total = 0.0
    for user, item in zip(*np.nonzero(~np.isnan(table)), strict=True):
        near = np.full_like(table, np.nan)
        near[user] = table[user]
        near[:, item] = table[:, item]
        hidden = configurations(machine, table, [user], [item])
        total += np.log(conditional(machine, near, user, item, hidden)[int(table[user, item])])
    return total


def finite_differences(function, array, step=1e-5):
    """d function / d array, by central differences in place."""
    found = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + step
        above = function()
        array[index] = kept - step
        below = function()
        array[index] = kept
        found[index] = (above - below) / (2 * step)
    return found


def potential_of(proba, recalibration):
    """The potential of presence that has this P(rated), by the inverse of the curve."""
    odds = logit(proba)
    raised = KNOTS + recalibration
    inside = np.interp(odds, raised, KNOTS)
    return inside + np.minimum(odds - raised[0], 0) + np.maximum(odds - raised[-1], 0)
