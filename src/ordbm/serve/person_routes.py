"""Routes of stored people: their ratings, profile, neighbours; all about them, out or away."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Query, Request
from sqlalchemy import Connection, select
from starlette.responses import JSONResponse, Response

from ordbm.serve.answer_schema import Acknowledged, Profile, SimilarAnswer
from ordbm.serve.catalogue_rows import titles_of_items
from ordbm.serve.feedback_rows import feedback_of
from ordbm.serve.id_text import check_kind, id_of_key, id_of_text, key_of_id, plain_id
from ordbm.serve.model_slot import Served
from ordbm.serve.person import (
    Person,
    known_of,
    learnt_ratings_of,
    person_of,
    rating_on,
    whole_ratings_of,
)
from ordbm.serve.problems import Problem, problem_answers
from ordbm.serve.questions import RatingBody
from ordbm.serve.rating_rows import Said, erase, erased_among, put_ratings, said_by
from ordbm.serve.schema import LISTS, RATINGS
from ordbm.serve.service import InService, Service, answered, may

PEOPLE = APIRouter(
    prefix="/v1/users",
    tags=["people"],
    responses=problem_answers(400, 401, 403, 404, 413, 421, 422, 429, 500, 503, 507),
)
_LONGEST_PAGE = 1000


def user_of(served: Served, text: str) -> Hashable:
    """The id in an address."""
    known = known_of(served.model).users
    found = id_of_text(unquoted(text), known)
    check_kind(found, known, "user")
    return found


def item_of_path(served: Served, text: str) -> Hashable:
    """The id in an address."""
    known = known_of(served.model).items
    found = id_of_text(unquoted(text), known)
    check_kind(found, known, "item")
    return found


def unquoted(text: str) -> str:
    """A segment of an address without its escapes."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, "the address is not UTF-8") from None


def _stored_person(service: Service, served: Served, user: Hashable) -> tuple[Person, Said]:
    said = service.store.read(lambda connection: said_by(connection, user, served.version.folded))
    return person_of(served.model, user, said), said


@PEOPLE.put(
    "/{user}/ratings/{item}", response_model=Acknowledged, dependencies=[Depends(may("write"))]
)
async def put_rating(service: InService, user: str, item: str, body: RatingBody) -> Any:
    """Store a rating. Once this is answered it is on the disk, and every next answer knows it."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        who, what = user_of(served, user), item_of_path(served, item)
        rating = rating_on(served.model.scale, body.rating, what)
        changed, number = service.store.write(
            lambda connection: put_ratings(connection, [(who, what, rating)])
        )
        return {
            "user": plain_id(who), "item": plain_id(what), "rating": rating,
            "changed": changed > 0, "change": number,
        }  # fmt: skip

    return JSONResponse(await service.workroom.do(work))


@PEOPLE.delete("/{user}/ratings/{item}", status_code=204, dependencies=[Depends(may("write"))])
async def delete_rating(service: InService, user: str, item: str) -> Response:
    """Withdraw a rating; there need not be one."""

    def work() -> None:
        served = service.slot.now()
        who, what = user_of(served, user), item_of_path(served, item)
        service.store.write(lambda connection: put_ratings(connection, [(who, what, None)]))

    await service.workroom.do(work)
    return Response(status_code=204)


@PEOPLE.get("/{user}", response_model=Profile, dependencies=[Depends(may("read"))])
async def get_user(
    service: InService,
    request: Request,
    user: str,
    limit: Annotated[int, Query(ge=1, le=_LONGEST_PAGE)] = 100,
    after: Annotated[str | None, Query(max_length=600)] = None,
) -> Any:
    """Somebody's ratings, by item, with what the model has of them."""
    found = await service.workroom.do(lambda: _profile(service, user, limit, after))
    return answered(request, found)


def _profile(service: Service, text: str, limit: int, after: str | None) -> dict[str, Any]:
    served = service.slot.now()
    user = user_of(served, text)
    person, said = _stored_person(service, served, user)
    whole = whole_ratings_of(served.model, user, said)
    if not whole:
        raise Problem(404, "nobody of this id has rated anything")
    learnt = learnt_ratings_of(served.model, user)
    known = known_of(served.model)
    by_key = {key_of_id(item): item for item in whole}
    keys = sorted(key for key in by_key if after is None or key > after)
    page, further = keys[:limit], keys[limit:]
    items = [by_key[key] for key in page]
    titles = service.store.read(lambda connection: titles_of_items(connection, items))
    usable = known.known_items(items).tolist()
    numbers = [
        float(rating) if not isinstance(rating, str) else _number(served, rating)
        for rating in whole.values()
    ]
    return {
        "user": plain_id(user),
        "known_user": person.is_known,
        "model": served.version.name,
        "n_ratings": len(whole),
        "mean_rating": sum(numbers) / len(numbers),
        "ratings": [
            {
                "item": plain_id(item),
                "title": titles.get(key),
                "rating": whole[item],
                "learnt": learnt.get(item) == whole[item],
                "usable": can_be_used,
            }
            for key, item, can_be_used in zip(page, items, usable, strict=True)
        ],
        "next": page[-1] if further else None,
    }


def _number(served: Served, label: str) -> float:
    scale: Any = served.model.scale
    return float(scale.values[scale.labels.index(label)])


@PEOPLE.get("/{user}/similar", response_model=SimilarAnswer, dependencies=[Depends(may("read"))])
async def similar_users(
    service: InService, request: Request, user: str, n: Annotated[int, Query(ge=1, le=100)] = 10
) -> Any:
    """The people nearest to somebody in hidden space."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        who = user_of(served, user)
        person, _ = _stored_person(service, served, who)
        if not person.is_known:
            raise Problem(404, "nobody of this id has rated anything that the model knows")
        found = served.model.similar_users(person.user, n + 1, ratings=person.ratings)
        ids = [one.id for one in found]
        gone = service.store.read(
            lambda connection: erased_among(connection, ids, served.version.folded)
        )
        near = [one for one in found if one.id != who and one.id not in gone][:n]
        return {
            "model": served.version.name,
            "similar": [{"id": plain_id(one.id), "similarity": one.similarity} for one in near],
        }

    return answered(request, await service.workroom.do(work))


@PEOPLE.get("/{user}/export", dependencies=[Depends(may("admin"))])
async def export_user(service: InService, user: str) -> Any:
    """All that is stored about somebody, for themselves: ratings, lists shown, feedback."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        who = user_of(served, user)
        _, said = _stored_person(service, served, who)
        whole = whole_ratings_of(served.model, who, said)

        def read(connection: Connection) -> dict[str, Any]:
            key = key_of_id(who)
            rows = connection.execute(select(RATINGS).where(RATINGS.c.user == key)).all()
            lists = connection.execute(select(LISTS).where(LISTS.c.user == key)).all()
            return {
                "changes": [
                    {
                        "item": plain_id(id_of_key(row.item)), "change": row.number,
                        "time": row.time, "withdrawn": row.rating is None,
                    }
                    for row in rows
                ],
                "lists": [
                    {"list_id": row.list_id, "time": row.time, "items": row.items} for row in lists
                ],
                "feedback": feedback_of(connection, who),
            }  # fmt: skip

        return {
            "user": plain_id(who),
            "ratings": [
                {"item": plain_id(item), "rating": rating} for item, rating in whole.items()
            ],
            **service.store.read(read),
        }

    return JSONResponse(await service.workroom.do(work))


@PEOPLE.delete("/{user}", status_code=204, dependencies=[Depends(may("admin"))])
async def delete_user(service: InService, user: str) -> Response:
    """Forget somebody: at once in answers, with the next update in the model's parameters."""

    def work() -> None:
        served = service.slot.now()
        who = user_of(served, user)
        service.store.write(lambda connection: erase(connection, who))

    await service.workroom.do(work)
    return Response(status_code=204)
