"""What files have of priors: a model's for fold-in users, and all that a training prepared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ordbm.model.machine import LARGEST_PARAMETER, Machine
from ordbm.persistence.container import Arrays, Header, taken
from ordbm.persistence.packed_tables import PackedTables
from ordbm.persistence.stored_links import link_arrays, unpacked_links
from ordbm.persistence.stored_presence import packed_presence, presence_arrays, unpacked_presence
from ordbm.persistence.stored_structure import packed_structure, unpacked_structure
from ordbm.priors.co_occurrence import CoOccurrence
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.priors.resolved import ResolvedPriors
from ordbm.priors.response_styles import BiasPrior
from ordbm.runtime.arrays import Array
from ordbm.training.state import Preparation

LARGEST_PRECISION = 1e20


def packed_fold_in(priors: FoldInPriors) -> Header:
    """Their numbers."""
    return {
        "bias_precision": float(priors.bias.precision),
        "precision": float(priors.precision),
        "unit": float(priors.unit),
    }


def fold_in_arrays(priors: FoldInPriors) -> Arrays:
    """Their tables by name."""
    return {
        "fold_in.bias_smoothing": priors.bias.smoothing,
        "fold_in.read_by_item": priors.read_by_row,
        **{
            f"fold_in.by_direction{member}": table
            for member, table in enumerate(priors.by_direction)
        },
    }


def unpacked_fold_in(
    plain: Any, arrays: Arrays, machines: Sequence[Machine], n_items: int
) -> FoldInPriors:
    """The priors out of `arrays`, their shapes as the machines have them."""
    one = machines[0]
    n = len(one.level_bias)
    n_hidden = 0 if one.item_side is None else one.item_side.n_hidden
    read_by_item = taken(arrays, "fold_in.read_by_item", one.dtype, n_items, None)
    r = read_by_item.shape[1]
    smoothing = taken(arrays, "fold_in.bias_smoothing", np.float64, n, n)
    by_direction = [
        taken(arrays, f"fold_in.by_direction{member}", np.float64, r, n, n_hidden)
        for member in range(len(machines))
    ]
    _check_range(read_by_item, smoothing, *by_direction)
    unit = _precision(plain["unit"])
    if not unit:
        raise ValueError("features have a unit")
    bias = BiasPrior(smoothing, _precision(plain["bias_precision"]))
    return FoldInPriors(bias, _precision(plain["precision"]), unit, read_by_item, by_direction)


def packed_preparation(prepared: Preparation) -> Header:
    """Its numbers."""
    return {
        "presence": packed_presence(prepared.presence),
        "bias_precision": float(prepared.priors.user_bias.precision),
        "structure": packed_structure(prepared.structure),
    }


def preparation_arrays(prepared: Preparation) -> Arrays:
    """Its links, presence and priors by name."""
    links = {
        f"{name}_side.{key}": array
        for name, own in zip(("user", "item"), prepared.links, strict=True)
        for key, array in link_arrays(own).items()
    }
    priors = prepared.priors
    tables = {f"priors.{name}": array for name, array in priors.co_occurrence._asdict().items()}
    bias = {"priors.bias_smoothing": priors.user_bias.smoothing}
    return links | presence_arrays(prepared.presence) | tables | bias


def unpacked_preparation(
    plain: Any, arrays: Arrays, n_users: int, n_items: int, dtype: Any
) -> Preparation | None:
    """The preparation out of `arrays`; None if there is none."""
    if plain is None:
        return None
    items, users = (unpacked_links(arrays, *one) for one in (("user", n_items), ("item", n_users)))
    if items is None or users is None:
        raise ValueError("there are no links")
    tables = PackedTables({}, arrays)
    presence = unpacked_presence(plain["presence"], arrays, n_users, n_items, tables)
    tables.restore()
    of_user = taken(arrays, "priors.of_user", dtype, n_users, None)
    of_item = taken(arrays, "priors.of_item", dtype, n_items, None)
    read_by_item = taken(arrays, "priors.read_by_item", dtype, n_items, of_user.shape[1])
    smoothing = taken(arrays, "priors.bias_smoothing", np.float64, None, None)
    _check_range(of_user, of_item, read_by_item, smoothing)
    bias = BiasPrior(smoothing, _precision(plain["bias_precision"]))
    priors = ResolvedPriors(bias, CoOccurrence(of_user, of_item, read_by_item))
    structure = unpacked_structure(plain.get("structure"), (items.n_edges, users.n_edges))
    return Preparation((items, users), presence, priors, structure)


def _precision(plain: Any) -> float:
    if type(plain) is not float or not 0 <= plain <= LARGEST_PRECISION:
        raise ValueError("a precision is out of range")
    return plain


def _check_range(*tables: Array) -> None:
    for table in tables:
        if not max(table.max(initial=0), -table.min(initial=0)) <= LARGEST_PARAMETER:
            raise ValueError("priors are out of range")
