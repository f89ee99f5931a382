"""Checkpoints: a training that was broken off goes on to the same bits."""

from types import SimpleNamespace

import numpy as np
import pytest

import ordbm
from ordbm import ContrastiveDivergence, OrdinalBM, PseudoLikelihood, Ratings
from ordbm.errors import CheckpointError, ModelFileError, SettingsError
from ordbm.estimator import ordinal_bm
from ordbm.model.rules import EmbeddingRules
from ordbm.persistence import checkpoint as checkpoints
from ordbm.persistence.container import write_container
from ordbm.training import side_pass as side
from ordbm.training.alternation import Trainer

TINY = {"hidden": 3, "members": 2, "item_links": 4, "epochs": 4}

FEW = {"columns_per_direction": 5, "ratings_per_direction": 20}


class KilledError(Exception):
    """Stands for the end of the process."""


def simulated(seed=0, continuous=False, noise=0.0):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(40, size=600), rng.integers(30, size=600)
    liking = rng.normal(size=40)[users] + rng.normal(size=30)[items]
    liking += rng.normal(0, noise, 600)
    values = liking if continuous else np.clip(np.round(3 + liking), 1, 5)
    return Ratings(users, items, values)


@pytest.fixture(scope="module")
def parts():
    return ordbm.hold_out(simulated(), 0.2, seed=0)


@pytest.fixture(autouse=True)
def after_every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoints, "PAUSE", 0)


def bits(model):
    return [
        array.tobytes()
        for machine in model.machines
        for array in (
            machine.level_bias,
            *(array for side in machine.sides if side is not None for array in side.parameters),
            *(side.newcomer_bias for side in machine.sides if side is not None),
            *(side.newcomer_input for side in machine.sides if side is not None),
        )
    ]


def broken_off(folder, epoch, told, *ratings, **fit):
    """Train in `folder` until this epoch has been learnt, but not saved."""

    def kill(record):
        if record.epoch == epoch:
            raise KilledError

    model = OrdinalBM(**told)
    with pytest.raises(KilledError):
        model.fit(*ratings, callbacks=kill, checkpoint=folder, **fit)
    assert "not fitted" in repr(model)
    assert model.history == []


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"user_links": 3},
        {"sides": "user"},
        {"sides": "item", "item_links": 0},
        {"sides": "user", "user_links": 3, "item_links": 0},
        {"features": "gaussian"},
        {"features": "categorical", "dtype": "float64"},
        {"learner": "cd"},
        {"learner": "structured", "user_links": 3},
        {"learner": PseudoLikelihood(other_side="mean_field_with_own", momentum=0.9)},
        {"learner": ContrastiveDivergence(momentum=0.5, steps=lambda epoch: 1 + epoch // 2)},
    ],
    ids=lambda told: ", ".join(told) or "default",
)
def test_a_training_that_goes_on_ends_with_the_same_bits(tmp_path, parts, told):
    told = {**TINY, **told}
    train, validation = parts
    whole = OrdinalBM(**told).fit(train)
    broken_off(tmp_path, 3, told, train)
    seen = []
    model = OrdinalBM(**told).fit(train, callbacks=seen.append, checkpoint=tmp_path, resume=True)
    assert [record.epoch for record in seen] == [3, 4]
    assert bits(model) == bits(whole)
    assert model.history == whole.history
    np.testing.assert_array_equal(
        model.predict(validation.user_codes, validation.item_codes),
        whole.predict(validation.user_codes, validation.item_codes),
    )


def test_continuous_ratings(tmp_path):
    ratings = simulated(continuous=True)
    broken_off(tmp_path, 3, TINY, ratings)
    model = OrdinalBM(**TINY).fit(ratings, checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(OrdinalBM(**TINY).fit(ratings))


def test_the_best_epoch_is_remembered(tmp_path):
    parts = ordbm.hold_out(simulated(noise=0.5), 0.2, seed=0)
    told = {"hidden": 20, "members": 2, "item_links": 0, "epochs": 30, "patience": 4}
    told["learner"] = PseudoLikelihood(coupling_precision=0.1, ratings_per_unit=0)
    whole = OrdinalBM(**told).fit(*parts)
    last = len(whole.history)
    assert last < 30
    assert np.argmin([record.validation["log_loss"] for record in whole.history]) == last - 5
    broken_off(tmp_path, last - 1, told, *parts)  # the best epoch is long past
    model = OrdinalBM(**told).fit(*parts, checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(whole)
    assert model.history == whole.history

    longer = {**told, "patience": 6}  # more patience goes on where less gave up
    model = OrdinalBM(**longer).fit(*parts, checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(OrdinalBM(**longer).fit(*parts))
    assert len(model.history) > last
    with pytest.raises(CheckpointError, match=rf"patience=4 the training ends after epoch {last}"):
        OrdinalBM(**told).fit(*parts, checkpoint=tmp_path, resume=True)


def test_a_checkpoint_changes_nothing(tmp_path, parts):
    with_one = OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path / "a" / "b")
    without = OrdinalBM(**TINY).fit(*parts)
    assert bits(with_one) == bits(without)
    assert with_one.history == without.history
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["checkpoint.ordbm"]


def test_more_epochs_and_other_threads(tmp_path, parts):
    OrdinalBM(**TINY, threads=1).fit(*parts, checkpoint=tmp_path)
    longer = {**TINY, "epochs": 7}
    model = OrdinalBM(**longer, threads=2).fit(*parts, checkpoint=tmp_path, resume=True)
    whole = OrdinalBM(**longer).fit(*parts)
    assert bits(model) == bits(whole)
    assert model.history == whole.history
    assert [record.epochs for record in model.history] == [7] * 7


def test_settings_that_mean_the_same(tmp_path, parts):
    OrdinalBM(**TINY).fit(parts[0], checkpoint=tmp_path)
    same = {"hidden": (3, np.int64(3)), "learner": PseudoLikelihood(rate=np.float64(0.5))}
    told = {**TINY, **same, "link_shrinkage": 100, "link_budget": 1e9, "patience": 1}
    model = OrdinalBM(**told).fit(parts[0], checkpoint=tmp_path, resume=True)
    assert len(model.history) == TINY["epochs"]


def test_a_finished_training_returns_at_once(tmp_path, parts, monkeypatch):
    whole = OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    before = (tmp_path / checkpoints.FILE).read_bytes()

    def refuse(*_):
        raise AssertionError("learnt again")

    monkeypatch.setattr(Trainer, "epoch", refuse)
    model = OrdinalBM(**TINY).fit(*parts, callbacks=refuse, checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(whole)
    assert model.history == whole.history
    assert (tmp_path / checkpoints.FILE).read_bytes() == before


def test_stopped_by_a_callback_is_finished(tmp_path, parts):
    OrdinalBM(**TINY).fit(*parts, callbacks=lambda r: r.epoch == 2, checkpoint=tmp_path)
    model = OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path, resume=True)
    assert len(model.history) == 2
    assert bits(model) == bits(OrdinalBM(**{**TINY, "epochs": 2}).fit(*parts))


def test_nothing_to_go_on_from_is_the_beginning(tmp_path, parts):
    broken_off(tmp_path, 1, TINY, *parts, resume=True)
    assert list(tmp_path.iterdir()) == []
    model = OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(OrdinalBM(**TINY).fit(*parts))


def test_without_resume_it_starts_anew(tmp_path, parts):
    OrdinalBM(**TINY, seed=1).fit(*parts, checkpoint=tmp_path)
    before = (tmp_path / checkpoints.FILE).read_bytes()
    broken_off(tmp_path, 1, TINY, *parts)
    assert (tmp_path / checkpoints.FILE).read_bytes() == before
    model = OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    assert bits(model) == bits(OrdinalBM(**TINY).fit(*parts))
    assert (tmp_path / checkpoints.FILE).read_bytes() != before


@pytest.mark.parametrize(
    ("told", "difference"),
    [
        ({"seed": 1}, "seed 0 then, 1 now;"),
        ({"hidden": (3, 4)}, r"hidden \(3, 3\) then, \(3, 4\) now;"),
        ({"dtype": "float64"}, "dtype float32 then, float64 now;"),
        ({"learner": PseudoLikelihood(rate=0.25)}, "training: rate 0.5 then, 0.25 now;"),
        ({"learner": "cd"}, "learner PseudoLikelihood then, ContrastiveDivergence now;"),
        ({"epochs": 3}, "epochs=3 and patience=3 the training ends after epoch 3, and the check"),
    ],
)
def test_other_settings(tmp_path, parts, told, difference):
    OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=difference) as error:
        OrdinalBM(**{**TINY, **told}).fit(*parts, checkpoint=tmp_path, resume=True)
    assert str(error.value).endswith("or leave resume out to start anew")


def test_other_lengths_of_chains(tmp_path, parts):
    def told(steps):
        return {**TINY, "learner": ContrastiveDivergence(steps=steps)}

    broken_off(tmp_path, 3, told(lambda epoch: 1 + epoch), parts[0])
    with pytest.raises(CheckpointError, match=r"steps \(1, 2\) then, \(1, 1\) now"):
        OrdinalBM(**told(lambda _: 1)).fit(parts[0], checkpoint=tmp_path, resume=True)
    later = told(lambda epoch: 1 + min(epoch, 2))  # differs after the checkpoint only
    model = OrdinalBM(**later).fit(parts[0], checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(OrdinalBM(**later).fit(parts[0]))


def test_other_ratings(tmp_path, parts):
    train, validation = parts
    OrdinalBM(**TINY).fit(train, validation, checkpoint=tmp_path)
    shifted = train.by_user.level.copy()
    shifted[0] = 1 if shifted[0] == 0 else 0
    one_other = Ratings.of_rows(
        train.users, train.items, train.scale, train.by_user._replace(level=shifted)
    )
    part = train.select(np.arange(len(train) - 1))
    stranger = Ratings(["x"], [validation.items[0]], [3], scale=train.scale)
    for ratings, held_out, name in (
        (one_other, validation, "ratings"),
        (part, validation, r"ratings 375 by 40 users of 30 items \(digest \w+\) then, 374 by"),
        (train, None, "validation"),
        (train, train, "validation"),
        (train, validation.select([0]), "validation"),
        (train, stranger, "validation"),
    ):
        with pytest.raises(CheckpointError, match=f"is of another training: {name}"):
            OrdinalBM(**TINY).fit(ratings, held_out, checkpoint=tmp_path, resume=True)


def test_ids_may_have_other_names(tmp_path, parts):
    train = parts[0]
    users = [f"user {train.users[code]}" for code in train.user_codes]
    renamed = Ratings(users, train.item_codes, train.values, scale=train.scale)
    numbered = Ratings(train.user_codes, train.item_codes, train.values, scale=train.scale)
    broken_off(tmp_path, 3, TINY, numbered)
    model = OrdinalBM(**TINY).fit(renamed, checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(OrdinalBM(**TINY).fit(renamed))
    assert model.predict_table(users[0], 0)["known_user"][0]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_file(tmp_path, parts, damage):
    OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    path = tmp_path / checkpoints.FILE
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    path.write_bytes(
        {"cut": content[:-1], "flipped": flipped, "empty": b"", "text": b"user,item\n"}[damage]
    )
    with pytest.raises(ModelFileError, match=r"checkpoint\.ordbm.*leave resume out") as error:
        OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path, resume=True)
    assert "cannot go on" in str(error.value)


def test_a_checkpoint_of_another_machine(tmp_path, parts):
    OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    header, arrays = checkpoints.read_container(tmp_path / checkpoints.FILE, "checkpoint")
    del arrays["1.scores"]  # of the second machine
    checkpoints.write_container(tmp_path / checkpoints.FILE, "checkpoint", header, arrays)
    with pytest.raises(CheckpointError, match=r"lacks '1\.scores'"):
        OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path, resume=True)


def test_a_folder_that_cannot_be_used(tmp_path, parts):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SettingsError, match=r"checkpoint='.*file.*' cannot be used: "):
            OrdinalBM(**TINY).fit(*parts, checkpoint=path)
    with pytest.raises(SettingsError, match="resume=True needs the folder"):
        OrdinalBM(**TINY).fit(*parts, resume=True)


def test_left_overs_of_a_kill_are_removed(tmp_path, parts):
    (tmp_path / f".{checkpoints.FILE}.0123abcd.tmp").write_bytes(b"half")
    (tmp_path / "mine.txt").touch()
    OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoints.FILE, "mine.txt"]


def test_writing_takes_a_twentieth_of_the_time_at_most(tmp_path, parts, monkeypatch):
    monkeypatch.undo()
    now, written = [0.0], []

    def slow_write(_path, _kind, header, _arrays):
        now[0] += 1.0
        written.append(len(header["history"]))

    def pass_time(_):
        now[0] += 4.0

    clock = SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr(checkpoints, "time", clock)
    monkeypatch.setattr(checkpoints, "write_container", slow_write)
    OrdinalBM(**{**TINY, "epochs": 12}).fit(parts[0], callbacks=pass_time, checkpoint=tmp_path)
    assert written == [1, 6, 11, 12]  # each 20 s after the one before; and the last


def test_progress_within_an_epoch_changes_nothing(parts, monkeypatch):
    class Seen(list):
        def __call__(self, record):
            self.append(record)

        def on_progress(self, progress):
            self.append(progress)

    whole = OrdinalBM(**TINY).fit(parts[0])
    monkeypatch.setattr(side, "AT_ONCE", 50)
    seen = Seen()
    model = OrdinalBM(**TINY).fit(parts[0], callbacks=seen)
    assert bits(model) == bits(whole)
    assert model.history == whole.history
    assert [(told.phase, told.share) for told in seen[:2]] == [("links", 0.0), ("links", 1.0)]
    first = [told for told in seen[2 : seen.index(model.history[0])] if told.phase != "presence"]
    shares = [told.share for told in first]
    assert all((told.phase, told.epoch, told.epochs) == ("learning", 1, 4) for told in first)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) >= 8


@pytest.mark.parametrize("header", [{}, {"history": 3, "stopped": False, "origin": {}}])
def test_a_container_that_is_no_checkpoint(parts, tmp_path, header):
    write_container(tmp_path / checkpoints.FILE, "checkpoint", header, {})
    with pytest.raises(ModelFileError, match="is not a checkpoint of a training"):
        OrdinalBM(**TINY).fit(parts[0], checkpoint=tmp_path, resume=True)


def test_what_was_prepared_is_not_prepared_again(tmp_path, parts, monkeypatch):
    """Links, presence and priors are as old as the first epoch: they go on with the training."""
    told = {**TINY, "learner": PseudoLikelihood(embedding=EmbeddingRules(**FEW))}
    whole = OrdinalBM(**told).fit(*parts)
    assert whole._fitted.fold_in_priors.read_by_row.shape[1] > 0
    broken_off(tmp_path, 3, told, *parts)
    another = OrdinalBM(**told, seed=1)

    def refuse(*_, **__):
        raise AssertionError("prepared again")

    for name in ("links_of", "learn_presence", "priors_of"):
        monkeypatch.setattr(ordinal_bm, name, refuse)
    with pytest.raises(CheckpointError, match="seed 0 then, 1 now"):  # before any of it
        another.fit(*parts, checkpoint=tmp_path, resume=True)
    model = OrdinalBM(**told).fit(*parts, checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(whole)
    pairs = parts[1].user_codes, parts[1].item_codes
    assert model.rated_proba(*pairs).tobytes() == whole.rated_proba(*pairs).tobytes()
    given = {"ratings": {parts[0].items[0]: 5, parts[0].items[1]: 1}}
    assert model.recommend(**given) == whole.recommend(**given)


@pytest.mark.parametrize("name", ["priors.of_user", "presence.link", "user_side.link_high"])
def test_a_forged_preparation_is_refused(tmp_path, parts, name):
    OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    header, arrays = checkpoints.read_container(tmp_path / checkpoints.FILE, "checkpoint")
    arrays[name] = arrays[name][:0].astype(np.float16)
    write_container(tmp_path / checkpoints.FILE, "checkpoint", header, arrays)
    with pytest.raises(ModelFileError, match=r"does not hold a training.*leave resume out"):
        OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("value", [-1e30, 1e30, np.nan])
def test_priors_out_of_range_are_refused(tmp_path, parts, value):
    OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path)
    header, arrays = checkpoints.read_container(tmp_path / checkpoints.FILE, "checkpoint")
    arrays["priors.bias_smoothing"] = np.full_like(arrays["priors.bias_smoothing"], value)
    write_container(tmp_path / checkpoints.FILE, "checkpoint", header, arrays)
    with pytest.raises(ModelFileError, match="priors are out of range"):
        OrdinalBM(**TINY).fit(*parts, checkpoint=tmp_path, resume=True)
