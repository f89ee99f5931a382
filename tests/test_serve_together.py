"""Questions that wait for each other: answered as if each were alone, wrong ones apart."""

import asyncio
import threading

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")

from ordbm.serve.gathering import Gathering
from ordbm.serve.predict_together import FEW_ITEMS, predict_together
from ordbm.serve.problems import Problem
from ordbm.serve.questions import PredictQuestion
from ordbm.serve.rating_rows import erase, put_ratings, said_by, said_by_each
from ordbm.serve.workroom import Workroom
from page_runs import continuous_model
from service_runs import asked_here, migrated, settings_for, small_model

QUESTIONS = [
    {"user": 1, "items": [101, 102]},
    {"user": 2, "items": [101], "mass": 0.5},
    {"user": 1, "items": [5000, 103]},
    {"user": 1, "items": ["101"]},  # text, where ids are numbers
    {"user": 77, "items": [101]},  # a stranger
    {"user": 3, "items": [104]},  # has said more since
    {"user": 4, "items": [104]},  # was erased
    {"ratings": {"101": 5}, "items": [102]},
    {"user": 5, "ratings": {"101": 1}, "items": [102]},
    {"ratings": {"101": 77}, "items": [102]},  # off the scale
    {"user": 6, "items": list(range(101, 101 + FEW_ITEMS + 3))},
]
WRONG = {3, 9}


def found_of(service, asked):
    """What comes of each question, and how often something was told."""
    questions = [PredictQuestion.model_validate(one) for one in asked]
    groups = list(predict_together(service, questions))
    found = dict(pair for group in groups for pair in group)
    assert len(found) == sum(map(len, groups)) == len(asked)
    return found, len(groups)


@pytest.mark.parametrize("kind", ["levels", "labels", "bare", "continuous"])
def test_together_as_alone(kind, tmp_path):
    model = {
        "levels": small_model,
        "labels": lambda: small_model(scale=("no", "well", "yes")),
        "bare": lambda: small_model(hidden=0),
        "continuous": continuous_model,
    }[kind]()
    told = {"labels": "yes", "continuous": 3.25}.get(kind, 5.0)
    with asked_here(settings_for(model, tmp_path)) as client:
        store = client.service.store
        item = 101 if kind != "continuous" else model.items[1]
        store.write(lambda one: put_ratings(one, [(3, item, told)]))
        store.write(lambda one: erase(one, 4))
        asked = [one for one in QUESTIONS if "ratings" not in one]
        if kind == "levels":
            asked = QUESTIONS
        elif kind == "continuous":
            asked = [{**one, "items": model.items[:3]} for one in asked]
        together, n_groups = found_of(client.service, asked)
        assert n_groups < len(asked)
        for number, one in enumerate(asked):
            (alone,) = found_of(client.service, [one])[0].values()
            if isinstance(alone, Exception):
                assert kind != "levels" or number in WRONG
                assert type(together[number]) is type(alone)
                assert str(together[number]) == str(alone)
                continue
            assert kind != "levels" or number not in WRONG
            assert _numbers_apart(together[number]) == _numbers_apart(alone)
            np.testing.assert_allclose(
                _numbers(together[number]), _numbers(alone), rtol=1e-6, atol=1e-9
            )


def _numbers_apart(answer):
    """An answer without its numbers that are reckoned."""
    rows = [
        {name: value for name, value in one.items() if not isinstance(value, float | list | dict)}
        for one in answer["predictions"]
    ]
    return {**answer, "predictions": rows}


def _numbers(answer):
    return [
        number
        for one in answer["predictions"]
        for number in (
            one["mean"], one["median"], one["mode"], one["deviation"], one["confidence"],
            *one["interval"].values(), one["p_rated"] or 0.0, *(one["distribution"] or []),
        )
    ]  # fmt: skip


def test_what_each_said_is_read_at_once(database):
    store = migrated(database)
    said = [(1, 101, 4.0), (1, 102, None), ("1", 101, 2.0), (2, 101, 3.0)]
    for one in said:
        store.write(lambda connection, one=one: put_ratings(connection, [one]))
    number = store.write(lambda connection: erase(connection, 2))
    store.write(lambda connection: put_ratings(connection, [(2, 103, 1.0)]))
    users = [1, "1", 2, 3]
    for since in (0, 1, number):
        together = store.read(lambda one, since=since: said_by_each(one, users, since))
        for user in users:
            alone = store.read(lambda one, user=user, since=since: said_by(one, user, since))
            assert together.get(user, alone) == alone
    assert store.read(lambda one: said_by_each(one, [], 0)) == {}
    whole = store.read(lambda one: said_by_each(one, users, 0))
    assert {user: one.ratings for user, one in whole.items()} == {
        1: {101: 4.0, 102: None}, "1": {101: 2.0}, 2: {103: 1.0},
    }  # fmt: skip
    assert [whole[user].is_erased for user in (1, "1", 2)] == [False, False, True]
    store.close()


# -- gathering -------------------------------------------------------------------------------------


class Answering:
    """Doubles numbers, once it is let; notes which came together."""

    def __init__(self):
        self.groups, self.gate = [], threading.Event()

    def __call__(self, questions):
        assert self.gate.wait(60)
        self.groups.append(list(questions))
        yield [(n, 2 * one) for n, one in enumerate(questions) if one % 2]
        for number, one in enumerate(questions):
            if one == 666:
                raise RuntimeError("of all that are left")
            if one % 2 == 0:
                yield [(number, ValueError(one) if one == 4 else 2 * one)]


def gathered(asked, most=3, queue=64, timeout=60.0, before=None):
    """What comes of questions that are asked one after the other, the first of them at work."""
    answering, room = Answering(), Workroom(1, queue, timeout)

    async def all_of_them():
        gathering = Gathering(room, answering, most)
        tasks = []
        for one in asked:
            tasks.append(asyncio.ensure_future(gathering.ask(one)))
            await asyncio.sleep(0.02)
        if before is not None:
            await before(tasks)
        answering.gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        while room.taken:  # what nobody waits for any more comes to its end
            await asyncio.sleep(0.01)
        return found

    found = asyncio.run(all_of_them())
    room.close()
    return found, answering.groups, room


def test_what_waits_is_answered_together_and_no_more_than_that():
    found, groups, room = gathered([1, 2, 3, 5, 6, 8])
    assert found == [2, 4, 6, 10, 12, 16]
    assert [one for group in groups for one in group] == [1, 2, 3, 5, 6, 8]
    assert groups[0] == [1]
    assert all(len(group) <= 3 for group in groups)
    assert len(groups) < 6
    assert room.taken == 0


def test_an_error_is_of_its_question_or_of_all_that_are_left():
    found, *_ = gathered([1, 2, 4, 3])
    assert [found[place] for place in (0, 1, 3)] == [2, 4, 6]
    assert isinstance(found[2], ValueError)
    found, *_, room = gathered([1, 3, 666, 2, 7])
    assert found[:2] == [2, 6]
    assert isinstance(found[2], RuntimeError)
    assert isinstance(found[3], RuntimeError)
    assert found[4] == 14  # came later
    assert room.taken == 0


def test_no_more_wait_than_there_are_places_and_none_too_long():
    found, *_ = gathered([1, 3, 5, 7], queue=1)
    assert found[:2] == [2, 6]
    assert [type(one) for one in found[2:]] == [Problem, Problem]

    async def wait(_):
        await asyncio.sleep(0.3)

    found, _, room = gathered([1, 3], timeout=0.1, before=wait)
    assert [one.status for one in found] == [503, 503]
    assert room.taken == 0


def test_who_has_gone_is_not_answered():
    async def leave(tasks):
        tasks[1].cancel()
        await asyncio.sleep(0)

    found, *_ = gathered([1, 3, 5], before=leave)
    assert isinstance(found[1], asyncio.CancelledError)
    assert [found[0], found[2]] == [2, 10]
