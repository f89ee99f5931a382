"""Answers of a model in JSON's terms."""

from __future__ import annotations

import math
import secrets
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ordbm import scores
from ordbm.estimator import OrdinalBM
from ordbm.serve.expected_json import expected
from ordbm.serve.id_text import check_kind, id_of_text, plain_id
from ordbm.serve.person import Person, known_of, person_of, rating_names, rating_on, ratings_on
from ordbm.serve.problems import Problem
from ordbm.serve.questions import (
    ExplainQuestion,
    JointQuestion,
    PersonQuestion,
    PredictQuestion,
    RecommendQuestion,
)
from ordbm.serve.rating_rows import Said

Answer = dict[str, Any]


def given_ratings_of(model: OrdinalBM, question: PersonQuestion) -> dict[Hashable, Any]:
    """The ratings in a question, on the scale."""
    told = question.ratings
    if not told:
        return {}
    known = known_of(model)
    if isinstance(told, dict):
        given = {id_of_text(item, known.items): rating for item, rating in told.items()}
    else:
        given = {one.item: one.rating for one in told}
    if len(given) < len(told):
        raise Problem(422, "an item is rated twice in ratings: say it once")
    known.given_codes(given)  # an unknown item is an error here: nothing is dropped in silence
    return ratings_on(known.scale, given)


def asked_person(model: OrdinalBM, question: PersonQuestion, said: Said) -> Person:
    """The person whom a question is about."""
    if question.user is not None:
        check_kind(question.user, known_of(model).users, "user")
    return person_of(model, question.user, said, given_ratings_of(model, question))


def predictions(model: OrdinalBM, person: Person, question: PredictQuestion) -> Answer:
    """The distribution of each item's rating, and what is read off it."""
    return {
        **about_person(model, person),
        "predictions": expected(model, person, question.items, question.mass),
    }


def about_person(model: OrdinalBM, person: Person) -> Answer:
    """Who was asked about."""
    return {
        "user": None if person.id is None else plain_id(person.id),
        "known_user": person.is_known,
        "levels": rating_names(model.scale),
    }


def learns_presence(model: OrdinalBM) -> bool:
    """Whether the model has learnt which items get rated."""
    return model._state.presence is not None


def recommended(
    model: OrdinalBM,
    person: Person,
    question: RecommendQuestion,
    hidden: Sequence[Hashable] = (),
) -> Answer:
    """A list, under an id that feedback can name; items that are `hidden` are not in it."""
    known = known_of(model)
    candidates: Any = question.candidates
    if isinstance(candidates, list):
        candidates = [item for item in candidates if item in known.items]
    if question.most_ratings is not None:
        candidates = _little_known(model, candidates, question.most_ratings)
    away = {item for item in (*question.exclude, *hidden) if item in known.items}
    lines = model.recommend(
        n=question.n,
        candidates=candidates,
        by=_criterion(model, question),
        exclude=list(away),
        diversity=question.diversity,
        **person.asked,
    )
    items: list[Answer] = [
        {
            "item": plain_id(line.item),
            "score": line.score if math.isfinite(line.score) else None,
            "mean": line.mean,
            "confidence": line.confidence,
            "p_rated": line.rated,
            "because": [
                {"item": plain_id(item), "effect": effect} for item, effect in line.because
            ],
        }
        for line in lines
    ]
    if question.distributions and lines:
        rows = expected(model, person, [line.item for line in lines], 0.8)
        items = [{**one, **more} for one, more in zip(items, rows, strict=True)]
    return {**about_person(model, person), "list_id": secrets.token_urlsafe(16), "items": items}


def _little_known(model: OrdinalBM, candidates: Any, most: int) -> list[Hashable]:
    """Those that so many people at most have rated, if any have."""
    if isinstance(candidates, str) and candidates != "all":
        raise Problem(422, f"most_ratings is not for candidates={candidates}: leave one out")
    state = model._state
    count = np.diff(state.given.by_item.start)
    codes = np.flatnonzero((count > 0) & (count <= most))
    found = [state.items.ids[code] for code in codes.tolist()]
    if candidates == "all":
        return found
    asked = set(candidates)
    return [item for item in found if item in asked]


def _criterion(model: OrdinalBM, question: RecommendQuestion) -> Any:
    by, least, strength = question.by, question.at_least, question.long_tail
    if least is not None:
        if by not in (None, "liked"):
            raise Problem(422, f"at_least is for by=liked, not for by={by}: leave one out")
        by_rating: Any = scores.AtLeast(rating_on(model.scale, least, "at_least"))
    else:
        by_rating = by
    if strength is None:
        return by_rating
    if by == "energy":
        raise Problem(422, "long_tail is not for by=energy, whose zero differs by item")
    usual = "liked" if learns_presence(model) else "mean"
    return scores.LongTail(scores.score_of(by_rating or usual), strength)


def explained(model: OrdinalBM, person: Person, question: ExplainQuestion) -> Answer:
    """A prediction in parts that add up."""
    threshold = question.threshold
    if threshold is not None:
        threshold = rating_on(model.scale, threshold, "threshold")
    found = model.explain(item=question.item, threshold=threshold, n=question.n, **person.asked)
    parts = [
        {name: value for name, value in part._asdict().items() if name != "user"}
        | {"item": None if part.item is None else plain_id(part.item)}
        for part in found.parts
    ]
    shown = found.to_dict()
    return {
        **about_person(model, person),
        "item": plain_id(question.item),
        "measure": shown["measure"],
        "threshold": shown["threshold"],
        "base": shown["base"],
        "final": shown["final"],
        "parts": parts,
        "mean": float(found.distribution.mean()[0]),
        "distribution": shown["distribution"],
    }


def joint(model: OrdinalBM, people: Sequence[Person], question: JointQuestion) -> Answer:
    """Ratings expected together, all of them in the model at once."""
    named = [one.id for one in people if one.id is not None]
    if len(set(named)) < len(named):
        raise Problem(422, "people must be different: say each once")
    names = [f"person {number}" for number in range(len(people))]
    pairs = [(number, item) for number in range(len(people)) for item in question.items]
    items = [item for _, item in pairs]
    if len(people) == 1:
        found = model.predict_joint(items=items, **people[0].asked_pairs)
    elif all(one.ratings is None for one in people):
        found = model.predict_joint([people[number].user for number, _ in pairs], items)
    else:
        # Each by a name of their own: one person may be asked about under two sets of ratings.
        ids = [
            one.user if one.user is not None else name
            for one, name in zip(people, names, strict=True)
        ]
        given = {who: dict(one.ratings or {}) for who, one in zip(ids, people, strict=True)}
        found = model.predict_joint([ids[number] for number, _ in pairs], items, ratings=given)
    values = getattr(model.scale, "values", None)
    answer: Answer = {
        "levels": rating_names(model.scale),
        "people": [None if one.id is None else plain_id(one.id) for one in people],
        "exact": found.exact,
        "pairs": [
            {"person": number, "item": plain_id(item), "mean": mean}
            for (number, item), mean in zip(pairs, found.mean().tolist(), strict=True)
        ],
        "covariance": found.covariance().tolist(),
        "most_likely": found.most_likely().tolist(),
    }
    if values is not None:
        for one, marginal in zip(answer["pairs"], found.marginals(values).tolist(), strict=True):
            one["distribution"] = marginal
        least = _least(model, question)
        answer["all_at_least"] = {
            "rating": least,
            "p": min(1.0, found.probability(np.all(found.values >= least - 1e-9, axis=1))),
        }
    return answer


def _least(model: OrdinalBM, question: JointQuestion) -> float:
    """The number that all are to reach: three quarters up the scale unless told."""
    values = model.scale.values  # type: ignore[union-attr]
    if question.at_least is None:
        return float(values[0] + 0.75 * (values[-1] - values[0]))
    named = rating_on(model.scale, question.at_least, "at_least")
    names: Mapping[Any, float] = dict(
        zip(rating_names(model.scale) or [], values.tolist(), strict=True)
    )
    return names[named]
