"""New machines as settings describe them: their links, their sides, and where they start."""

from __future__ import annotations

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.data.level_counts import log_frequencies
from ordbm.data.ratings import Ratings
from ordbm.data.scale import level_values
from ordbm.errors import DivergedError
from ordbm.model.features import Features
from ordbm.model.learners import Initialisation
from ordbm.model.machine import Machine, Side, new_side
from ordbm.model.neighbours import Links, correlation_links, no_links
from ordbm.model.settings import Settings
from ordbm.runtime.memory import check_memory

MEMBER_BYTES = 50_000  # of the smallest machine that learns, its workspace and its objects
COLUMNS_AT_WORK = 40  # a tile of them, and the gradients and float64 draws of a few


def links_of(told: Settings, ratings: Ratings) -> tuple[Links, Links]:
    """Those between items, which are the user side's, and those between users."""
    asked = ((told.item_links, ratings.n_items), (told.user_links, ratings.n_users))
    items, users = (
        _links(told, ratings, number, n_links) if n_links else no_links(n_columns)
        for number, (n_links, n_columns) in enumerate(asked)
    )
    return items, users


def new_machines(
    told: Settings,
    start: Initialisation,
    table: Features,
    orientations: CSRPair,
    links: tuple[Links, Links],
) -> list[Machine]:
    """As many as `told` has members, each from a seed of its own; they share their links.

    An error if one is drawn with parameters that no learning may leave behind.
    """
    level_bias = (
        log_frequencies(orientations.by_user.level, table.n_levels)
        if start.shared_potential
        else np.zeros(table.n_levels)
    )
    machines = []
    for member in range(told.members or 1):
        rng = np.random.default_rng(member_seed(told.seed, member))
        sides = [_side(told, start, number, table, links[number], rng) for number in range(2)]
        machines.append(Machine(table, level_bias.astype(told.dtype), *sides))
        if machines[-1].has_diverged:
            raise DivergedError(
                "the parameters are too large before anything is learnt: lower the learner's "
                f"spread ({start.spread:g}) or hidden_spread ({start.hidden_spread:g})"
            )
    return machines


def _side(
    told: Settings,
    start: Initialisation,
    number: int,
    table: Features,
    links: Links,
    rng: np.random.Generator,
) -> Side | None:
    present = told.sides in (("user", "item")[number], "joint")
    if not (present or links.n_edges):
        return None
    return new_side(
        table,
        links,
        told.hidden_sizes[number] if present else 0,
        has_bias=present,
        spread=start.spread,
        rng=rng,
        dtype=np.dtype(told.dtype),
        hidden_spread=start.hidden_spread,
    )


def _links(told: Settings, ratings: Ratings, side: int, n_links: int) -> Links:
    rows = (ratings.by_user, ratings.by_item)
    return correlation_links(
        rows[side],
        rows[1 - side],
        level_values(ratings.scale),
        n_neighbours=n_links,
        shrinkage=told.link_shrinkage,
        min_support=told.link_support,
        budget=told.link_budget,
        threads=told.threads,
    )


def check_size(told: Settings, table: Features, n_users: int, n_items: int) -> None:
    """An error that says how large they would be, unless such machines can be held in memory.

    Couplings and their velocities are most of what there is of a machine with hidden units; where
    levels share couplings, these are also held once for each group. Of those of a column, some more
    are held while one is drawn, or learnt from.
    """
    levels, groups = table.n_levels, table.n_groups
    columns = [
        (n_columns, levels * n_hidden * np.dtype(told.dtype).itemsize)
        for side, n_columns, n_hidden in zip(
            ("user", "item"), (n_items, n_users), told.hidden_sizes, strict=True
        )
        if told.sides in (side, "joint")
    ]
    times = 2 if groups == levels else 1 + 2 * groups / levels
    kept = times * sum(n_columns * n_bytes for n_columns, n_bytes in columns)
    at_work = COLUMNS_AT_WORK * sum(n_bytes for _, n_bytes in columns)
    members = told.members or 1
    check_memory(
        members * (kept + MEMBER_BYTES) + at_work,
        f"hidden={told.hidden_sizes} and members={members}",
        "ask for fewer hidden units or members",
    )


def member_seed(seed: int, number: int) -> int:
    """The first machine has the model's own seed, so that it is what learns if it is the only one.

    The others' are drawn from it.
    """
    return seed if number == 0 else int(np.random.default_rng((seed, number)).integers(2**61))
