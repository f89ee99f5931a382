"""ordbm, with the settings given and everything else as `OrdinalBM()` has it."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from protocol import Predict, RatingsPart, run

import ordbm

WARM_UP = 20_000  # ratings


def fit(ratings: RatingsPart, **settings: Any) -> Predict:
    """`OrdinalBM(**settings)`."""
    train = ordbm.Ratings(ratings.user, ratings.item, ratings.rating, scale=ratings.values)
    return ordbm.OrdinalBM(**settings).fit(train).predict_proba


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
    model = ordbm.OrdinalBM(**settings)
    return {
        "code_sha256": hashlib.sha256(text).hexdigest(),
        "in_force": {
            **dataclasses.asdict(model.settings),
            "learner": dataclasses.asdict(model.learner),
        },
    }


if __name__ == "__main__":
    run(fit, ["ordbm", "numba"], warm_up, about)
