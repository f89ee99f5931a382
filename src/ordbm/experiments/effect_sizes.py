"""How large the paper's effects are, here and in the paper: an ordering may hold and shrink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ordbm.experiments.claims import ClaimCheck
from ordbm.experiments.definition import BOTH, MAE, Claim, Experiment
from ordbm.experiments.result_rows import Row

_EPOCHS = (1, 2, 3, 5, 10, 20)  # after which advantages are shown


class EffectSize(NamedTuple):
    """A claim's advantage in MAE at each size: as the paper reports it, and by learner here."""

    claim: Claim
    reported: tuple[float, ...]
    measured: Mapping[str, tuple[float | None, ...]]  # None where there are no rows

    def kept(self, learner: str) -> float | None:
        """sum of advantages here / sum of those reported, over the sizes that have both."""
        pairs = [
            (here, reported)
            for here, reported in zip(self.measured[learner], self.reported, strict=True)
            if here is not None
        ]
        if not pairs:
            return None
        return sum(here for here, _ in pairs) / sum(reported for _, reported in pairs)


class AdvantageCurve(NamedTuple):
    """A claim's advantage in validation MAE after some epochs, (epochs, sizes)."""

    claim: Claim
    learner: str
    by_epoch: Mapping[int, tuple[float | None, ...]]


def effect_sizes(experiment: Experiment, checks: Sequence[ClaimCheck]) -> list[EffectSize]:
    """Every claim of the paper that its own table has figures for."""
    found = {(one.claim, one.learner, one.hidden): one.advantage.mean for one in checks}
    return [
        EffectSize(
            claim,
            tuple(
                worse - better
                for better, worse in zip(
                    experiment.reported[claim.better], experiment.reported[claim.worse], strict=True
                )
            ),
            {
                learner: tuple(found.get((claim, learner, hidden)) for hidden in experiment.hidden)
                for learner in BOTH
            },
        )
        for claim in experiment.claims
        if claim.of_the_paper and {claim.better, claim.worse} <= set(experiment.reported)
    ]


def advantages_by_epoch(experiment: Experiment, rows: Sequence[Row]) -> Iterator[AdvantageCurve]:
    """Claims about two machines of the same learner that were scored after every epoch.

    The paper says how a block is learnt from but not for how long: an advantage that goes away with
    epochs is one of speed.
    """
    curves = {
        (row["machine"], row["learner"], row["hidden"], row["seed"]): row["epochs"] for row in rows
    }
    for claim in experiment.claims:
        if not claim.of_the_paper:
            continue
        for learner in BOTH:
            by_epoch = {
                epoch: tuple(
                    _advantage(claim, learner, hidden, epoch, curves)
                    for hidden in experiment.hidden
                )
                for epoch in _EPOCHS
            }
            shown = {epoch: row for epoch, row in by_epoch.items() if any(map(_is_there, row))}
            if shown:
                yield AdvantageCurve(claim, learner, shown)


Curves = Mapping[tuple[str, str, int, int], Sequence[Mapping[str, Mapping[str, float]]]]


def _advantage(claim: Claim, learner: str, hidden: int, epoch: int, curves: Curves) -> float | None:
    """Of the seeds that both machines have, both still learning in that epoch."""
    found = []
    for (machine, its, size, seed), better in curves.items():
        if (machine, its, size) != (claim.better, learner, hidden):
            continue
        worse = curves.get((claim.worse, learner, hidden, seed), ())
        if min(len(better), len(worse)) >= epoch and "validation" in better[epoch - 1]:
            pair = worse[epoch - 1], better[epoch - 1]
            found.append(pair[0]["validation"][MAE] - pair[1]["validation"][MAE])
    return sum(found) / len(found) if found else None


def _is_there(value: float | None) -> bool:
    return value is not None
