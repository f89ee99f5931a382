"""Everything a fitted model can be asked, in one value that two models can be compared by."""

import numpy as np

from ordbm.errors import OrdbmError

METHODS = ("exact", "mean_field")


def exactly(value):
    """A value with every bit of its numbers visible to `==`."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {key: exactly(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__name__, [exactly(part) for part in value]
    return type(value).__name__, value


def predictions(model, users, items):
    """Predictions of all pairs, and the lists of all users."""
    pairs = [user for user in users for _ in items], [item for _ in users for item in items]
    told = {}
    for method in METHODS:
        found = model.distribution(*pairs, method=method)
        told[method] = [
            found.mean(), found.median(), found.mode(), found.deviation(), found.confidence(),
        ]  # fmt: skip
        if not model.scale.is_continuous:
            told[method].append(model.predict_proba(*pairs, method=method))
    told["factors"] = model.user_factors(), model.item_factors(), model.free_energy()
    for by in ("energy", "mean"):
        told[by] = [model.recommend(user, by=by) for user in users], model.recommend_lists(by=by)
    return exactly(told)


def answer(ask):
    """What a question gives; the words of its error where it has no answer."""
    try:
        return exactly(ask())
    except OrdbmError as error:
        return str(error)


def answers(model, users, items, rating):
    """Predictions, and what costs more: newcomers, joint distributions, explanations."""
    user, item, other = users[0], items[0], items[-1]
    given = {item: rating}

    def joint():
        found = model.predict_joint(user, list(items[:2]), limit=300, draws=20, seed=1)
        return found.values, found.weight

    questions = [
        lambda: model.recommend(ratings=given, by="mean"),
        lambda: model.recommend(user, candidates=list(items[1:])),
        lambda: model.recommend(user, candidates="similar_users"),
        lambda: model.predict(["nobody", user], [item, "nothing"]),
        lambda: model.log_probability(user, item, rating),
        joint,
        lambda: str(model.explain(user, other)),
        lambda: str(model.explain(item=other, ratings=given)),
        lambda: model.similar_items(item),
        lambda: model.similar_users(user),
        lambda: repr(model),
    ]
    return predictions(model, users, items), [answer(ask) for ask in questions]
