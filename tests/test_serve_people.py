"""Stored people: what was acknowledged is known by the next answer, on either database."""

import io
import json

import numpy as np
import pytest

from service_runs import asked_here, settings_for

pytestmark = pytest.mark.filterwarnings("ignore:none of these:UserWarning")


@pytest.fixture
def client(served_model, tmp_path, database):
    with asked_here(settings_for(served_model, tmp_path, database)) as found:
        yield found


def put(client, user, item, rating):
    answer = client.put(f"/v1/users/{user}/ratings/{item}", json={"rating": rating})
    assert answer.status_code == 200, answer.text
    return answer.json()


def means(client, user, items=(102, 107), **more):
    answer = client.post("/v1/predict", json={"user": user, "items": list(items), **more})
    return [one["mean"] for one in answer.json()["predictions"]]


def ratings_of(client, user):
    answer = client.get(f"/v1/users/{user}", params={"limit": 1000})
    if answer.status_code == 404:
        return {}
    return {one["item"]: one["rating"] for one in answer.json()["ratings"]}


def shown_to(client, user, **more):
    answer = client.post("/v1/recommend", json={"user": user, "n": 1000, **more}).json()
    return answer["list_id"], [one["item"] for one in answer["items"]]


def learnt(model, user):
    from ordbm.serve.person import learnt_ratings_of

    return learnt_ratings_of(model, user)


def test_the_next_answer_knows_a_rating_and_forgets_one_withdrawn(client, served_model):
    before = means(client, 3)
    assert before == pytest.approx(list(served_model.predict(3, [102, 107])))
    new = next(item for item in served_model.items if item not in learnt(served_model, 3))
    put(client, 3, new, 5)
    assert means(client, 3) == pytest.approx(
        list(served_model.predict(3, [102, 107], ratings={new: 5}))
    )
    shown = client.post("/v1/recommend", json={"user": 3, "n": 1000}).json()["items"]
    assert new not in {one["item"] for one in shown}
    put(client, 3, new, 1)  # they change their mind
    assert means(client, 3) == pytest.approx(
        list(served_model.predict(3, [102, 107], ratings={new: 1}))
    )
    assert client.delete(f"/v1/users/3/ratings/{new}").status_code == 204
    assert means(client, 3) == before


def test_a_learnt_rating_that_is_withdrawn_is_not_heard_any_more(client, served_model):
    had = learnt(served_model, 4)
    gone = next(iter(had))
    client.delete(f"/v1/users/4/ratings/{gone}")
    left = {item: rating for item, rating in had.items() if item != gone}
    assert ratings_of(client, 4) == left
    expected = served_model.predict(None, [102, 107], ratings=left)
    assert means(client, 4) == pytest.approx(list(expected))
    put(client, 4, gone, had[gone])  # and said again: as it was learnt
    assert means(client, 4) == pytest.approx(list(served_model.predict(4, [102, 107])))


def test_new_people_and_new_items_appear_by_being_rated(client, served_model):
    assert client.get("/v1/users/999").status_code == 404
    put(client, 999, 101, 5)
    put(client, 999, 777, 4)  # an item that the model does not know
    profile = client.get("/v1/users/999").json()
    assert {(one["item"], one["usable"], one["learnt"]) for one in profile["ratings"]} == {
        (101, True, False), (777, False, False),
    }  # fmt: skip
    assert means(client, 999) == pytest.approx(
        list(served_model.predict(None, [102, 107], ratings={101: 5}))
    )
    assert client.get("/v1/items/777").json()["item"] == 777
    assert client.get("/v1/users/999/similar").json()["similar"]
    with_more = client.post(
        "/v1/predict", json={"user": 999, "ratings": {"105": 1}, "items": [102]}
    )
    expected = served_model.predict(None, [102], ratings={101: 5, 105: 1})
    assert with_more.json()["predictions"][0]["mean"] == pytest.approx(expected[0])


def test_a_request_that_is_repeated_counts_once(client):
    first, again = put(client, 5, 120, 2), put(client, 5, 120, 2)
    assert (first["changed"], again["changed"]) == (True, False)
    lines = client.get("/v1/ratings").text.splitlines()
    assert [json.loads(line)["rating"] for line in lines] == [2]
    assert client.delete("/v1/users/5/ratings/120").status_code == 204
    assert client.delete("/v1/users/5/ratings/120").status_code == 204
    assert client.get("/v1/model").json()["pending"] == 1


def test_somebody_erased_is_a_stranger_everywhere(client, served_model):
    put(client, 6, 120, 2)
    given = {"item": 101, "kind": "opened", "user": 6}
    assert client.post("/v1/lists/AAAAAAAAAAAA/feedback", json=given).status_code == 204
    told = client.get("/v1/users/6/export").json()
    assert {one["item"] for one in told["ratings"]} == set(learnt(served_model, 6)) | {120}
    assert told["feedback"][0]["kind"] == "opened"
    assert [one["item"] for one in told["changes"]] == [120]
    near = client.get("/v1/users/1/similar", params={"n": 100}).json()["similar"]
    assert 6 in {one["id"] for one in near}

    assert client.delete("/v1/users/6").status_code == 204
    assert client.get("/v1/users/6").status_code == 404
    assert client.get("/v1/users/6/similar").status_code == 404
    told = client.get("/v1/users/6/export").json()
    assert [told[name] for name in ("ratings", "changes", "feedback", "lists")] == [[]] * 4
    assert means(client, 6) == pytest.approx(
        list(served_model.predict(None, [102, 107], ratings={}))
    )
    near = client.get("/v1/users/1/similar", params={"n": 100}).json()["similar"]
    assert 6 not in {one["id"] for one in near}
    put(client, 6, 121, 3)  # and comes back as somebody new
    assert ratings_of(client, 6) == {121: 3}


def test_a_profile_comes_by_pages_that_make_it_whole(client, served_model):
    seen, after = [], None
    for item in ("text", 3, 2**40):
        put(client, 7, json.dumps(item) if isinstance(item, str) else item, 2)
    while True:
        told = {"limit": 4} if after is None else {"limit": 4, "after": after}
        page = client.get("/v1/users/7", params=told).json()
        assert page["n_ratings"] == len(learnt(served_model, 7)) + 3
        seen += [one["item"] for one in page["ratings"]]
        after = page["next"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == page["n_ratings"]
    assert set(seen) == set(learnt(served_model, 7)) | {"text", 3, 2**40}


def test_what_was_dismissed_is_in_no_list_of_that_person_again(client):
    list_id, items = shown_to(client, 1)
    given = {"item": items[0], "kind": "dismissed", "user": 1}
    for _ in range(2):
        assert client.post(f"/v1/lists/{list_id}/feedback", json=given).status_code == 204
    assert shown_to(client, 1)[1] == items[1:]
    client.service.lists.write()
    lists = client.get("/v1/users/1/export").json()
    assert list_id in {one["list_id"] for one in lists["lists"]}
    assert len(lists["feedback"]) == 1


ROWS = [
    {"user": 1, "item": 101, "rating": 5},
    {"user": "=cmd|' /C calc'!A0", "item": 102, "rating": 1},
    {"user": "a,b\n\"c\"", "item": 103, "rating": 2},
    {"user": "'quoted", "item": "-7 of 9", "rating": 3},
    {"user": "@sum", "item": "+1", "rating": None},
    {"user": {"uuid": "00000000-0000-0000-0000-000000000005"}, "item": 103, "rating": 4},
]  # fmt: skip


def send(client, text, kind="application/x-ndjson"):
    return client.post("/v1/ratings", content=text, headers={"content-type": kind})


def test_bulk_ratings_come_out_as_they_went_in(client):
    told = "".join(json.dumps(row) + "\n" for row in ROWS)
    assert send(client, told).json() == {"read": 6, "changed": 6}
    assert send(client, told).json() == {"read": 6, "changed": 0}
    found = [json.loads(line) for line in client.get("/v1/ratings").text.splitlines()]
    change = found[0].pop("change")
    for row in found[1:]:
        assert row.pop("change") == change

    def key(row):
        return json.dumps([row["user"], row["item"]])

    assert sorted(found, key=key) == sorted(ROWS, key=key)
    assert client.get("/v1/ratings", params={"after": change}).text == ""


def test_a_csv_holds_no_formula_and_comes_back_as_it_went_out(client):
    import csv

    send(client, "".join(json.dumps(row) + "\n" for row in ROWS))
    before = client.get("/v1/ratings").text
    text = client.get("/v1/ratings", headers={"accept": "text/csv"}).text
    for row in list(csv.reader(io.StringIO(text)))[1:]:
        for cell in row[:3]:
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert send(client, text, "text/csv").json() == {"read": 6, "changed": 0}
    assert client.get("/v1/ratings").text == before


BAD = [
    ('{"user": 1, "item": 101, "rating": 4}\nnonsense', None, "line 2"),
    ('{"user": 1, "item": 101}', None, "line 1"),
    ('{"user": 1, "item": 101, "rating": 9}', None, "off the scale"),
    ('{"user": 1, "item": [1], "rating": 4}', None, "not an id"),
    ('{"user": "1", "item": 101, "rating": 4}', None, "give 1"),
    ('{"user": 1, "item": 101, "rating": NaN}', None, "line 1"),
    ("[" * 5000, None, "line 1"),
    ("x" * 20_000, None, "longer than"),
    ("user,item\n1,2", "text/csv", "line 1"),
    ("user,item,rating\n1,101", "text/csv", "line 2"),
    ("user,item,rating\n1,101,four", "text/csv", "line 2"),
    (b"\xff\xfe", None, "UTF-8"),
]


def test_a_line_that_cannot_be_used_is_named_and_nothing_of_its_thousand_is_stored(client):
    for text, kind, words in BAD:
        answer = send(client, text, kind or "application/x-ndjson")
        assert answer.status_code == 422, text
        assert words in answer.json()["detail"]
        assert "0 ratings before are stored" in answer.json()["detail"]
    assert client.get("/v1/ratings").text == ""
    assert send(client, "", "application/xml").status_code == 415
    good = '{"user": 1, "item": 101, "rating": 4}\n'
    answer = send(client, good * 1500 + "nonsense\n")
    assert "line 1501" in answer.json()["detail"]
    assert "1,000 ratings before are stored" in answer.json()["detail"]


def test_quality_is_of_the_newest_ratings_left_out_of_their_own_predictions(client, served_model):
    assert client.get("/v1/model/quality").json()["ratings"] == 0
    put(client, 3, 104, 5)
    put(client, 999, 101, 1)
    put(client, 999, 102, 4)
    found = client.get("/v1/model/quality").json()
    proba = [
        served_model.predict_proba(3, [104])[0][4],
        served_model.predict_proba(None, [101], ratings={102: 4})[0][0],
        served_model.predict_proba(None, [102], ratings={101: 1})[0][3],
    ]
    assert found["log_loss"] == pytest.approx(-np.log(proba).mean(), rel=1e-5)
    assert sum(row["n"] for row in found["calibration"]) == 3 * 4
    assert sum(found["levels"]["new"]) == pytest.approx(1)


def test_feedback_that_names_a_list_alone_is_of_the_person_whom_it_was_shown_to(client):
    list_id, items = shown_to(client, 2)
    given = {"item": items[3], "kind": "dismissed"}  # before the list is stored by itself
    assert client.post(f"/v1/lists/{list_id}/feedback", json=given).status_code == 204
    assert shown_to(client, 2)[1] == items[:3] + items[4:]
    (told,) = client.get("/v1/users/2/export").json()["feedback"]
    assert (told["list_id"], told["item"]) == (list_id, items[3])


def test_feedback_that_comes_before_its_list_is_of_its_person_once_the_list_is_there(client):
    import time

    from ordbm.serve.feedback_rows import dismissed_by, put_feedback, put_lists
    from ordbm.serve.id_text import key_of_id

    store = client.service.store

    def dismiss(connection):
        for list_id in ("early-list", "other-list"):
            put_feedback(connection, list_id, 101, "dismissed", None)

    store.write(dismiss)
    assert store.read(lambda one: dismissed_by(one, 5)) == set()
    row = {"list_id": "early-list", "user": key_of_id(5), "model": "m", "items": "[101]",
           "time": time.time()}  # fmt: skip
    store.write(lambda one: put_lists(one, [row]))
    assert store.read(lambda one: dismissed_by(one, 5)) == {101}


def test_lists_that_could_not_be_written_are_written_later(client, monkeypatch):
    lists, store = client.service.lists, client.service.store

    def lost(_):
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(store, "write", lost)
        list_id, _ = shown_to(client, 1, n=5)
        with pytest.raises(OSError, match="space"):
            lists.write()
    lists.write()
    kept = client.get("/v1/users/1/export").json()["lists"]
    assert [one["list_id"] for one in kept] == [list_id]
