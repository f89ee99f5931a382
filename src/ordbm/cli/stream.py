"""`ordbm evaluate --split stream`: each rating is learnt once it has been predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ordbm
from ordbm.cli.output import stdout, step_bar
from ordbm.cli.score_table import score_tables

if TYPE_CHECKING:
    from ordbm.data.ratings import Ratings
    from ordbm.evaluation import ProgressiveValidation

BATCHES = 100  # that the streamed ratings are learnt in, if not said otherwise
BASELINE_GROWTH = 0.05  # share of new ratings with which a baseline is fitted anew


def streamed(
    models: Mapping[str, Any], ratings: Ratings, share: float, batch: int | None, quiet: bool
) -> list[ProgressiveValidation]:
    """Each model on the latest share of the ratings; those that cannot grow are fitted anew."""
    if batch is None:
        batch = max(1, int(share * len(ratings)) // BATCHES)
    found = []
    for name, model in models.items():
        refit = None if hasattr(model, "partial_fit") else BASELINE_GROWTH
        with step_bar(quiet, name, BATCHES, "hundredths") as done:
            found.append(
                ordbm.progressive_validation(
                    model,
                    ratings,
                    first=1 - share,
                    batch=batch,
                    refit=refit,
                    name=name,
                    progress=_hundredths(done),
                )
            )
    return found


def _hundredths(done: Callable[[int], None]) -> Callable[[int, int], None]:
    return lambda n, whole: done(BATCHES * n // whole)


def show_stream(found: Sequence[ProgressiveValidation]) -> None:
    """One model with its parts, or several side by side, part by part."""
    out = stdout()
    if len(found) == 1:
        out.print(*repr(found[0]).split("\n"), sep="\n")
        return
    for part in ("all", *found[0].part_scores):
        scores = {
            one.model: one.scores if part == "all" else one.part_scores[part] for one in found
        }
        count = len(found[0]) if part == "all" else int(found[0].parts[part].sum())
        out.print(f"{part}: {count:,} ratings, each predicted before it was learnt")
        for table in score_tables(scores, out.width):
            out.print(table)
