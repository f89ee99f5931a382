"""Many ratings at once: in, as lines of JSON or csv, and out, as what changed since."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ordbm.errors import RatingsError
from ordbm.serve.answer_schema import Imported
from ordbm.serve.id_text import check_kind, id_of_json, id_of_key, id_of_text, plain_id
from ordbm.serve.model_slot import Served
from ordbm.serve.person import known_of, rating_on
from ordbm.serve.problems import Problem, problem_answers
from ordbm.serve.rating_rows import ROWS_AT_ONCE, Change, changes, put_ratings
from ordbm.serve.service import InService, may

BULK = APIRouter(
    prefix="/v1",
    tags=["ratings"],
    responses=problem_answers(400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 503, 507),
)
NDJSON, CSV = "application/x-ndjson", "text/csv"
_LONGEST_LINE = 10_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
_COLUMNS = ["user", "item", "rating", "change"]
_LINE = {"type": "string", "example": '{"user": 1, "item": 31, "rating": 4}\n'}

_Row = tuple[Hashable, Hashable, Any]


@BULK.post(
    "/ratings",
    response_model=Imported,
    dependencies=[Depends(may("write"))],
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {NDJSON: {"schema": _LINE}, CSV: {"schema": {"type": "string"}}},
        }
    },
)
async def import_ratings(service: InService, request: Request) -> Any:
    """Store many ratings; none (null, or an empty cell) withdraws one.

    Lines of JSON, `{"user": …, "item": …, "rating": …}`, or a csv with these columns. They are
    stored a thousand at a time: after an error the answer says how many lines are stored, and the
    same file can be sent again, since a rating that is there already changes nothing.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (NDJSON, CSV):
        raise Problem(415, f"send {NDJSON} or {CSV}")
    served = service.slot.now()
    parse = _parser_of_json(served) if kind == NDJSON else _parser_of_csv(served)
    read = changed = 0

    async def store(lines: list[tuple[int, str]]) -> tuple[int, int]:
        def work() -> tuple[int, int]:
            rows = list(_parsed(parse, lines))
            return len(rows), service.store.write(lambda connection: put_ratings(connection, rows))[
                0
            ]

        return await service.workroom.do(work, timeout=60.0)

    try:
        async for lines in _pages(request):
            more, new = await store(lines)
            read, changed = read + more, changed + new
    except (Problem, RatingsError) as error:
        status = error.status if isinstance(error, Problem) else 422
        detail = error.detail if isinstance(error, Problem) else str(error)
        raise Problem(status, f"{detail}; {read:,} ratings before are stored") from None
    return JSONResponse({"read": read, "changed": changed})


async def _pages(request: Request) -> AsyncIterator[list[tuple[int, str]]]:
    """Numbered lines, a transaction's worth at a time."""
    rest, number = b"", 0
    lines: list[tuple[int, str]] = []
    async for chunk in request.stream():
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise Problem(422, f"line {number + len(whole) + 1} is longer than {_LONGEST_LINE:,}")
        for line in whole:
            number += 1
            lines.append((number, _text(line, number)))
        while len(lines) >= ROWS_AT_ONCE:
            yield lines[:ROWS_AT_ONCE]
            lines = lines[ROWS_AT_ONCE:]
    if rest:
        lines.append((number + 1, _text(rest, number + 1)))
    if lines:
        yield lines


def _text(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
    except UnicodeDecodeError:
        raise Problem(422, f"line {number} is not UTF-8") from None


def _parsed(
    parse: Callable[[str], _Row | None], lines: Iterable[tuple[int, str]]
) -> Iterator[_Row]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            row = parse(line)
        except (ValueError, RecursionError, csv.Error) as error:
            raise Problem(422, f"line {number}: {error}") from None
        if row is not None:
            yield row


def _parser_of_json(served: Served) -> Callable[[str], _Row | None]:
    known, scale = known_of(served.model), served.model.scale

    def parse(line: str) -> _Row:
        told = json.loads(line)
        if (
            not isinstance(told, dict)
            or set(told) - set(_COLUMNS)
            or not {*told} >= {*_COLUMNS[:3]}
        ):
            raise ValueError('a line is {"user": …, "item": …, "rating": …}')
        user, item, rating = id_of_json(told["user"]), id_of_json(told["item"]), told["rating"]
        check_kind(user, known.users, "user")
        check_kind(item, known.items, "item")
        named = None if rating is None else rating_on(scale, rating, item)
        return user, item, named

    return parse


def _parser_of_csv(served: Served) -> Callable[[str], _Row | None]:
    """Reads a line, the first one as names of columns."""
    known, scale = known_of(served.model), served.model.scale
    has_labels = getattr(scale, "labels", None) is not None
    place: list[int] = []

    def parse(line: str) -> _Row | None:
        cells = next(csv.reader([line], strict=True))
        if not place:
            if not {*cells} >= {*_COLUMNS[:3]}:
                raise ValueError("the first line names the columns user, item and rating")
            place.extend(cells.index(name) for name in _COLUMNS[:3])
            return None
        if len(cells) <= max(place):
            raise ValueError(f"{len(cells)} cells, and the first line has more")
        user, item, rating = (cells[one] for one in place)
        what = id_of_text(_unsafe(item), known.items)
        named = None
        if rating:
            told = _unsafe(rating) if has_labels else float(rating)
            named = rating_on(scale, told, what)
        return id_of_text(_unsafe(user), known.users), what, named

    return parse


@BULK.get(
    "/ratings",
    dependencies=[Depends(may("admin"))],
    response_class=Response,
    responses={200: {"content": {NDJSON: {"schema": _LINE}, CSV: {"schema": {"type": "string"}}}}},
)
async def export_ratings(
    service: InService,
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**62, description="Only later changes.")] = 0,
) -> Response:
    """What changed since, in the order of changes, as lines of JSON, or csv if that is accepted.

    A withdrawn rating is null, or an empty cell. Text cells of a csv that a spreadsheet would take
    for a formula begin with an apostrophe, which the import takes away again.
    """
    service.slot.now()
    as_csv = CSV in request.headers.get("accept", "")
    write = _csv_lines if as_csv else _json_lines

    async def pages() -> AsyncIterator[str]:
        if as_csv:
            yield ",".join(_COLUMNS) + "\n"
        seen = after
        while True:
            ask = partial(changes, after=seen)
            found = await service.workroom.do(partial(service.store.read, ask))
            if not found:
                return
            yield write(found)
            seen = found[-1].number

    first = await service.workroom.do(service.store.answers)
    if not first:
        raise Problem(503, "the database does not answer")
    return StreamingResponse(pages(), media_type=CSV if as_csv else NDJSON)


def _json_lines(found: Iterable[Change]) -> str:
    return "".join(
        json.dumps(
            {
                "user": plain_id(id_of_key(one.user)),
                "item": plain_id(id_of_key(one.item)),
                "rating": None if one.rating is None else json.loads(one.rating),
                "change": one.number,
            }
        )
        + "\n"
        for one in found
    )


def _csv_lines(found: Iterable[Change]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for one in found:
        rating = "" if one.rating is None else json.loads(one.rating)
        writer.writerow(
            [_cell(id_of_key(one.user)), _cell(id_of_key(one.item)), _safe(rating), one.number]
        )
    return out.getvalue()


def _cell(value: Hashable) -> Any:
    """An id: a number as it is, text that might be taken for something else as JSON."""
    if isinstance(value, int):
        return value
    is_plain = isinstance(value, str) and value.isprintable() and not value.lstrip("-").isdigit()
    if is_plain and str(value)[:1] not in ("", '"', "{"):
        return _safe(value)
    return json.dumps(plain_id(value))


def _safe(value: Any) -> Any:
    """Text so that no spreadsheet works it out."""
    return "'" + value if isinstance(value, str) and value.startswith(_FORMULA) else value


def _unsafe(cell: str) -> str:
    return cell.removeprefix("'")
