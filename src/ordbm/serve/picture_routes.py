"""Routes for what the page draws: the map of items, somebody's place on it, an item's raters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse

from ordbm.serve.answer_schema import ItemLevels, ItemLinks, MapAnswer, PlaceAnswer
from ordbm.serve.catalogue_rows import titles_of_items
from ordbm.serve.id_text import id_of_json, key_of_id, plain_id
from ordbm.serve.model_slot import Served
from ordbm.serve.person import known_of
from ordbm.serve.person_routes import item_of_path
from ordbm.serve.picture_json import (
    MOST_ON_MAP,
    counts_by_level,
    item_map,
    links_of_item,
    place_of,
)
from ordbm.serve.problems import Problem, problem_answers
from ordbm.serve.question_routes import who_asks
from ordbm.serve.questions import PersonQuestion
from ordbm.serve.service import InService, Service, answered, may

PICTURES = APIRouter(
    prefix="/v1",
    tags=["pictures"],
    dependencies=[Depends(may("read"))],
    responses=problem_answers(400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 500, 503),
)
OnMap = Annotated[int, Query(ge=1, le=MOST_ON_MAP, description="How many items.")]


def _titles(service: Service, items: Iterable[Hashable]) -> dict[str, str | None]:
    ids = list(items)
    return service.store.read(lambda connection: titles_of_items(connection, ids))


def _known_item(served: Served, text: str) -> Hashable:
    item = item_of_path(served, text)
    if not known_of(served.model).known_items([item])[0]:
        raise Problem(404, "the model knows no item of this id")
    return item


@PICTURES.get("/map", response_model=MapAnswer)
async def get_map(service: InService, request: Request, n: OnMap = 300) -> Any:
    """The most rated items along the two principal axes of the hidden space."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        found = item_map(served.model, n)
        titles = _titles(service, found.ids)
        return {
            "model": served.version.name,
            "items": [
                {
                    "item": plain_id(item), "title": titles.get(key_of_id(item)),
                    "x": x, "y": y, "n_ratings": count,
                }
                for item, (x, y), count in zip(
                    found.ids, found.place.tolist(), found.n_ratings, strict=True
                )
            ],
        }  # fmt: skip

    return answered(request, await service.workroom.do(work))


@PICTURES.post("/map/place", response_model=PlaceAnswer)
async def get_place(service: InService, question: PersonQuestion, n: OnMap = 300) -> Any:
    """Where somebody is on the map of so many items, and what is expected of each of these."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        person = who_asks(service, served, question)
        return {"model": served.version.name, **place_of(served.model, person, n)}

    return JSONResponse(await service.workroom.do(work))


@PICTURES.get("/items/{item}/levels", response_model=ItemLevels)
async def get_levels(service: InService, request: Request, item: str) -> Any:
    """How often the ratings that the model learnt give an item each level."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        found = counts_by_level(served.model, _known_item(served, item))
        return {"model": served.version.name, **found}

    return answered(request, await service.workroom.do(work))


@PICTURES.get("/items/{item}/links", response_model=ItemLinks)
async def get_links(
    service: InService, request: Request, item: str, n: Annotated[int, Query(ge=1, le=100)] = 10
) -> Any:
    """The items that an item is linked with most strongly, in either sense, by kind of link."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        found = links_of_item(served.model, _known_item(served, item), n)
        ids = {id_of_json(one["item"]) for links in found.values() for one in links}
        titles = _titles(service, ids)
        for links in found.values():
            for one in links:
                one["title"] = titles.get(key_of_id(id_of_json(one["item"])))
        return {"model": served.version.name, **found}

    return answered(request, await service.workroom.do(work))
