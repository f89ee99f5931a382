"""ordbm, with the settings given and everything else as `OrdinalBM()` has it."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from protocol import Predict, RatingsPart, learning_begins, run

import ordbm

WARM_UP = 20_000  # ratings


def fit(ratings: RatingsPart, **settings: Any) -> Predict:
    """`OrdinalBM(**settings)`, with a `learner` as the settings of `PseudoLikelihood`."""
    model = model_of(settings)
    train = ordbm.Ratings(ratings.user, ratings.item, ratings.rating, scale=ratings.values)
    learning_begins()
    return model.fit(train).predict_proba


def model_of(settings: dict[str, Any]) -> ordbm.OrdinalBM:
    """The model as the benchmark's list has it."""
    told = dict(settings)
    if "learner" in told:
        told["learner"] = ordbm.PseudoLikelihood(**told["learner"])
    return ordbm.OrdinalBM(**told)


def warm_up(ratings: RatingsPart, **settings: Any) -> Predict:
    """A small fit and prediction, so that compiling is not timed."""
    some = ratings.select(np.arange(min(WARM_UP, len(ratings.user))))
    predict = fit(some, **settings)
    predict(some.user, some.item)
    return predict


def about(**settings: Any) -> dict[str, Any]:
    """All settings in force, and a checksum of the code: a version does not tell changes apart."""
    folder = Path(ordbm.__file__).parent
    files = sorted(folder.rglob("*.py"))
    text = b"".join(str(file.relative_to(folder)).encode() + file.read_bytes() for file in files)
    model = model_of(settings)
    return {
        "code_sha256": hashlib.sha256(text).hexdigest(),
        "in_force": {
            **dataclasses.asdict(model.settings),
            "learner": dataclasses.asdict(model.learner),
        },
    }


if __name__ == "__main__":
    run(fit, ["ordbm", "numba"], warm_up, about)
