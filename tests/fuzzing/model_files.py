"""Model files: damaged bytes, and forgeries with right checksums."""

import copy
import random
import tempfile
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

import ordbm
from answers import exactly
from fuzzing.kinds import READ, Input, Kind
from fuzzing.model_damage import ARRAY_DAMAGE, DAMAGE, check_sound, header_damaged, models
from ordbm.persistence.container import read_container, write_container
from ordbm.runtime import atomic_files
from plain_files import save_plain


def without_waiting_for_disks() -> None:
    atomic_files.os.fsync = lambda _: None


@cache
def sound():
    """Name, bytes, header, arrays and answer of each small model."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model, save in product(models(), (ordbm.OrdinalBM.save, save_plain)):
            path = Path(folder, "model.ordbm")
            save(model, path)
            content = path.read_bytes()
            found.append((content, *read_container(path, "model"), asked(ordbm.load(path))))
    return found


def asked(model):
    users, items = model._fitted.users.ids, model._fitted.items.ids
    found = model.distribution([*users], [items[0]] * len(users))
    return exactly([found.mean(), found.deviation()])


def damaged_file(state: random.Random) -> Input:
    content, other = (state.choice(sound())[0] for _ in range(2))
    return Input("damaged.ordbm", bytes(state.choice(DAMAGE)(bytearray(content), state, other)))


def judge_damaged(given: Input, folder) -> str:
    """Refused, or the very answers of a sound model."""
    path = folder / given.name
    path.write_bytes(given.content)
    model = ordbm.load(path)
    assert asked(model) in [answer for *_, answer in sound()]
    return READ


def forged_file(state: random.Random) -> Input:
    _, header, arrays, _ = state.choice(sound())
    header = copy.deepcopy(header)
    arrays = {name: array.copy() for name, array in arrays.items()}
    for _ in range(state.choice([1, 1, 2, 4])):
        if state.random() < 0.5:
            header_damaged(header, state)
        else:
            state.choice(ARRAY_DAMAGE)(arrays, state.choice(sorted(arrays)), state)
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        path = Path(folder, "forged.ordbm")
        write_container(path, "model", header, arrays)
        content = path.read_bytes()
    return Input("forged.ordbm", content, state.random() < 0.05)


def scratch() -> str | None:
    """A folder in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def judge_forged(given: Input, folder) -> str:
    """Refused, or a sound model: all answers now and then, a few of them always."""
    path = folder / given.name
    path.write_bytes(given.content)
    model = ordbm.load(path)
    if given.told:
        check_sound(model)
    users, items = model._fitted.users.ids, model._fitted.items.ids
    found = model.distribution([*users], [items[-1]] * len(users))
    assert np.isfinite(found.mean()).all()
    assert np.isfinite(found.deviation()).all()
    if not model.scale.is_continuous:
        np.testing.assert_allclose(found.proba.sum(axis=1), 1, rtol=1e-5)
    assert all(np.isfinite(one.score) for one in model.recommend(users[0], 3, by="mean"))
    return READ


KINDS = [
    Kind("model file, damaged bytes", 140, damaged_file, judge_damaged),
    Kind("model file, forged content", 50, forged_file, judge_forged),
]
