"""Features of items: stored by PUT, learnt by updates, used for whoever or whatever is new."""

import re

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")

import ordbm
from cli_runs import fault, json_answer
from described_population import ITEMS, KEPT_SMALL, N_ITEMS, RATED_ITEMS, RATINGS
from ordbm.serve.model_versions import active_version
from ordbm.serve.person import learnt_ratings_of
from ordbm.serve.rating_rows import erase, put_ratings
from ordbm.serve.update_job import run_update
from service_runs import asked_here, migrated, settings_for, until

YEARS = np.random.default_rng(5).integers(1950, 2020, N_ITEMS).astype(float).tolist()
FILMS = {**ITEMS, "year": YEARS}
NEW = N_ITEMS - 1  # has no ratings
RATERS = range(4)


def of_item(number):
    return {"genres": ITEMS["genres"][number].split("|"), "year": YEARS[number]}


@pytest.fixture(scope="module")
def described():
    known = {name: values[:RATED_ITEMS] for name, values in FILMS.items()}
    return ordbm.OrdinalBM(**KEPT_SMALL).fit(RATINGS, item_features=known)


@pytest.fixture
def client(described, tmp_path, database):
    with asked_here(settings_for(described, tmp_path, database)) as found:
        yield found


def run(client):
    report = run_update(client.service.store, client.service.settings.versions, 3)
    if report.get("version"):
        until(lambda: client.get("/v1/model").json()["version"] == report["version"])
    return report


def asked(client, item):
    body = {"user": 3, "items": [item]}
    return client.post("/v1/predict", json=body).json()["predictions"][0]


def test_an_update_learns_features_as_partial_fit_does(client, described):
    before = asked(client, NEW)
    assert not before["known_item"]
    told = client.put(f"/v1/items/{NEW}", json={"title": "New", "features": of_item(NEW)})
    assert told.json()["learnt_from"] == ["genres", "year"]
    assert asked(client, NEW) == before  # with the update, not before
    assert client.get("/v1/model").json()["pending"] == 1
    report = run(client)
    assert (report["described"], report["ratings"], report["accepted"]) == (1, 0, True)
    copy = client.service.settings.model.with_name("copy.ordbm")
    described.save(copy, overwrite=True)
    grown = ordbm.load(copy)
    table = {"item": [NEW], "genres": [of_item(NEW)["genres"]], "year": [YEARS[NEW]]}
    grown.partial_fit(item_features=table)
    after = asked(client, NEW)
    assert after["known_item"]
    np.testing.assert_allclose(after["distribution"], grown.predict_proba([3], [NEW])[0], atol=1e-6)
    assert abs(after["mean"] - before["mean"]) > 0.02
    listed = client.post("/v1/recommend", json={"user": 3, "n": N_ITEMS}).json()["items"]
    assert NEW in [one["item"] for one in listed]
    assert client.get("/v1/model").json()["pending"] == 0
    assert run(client)["nothing"] == "new"


def test_what_is_repeated_is_not_new_and_what_changes_is(client):
    for features in (of_item(NEW), of_item(NEW), {"genres": ["a"], "year": 1990}):
        client.put(f"/v1/items/{NEW}", json={"features": features})
    assert client.get("/v1/model").json()["pending"] == 1
    assert run(client)["described"] == 1
    client.put(
        f"/v1/items/{NEW}", json={"title": "Called", "features": {"genres": ["a"], "year": 1990}}
    )
    assert run(client)["nothing"] == "new"
    first = asked(client, NEW)
    client.put(f"/v1/items/{NEW}", json={"features": {"genres": ["b"], "year": 1990}})
    assert run(client)["described"] == 1
    second = asked(client, NEW)
    assert second["distribution"] != first["distribution"]
    client.put(f"/v1/items/{NEW}", json={"title": "Called"})  # nothing is known of it any more
    assert run(client)["described"] == 1
    assert asked(client, NEW)["distribution"] not in (first["distribution"], second["distribution"])


def test_features_and_ratings_are_learnt_together(client):
    store = client.service.store
    client.put(f"/v1/items/{NEW}", json={"features": of_item(NEW)})
    for number in range(30):
        store.write(lambda one, user=number: put_ratings(one, [(user, NEW, 5.0)]))
    last = N_ITEMS - 2
    client.put(f"/v1/items/{last}", json={"features": of_item(last)})
    report = run(client)
    assert report["accepted"]
    assert (report["described"], report["ratings"], report["checked"]) == (2, 27, 3)
    assert asked(client, last)["known_item"]
    # What came after the ratings that are not learnt yet is learnt again, which changes nothing.
    assert client.get("/v1/model").json()["pending"] == 4
    before = asked(client, last)
    assert run(client)["described"] == 1
    np.testing.assert_allclose(asked(client, last)["mean"], before["mean"], atol=0.05)


def test_features_that_cannot_be_used_are_refused_and_others_only_shown(client):
    address = f"/v1/items/{NEW}"
    for year in ("recent", True, ["1990"], "1e999"):
        refused = client.put(address, json={"features": {"year": year}})
        assert refused.status_code == 422
        assert "learnt as numbers" in refused.json()["detail"]
    assert client.get(address).status_code == 404
    stored = client.put(address, json={"features": {"poster": "x.png", "year": "1990"}}).json()
    assert stored["learnt_from"] == ["year"]
    assert stored["features"] == {"poster": "x.png", "year": "1990"}
    assert run(client)["described"] == 1
    assert asked(client, NEW)["known_item"]


def test_what_came_to_another_model_cannot_stop_updates(described, served_model, tmp_path):
    """The features of a catalogue that a model without any was served with, and then this one."""
    url = f"sqlite:///{tmp_path / 'ratings.sqlite3'}"
    for folder in ("bare", "described"):
        (tmp_path / folder).mkdir()
    with asked_here(settings_for(served_model, tmp_path / "bare", url)) as client:
        told = client.put(f"/v1/items/{NEW}", json={"features": {"year": "recent", "genres": "a"}})
        assert told.json()["learnt_from"] == []
        assert client.get("/v1/model").json()["item_features"] == []
        assert client.get("/v1/model").json()["pending"] == 0
        assert run(client)["nothing"] == "new"
    with asked_here(settings_for(described, tmp_path / "described", url)) as client:
        assert client.get("/v1/model").json()["item_features"] == ["genres", "year"]
        assert run(client)["described"] == 1
        assert asked(client, NEW)["known_item"]
        assert client.service.store.read(active_version).number == 3


def test_ordbm_update_learns_all_that_a_database_has(described, tmp_path, database):
    with asked_here(settings_for(described, tmp_path, database)) as client:
        store = client.service.store
        client.put(f"/v1/items/{NEW}", json={"features": of_item(NEW)})
        gone = next(iter(learnt_ratings_of(described, 2)))
        said = [(200, NEW, 5.0), (1, 2, 1.0), (2, gone, None)]
        for one in said:
            store.write(lambda connection, one=one: put_ratings(connection, [one]))
        store.write(lambda connection: erase(connection, 3))
        last = store.read(active_version)
        path = client.service.settings.model
    before = path.read_bytes()
    output = tmp_path / "grown.ordbm"
    told = json_answer("update", path, "--database", database, "-o", output)
    assert told["ratings"] == {
        "ratings": 2, "withdrawn": 1 + len(learnt_ratings_of(described, 3)), "erased": 1,
        "described": 1,
    }  # fmt: skip
    assert path.read_bytes() == before
    grown = ordbm.load(output)
    assert learnt_ratings_of(grown, 200) == {NEW: 5}
    assert learnt_ratings_of(grown, 1)[2] == 1
    assert gone not in learnt_ratings_of(grown, 2)
    assert learnt_ratings_of(grown, 3) == {}
    assert last.number == 1
    again = fault(
        "update", output, "--database", f"sqlite:///{tmp_path}/none", "-o", output, "--force"
    )
    assert "there is no such database" in again
    assert not (tmp_path / "none").exists()


def test_a_database_with_nothing_to_learn_is_said(described, tmp_path):
    path = tmp_path / "model.ordbm"
    described.save(path)
    url = f"sqlite:///{tmp_path / 'ratings.sqlite3'}"
    assert "tables of this version" in fault_of_new(tmp_path, path, url)
    migrated(url).close()
    assert "nothing that the model could learn" in fault(
        "update", path, "--database", url, "-o", tmp_path / "out.ordbm"
    )
    assert not (tmp_path / "out.ordbm").exists()


def fault_of_new(folder, path, url):
    (folder / "ratings.sqlite3").touch()
    return fault("update", path, "--database", url, "-o", folder / "out.ordbm")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://nobody:secret@127.0.0.1:1/none", "cannot be used"),
        ("postgresql://nobody:secret@host:port/none", "cannot be read"),
        ("mysql://nobody:secret@host/none", "sqlite:///FILE"),
        ("sqlite:////no/folder/of/this/name", "no such database|cannot be used"),
        ("sqlite:///{junk}", "not a database"),
    ],
)
@pytest.mark.parametrize("command", ["backup", "migrate", "serve", "update"])
def test_a_database_that_cannot_be_used_is_an_error_in_words(
    command, url, words, described, tmp_path
):
    junk = tmp_path / "junk"
    junk.write_text("this is none")
    url, path = url.format(junk=junk), tmp_path / "model.ordbm"
    described.save(path)
    told = {
        "backup": ("database", "backup", url, "-o", tmp_path / "backup"),
        "migrate": ("database", "migrate", url),
        "serve": ("serve", path, "--database", url, "--port", "0"),
        "update": ("update", path, "--database", url, "-o", tmp_path / "out.ordbm"),
    }[command]
    said = fault(*told)
    assert re.search(words, said)
    assert "secret" not in said
    assert "Traceback" not in said
