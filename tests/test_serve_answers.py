"""The service answers what the library answers, about known, new and stored people."""

import json
import math
from uuid import UUID

import numpy as np
import pytest

from ordbm.serve.id_text import id_of_json, id_of_key, id_of_text, key_of_id, plain_id
from service_runs import asked_here, settings_for, small_model

pytestmark = pytest.mark.filterwarnings("ignore:none of these:UserWarning")


@pytest.fixture(scope="module")
def client(served_model, tmp_path_factory):
    with asked_here(settings_for(served_model, tmp_path_factory.mktemp("answers"))) as found:
        yield found


def ask(client, route, status=200, **body):
    answer = client.post(f"/v1/{route}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


ABOUT = [
    ({"user": 3}, {"user": 3}),
    ({"ratings": {"101": 4, "105": 1}}, {"ratings": {101: 4, 105: 1}}),
    ({"ratings": [{"item": 101, "rating": 4}]}, {"ratings": {101: 4}}),
    ({"user": 3, "ratings": {"101": 4, "105": 1}}, {"user": 3, "ratings": {101: 4, 105: 1}}),
    ({"user": "nobody"}, {"ratings": {}}),
]


@pytest.mark.parametrize(("about", "library"), ABOUT)
def test_predictions_are_the_librarys(client, served_model, about, library):
    answer = ask(client, "predict", items=[102, 107, 5000], **about)
    pairs = {"users": library.get("user"), "ratings": library.get("ratings")}
    found = served_model.distribution(items=[102, 107, 5000], **pairs)
    rated = served_model.rated_proba(items=[102, 107, 5000], **pairs)
    for row, one in enumerate(answer["predictions"]):
        assert np.allclose(one["distribution"], found.proba[row])
        assert one["mean"] == pytest.approx(found.mean()[row])
        assert one["median"] == found.median()[row]
        assert one["mode"] == found.mode()[row]
        assert one["confidence"] == pytest.approx(found.confidence()[row])
        assert one["p_rated"] == pytest.approx(rated[row])
        assert one["known_item"] == (one["item"] != 5000)
        assert one["known"] == (one["known_item"] and answer["known_user"])
    assert answer["known_user"] == ("nobody" not in about.values())
    assert answer["levels"] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mass", [0.5, 0.8, 0.99])
def test_an_interval_holds_its_mass_and_no_more_than_it_must(client, mass):
    answer = ask(client, "predict", items=list(range(100, 129)), user=2, mass=mass)
    for one in answer["predictions"]:
        proba, levels = np.array(one["distribution"]), np.array(answer["levels"])
        low, high = one["interval"]["low"], one["interval"]["high"]
        assert proba[(levels >= low) & (levels <= high)].sum() >= mass - 1e-9
        # Whatever lies outside is less than a tail on each side, and one level more would be more.
        assert proba[levels < low].sum() <= (1 - mass) / 2 + 1e-9
        assert proba[levels > high].sum() <= (1 - mass) / 2 + 1e-9
        assert proba[levels <= low].sum() > (1 - mass) / 2 - 1e-9


@pytest.mark.parametrize(("about", "library"), ABOUT)
def test_lists_are_the_librarys_and_have_ids_of_their_own(client, served_model, about, library):
    answer = ask(client, "recommend", n=5, **about)
    lines = served_model.recommend(n=5, **library)
    assert [one["item"] for one in answer["items"]] == [line.item for line in lines]
    assert [one["score"] for one in answer["items"]] == pytest.approx(
        [line.score for line in lines]
    )
    assert ask(client, "recommend", n=5, **about)["list_id"] != answer["list_id"]


def test_lists_take_the_librarys_options(client, served_model):
    from ordbm import scores

    by = scores.LongTail(scores.AtLeast(4), 0.3)
    found = ask(client, "recommend", user=1, n=4, at_least=4, long_tail=0.3, exclude=[101, "x"])
    expected = served_model.recommend(1, n=4, by=by, exclude=[101])
    assert [one["item"] for one in found["items"]] == [line.item for line in expected]
    few = ask(client, "recommend", user=1, candidates=[102, 103, "x"], by="mean")
    assert {one["item"] for one in few["items"]} <= {102, 103}
    whole = ask(client, "recommend", user=1, n=2, distributions=True)["items"]
    alone = ask(client, "predict", user=1, items=[one["item"] for one in whole])["predictions"]
    assert [one["distribution"] for one in whole] == [one["distribution"] for one in alone]


def test_an_explanation_adds_up_and_names_no_other_person(client, served_model):
    answer = ask(client, "explain", user=3, item=101)
    parts = sum(part["effect"] for part in answer["parts"])
    assert answer["base"] + parts == pytest.approx(answer["final"])
    assert answer["final"] == pytest.approx(served_model.explain(3, 101).final)
    assert all("user" not in part for part in answer["parts"])


def test_two_people_together_are_the_librarys_joint(client, served_model):
    people = [{"user": 3}, {"ratings": {"101": 5}}]
    answer = ask(client, "joint", people=people, items=[102, 103])
    given = {3: {}, "new": {101: 5}}
    pairs = [3, 3, "new", "new"], [102, 103, 102, 103]
    found = served_model.predict_joint(*pairs, ratings=given)
    assert [one["mean"] for one in answer["pairs"]] == pytest.approx(list(found.mean()))
    assert np.allclose(answer["covariance"], found.covariance())
    assert answer["all_at_least"] == {
        "rating": 4.0,
        "p": pytest.approx(found.probability((found.values >= 4).all(axis=1))),
    }
    alone = ask(client, "joint", user=3, items=[102, 103])
    assert [one["mean"] for one in alone["pairs"]] == pytest.approx(
        list(served_model.predict_joint(3, [102, 103]).mean())
    )


def test_a_batch_is_its_questions_one_by_one(client):
    questions = [{"user": 1, "items": [101]}, {"ratings": {"101": 2}, "items": [102, 103]}]
    batch = ask(client, "predict/batch", questions=questions)["answers"]
    assert batch == [ask(client, "predict", **one) for one in questions]
    lists = ask(client, "recommend/batch", questions=[{"user": 1}, {"user": 2}])["answers"]
    assert [one["user"] for one in lists] == [1, 2]
    parts = [{"user": 1, "item": 101}, {"ratings": {"101": 2}, "item": 102}]
    batch = ask(client, "explain/batch", questions=parts)["answers"]
    assert batch == [ask(client, "explain", **one) for one in parts]
    assert len(ask(client, "joint/batch", questions=[{"user": 1, "items": [101]}])["answers"]) == 1


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("predict", {"items": [101]}, "who it is about"),
        ("predict", {"user": 1, "items": []}, "items"),
        ("predict", {"user": "1", "items": [101]}, "give 1"),
        ("predict", {"user": 1, "items": ["101"]}, "give 101"),
        ("predict", {"user": True, "items": [101]}, "not an id"),
        ("predict", {"user": 1, "items": [101], "what": 1}, "what"),
        ("predict", {"ratings": {"101": 9}, "items": [101]}, "off the scale"),
        ("predict", {"ratings": {"5000": 3}, "items": [101]}, "not in this model"),
        ("predict", {"ratings": {"101": 3, '"101"': 3}, "items": [101]}, "give 101"),
        ("predict", {"ratings": [{"item": 101, "rating": 3}] * 2, "items": [101]}, "twice"),
        ("predict", {"user": {"uuid": "x"}, "items": [101]}, "not an id"),
        ("predict", {"user": "x" * 600, "items": [101]}, "the most"),
        ("recommend", {"user": 1, "n": 0}, "n"),
        ("recommend", {"user": 1, "by": "mean", "at_least": 4}, "leave one out"),
        ("recommend", {"user": 1, "by": "energy", "long_tail": 1}, "zero differs"),
        ("explain", {"user": 1, "item": 101, "threshold": 1}, "lowest level"),
        ("joint", {"user": 1, "items": [101, 101]}, "more than once"),
        ("joint", {"people": [{"user": 1}] * 2, "items": [101]}, "different"),
        ("joint", {"people": [{"user": 1}] * 4, "items": [101, 102]}, "at most"),
    ],
)
def test_what_cannot_be_answered_is_told_in_a_problem_document(client, route, body, words):
    answer = client.post(f"/v1/{route}", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert words in told["detail"]
    assert told["status"] == 422
    assert told["request_id"] == answer.headers["x-request-id"]


def test_neighbours_are_the_librarys_and_titles_are_found(client, served_model):
    client.put("/v1/items/104", json={"title": "Amélie's  Café", "features": {"year": 2001}})
    found = client.get("/v1/items/101/similar", params={"n": 29}).json()["similar"]
    expected = served_model.similar_items(101, 29)
    assert [one["id"] for one in found] == [one.id for one in expected]
    assert {one["title"] for one in found if one["id"] == 104} == {"Amélie's  Café"}
    for text in ("amelie", "CAFÉ amé", "café"):
        assert [one["item"] for one in _search(client, text)] == [104]
    assert _search(client, "amelie nothing") == []
    assert _search(client, "%") == _search(client, "_") == []
    people = client.get("/v1/users/3/similar").json()["similar"]
    assert [one["id"] for one in people] == [one.id for one in served_model.similar_users(3, 10)]


def _search(client, text):
    return client.get("/v1/items", params={"search": text}).json()["items"]


def test_pages_of_the_catalogue_make_it_whole(client, served_model):
    seen, after = [], None
    while True:
        page = client.get("/v1/items", params={"limit": 7, **({"after": after} if after else {})})
        seen += page.json()["items"]
        after = page.json()["next"]
        if after is None:
            break
    items = [one["item"] for one in seen]
    assert len(items) == len(set(items))
    assert set(items) >= set(served_model.items)
    counts = [one["n_ratings"] for one in seen]
    assert counts == sorted(counts, reverse=True)
    assert client.get("/v1/items", params={"after": "nonsense"}).status_code == 422


def test_what_has_not_changed_is_not_sent_again(client):
    for address in ("/v1/model", "/v1/items", "/v1/items/101/similar", "/v1/users/3"):
        first = client.get(address)
        again = client.get(address, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b""), address
    assert client.get("/v1/model").json()["version"] in client.get("/v1/model").headers["etag"]


def test_long_answers_are_compressed_for_who_takes_that(client):
    told = client.get("/v1/items", headers={"Accept-Encoding": "gzip"})
    assert told.headers["content-encoding"] == "gzip"
    plain = client.get("/v1/items", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == told.json()


# -- ids of any type -------------------------------------------------------------------------------

IDS = ["anna", "1", 1, "a/b", "é ü", "..", "", '"', "{}", "%2F", UUID(int=5), ("a", 1), 2.5, -7,
       "a\x00b", "line\nend", 2**70]  # fmt: skip


@pytest.mark.parametrize("value", IDS, ids=repr)
def test_an_id_keeps_its_type_in_the_database_and_in_json(value):
    assert id_of_key(key_of_id(value)) == value
    assert type(id_of_key(key_of_id(value))) is type(value)
    assert id_of_json(json.loads(json.dumps(plain_id(value)))) == value


@pytest.mark.parametrize("text", ["[]", "[1]", "null", "true", '{"uuid": 3}', '{"no": "x"}', "{}"])
def test_what_is_no_id_is_told(text):
    with pytest.raises(ValueError, match="not an id"):
        id_of_json(json.loads(text))


def test_whole_floats_are_integers_and_infinity_is_no_id():
    assert type(id_of_json(5.0)) is int
    with pytest.raises(ValueError, match="missing or infinite"):
        id_of_json(math.inf)


def test_a_segment_is_of_the_models_kind_or_json():
    from ordbm.data.ids import IdMap

    numbers, texts, both = IdMap((1, 2, 2.5)), IdMap(("1", "b")), IdMap((1, "7"))
    assert id_of_text("1", numbers) == 1
    assert id_of_text("1", texts) == "1"
    assert id_of_text("007", numbers) == "007"
    assert id_of_text("2.5", numbers) == 2.5
    assert id_of_text('"1"', numbers) == "1"
    assert id_of_text("7", both) == "7"
    assert id_of_text("8", both) == 8
    assert id_of_text("8", IdMap(())) == 8


def test_people_and_items_of_any_type_are_stored_and_asked_about(tmp_path):
    users = [f"user {one}/ä" for one in range(23)] + ["42"]
    items = [UUID(int=one) for one in range(20)] + [0, 1, 2, 3, 4, 5, 6, "7", 8, 9]
    model = small_model(users, items, scale=("poor", "fair", "good"))
    from urllib.parse import quote

    with asked_here(settings_for(model, tmp_path)) as client:
        for item in (items[0], items[24], "new", "7"):
            text = item if isinstance(item, str) and item != "7" else json.dumps(plain_id(item))
            for user in (users[3], "42", "brand new/%2F?#", "..", ""):
                who = user if user.strip(".") else json.dumps(user)
                address = f"/v1/users/{quote(who, safe='')}"
                stored = client.put(
                    f"{address}/ratings/{quote(text, safe='')}", json={"rating": "good"}
                )
                assert stored.status_code == 200, (address, text, stored.text)
                assert stored.json()["user"] == user
                assert stored.json()["item"] == plain_id(item)
                assert client.get(address).json()["user"] == user
                answer = client.post(
                    "/v1/predict", json={"user": user, "items": [plain_id(items[1])]}
                )
                assert answer.json()["levels"] == ["poor", "fair", "good"]
                assert answer.json()["user"] == user


def test_a_continuous_scale_is_served_too(tmp_path):
    import ordbm

    rng = np.random.default_rng(0)
    ratings = ordbm.Ratings(
        rng.integers(15, size=200), rng.integers(12, size=200), rng.normal(size=200),
        scale="continuous", duplicates="last",
    )  # fmt: skip
    model = ordbm.OrdinalBM(hidden=2, members=1, epochs=1, item_links=0, threads=1).fit(ratings)
    with asked_here(settings_for(model, tmp_path)) as client:
        stored = client.put("/v1/users/3/ratings/4", json={"rating": 0.25}).json()
        assert stored["rating"] == 0.25
        answer = ask(client, "predict", user=3, items=[5])
        one = answer["predictions"][0]
        assert answer["levels"] is one["distribution"] is None
        found = model.distribution(3, [5], ratings={4: 0.25})
        assert one["mean"] == pytest.approx(found.mean()[0])
        assert one["interval"]["high"] == pytest.approx(found.quantile(0.9)[0])
        assert ask(client, "joint", user=3, items=[5, 6])["pairs"][0]["item"] == 5
        assert ask(client, "explain", user=3, item=5)["measure"] == "mean"
        assert ask(client, "recommend", user=3, by="mean", n=2)["items"]
        assert client.get("/v1/model/quality").json()["ratings"] == 1
