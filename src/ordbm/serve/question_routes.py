"""Routes that ask the model: predict, recommend, explain, joint; alone and in batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from fastapi import APIRouter, Depends
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from ordbm.serve.answer_json import (
    Answer,
    asked_person,
    explained,
    joint,
    recommended,
)
from ordbm.serve.answer_schema import (
    BatchAnswer,
    ExplainAnswer,
    JointAnswer,
    PredictAnswer,
    RecommendAnswer,
)
from ordbm.serve.catalogue_rows import titles_of_items
from ordbm.serve.feedback_rows import dismissed_by
from ordbm.serve.id_text import id_of_json, key_of_id
from ordbm.serve.model_slot import Served
from ordbm.serve.person import Person
from ordbm.serve.predict_together import predict_together
from ordbm.serve.problems import Problem, problem_answers
from ordbm.serve.question_route import QuestionRoute
from ordbm.serve.questions import (
    Batch,
    ExplainQuestion,
    JointQuestion,
    PersonQuestion,
    PredictQuestion,
    RecommendQuestion,
)
from ordbm.serve.rating_rows import NOTHING_SAID, Said, said_by
from ordbm.serve.service import InService, Service, may

QUESTIONS = APIRouter(
    prefix="/v1",
    tags=["questions"],
    route_class=QuestionRoute,
    dependencies=[Depends(may("read"))],  # for the document: QuestionRoute checks it
    responses=problem_answers(400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 503),
)
_Q = TypeVar("_Q", bound=PersonQuestion)


def said_since(service: Service, served: Served, user: Hashable | None) -> Said:
    """What somebody said that the model has not learnt."""
    if user is None:
        return NOTHING_SAID
    return service.store.read(lambda connection: said_by(connection, user, served.version.folded))


def who_asks(service: Service, served: Served, question: PersonQuestion) -> Person:
    """The person of a question, with what the database has of them."""
    return asked_person(served.model, question, said_since(service, served, question.user))


def recommend_now(service: Service, question: RecommendQuestion) -> Answer:
    """A list with titles, noted under its id."""
    served = service.slot.now()
    user = question.user

    def read(connection: Connection) -> tuple[Said, set[Hashable]]:
        if user is None:
            return NOTHING_SAID, set()
        said = said_by(connection, user, served.version.folded)
        return said, dismissed_by(connection, user)

    said, hidden = service.store.read(read)
    person = asked_person(served.model, question, said)
    answer = {
        "model": served.version.name,
        **recommended(served.model, person, question, tuple(hidden)),
    }
    ids = [id_of_json(one["item"]) for one in answer["items"]]
    titles = service.store.read(lambda connection: titles_of_items(connection, ids))
    for line, item in zip(answer["items"], ids, strict=True):
        line["title"] = titles.get(key_of_id(item))
    shown = [one["item"] for one in answer["items"]]
    service.lists.note(answer["list_id"], user, served.version.name, shown)
    return answer


def explain_now(service: Service, question: ExplainQuestion) -> Answer:
    """What moved a prediction."""
    served = service.slot.now()
    person = who_asks(service, served, question)
    return {"model": served.version.name, **explained(served.model, person, question)}


def joint_now(service: Service, question: JointQuestion) -> Answer:
    """Ratings expected together."""
    served = service.slot.now()
    people = [who_asks(service, served, one) for one in question.people or [question]]
    return {"model": served.version.name, **joint(served.model, people, question)}


def _answer_or_error(found: Answer | Exception) -> Answer:
    if isinstance(found, Exception):
        raise found
    return found


async def _one(service: Service, answer: Callable[[Service, _Q], Answer], question: _Q) -> Response:
    return JSONResponse(await service.question_room.do(partial(answer, service, question)))


async def _batch(
    service: Service, answer: Callable[[Service, _Q], Answer], batch: Batch[_Q]
) -> Response:
    """Answers in order; the first question that cannot be answered is the problem of all."""
    return await _in_order(
        service, batch, lambda: [answer(service, question) for question in batch.questions]
    )


async def _in_order(
    service: Service, batch: Batch[_Q], answers: Callable[[], list[Answer]]
) -> Response:
    if len(batch.questions) > service.settings.max_batch:
        raise Problem(413, f"more than {service.settings.max_batch} questions: send fewer at once")
    return JSONResponse({"answers": await service.workroom.do(answers)})


@QUESTIONS.post("/predict", response_model=PredictAnswer)
async def predict_ratings(service: InService, question: PredictQuestion) -> Any:
    """What somebody would rate items: the whole distribution, and what is read off it."""
    return JSONResponse(await service.predicting.ask(question))


@QUESTIONS.post("/predict/batch", response_model=BatchAnswer[PredictAnswer])
async def predict_batch(service: InService, batch: Batch[PredictQuestion]) -> Any:
    """The same for several people."""

    def answers() -> list[Answer]:
        found = dict(chain.from_iterable(predict_together(service, batch.questions)))
        return [_answer_or_error(found[number]) for number in range(len(found))]

    return await _in_order(service, batch, answers)


@QUESTIONS.post("/recommend", response_model=RecommendAnswer)
async def recommend_items(service: InService, question: RecommendQuestion) -> Any:
    """The best items of the whole catalogue; what somebody has rated or dismissed is left out."""
    return await _one(service, recommend_now, question)


@QUESTIONS.post("/recommend/batch", response_model=BatchAnswer[RecommendAnswer])
async def recommend_batch(service: InService, batch: Batch[RecommendQuestion]) -> Any:
    """The same for several people."""
    return await _batch(service, recommend_now, batch)


@QUESTIONS.post("/explain", response_model=ExplainAnswer)
async def explain_prediction(service: InService, question: ExplainQuestion) -> Any:
    """What moved a prediction, in parts that add up: `base` plus all effects is `final`."""
    return await _one(service, explain_now, question)


@QUESTIONS.post("/explain/batch", response_model=BatchAnswer[ExplainAnswer])
async def explain_batch(service: InService, batch: Batch[ExplainQuestion]) -> Any:
    """The same for several predictions."""
    return await _batch(service, explain_now, batch)


@QUESTIONS.post("/joint", response_model=JointAnswer)
async def joint_distribution(service: InService, question: JointQuestion) -> Any:
    """Ratings expected together, of one person's items or of several people's."""
    return await _one(service, joint_now, question)


@QUESTIONS.post("/joint/batch", response_model=BatchAnswer[JointAnswer])
async def joint_batch(service: InService, batch: Batch[JointQuestion]) -> Any:
    """The same for several questions, as one for each item that two people might watch."""
    return await _batch(service, joint_now, batch)
