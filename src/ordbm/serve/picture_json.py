"""What the page draws of a model: the map of items, somebody's place on it, an item's raters."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from ordbm.errors import SettingsError
from ordbm.estimator import OrdinalBM
from ordbm.runtime.arrays import Array, Codes
from ordbm.serve.id_text import plain_id
from ordbm.serve.person import Person, rating_names
from ordbm.serve.problems import Problem

MOST_ON_MAP = 1000
PULL = 2.0  # standard deviations of change in the expected rating weigh so much
_SMALL_CHANGE = 0.02  # of the scale: what counts as a standard deviation at least
_BINS = 10  # of continuous ratings


class ItemMap(NamedTuple):
    """The most rated items along the two principal axes of `item_factors`, from -1 to 1."""

    ids: list[Hashable]
    place: Array  # (n, 2)
    n_ratings: list[int]
    nobody: Array  # (n,) what is expected of somebody who has rated nothing


def item_map(model: OrdinalBM, n: int) -> ItemMap:
    """The map of the n most rated items; made once for a model."""
    return model._state.kept(f"map of {n}", lambda: _item_map(model, n))


def _item_map(model: OrdinalBM, n: int) -> ItemMap:
    state = model._state
    count = np.diff(state.given.by_item.start)
    codes = np.argsort(-count, kind="stable")[:n]
    codes = codes[count[codes] > 0]
    ids = [state.items.ids[code] for code in codes.tolist()]
    try:
        place = model.item_factors(ids, dimensions=2).astype(np.float64)
    except SettingsError:
        raise Problem(409, "items of this model have no hidden space: it has no map") from None
    place -= place.mean(axis=0)
    place /= np.abs(place).max() or 1.0
    nobody = model.distribution(items=ids, ratings={}).mean()
    return ItemMap(ids, place, count[codes].tolist(), nobody)


def place_of(model: OrdinalBM, person: Person, n: int) -> dict[str, Any]:
    """Where somebody is on the map: Σ w x / Σ w, w = exp(PULL d / σ).

    d is by how much more is expected of an item than for somebody who has rated nothing, σ the
    deviation of d over the items; so nobody is in the middle of all items, and each rating draws
    towards those that it speaks for.
    """
    found = item_map(model, n)
    mean = model.distribution(items=found.ids, **person.asked_pairs).mean()
    change = mean - found.nobody
    low, high = rating_range(model)
    deviation = max(float(change.std()), _SMALL_CHANGE * (high - low), 1e-9)
    force = PULL * (change - change.mean()) / deviation
    weight = np.exp(force - force.max())
    x, y = (weight @ found.place / weight.sum()).tolist()
    return {"x": x, "y": y, "expected": mean.tolist()}


def counts_by_level(model: OrdinalBM, item: Hashable) -> dict[str, Any]:
    """How often an item was given each level; on a continuous scale, each of ten ranges."""
    state = model._state
    code = int(model._item_codes([item])[0])
    row = state.given.by_item.rows_of(np.array([code], np.int32))
    names = rating_names(model.scale)
    if names is not None:
        counts = np.bincount(row.level, minlength=len(names))
        return {"levels": names, "edges": None, "counts": counts.tolist()}
    low, high = rating_range(model)
    counts, edges = np.histogram(row.value, _BINS, (low, high))
    return {"levels": None, "edges": edges.tolist(), "counts": counts.tolist()}


def rating_range(model: OrdinalBM) -> tuple[float, float]:
    """The least and the largest rating: of the scale, or of those learnt if it is continuous."""
    values = getattr(model.scale, "values", None)
    if values is None:
        values = model._state.given.by_user.value
    return float(np.min(values)), float(np.max(values))


def popularity_deciles(model: OrdinalBM) -> list[int]:
    """c_0, …, c_10: items that at most c_k people rated have about k tenths of all ratings."""
    count = np.sort(np.diff(model._state.given.by_item.start))
    count = count[count > 0]
    below = np.cumsum(count)
    place = np.searchsorted(below, np.linspace(0, below[-1], 11))
    found: list[int] = count[np.minimum(place, len(count) - 1)].tolist()
    return found


def links_of_item(model: OrdinalBM, item: Hashable, n: int) -> dict[str, list[dict[str, Any]]]:
    """By kind, the n links of an item with the largest weights of either sign.

    `rated_alike` are the links of the rating machines, by the correlation of the two items'
    ratings; `rated_together` are those of presence, by how much rating one speaks for rating the
    other.
    """
    code = int(model._item_codes([item])[0])
    kinds = {"rated_alike": _machine_links(model, code), "rated_together": _presence(model, code)}
    return {kind: _listed(model, *found, n) for kind, found in kinds.items()}


def _machine_links(model: OrdinalBM, code: int) -> tuple[Codes, Array]:
    side = model.machines[0].user_side
    if side is None:
        return np.zeros(0, np.int32), np.zeros(0, np.float32)
    links = side.links
    ends = slice(links.start[code], links.start[code + 1])
    return links.neighbour[ends], links.similarity[links.edge[ends]]


def _presence(model: OrdinalBM, code: int) -> tuple[Codes, Array]:
    conditioned = model._state.presence
    nothing = np.zeros(0, np.int32), np.zeros(0, np.float32)
    if conditioned is None:
        return nothing
    presence = getattr(conditioned, "presence", conditioned)
    place = int(np.searchsorted(presence.linked, code))
    if place == len(presence.linked) or presence.linked[place] != code:
        return nothing
    return presence.linked, presence.weight[place]


def _listed(model: OrdinalBM, codes: Codes, weight: Array, n: int) -> list[dict[str, Any]]:
    best = np.argsort(-np.abs(weight), kind="stable")[:n]
    ids = model._state.items.ids
    return [
        {"item": plain_id(ids[int(codes[one])]), "weight": float(weight[one])}
        for one in best
        if weight[one] != 0
    ]
