"""Damaged model files: one clear error or a right answer; never a crash, a hang or a NaN."""

import copy
import random

import numpy as np
import pytest

import ordbm
from answers import predictions
from fuzzing.model_damage import ARRAY_DAMAGE, DAMAGE, check_sound, header_damaged, models
from ordbm.errors import ModelFileError
from ordbm.persistence.container import read_container, write_container
from ordbm.runtime import atomic_files as whole_files
from plain_files import save_plain


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of a few model files, with nothing packed, and then as they usually are."""
    folder = tmp_path_factory.mktemp("fuzz")
    paths = []
    for save in (save_plain, ordbm.OrdinalBM.save):
        for model in models():
            paths.append(folder / f"{len(paths)}.ordbm")
            save(model, paths[-1])
    return paths


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch):
    monkeypatch.setattr(whole_files.os, "fsync", lambda _: None)


def asked(model):
    return predictions(model, model._fitted.users.ids, model._fitted.items.ids)


# -- bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damaged_bytes_are_noticed_or_change_nothing(files, tmp_path, damage):
    rng = random.Random(damage.__name__)
    contents = [path.read_bytes() for path in files]
    expected = [asked(ordbm.load(path)) for path in files]
    refused = unchanged = 0
    for turn in range(200):
        number = turn % len(files)
        path = tmp_path / "damaged.ordbm"
        path.write_bytes(damage(bytearray(contents[number]), rng, rng.choice(contents)))
        try:
            model = ordbm.load(path)
        except ModelFileError as error:
            refused += "damaged.ordbm" in str(error)
        else:
            assert asked(model) in expected
            unchanged += 1
    assert refused + unchanged == 200
    assert refused > 125


# -- content, with a right checksum ---------------------------------------------------------------


@pytest.mark.parametrize("number", range(4))
def test_forged_content_is_noticed_or_makes_a_sound_model(files, tmp_path, number):
    rng = random.Random(number)
    header, arrays = read_container(files[number], "model")
    path = tmp_path / "forged.ordbm"
    refused = accepted = 0
    for turn in range(200):
        forged_header = copy.deepcopy(header)
        forged = {name: array.copy() for name, array in arrays.items()}
        if turn % 2:
            header_damaged(forged_header, rng)
        else:
            rng.choice(ARRAY_DAMAGE)(forged, rng.choice(sorted(forged)), rng)
        write_container(path, "model", forged_header, forged)
        try:
            model = ordbm.load(path)
        except ModelFileError as error:
            refused += "forged.ordbm" in str(error)
        else:
            check_sound(model)
            accepted += 1
    assert refused + accepted == 200
    assert refused > 80
    assert accepted > 8


LINK_INDICES = {"link_low", "link_high", "link_similarity"}
INDICES = {
    "ratings.start", "ratings.column", "ratings.level",
    *(f"{side}_side.{name}" for side in ("user", "item") for name in LINK_INDICES),
}  # fmt: skip


@pytest.mark.parametrize("number", range(4))
def test_no_index_out_of_range_gets_through(files, tmp_path, number):
    header, arrays = read_container(files[number], "model")
    path = tmp_path / "forged.ordbm"
    tried = 0
    for name in sorted(INDICES & arrays.keys()):
        limits = np.iinfo(arrays[name].dtype) if arrays[name].dtype.kind in "iu" else None
        for place in range(arrays[name].size):
            for wrong in (limits.max, limits.min or 250, 100) if limits else (0.0, np.nan):
                forged = {key: array.copy() for key, array in arrays.items()}
                forged[name][place] = wrong
                write_container(path, "model", header, forged)
                with pytest.raises(ModelFileError, match="does not hold a model"):
                    ordbm.load(path)
                tried += 1
    assert tried > 150
