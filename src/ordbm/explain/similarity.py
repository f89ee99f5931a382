"""Items or users that are near each other in hidden space."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import RatingsError, SettingsError
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.fitted import FittedModel
from ordbm.inference.top_n import top_columns
from ordbm.model.machine import Side
from ordbm.runtime.arrays import Mask
from ordbm.runtime.checks import check_count
from ordbm.runtime.printable import shown


class Similar(NamedTuple):
    """An item or a user, and its similarity to the one asked about, -1 to 1."""

    id: Any
    similarity: float


def hidden_space(conditioned: Iterable[ConditionedMachine], of: str) -> NDArray[np.float64]:
    """A row per "item" or "user": where it is in the hidden spaces of all machines."""
    return np.concatenate([_hidden_space(one, of) for one in conditioned], axis=1)


def _hidden_space(conditioned: ConditionedMachine, of: str) -> NDArray[np.float64]:
    """Where each is in one machine's.

    P(h = 1 | its ratings) if it owns hidden units, which is the better of the two; otherwise its
    coupling to the hidden units of the other side, less what is the same for all levels.
    """
    machine = conditioned.machine
    own, other = machine.sides[::-1] if of == "item" else machine.sides
    if own is not None and own.n_hidden:
        factors = conditioned.item_factors() if of == "item" else conditioned.user_factors()
        return factors.astype(np.float64)
    if other is not None and other.n_hidden:
        return _couplings(other)
    raise SettingsError("a machine without hidden units has no hidden space: use hidden=10 or more")


def nearest(state: FittedModel, of: str, wanted: Any, n: int) -> list[Similar]:
    """The n with ratings whose place in hidden space, centred, has the largest cosine."""
    check_count("n", n)
    ids, rated = (
        (state.items, state.rated_items) if of == "item" else (state.users, state.rated_users)
    )
    code = int(state.codes([wanted], ids, rated)[0])
    if code < 0:
        raise RatingsError(f"{of} {shown(wanted)} has no ratings in this model: nothing is near it")
    space = state.kept(f"{of} space", lambda: centred_space(state, of, rated))
    cosine = space @ space[code]
    cosine[~rated] = -np.inf
    cosine[code] = -np.inf
    best = top_columns(cosine[None], min(n, int(rated.sum()) - 1))[0]
    return [Similar(ids[one], min(1.0, float(cosine[one]))) for one in best.tolist()]


def centred_space(state: FittedModel, of: str, rated: Mask) -> NDArray[np.float32]:
    """Directions from the middle of hidden space, of length one; zero at the middle itself."""
    space = hidden_space(state.conditioned, of)
    space = space - space[rated].mean(axis=0)
    length = np.linalg.norm(space, axis=1, keepdims=True)
    return (space / np.maximum(length, 1e-300)).astype(np.float32)


def _couplings(side: Side) -> NDArray[np.float64]:
    coupling = side.parameters.coupling[:, :, : side.n_hidden].astype(np.float64)
    if coupling.shape[1] > 1:
        coupling -= coupling.mean(axis=1, keepdims=True)
    return coupling.reshape(len(coupling), -1)
