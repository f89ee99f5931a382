"""What the ratings tell of a machine's parameters before they are fitted."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ordbm.habits import BiasPrior, bias_prior
from ordbm.learning.learners import Learner
from ordbm.machine import Array, Machine, Orientations
from ordbm.products import crossed, multiplied
from ordbm.traits import Traits, traits_of


class Priors(NamedTuple):
    """Those that all machines of a model share."""

    user_bias: BiasPrior  # of the biases that users own
    traits: Traits  # that couplings follow


def priors_of(
    machine: Machine, ratings: Orientations, learner: Learner, threads: int = 1
) -> Priors:
    """The priors that `learner` has for such machines."""
    user_bias = bias_prior(
        ratings,
        smoothing_of(machine, learner),
        learner.bias_precision,
        learner.habit,
        learnt=learner.learn_habits and machine.item_side is not None,
    )
    users, items = (side is not None and side.n_hidden > 0 for side in machine.sides)
    traits = traits_of(ratings, learner.traits, threads, sides=(users, items))
    return Priors(user_bias, Traits(*(table.astype(machine.dtype) for table in traits)))


def smoothing_of(machine: Machine, learner: Learner) -> Array:
    """How steps on the machine's features are seen by levels, in the learner's unit."""
    smoothing = machine.features.smoothing
    if learner.unit_smoothing:
        smoothing = smoothing / np.trace(smoothing) * len(smoothing)
    return smoothing


def couplings_by_trait(coupling: Array, traits: Array, threads: int = 1) -> Array:
    """What each trait says about couplings (C, n, d) of columns with these traits, (r, n, d)."""
    by_trait = crossed(traits, _flat(coupling), threads)
    return by_trait.reshape(traits.shape[1], *coupling.shape[1:])


def expected_couplings(coupling: Array, traits: Array, threads: int = 1) -> Array:
    """The projection of couplings (C, n, d) on the columns' traits: what all tell of each."""
    by_trait = couplings_by_trait(coupling, traits, threads)
    return multiplied(traits, _flat(by_trait), threads).reshape(coupling.shape)


def _flat(coupling: Array) -> Array:
    return coupling.reshape(len(coupling), math.prod(coupling.shape[1:]))
