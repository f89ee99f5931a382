"""Machines learnt by workers of an engine are those learnt here, whatever happens to workers."""

import sys
from concurrent.futures import Future
from contextlib import contextmanager

import numpy as np
import pytest

import ordbm
from ordbm.engines.choice import check_engine, engine_named
from ordbm.engines.in_process import InProcess
from ordbm.engines.interface import LostError
from ordbm.engines.shared_memory import as_own
from ordbm.errors import EngineError, InterruptedWarning, SettingsError
from ordbm.training import crew
from ordbm.training.remote_ensemble import crew_shape

SMALL = {
    "hidden": 3, "members": 3, "epochs": 3, "item_links": 4, "presence": False, "context": False,
    "threads": 1,
}  # fmt: skip


def some_ratings(seed=0, n=600, users=30, items=20):
    rng = np.random.default_rng(seed)
    given = rng.integers(0, users, n), rng.integers(0, items, n), rng.integers(1, 6, n)
    return ordbm.Ratings(*given)


class Engine(InProcess):
    """In this process; calls by number are lost with their workers."""

    def __init__(self, n_places=2, lost=()):
        super().__init__(n_places)
        self.calls, self.lost = 0, set(lost)

    def call(self, worker, method, *arguments, aside=False):
        self.calls += not aside  # of those there are as many as there is time for
        if not aside and self.calls in self.lost:
            worker.served = None
        return super().call(worker, method, *arguments, aside=aside)


@pytest.fixture
def on(monkeypatch):
    """A function that has engine="ray" mean this engine, and gives it back."""

    def use(engine):
        @contextmanager
        def named(name, _=None):
            yield None if name is None else engine

        monkeypatch.setattr("ordbm.estimator.ordinal_bm.engine_named", named)
        return engine

    return use


def parameters(model):
    return [
        array
        for machine in model.machines
        for side in machine.sides
        if side is not None
        for array in (machine.level_bias, side.unknown_bias, *side.parameters)
    ]


def assert_same(one, other):
    assert one.history == other.history
    for left, right in zip(parameters(one), parameters(other), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"user_links": 3, "sides": "user"},
        {"features": "gaussian"},
        {"learner": "cd", "members": 2},
        {"preset": "paper", "members": 2, "epochs": 2, "item_links": 3, "user_links": 3},
    ],
    ids=lambda told: "-".join(map(str, told.values())) or "default",
)
@pytest.mark.parametrize("places", [1, 2, 5])
def test_workers_learn_the_same_bits(on, told, places):
    ratings, validation = some_ratings(), some_ratings(1, 100)
    here = ordbm.OrdinalBM(**SMALL | told).fit(ratings, validation)
    engine = on(Engine(places))
    there = ordbm.OrdinalBM(**SMALL | told, engine="ray").fit(ratings, validation)
    assert len(engine.workers) == min(places, here.settings.members)
    assert_same(here, there)


def assert_close(one, other, parts=1e-10, wholes=1e-10):
    """The same but for the order of sums: parameters, and what is said of all ratings."""
    for mine, theirs in zip(one.history, other.history, strict=True):
        assert mine.objective == pytest.approx(theirs.objective, abs=wholes)
        assert mine.validation == pytest.approx(theirs.validation, abs=wholes)
    for left, right in zip(parameters(one), parameters(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=parts)


SHARED = SMALL | {"members": 1, "dtype": "float64", "learner": ordbm.PseudoLikelihood(block_rows=7)}


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"dtype": "float32"},
        {"members": 2},
        {"sides": "user"},
        {"sides": "item", "item_links": 0},
        {"features": "categorical", "item_links": 0},
        {"learner": "pl", "hidden": (5, 7)},
    ],
    ids=lambda told: "-".join(map(str, told.values())) or "default",
)
@pytest.mark.parametrize("shards", [2, 3])
def test_users_shared_out_are_learnt_as_if_they_were_here(on, told, shards):
    ratings, validation = some_ratings(n=900), some_ratings(1, 100)
    told = SHARED | told
    here = ordbm.OrdinalBM(**told).fit(ratings, validation)
    engine = on(Engine(shards * told["members"]))
    there = ordbm.OrdinalBM(**told, engine="ray").fit(ratings, validation)
    assert len(engine.workers) == shards * told["members"]
    single = told["dtype"] == "float32"  # where few ratings have a say, rounding has more
    assert_close(here, there, *((1e-4, 1e-5) if single else ()))


def test_traits_of_users_are_summed_over_all(on):
    """Couplings of users follow what those of all say of their traits."""
    ratings = some_ratings(n=4000, users=500, items=60)
    learner = ordbm.PseudoLikelihood(co_occurrence=3, block_rows=60)
    told = SHARED | {"learner": learner, "item_links": 0}
    here = ordbm.OrdinalBM(**told).fit(ratings)
    on(Engine(3))
    assert_close(here, ordbm.OrdinalBM(**told, engine="ray").fit(ratings))


@pytest.mark.parametrize(
    "told",
    [{"user_links": 3}, {"features": "gaussian"}, {"learner": "cd"}],
    ids=["user links", "continuous", "sampled"],
)
def test_what_cannot_be_shared_out_is_learnt_by_one(on, told):
    ratings = some_ratings()
    here = ordbm.OrdinalBM(**SHARED | told).fit(ratings)
    engine = on(Engine(3))
    assert_same(here, ordbm.OrdinalBM(**SHARED | told, engine="ray").fit(ratings))
    assert len(engine.workers) == 1


def test_a_team_that_loses_a_worker_learns_the_same(on, monkeypatch):
    monkeypatch.setattr(crew, "KEPT_AFTER", 0)
    ratings = some_ratings()
    engine = on(Engine(3))
    undisturbed = ordbm.OrdinalBM(**SHARED, engine="ray").fit(ratings)
    for lost in range(1, engine.calls + 1):
        disturbed = on(Engine(3, lost=[lost]))
        assert_same(undisturbed, ordbm.OrdinalBM(**SHARED, engine="ray").fit(ratings))
        assert len(disturbed.workers) == 6, lost


def test_a_checkpoint_of_a_team_goes_on(on, tmp_path):
    ratings = some_ratings()
    on(Engine(2))
    whole = ordbm.OrdinalBM(**SHARED | {"epochs": 5}, engine="ray").fit(ratings)
    ordbm.OrdinalBM(**SHARED, engine="ray").fit(ratings, checkpoint=tmp_path)
    again = ordbm.OrdinalBM(**SHARED | {"epochs": 5}, engine="ray")
    assert_same(whole, again.fit(ratings, checkpoint=tmp_path, resume=True))
    with pytest.raises(ordbm.errors.CheckpointError, match="leave resume out"):
        ordbm.OrdinalBM(**SHARED | {"epochs": 6}).fit(ratings, checkpoint=tmp_path, resume=True)


def test_features_are_learnt_the_same(on):
    ratings = some_ratings()
    about = {"item": list(range(20)), "kind": [n % 3 for n in range(20)]}
    here = ordbm.OrdinalBM(**SMALL).fit(ratings, item_features=about)
    on(Engine())
    there = ordbm.OrdinalBM(**SMALL, engine="ray").fit(ratings, item_features=about)
    assert_same(here, there)


def test_whichever_call_is_lost_the_result_is_the_same(on, monkeypatch):
    monkeypatch.setattr(crew, "KEPT_AFTER", 0)  # keep every epoch, so that all calls are known
    ratings, validation = some_ratings(), some_ratings(1, 100)
    here = ordbm.OrdinalBM(**SMALL).fit(ratings, validation)
    calls = on(Engine())
    ordbm.OrdinalBM(**SMALL, engine="ray").fit(ratings, validation)
    assert calls.calls > 20
    for lost in range(1, calls.calls + 1):
        engine = on(Engine(lost={lost, lost + 5}))
        assert_same(here, ordbm.OrdinalBM(**SMALL, engine="ray").fit(ratings, validation))
        assert len(engine.workers) > 2


def test_what_was_kept_at_a_lost_node_is_not_missed(on, monkeypatch):
    class Forgetful(Engine):
        def parts(self, worker, method, *arguments, n):
            assert method == "kept_state"
            _, mark = super().parts(worker, method, *arguments, n=n)
            gone = Future()
            gone.set_exception(LostError("the node is gone"))
            return [gone, mark]

    monkeypatch.setattr(crew, "KEPT_AFTER", 0)  # keep every epoch
    ratings = some_ratings()
    here = ordbm.OrdinalBM(**SMALL).fit(ratings)
    engine = on(Forgetful(lost=[14]))
    assert_same(here, ordbm.OrdinalBM(**SMALL, engine="ray").fit(ratings))
    assert len(engine.workers) == 4  # one that had nothing to restore, and one that began anew


def test_the_last_kept_state_is_gone_on_from(on, monkeypatch):
    class Recorded(Engine):
        learnt = 0

        def call(self, worker, method, *arguments, aside=False):
            self.learnt += method == "epoch"
            return super().call(worker, method, *arguments, aside=aside)

    monkeypatch.setattr(crew, "KEPT_AFTER", 0)
    ratings, told = some_ratings(), SMALL | {"epochs": 8, "members": 1}
    undisturbed = on(Recorded(1))
    ordbm.OrdinalBM(**told, engine="ray").fit(ratings)
    engine = on(Recorded(1, lost=[undisturbed.calls - 2]))
    ordbm.OrdinalBM(**told, engine="ray").fit(ratings)
    assert undisturbed.learnt == 8
    assert engine.learnt <= 9


def test_a_worker_that_is_always_lost_is_an_error(on, monkeypatch):
    monkeypatch.setattr(crew, "MOST_LOSSES", 3)
    on(Engine(lost=range(6, 1000)))
    with pytest.raises(EngineError, match=r"lost 4 times in epoch 1: the worker was stopped"):
        ordbm.OrdinalBM(**SMALL, engine="ray").fit(some_ratings())


def test_an_error_of_a_worker_is_raised_as_it_was(on):
    learner = ordbm.PseudoLikelihood(rate=1e9, coupling_precision=0)
    on(Engine())
    with pytest.raises(ordbm.errors.DivergedError, match="diverged in epoch"):
        ordbm.OrdinalBM(**SMALL, learner=learner, engine="ray").fit(some_ratings())


def test_workers_of_another_version_are_refused(on, monkeypatch):
    monkeypatch.setattr("ordbm.training.remote_ensemble.MemberGroup._digest", lambda _: "another")
    on(Engine())
    with pytest.raises(EngineError, match="install the same on all nodes"):
        ordbm.OrdinalBM(**SMALL, engine="ray").fit(some_ratings())


@pytest.mark.parametrize(("first", "second"), [(None, "ray"), ("ray", None), ("ray", "ray")])
def test_checkpoints_go_on_wherever_they_were_made(on, tmp_path, first, second):
    ratings, validation = some_ratings(), some_ratings(1, 100)
    told = {name: value for name, value in SMALL.items() if name != "epochs"}
    whole = ordbm.OrdinalBM(**told, epochs=5).fit(ratings, validation)
    on(Engine(lost=[9]))
    ordbm.OrdinalBM(**told, epochs=2, engine=first).fit(ratings, validation, checkpoint=tmp_path)
    on(Engine(3, lost=[8]))
    after = ordbm.OrdinalBM(**told, epochs=5, engine=second)
    after.fit(ratings, validation, checkpoint=tmp_path, resume=True)
    assert_same(whole, after)


def test_ctrl_c_leaves_the_epochs_so_far(on):
    ratings = some_ratings()
    import signal

    def interrupt(record):
        if record.epoch == 2:
            signal.raise_signal(signal.SIGINT)

    engine = on(Engine())
    model = ordbm.OrdinalBM(**SMALL | {"epochs": 5}, engine="ray")
    with pytest.warns(InterruptedWarning):
        model.fit(ratings, callbacks=interrupt)
    assert_same(ordbm.OrdinalBM(**SMALL | {"epochs": 2}).fit(ratings), _without_plan(model))
    assert all(worker.served is None for worker in engine.workers)


def _without_plan(model):
    from dataclasses import replace

    model.history = [replace(record, epochs=2) for record in model.history]
    return model


def test_workers_are_ended_with_the_training(on):
    engine = on(Engine())
    ordbm.OrdinalBM(**SMALL, engine="ray").fit(some_ratings())
    assert all(worker.served is None for worker in engine.workers)


def test_progress_of_workers_is_told(on):
    shares = []

    class Watch:
        def __call__(self, _):
            pass

        def on_progress(self, progress):
            if progress.phase == "learning":
                shares.append(progress.share)

    on(Engine())
    ordbm.OrdinalBM(**SMALL, engine="ray").fit(some_ratings(), callbacks=[Watch()])
    assert shares
    assert all(0 <= one <= 1 for one in shares)
    assert max(shares) == 1


@pytest.mark.parametrize(
    ("nodes", "members", "threads", "expected"),
    [
        ([2], 8, None, (2, 1, 1)),
        ([16], 8, None, (8, 2, 1)),
        ([16], 8, 1, (8, 1, 2)),
        ([6, 6], 8, None, (8, 1, 1)),
        ([8, 4], 3, None, (3, 4, 1)),
        ([1, 1, 1], 2, None, (2, 1, 1)),
        ([16], 1, None, (1, 16, 1)),
        ([16, 16, 16], 1, None, (1, 16, 3)),
        ([4] * 16, 8, None, (8, 4, 2)),
    ],
)
def test_workers_fill_the_nodes_that_there_are(nodes, members, threads, expected):
    class Nodes(InProcess):
        def places(self, threads):
            return sum(cpus // threads for cpus in nodes)

    assert crew_shape(Nodes(), members, threads, can_share=True) == expected
    assert crew_shape(Nodes(), members, threads, can_share=False) == (*expected[:2], 1)


def test_a_cluster_without_processors_is_an_error():
    with pytest.raises(EngineError, match="no processor"):
        crew_shape(InProcess(0), 2, None, can_share=True)


@pytest.mark.parametrize("value", ["spark", "ray:", "", 3, "rays", ":ray"])
def test_unknown_engines_are_refused(value):
    with pytest.raises(SettingsError, match="use 'ray', 'ray:ADDRESS'"):
        ordbm.OrdinalBM(engine=value)
    with pytest.raises(SettingsError, match="engine"):
        check_engine("engine", value)


def test_a_model_file_does_not_say_where_it_was_learnt(on, tmp_path):
    on(Engine())
    model = ordbm.OrdinalBM(**SMALL, engine="ray:cluster.example:6379").fit(some_ratings())
    model.save(tmp_path / "model.ordbm")
    assert b"cluster.example" not in (tmp_path / "model.ordbm").read_bytes()
    assert ordbm.load(tmp_path / "model.ordbm").settings.engine is None


def test_without_ray_one_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"pip install 'ordbm\[ray\]'"), engine_named("ray"):
        pass


def test_arrays_read_from_shared_memory_are_the_same_memory():
    given = {"a": np.arange(6.0).reshape(2, 3), "b": [np.zeros(0, np.int32)], "c": "text"}
    given["d"] = np.asfortranarray(given["a"])
    for array in (given["a"], given["b"][0], given["d"]):
        array.flags.writeable = False
    own = as_own(given)
    for name in ("a", "d"):
        np.testing.assert_array_equal(own[name], given[name])
        assert np.shares_memory(own[name], given[name])
        assert own[name].flags.writeable
        assert own[name].flags.f_contiguous == given[name].flags.f_contiguous
    assert own["b"][0].flags.writeable
    assert own["c"] == "text"


def test_workers_have_no_kernel_compiled_anew(on):
    from ordbm.kernels import conditional, hidden, links, plan, steps

    ratings = some_ratings()
    ordbm.OrdinalBM(**SMALL).fit(ratings)
    kernels = [
        value
        for module in (conditional, hidden, links, plan, steps)
        for value in vars(module).values()
        if hasattr(value, "signatures")
    ]
    before = [len(kernel.signatures) for kernel in kernels]
    assert any(before)
    on(Engine())
    ordbm.OrdinalBM(**SMALL, engine="ray").fit(ratings)
    assert [len(kernel.signatures) for kernel in kernels] == before
