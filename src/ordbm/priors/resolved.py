"""What the ratings tell of a machine's parameters before they are fitted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.model.learners import Priors
from ordbm.model.machine import Machine
from ordbm.priors.co_occurrence import CoOccurrence, co_occurrence_embedding
from ordbm.priors.products import cross_product, table_product
from ordbm.priors.response_styles import BiasPrior, bias_prior
from ordbm.runtime.arrays import Array


class ResolvedPriors(NamedTuple):
    """Those that all machines of a model share."""

    user_bias: BiasPrior  # of the biases that users own
    co_occurrence: CoOccurrence  # that couplings follow


def priors_of(
    machine: Machine, ratings: CSRPair, priors: Priors, threads: int = 1
) -> ResolvedPriors:
    """The priors of such machines that learn from these ratings."""
    user_bias = bias_prior(
        ratings,
        smoothing_of(machine.features.single, priors),
        priors,
        owned=machine.item_side is not None,
    )
    users, items = (side is not None and side.n_hidden > 0 for side in machine.sides)
    co_occurrence = co_occurrence_embedding(
        ratings, priors.co_occurrence, priors.embedding, threads, sides=(users, items)
    )
    return ResolvedPriors(
        user_bias, CoOccurrence(*(table.astype(machine.dtype) for table in co_occurrence))
    )


def smoothing_of(table: Array, priors: Priors) -> Array:
    """F F', by which steps on features F (n, A) are seen by levels, in the unit of the priors."""
    smoothing: Array = table @ table.T
    if priors.unit_smoothing:
        smoothing = smoothing / np.trace(smoothing) * len(smoothing)
    return smoothing


def feature_unit(table: Array, priors: Priors) -> float:
    """What the table F is multiplied by in that unit."""
    smoothing = table @ table.T
    return float(np.sqrt(len(smoothing) / np.trace(smoothing))) if priors.unit_smoothing else 1.0


def couplings_by_direction(coupling: Array, co_occurrence: Array, threads: int = 1) -> Array:
    """What each trait says about couplings (C, n, d) of columns with these traits, (r, n, d)."""
    by_direction = cross_product(co_occurrence, _flat(coupling), threads)
    return by_direction.reshape(co_occurrence.shape[1], *coupling.shape[1:])


def expected_couplings(
    coupling: Array,
    co_occurrence: Array,
    threads: int = 1,
    add: Callable[[Array], object] | None = None,
) -> Array:
    """The projection of couplings (C, n, d) on the columns' traits: what all tell of each.

    Where other workers have other columns, `add` adds up what each trait says of them all.
    """
    by_direction = couplings_by_direction(coupling, co_occurrence, threads)
    if add is not None:
        add(by_direction)
    return table_product(co_occurrence, _flat(by_direction), threads).reshape(coupling.shape)


def _flat(coupling: Array) -> Array:
    return coupling.reshape(len(coupling), math.prod(coupling.shape[1:]))
