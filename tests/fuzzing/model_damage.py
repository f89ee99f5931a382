"""Small model files, accidents to their bytes, and forgeries of what they hold."""

import copy

import numpy as np

import ordbm
from ordbm import OrdinalBM, Ratings

TINY = {
    "hidden": 2,
    "members": 2,
    "link_support": 2,
    "link_shrinkage": 0.0,
    "epochs": 1,
    "threads": 1,
}


def models():
    rng = np.random.default_rng(0)
    users, items = rng.integers(6, size=30), rng.integers(5, size=30)
    values = rng.integers(1, 5, size=30)
    names = [f"n{u}" for u in users]
    odd = [(7, int(i)) if i % 2 else float(i) for i in items]
    labels = [["no", "so", "yes", "oh"][value - 1] for value in values]
    yield OrdinalBM(item_links=2, user_links=2, **TINY).fit(Ratings(users, items, values))
    yield OrdinalBM("categorical", "item", item_links=2, **TINY).fit(
        Ratings(names, odd, labels, ["no", "so", "yes", "oh"])
    )
    learner = ordbm.PseudoLikelihood(rate=0.25)
    yield OrdinalBM("gaussian", user_links=2, learner=learner, **TINY).fit(
        Ratings(names, items, values)
    )
    yield OrdinalBM(sides="user", item_links=2, dtype="float64", **TINY).fit(
        Ratings(names, odd, values + rng.random(30), "continuous")
    )


# -- bytes ----------------------------------------------------------------------------------------


def flipped(whole, rng, _):
    for _ in range(rng.randint(1, 4)):
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    return whole


def overwritten(whole, rng, _):
    place = rng.randrange(len(whole))
    size = rng.choice([1, 2, 4, 8, 64])
    whole[place : place + size] = rng.choice([b"\0", b"\xff", b"9", b"{", b'"']) * size
    return whole


def truncated(whole, rng, _):
    return whole[: rng.randrange(len(whole))]


def shortened(whole, rng, _):
    place = rng.randrange(len(whole))
    del whole[place : place + rng.randint(1, 40)]
    return whole


def lengthened(whole, rng, _):
    place = rng.randrange(len(whole) + 1)
    whole[place:place] = rng.randbytes(rng.randint(1, 40))
    return whole


def spliced(whole, rng, other):
    place, end = rng.randrange(len(whole)), rng.randrange(len(other))
    return whole[:place] + other[end:]


def moved(whole, rng, other):
    size = rng.randint(1, 200)
    source, place = rng.randrange(len(other)), rng.randrange(len(whole))
    whole[place : place + size] = other[source : source + size]
    return whole


def with_another_head(whole, rng, _):
    size = int.from_bytes(whole[:8], "little")
    near = [size - 8, size - 1, size + 1, size + 8]
    wrong = rng.choice([0, 1, *near, 2**31, 2**63, rng.getrandbits(64)])
    whole[:8] = wrong.to_bytes(8, "little")
    return whole


DAMAGE = [
    flipped, overwritten, truncated, shortened, lengthened, spliced, moved, with_another_head,
]  # fmt: skip


# -- content, with a right checksum ---------------------------------------------------------------

EXTREMES = [0, 1, -1, 2, 5, 255, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 0.5, 1e30, -1e30]
NUMBERS = [*EXTREMES, float("nan"), float("inf")]
VALUES = [
    *EXTREMES, None, True, "", "ordinal", "gaussian", "\0", [], {}, [[]], [1, 2], {"int": "0x5"},
    {"tuple": [1]}, {"float": "nan"}, {"float": "inf"}, {"datetime64": [1, "<M8[ns]"]},
    {"learner": "PseudoLikelihood", "settings": {}}, {"learner": "eval", "settings": {}},
    2**64, 10**400, -0.0, 1e308, 5e-324, "x" * 1000,
]  # fmt: skip


def element_changed(arrays, name, rng):
    flat = arrays[name].reshape(-1)
    if flat.size:
        wanted = np.float64(rng.choice(NUMBERS))
        if flat.dtype.kind in "iu":
            limits = np.iinfo(flat.dtype)
            wanted = min(max(int(np.nan_to_num(wanted)), limits.min), limits.max)
        with np.errstate(over="ignore"):
            flat[rng.randrange(flat.size)] = wanted


def elements_swapped(arrays, name, rng):
    flat = arrays[name].reshape(-1)
    if flat.size:
        one, other = rng.randrange(flat.size), rng.randrange(flat.size)
        flat[[one, other]] = flat[[other, one]]


def retyped(arrays, name, rng):
    array = arrays[name]
    with np.errstate(all="ignore"):
        arrays[name] = array.astype(rng.choice(["f2", "f4", "f8", "i1", "i4", "i8", "u8", "?"]))


def reshaped(arrays, name, rng):
    array = arrays[name]
    shapes = [array.reshape(-1), array[None], array[..., None], array.T]
    arrays[name] = rng.choice([*shapes, array[:0], array[:-1], array[1:]]).copy()


def repeated(arrays, name, rng):
    arrays[name] = np.repeat(arrays[name], rng.randint(2, 3), axis=rng.randrange(arrays[name].ndim))


def removed(arrays, name, _):
    del arrays[name]


def renamed(arrays, name, rng):
    arrays[rng.choice(sorted(arrays))] = arrays.pop(name)


def added(arrays, name, _):
    arrays[name + "x"] = arrays[name]


ARRAY_DAMAGE = [
    element_changed, element_changed, element_changed, elements_swapped, retyped, reshaped,
    repeated, removed, renamed, added,
]  # fmt: skip


def header_damaged(header, rng):
    """One value somewhere in the header is replaced, left out or doubled."""
    places = list(walk(header))
    holder, key = rng.choice(places)
    action = rng.random()
    if action < 0.7:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    elif action < 0.85:
        del holder[key]
    elif isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    else:
        holder[rng.choice(["x", "levels", "edges", "mean", "labels"])] = holder[key]


def walk(value):
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from walk(value[key])


def check_sound(model):
    """No answer raises, and all numbers are finite."""
    users, items = model._fitted.users.ids, model._fitted.items.ids
    pairs = [user for user in users for _ in items], [item for _ in users for item in items]
    for method in ("exact", "mean_field"):
        found = model.distribution(*pairs, method=method)
        assert np.isfinite(found.mean()).all()
        assert np.isfinite(found.deviation()).all()
        if not model.scale.is_continuous:
            np.testing.assert_allclose(found.proba.sum(axis=1), 1, rtol=1e-5)
    assert np.isfinite(model.user_factors()).all()
    assert np.isfinite(model.item_factors()).all()
    for by in ("energy", "mean"):
        listed = model.recommend_lists(by=by)
        assert np.isfinite([score for lines in listed.values() for _, score in lines]).all()
    assert all(np.isfinite(line.score) for line in model.recommend(ratings={}))
    model.recommend(users[0], candidates="similar_users")
