"""Routes of items: search, pages, titles and features, neighbours; feedback on lists."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import JSONResponse, Response

from ordbm.serve.answer_schema import DescribedItem, Item, ItemPage, SimilarAnswer
from ordbm.serve.catalogue_rows import item_row, put_item, search_items, titles_of_items
from ordbm.serve.feedback_rows import is_stored, put_feedback
from ordbm.serve.id_text import key_of_id, plain_id
from ordbm.serve.item_features import check_features, learnt_features
from ordbm.serve.person import known_of
from ordbm.serve.person_routes import item_of_path
from ordbm.serve.problems import Problem, problem_answers
from ordbm.serve.questions import FeedbackBody, ItemBody
from ordbm.serve.service import InService, answered, may
from ordbm.serve.shown_lists import EVERY

CATALOGUE = APIRouter(
    prefix="/v1",
    tags=["items"],
    responses=problem_answers(400, 401, 403, 404, 413, 421, 422, 429, 500, 503, 507),
)


@CATALOGUE.get("/items", response_model=ItemPage, dependencies=[Depends(may("read"))])
async def get_items(
    service: InService,
    request: Request,
    search: Annotated[str, Query(max_length=200, description="Words of the title.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    after: Annotated[str | None, Query(max_length=1500)] = None,
) -> Any:
    """The catalogue by pages, the most rated first, or what a search by title finds."""

    def work() -> dict[str, Any]:
        service.slot.now()
        place = None if after is None else _place_of(after)
        items, further = service.store.read(
            lambda connection: search_items(connection, search, limit, place)
        )
        return {"items": items, "next": None if further is None else _cursor_of(further)}

    return answered(request, await service.workroom.do(work))


def _cursor_of(place: tuple[int, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place_of(cursor: str) -> tuple[int, str]:
    try:
        n_ratings, key = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii")))
        if type(n_ratings) is int and abs(n_ratings) < 2**31 and type(key) is str:
            return n_ratings, key.encode("ascii").decode()
    except (ValueError, TypeError, binascii.Error, RecursionError):
        pass
    raise Problem(422, "after must be what a page before gave as next")


@CATALOGUE.get("/items/{item}", response_model=Item, dependencies=[Depends(may("read"))])
async def get_item(service: InService, request: Request, item: str) -> Any:
    """What is known of an item."""

    def work() -> dict[str, Any]:
        what = item_of_path(service.slot.now(), item)
        row = service.store.read(lambda connection: item_row(connection, what))
        if row is None:
            raise Problem(404, "there is no item of this id")
        return row

    return answered(request, await service.workroom.do(work))


@CATALOGUE.put("/items/{item}", response_model=DescribedItem, dependencies=[Depends(may("write"))])
async def put_item_features(service: InService, item: str, body: ItemBody) -> Any:
    """Title and features of an item, new or known; what is left out here is removed.

    A model that was learnt with features of items takes in those of the same names at its next
    update. Other features, and those beside a model learnt without any, are shown and exported.
    """

    def work() -> dict[str, Any]:
        served = service.slot.now()
        what = item_of_path(served, item)
        check_features(served.model, body.features)
        service.store.write(
            lambda connection: put_item(connection, what, body.title, body.features)
        )
        row = service.store.read(lambda connection: item_row(connection, what))
        assert row is not None
        names = learnt_features(served.model)
        return {**row, "learnt_from": [name for name in names if name in (row["features"] or {})]}

    return JSONResponse(await service.workroom.do(work))


@CATALOGUE.get(
    "/items/{item}/similar", response_model=SimilarAnswer, dependencies=[Depends(may("read"))]
)
async def similar_items(
    service: InService, request: Request, item: str, n: Annotated[int, Query(ge=1, le=1000)] = 10
) -> Any:
    """The items nearest to one in hidden space."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        what = item_of_path(served, item)
        if not known_of(served.model).known_items([what])[0]:
            raise Problem(404, "the model knows no item of this id")
        found = served.model.similar_items(what, n)
        ids = [one.id for one in found]
        titles = service.store.read(lambda connection: titles_of_items(connection, ids))
        return {
            "model": served.version.name,
            "similar": [
                {
                    "id": plain_id(one.id), "similarity": one.similarity,
                    "title": titles.get(key_of_id(one.id)),
                }
                for one in found
            ],
        }  # fmt: skip

    return answered(request, await service.workroom.do(work))


@CATALOGUE.post("/lists/{list_id}/feedback", status_code=204, dependencies=[Depends(may("write"))])
async def give_feedback(
    service: InService,
    list_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{10,40}$")],
    body: FeedbackBody,
) -> Response:
    """What became of an item of a list; what was dismissed is in no list of that person again."""

    def is_known() -> bool:
        service.lists.write()
        return service.store.read(lambda connection: is_stored(connection, list_id))

    def work() -> None:
        service.store.write(
            lambda connection: put_feedback(connection, list_id, body.item, body.kind, body.user)
        )

    if body.user is None and not await service.workroom.do(is_known):
        await asyncio.sleep(1.2 * EVERY)  # another worker has shown it and stores it meanwhile
    await service.workroom.do(work)
    return Response(status_code=204)
