"""The size of an epoch's steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.kernels.structures import Step
from ordbm.model.declaration import LARGEST_SETTING
from ordbm.model.learners import Learner, Optimiser


def _rate(optimiser: Optimiser, epoch: int) -> float:
    """rate decay^epoch, as far as numbers go."""
    try:
        return min(optimiser.rate * optimiser.decay**epoch, LARGEST_SETTING)
    except OverflowError:
        return LARGEST_SETTING


def step_of(learner: Learner, epoch: int, curvature: float, dtype: Any) -> Step:
    """The step of an epoch, counted from 0; `curvature` multiplies all curvatures."""
    number = np.dtype(dtype).type
    optimiser, priors = learner.optimiser, learner.priors
    return Step(
        rate=number(_rate(optimiser, epoch)),
        momentum=number(optimiser.momentum),
        per_row=number(optimiser.per_row),
        coupling_precision=number(priors.coupling_precision),
        coupling_curvature=number(optimiser.coupling_curvature * curvature),
        bias_precision=number(priors.bias_precision),
        bias_curvature=number(optimiser.bias_curvature * curvature),
        hidden_precision=number(priors.hidden_precision),
        hidden_curvature=number(optimiser.hidden_curvature * curvature),
        link_precision=number(priors.link_precision),
        link_curvature=number(optimiser.link_curvature * curvature),
    )
