"""Updates: what came since is learnt, checked, swapped in under load, and can be taken back."""

import json
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ordbm
from ordbm.errors import ModelFileError
from ordbm.runtime.freed_memory import give_back_freed_memory
from ordbm.serve.model_slot import ModelSlot
from ordbm.serve.model_versions import active_version, all_versions, n_pending
from ordbm.serve.pending import pending_changes
from ordbm.serve.person import learnt_ratings_of
from ordbm.serve.rating_rows import Said, changes, erase, put_ratings
from ordbm.serve.update_job import (
    compared,
    last_learnt,
    run_update,
)
from service_runs import asked_here, settings_for, until


def learn_anew(model, new_ratings=None, withdrawn=None, item_features=None):
    """A stand-in that learns from all there is: the referee of what is learnt from what."""
    assert item_features is None
    rows = {
        (user, item): rating
        for user in model.users
        for item, rating in learnt_ratings_of(model, user).items()
    }
    for pair in withdrawn or ():
        del rows[pair]
    if new_ratings is not None:
        frame = new_ratings.to_frame("pandas")
        rows |= {(row.user, row.item): row.rating for row in frame.itertuples()}
    users, items = zip(*rows, strict=True)
    return model.fit(ordbm.Ratings(users, items, list(rows.values()), scale=model.scale))


@pytest.fixture(params=["stand-in", "the library's"])
def client(request, served_model, tmp_path, database, monkeypatch):
    if request.param == "stand-in":
        monkeypatch.setattr(ordbm.OrdinalBM, "partial_fit", learn_anew)
    with asked_here(settings_for(served_model, tmp_path, database)) as found:
        yield found


def say(client, n=60, seed=0):
    """Ratings by known and new people, of known and new items; one change each."""
    rng = np.random.default_rng(seed)
    said = []
    for number in range(n):
        user, item = int(rng.integers(20, 30)), int(rng.integers(100, 135))
        rating = float(rng.integers(1, 6))
        said.append((user, item, rating))
        client.service.store.write(lambda one: put_ratings(one, said[-1:]))
        assert number < n
    return {(user, item): rating for user, item, rating in said}


def run(client, keep=3):
    settings = client.service.settings
    return run_update(client.service.store, settings.versions, keep)


def swapped(client, name):
    until(lambda: client.get("/v1/model").json()["version"] == name)


def test_an_update_learns_the_oldest_nine_tenths_and_keeps_the_rest_conditioned(client):
    said = say(client)
    store = client.service.store
    before = store.read(active_version)
    rows = store.read(lambda connection: changes(connection, 0))
    client.service.store.write(lambda one: put_ratings(one, [(1, 119, None)]))
    report = run(client)
    after = store.read(active_version)
    assert report["accepted"]
    assert report["version"] == after.name != before.name
    swapped(client, after.name)
    model = client.service.slot.now().model
    kept = [row for row in rows if row.number > after.folded]
    assert 1 <= len(kept) <= 0.15 * len(rows)
    late = {(json.loads(row.user), json.loads(row.item)) for row in kept}
    for (user, item), rating in said.items():
        assert learnt_ratings_of(model, user).get(item) == (
            rating if (user, item) not in late else learnt_ratings_of(model, user).get(item)
        )
    for user in {user for user, _ in said}:
        told = client.get(f"/v1/users/{user}", params={"limit": 1000}).json()["ratings"]
        found = {one["item"]: one["rating"] for one in told}
        assert {item: found[item] for who, item in said if who == user} == {
            item: rating for (who, item), rating in said.items() if who == user
        }
    assert client.get("/v1/model").json()["pending"] == len(kept) + 1
    assert report["checked"] == len(kept)


def test_who_was_erased_and_what_was_withdrawn_is_in_no_new_model(client, served_model):
    store = client.service.store
    gone = next(iter(learnt_ratings_of(served_model, 2)))
    store.write(lambda one: put_ratings(one, [(2, gone, None)]))
    store.write(lambda one: erase(one, 3))
    store.write(lambda one: put_ratings(one, [(3, 101, 4.0)]))  # and came back
    store.write(lambda one: erase(one, 4))
    report = run(client)
    assert report["accepted"]
    swapped(client, report["version"])
    model = client.service.slot.now().model
    assert gone not in learnt_ratings_of(model, 2)
    assert learnt_ratings_of(model, 4) == {}
    assert set(learnt_ratings_of(model, 3)) <= {101}
    assert client.get("/v1/users/4").status_code == 404
    told = client.get("/v1/users/3").json()["ratings"]
    assert [(one["item"], one["rating"]) for one in told] == [(101, 4.0)]
    n_left = store.read(lambda one: n_pending(one, store.read(active_version).folded))
    assert n_left == 0
    assert run(client) == {
        "from": report["version"], "ratings": 0, "accepted": False, "nothing": "new",
    }  # fmt: skip


def test_a_version_that_was_kept_comes_back_with_all_that_came_since(client):
    said = say(client)
    first = client.get("/v1/model").json()["version"]
    report = run(client)
    swapped(client, report["version"])
    answer = client.post("/v1/model/versions/1/activate")
    assert answer.json()["version"] == first
    swapped(client, first)
    (user, item), rating = next(iter(said.items()))
    told = client.get(f"/v1/users/{user}", params={"limit": 1000}).json()["ratings"]
    assert rating in [one["rating"] for one in told if one["item"] == item]
    states = {
        one["number"]: one["state"] for one in client.get("/v1/model/versions").json()["versions"]
    }
    assert states == {1: "active", 2: "kept"}


def test_the_memory_of_a_model_that_is_gone_is_given_back_after_a_swap(
    served_model, tmp_path, monkeypatch
):
    from weakref import ref

    given, old = [], []

    def give_back():
        give_back_freed_memory()
        given.append(bool(old) and old[0]() is None)

    monkeypatch.setattr("ordbm.serve.service.give_back_freed_memory", give_back)
    with asked_here(settings_for(served_model, tmp_path)) as client:
        until(lambda: given == [False])  # after the first was loaded: nothing is gone
        old.append(ref(client.service.slot.now().model))
        say(client)
        report = run(client)
        swapped(client, report["version"])
        until(lambda: len(given) == 2)
        assert given[1]


def test_memory_is_given_back_only_where_the_c_library_can(monkeypatch):
    give_back_freed_memory()
    monkeypatch.setattr("ordbm.runtime.freed_memory.ctypes.CDLL", lambda _: object())
    give_back_freed_memory()


def test_old_files_go_and_the_first_stays(client):
    for round_ in range(3):
        say(client, n=12, seed=round_)
        assert run(client, keep=1)["accepted"]
    versions = client.service.store.read(all_versions)
    assert [one.state for one in versions] == ["active", "kept", "removed", "kept"]
    assert [Path(one.path).exists() for one in versions] == [True, True, False, True]


def test_a_model_that_is_worse_does_not_take_over(served_model, tmp_path, monkeypatch):
    def spoilt(model, new_ratings=None, withdrawn=None, item_features=None):
        learn_anew(model, new_ratings, withdrawn, item_features)
        for machine in model.machines:
            machine.level_bias[:] = np.array([0, 0, 0, 0, 30.0])

    monkeypatch.setattr(ordbm.OrdinalBM, "partial_fit", spoilt, raising=False)
    with asked_here(settings_for(served_model, tmp_path)) as client:
        before = client.get("/v1/model").json()["version"]
        say(client, n=300)
        report = run(client)
        assert not report["accepted"]
        assert report["log_loss_after"] > report["log_loss_before"]
        assert client.get("/v1/model").json()["version"] == before
        states = [one.state for one in client.service.store.read(all_versions)]
        assert states == ["refused", "active"]


def test_an_update_that_was_overtaken_does_not_take_over(client, monkeypatch):
    say(client)

    def meanwhile(*told):
        from ordbm.serve.model_versions import add_version

        path = client.service.settings.model
        client.service.store.write(lambda one: add_version(one, path, "other", 0, "active", {}))
        return compared(*told)

    monkeypatch.setattr("ordbm.serve.update_job.compared", meanwhile)
    assert run(client)["version"] is None
    assert client.service.store.read(active_version).checksum == "other"


def test_swaps_under_load_fail_no_request_and_lose_no_write(served_model, tmp_path, monkeypatch):
    monkeypatch.setattr(ordbm.OrdinalBM, "partial_fit", learn_anew)
    with asked_here(settings_for(served_model, tmp_path)) as client:
        ended, wrong, n_asked = threading.Event(), [], [0]

        def ask(worker):
            rng = np.random.default_rng(worker)
            said = {}
            while not ended.is_set():
                item, rating = int(rng.integers(100, 129)), float(rng.integers(1, 6))
                user = 500 + worker
                put = client.put(f"/v1/users/{user}/ratings/{item}", json={"rating": rating})
                said[item] = rating
                told = client.get(f"/v1/users/{user}", params={"limit": 1000})
                listed = client.post("/v1/recommend", json={"user": user, "n": 100})
                n_asked[0] += 3
                if {put.status_code, told.status_code, listed.status_code} != {200}:
                    wrong.append((put.text, told.text, listed.text))
                    continue
                found = {one["item"]: one["rating"] for one in told.json()["ratings"]}
                if found != said or {one["item"] for one in listed.json()["items"]} & set(said):
                    wrong.append((found, said))

        def have_asked(times):
            return n_asked[0] >= times

        threads = [threading.Thread(target=ask, args=(one,)) for one in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                until(partial(have_asked, n_asked[0] + 12))
                report = run(client)
                assert report["accepted"]
                swapped(client, report["version"])
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert wrong == []


def test_a_model_file_that_was_replaced_is_not_loaded(served_model, tmp_path):
    settings = settings_for(served_model, tmp_path)
    with asked_here(settings) as client:
        settings.model.write_bytes(settings.model.read_bytes()[:-1] + b"x")
        with pytest.raises(ModelFileError, match="not the file it was"):
            ModelSlot(client.service.store).refresh()
        assert client.get("/v1/model").status_code == 200  # what is loaded goes on


def test_what_is_pending_is_said_as_each_model_is_asked(served_model, tmp_path):
    with asked_here(settings_for(served_model, tmp_path)) as client:
        store = client.service.store
        store.write(lambda one: put_ratings(one, [(1, 101, 5.0)]))
        store.write(lambda one: erase(one, 2))
        store.write(lambda one: put_ratings(one, [(2, 101, 1.0), (1, 102, None)]))
        pending = pending_changes(store, 0)
        first, second, third = (row.number for row in pending.rows)
        assert first < pending.erased[2] < second == third
        assert last_learnt(pending._replace(rows=pending.rows[:1])) == pending.erased[2]
        from ordbm.serve.update_job import _said

        assert _said(pending, 0) == {
            1: Said({101: 5.0, 102: None}, is_erased=False, number=0),
            2: Said({101: 1.0}, is_erased=True, number=0),
        }
        assert _said(pending, pending.erased[2])[2] == Said({101: 1.0}, is_erased=False, number=0)


def test_the_service_updates_itself_when_it_is_asked_to(served_model, tmp_path):
    with asked_here(settings_for(served_model, tmp_path)) as client:
        assert client.post("/v1/model/update").status_code == 202
        until(lambda: client.service.trigger._process is None)  # nothing new, and no harm
        say(client)
        answers = {client.post("/v1/model/update").status_code for _ in range(3)}
        assert answers == {202, 409}
        until(lambda: client.get("/v1/model").json()["version"].startswith("2-"))
        (newest, _) = client.get("/v1/model/versions").json()["versions"]
        assert newest["report"]["accepted"]
