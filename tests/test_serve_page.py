"""What the page is made of and draws: its files, the map, places on it, levels, links, the wish."""

import re

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")

import ordbm
from ordbm.serve.page_files import PAGE
from service_runs import asked_here, settings_for, small_model

FILES = sorted(path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def client(served_model, tmp_path_factory):
    with asked_here(settings_for(served_model, tmp_path_factory.mktemp("pictures"))) as found:
        yield found


@pytest.mark.parametrize("name", FILES)
def test_files_are_sent_with_types_tags_and_compression(client, name):
    answer = client.get(f"/{name}")
    assert answer.status_code == 200
    assert answer.content == (PAGE / name).read_bytes()
    kinds = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg"}
    assert answer.headers["content-type"].startswith(kinds[name.rsplit(".", 1)[1]])
    assert answer.headers["cache-control"] == "no-cache"
    if len(answer.content) > 2000:
        assert answer.headers["content-encoding"] == "gzip"
    again = client.get(f"/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_no_file_of_the_page_asks_for_another_server_or_writes_markup():
    for name in FILES:
        text = (PAGE / name).read_text(encoding="utf-8")
        outside = [one for one in re.findall(r"https?://[\w./]+", text) if "www.w3.org" not in one]
        assert outside == [], name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        for told in re.findall(r'from "\./([\w.]+)"', text):
            assert (PAGE / "js" / told).is_file(), (name, told)
        assert len(text.splitlines()) <= 300, name


def test_the_map_is_of_the_most_rated_items_within_its_bounds(client):
    answer = client.get("/v1/map?n=12")
    items = answer.json()["items"]
    assert len(items) == 12
    counts = [one["n_ratings"] for one in items]
    assert counts == sorted(counts, reverse=True)
    place = np.array([[one["x"], one["y"]] for one in items])
    assert np.abs(place).max() == pytest.approx(1.0)
    np.testing.assert_allclose(place.mean(axis=0), 0, atol=1e-9)
    model = client.service.slot.now().model
    factors = model.item_factors([one["item"] for one in items], dimensions=2)
    factors = factors - factors.mean(axis=0)
    np.testing.assert_allclose(place, factors / np.abs(factors).max(), atol=1e-5)
    tag = answer.headers["etag"]
    assert client.get("/v1/map?n=12", headers={"If-None-Match": tag}).status_code == 304


def test_a_place_is_a_mean_of_items_by_what_ratings_changed(client):
    items = client.get("/v1/map?n=20").json()["items"]
    place = np.array([[one["x"], one["y"]] for one in items])
    nobody = client.post("/v1/map/place?n=20", json={"ratings": []}).json()
    assert nobody["x"] == pytest.approx(place[:, 0].mean(), abs=1e-6)
    assert nobody["y"] == pytest.approx(place[:, 1].mean(), abs=1e-6)
    ratings = {"101": 5, "102": 1, "105": 4}
    found = client.post("/v1/map/place?n=20", json={"ratings": ratings}).json()
    ids = [one["item"] for one in items]
    expected = client.post("/v1/predict", json={"ratings": ratings, "items": ids}).json()
    mean = np.array([one["mean"] for one in expected["predictions"]])
    np.testing.assert_allclose(found["expected"], mean, atol=1e-6)
    change = mean - np.array(nobody["expected"])
    deviation = max(change.std(), 0.02 * 4)
    weight = np.exp(2 * (change - change.mean()) / deviation)
    np.testing.assert_allclose([found["x"], found["y"]], weight @ place / weight.sum(), atol=1e-5)


def test_levels_are_counts_of_what_was_learnt(client):
    model = client.service.slot.now().model
    ratings = model.known_ratings()
    for item in (101, 110):
        found = client.get(f"/v1/items/{item}/levels").json()
        mine = ratings.values[np.array(ratings.items)[ratings.item_codes] == item]
        told = [int((mine == level).sum()) for level in (1, 2, 3, 4, 5)]
        assert (found["levels"], found["counts"]) == ([1, 2, 3, 4, 5], told)


def test_links_are_symmetric_and_the_strongest_first(client):
    for kind in ("rated_alike", "rated_together"):
        found = client.get("/v1/items/101/links?n=100").json()[kind]
        weights = [abs(one["weight"]) for one in found]
        assert weights == sorted(weights, reverse=True)
        for one in found[:3]:
            back = client.get(f"/v1/items/{one['item']}/links?n=100").json()[kind]
            assert {"item": 101, "title": None, "weight": one["weight"]} in back


def test_items_without_ratings_have_no_picture(client):
    for what in ("levels", "links"):
        for item in (129, 5000):  # the model has one without ratings, and not the other
            assert client.get(f"/v1/items/{item}/{what}").status_code == 404


def test_lists_of_what_few_have_rated(client):
    body = {"ratings": {"101": 5}, "n": 30}
    counts = {one["item"]: one["n_ratings"] for one in client.get("/v1/items").json()["items"]}
    whole = [one["item"] for one in client.post("/v1/recommend", json=body).json()["items"]]
    few = client.post("/v1/recommend", json={**body, "most_ratings": 9}).json()["items"]
    assert [one["item"] for one in few] == [item for item in whole if 0 < counts[item] <= 9]
    told = {**body, "most_ratings": 9, "candidates": whole[:15]}
    few = client.post("/v1/recommend", json=told).json()["items"]
    assert [one["item"] for one in few] == [item for item in whole[:15] if 0 < counts[item] <= 9]
    told["candidates"] = "linked"
    assert client.post("/v1/recommend", json=told).status_code == 422


def test_models_of_other_kinds_have_pictures_or_say_why_not(tmp_path):
    bare = small_model(hidden=0)
    with asked_here(settings_for(bare, tmp_path)) as client:
        answer = client.get("/v1/map")
        assert answer.status_code == 409
        assert "hidden" in answer.json()["detail"]
    rng = np.random.default_rng(0)
    pairs = rng.permutation(200)[:120]
    ratings = ordbm.Ratings(pairs // 10, pairs % 10, rng.normal(3, 1, 120), scale="continuous")
    folder = tmp_path / "continuous"
    folder.mkdir()
    model = ordbm.OrdinalBM(hidden=2, members=1, epochs=2, threads=1).fit(ratings)
    with asked_here(settings_for(model, folder)) as client:
        found = client.get("/v1/items/3/levels").json()
        assert found["levels"] is None
        assert (len(found["edges"]), sum(found["counts"])) == (11, (pairs % 10 == 3).sum())
        low, high = client.get("/v1/model").json()["scale"]["range"]
        assert low < high
        assert len(client.get("/v1/map").json()["items"]) == 10


def test_a_long_tail_of_the_mean_is_a_list(client):
    body = {"ratings": {"101": 5}, "by": "mean", "long_tail": 1, "n": 5}
    assert len(client.post("/v1/recommend", json=body).json()["items"]) == 5


def test_deciles_of_popularity_are_shares_of_all_ratings(client):
    deciles = client.get("/v1/model").json()["popularity_deciles"]
    counts = np.array([one["n_ratings"] for one in client.get("/v1/items").json()["items"]])
    assert len(deciles) == 11
    assert deciles[-1] == counts.max()
    for tenths, most in enumerate(deciles):
        assert counts[counts <= most].sum() >= tenths / 10 * counts.sum()
        assert counts[counts < most].sum() <= tenths / 10 * counts.sum()
