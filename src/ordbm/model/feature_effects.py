"""What features of users and items say of those whom nobody has rated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.feature_columns import FeatureEncoder
from ordbm.data.ids import IdMap
from ordbm.model.machine import Machine, Side
from ordbm.runtime.arrays import Array, Codes, Mask, Numbers

KINDS = ("user", "item")  # whose features there are, by number


class FeatureEffects(NamedTuple):
    """One machine's, of the features x (q,) of items, or of users; the first feature is always 1.

    One without ratings has the bias b + x B, the couplings x W and the hidden inputs alpha + x A,
    where b and alpha are what the machine has for the unknown.
    """

    bias: Array  # (q, n) B
    coupling: Array  # (q, n, d) W, to the hidden units of the other kind
    hidden: Array  # (q, D) A, of their own hidden units

    @classmethod
    def zeros(
        cls, n_features: int, n_levels: int, d: int, own: int, dtype: Any = np.float32
    ) -> FeatureEffects:
        """Of so many features: on levels, on d units of the other kind and on `own` ones."""
        shapes = (n_features, n_levels), (n_features, n_levels, d), (n_features, own)
        return cls(*(np.zeros(shape, dtype) for shape in shapes))

    def of(self, design: Array) -> FeatureEffects:
        """Those of rows of features (R, q), added up; a row's are the same whatever is beside."""
        return FeatureEffects(
            *(np.einsum("rq,q...->r...", design, part, optimize=False) for part in self)
        )


class KnownFeatures(NamedTuple):
    """Features of all users, or of all items, and what the machines have learnt of them."""

    encoder: FeatureEncoder
    design: Array  # (ids, q) float32; a row of zeros if nothing is known
    effects: tuple[FeatureEffects, ...]  # of each machine
    trust: Numbers  # (columns, 3) the prior deviation of effects on biases, couplings, hidden units
    unrated: Mask  # (ids,) who had no ratings when that was learnt: what they own follows from it
    centre: tuple[Array, ...]  # (q, n) of each machine, of the biases of others

    @property
    def described(self) -> Mask:
        """Of whom something is known, (ids,)."""
        found: Mask = self.design[:, 0] > 0
        return found

    @property
    def expected(self) -> Array:
        """The features of those whose parameters are expected to follow them, zero for others."""
        return self.design * self.unrated[:, None]

    def centre_of(self, member: int, ids: Codes) -> Array:
        """What is added to where biases of those with ratings are expected, (len(ids), n)."""
        return np.einsum("rq,qn->rn", self.design[ids], self.centre[member], optimize=False)

    def for_ids(self, n_ids: int) -> KnownFeatures:
        """The same for so many ids, of the new of whom nothing is known."""
        more = n_ids - len(self.design)
        return self._replace(
            design=np.pad(self.design, ((0, more), (0, 0))),
            unrated=np.pad(self.unrated, (0, more), constant_values=True),
        )


Described = tuple[KnownFeatures | None, KnownFeatures | None]  # users, items


class FeaturesTold(NamedTuple):
    """What is told of users, or of items: of those of the ratings, and of others without any."""

    encoder: FeatureEncoder
    design: Array  # (ids, q); a row of zeros where nothing is
    others: IdMap
    of_others: Array  # (others, q)


Told = tuple[FeaturesTold | None, FeaturesTold | None]  # of users, of items


def with_row_inputs(machines: Sequence[Machine], told: Told | Described) -> list[Machine]:
    """The machines with room for what features say to the hidden units of rows."""

    def wide(side: Side | None, about: FeaturesTold | KnownFeatures | None) -> Side | None:
        if side is None or about is None:
            return side
        own = side.parameters.hidden_bias
        return replace(side, row_input=np.zeros((len(about.design), own.size), own.dtype))

    return [
        replace(
            machine,
            user_side=wide(machine.user_side, told[0]),
            item_side=wide(machine.item_side, told[1]),
        )
        for machine in machines
    ]


def described_machines(machines: Sequence[Machine], described: Described) -> list[Machine]:
    """The machines with what features say to the hidden units of those without ratings."""
    machines = with_row_inputs(machines, described)
    for kind, about in enumerate(described):
        if about is not None:
            for machine, effects in zip(machines, about.effects, strict=True):
                fill_row_inputs(machine, kind, effects, about.expected)
    return machines


def fill_row_inputs(machine: Machine, kind: int, effects: FeatureEffects, design: Array) -> None:
    """x A of the users (kind 0) or items (1) whose features, (ids, q), are not zero."""
    side = machine.sides[kind]
    if side is not None and side.row_input is not None:
        said = np.einsum("rq,qk->rk", design, effects.hidden, optimize=False)
        side.row_input[:, : side.n_hidden] = said


def fill_columns(machine: Machine, kind: int, effects: FeatureEffects, design: Array) -> None:
    """Biases and couplings of the columns whose features, (ids, q), are not zero."""
    side = machine.sides[1 - kind]  # items own the user side's columns
    described = np.flatnonzero(design[:, 0])
    if side is None or not len(described):
        return
    said = effects.of(design[described])
    side.parameters.coupling[described] = 0
    side.parameters.coupling[described, :, : side.n_hidden] = said.coupling
    if side.parameters.rating_bias.size:
        side.parameters.rating_bias[described] = side.unknown_bias + said.bias
