"""Questions about ratings, of several people at once: one read, and one pass for most of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ordbm.serve.answer_json import Answer, about_person, asked_person, predictions
from ordbm.serve.expected_json import UserQuestion, expected_together
from ordbm.serve.gathering import Answered
from ordbm.serve.person import Person
from ordbm.serve.questions import PredictQuestion
from ordbm.serve.rating_rows import NOTHING_SAID, Said, said_by_each
from ordbm.serve.service import Service

MOST_QUESTIONS = 32  # that are answered together
FEW_ITEMS = 20  # of a question that others wait for


def predict_together(
    service: Service, questions: Sequence[PredictQuestion]
) -> Iterator[Answered[Answer]]:
    """Answers, or errors, by the number of the question; those that take little come first.

    That is users who said nothing that is not learnt, about few items. Others have to be fitted to
    their ratings one by one.
    """
    served = service.slot.now()
    model, version = served.model, served.version
    users = {question.user for question in questions if question.user is not None}
    said: dict[Any, Said] = {}
    if users:
        said = service.store.read(lambda one: said_by_each(one, users, version.folded))
    at_once: list[tuple[int, Person, UserQuestion]] = []
    one_by_one: list[tuple[int, Person]] = []
    wrong: list[tuple[int, Answer | Exception]] = []
    for number, question in enumerate(questions):
        try:
            person = asked_person(model, question, said.get(question.user, NOTHING_SAID))
            codes = model._item_codes(question.items)
        except Exception as error:  # is that of this question, not of the others
            wrong.append((number, error))
            continue
        if person.user is None or person.ratings is not None or len(question.items) > FEW_ITEMS:
            one_by_one.append((number, person))
            continue
        asked = UserQuestion(person.user, question.items, codes, question.mass)
        at_once.append((number, person, asked))
    if wrong:
        yield wrong
    if at_once:
        rows = expected_together(model, [asked for *_, asked in at_once])
        yield [
            (number, _answer(version.name, about_person(model, person), found))
            for (number, person, _), found in zip(at_once, rows, strict=True)
        ]
    for number, person in one_by_one:
        try:
            found = predictions(model, person, questions[number])
        except Exception as error:
            yield [(number, error)]
        else:
            yield [(number, {"model": version.name, **found})]


def _answer(version: str, about: Answer, rows: list[Answer]) -> Answer:
    return {"model": version, **about, "predictions": rows}
