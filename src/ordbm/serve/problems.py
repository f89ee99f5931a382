"""Problem documents (RFC 9457) for whatever goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ordbm.errors import CostError, OrdbmError
from ordbm.serve.service_log import SERVICE_LOG

MEDIA_TYPE = "application/problem+json"
FULL = ("53100", "database or disk is full", "No space left on device")

TITLES = {
    400: "Bad request",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long to arrive",
    409: "In conflict with what is there",
    413: "Too large",
    415: "Media type not supported",
    421: "Not the host of this service",
    422: "Cannot be answered as it is",
    429: "Too many requests",
    500: "An error of the service",
    503: "Not available now",
    507: "No space left",
}


class Problem(Exception):  # noqa: N818 -- it is what the document is called
    """An answer that is a problem document."""

    def __init__(
        self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, headers, more


def unavailable(detail: str, after: int = 1) -> Problem:
    """The problem of a service that may answer again in so many seconds."""
    return Problem(503, detail, headers={"Retry-After": str(after)})


def document(status: int, detail: str, request_id: str | None, **more: Any) -> dict[str, Any]:
    """The members of a problem document."""
    found = {
        "type": "about:blank",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        **more,
    }
    return found if request_id is None else {**found, "request_id": request_id}


def problem_response(problem: Problem, request_id: str | None) -> Response:
    """The answer that tells it."""
    content = document(problem.status, problem.detail, request_id, **problem.more)
    body = json.dumps(content).encode("ascii")  # names of members may have halves of characters
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """What to say of an error: its own words where they were meant for whoever asked."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail))
    if isinstance(error, OrdbmError):
        return Problem(413 if isinstance(error, CostError) else 422, str(error))
    if isinstance(error, DataError):
        return Problem(422, "the database has no place for a text or a number of this request")
    if isinstance(error, DBAPIError | PoolTimeout | OSError):
        return _trouble_of_database(error)
    return Problem(500, "an error of the service; its log says more under the request id")


def _trouble_of_database(error: Exception) -> Problem:
    said = f"{getattr(getattr(error, 'orig', None), 'sqlstate', '')} {error}"
    if any(sign in said for sign in FULL):
        return Problem(507, "the database has no space left: nothing was stored")
    return unavailable("the database does not answer: nothing was stored")


def _not_so(methods: Collection[str]) -> Problem:
    """No route has this address, or it has others than the method that was used."""
    if not methods:
        return Problem(404, "there is nothing at this address")
    allowed = ", ".join(sorted(methods))
    return Problem(405, f"use another method here: {allowed}", headers={"Allow": allowed})


def add_problem_handlers(app: FastAPI, methods_at: Callable[[Any], Collection[str]]) -> None:
    """Answer every error of a route by a problem document; `methods_at` an address there are."""

    async def told(request: Request, error: Exception) -> Response:
        problem, request_id = problem_of(error), request.scope.get("request_id")
        if problem.status > 500:  # the guard tells of 500 itself
            told = {"request_id": request_id, "status": problem.status}
            SERVICE_LOG.warning(type(error).__name__, extra=told)
        return problem_response(problem, request_id)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = [
            {"pointer": "/".join(map(str, ("", *one["loc"]))), "detail": one["msg"]}
            for one in error.errors()[:10]
        ]
        first = errors[0] if errors else {"pointer": "", "detail": "invalid"}
        detail = f"{first['pointer']}: {first['detail']}"
        problem = Problem(422, detail, errors=errors)
        return problem_response(problem, request.scope.get("request_id"))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = Problem(error.status_code, str(error.detail), headers=dict(error.headers or {}))
        if error.status_code in (404, 405):
            # The page lies under all addresses; its files may be read, and nothing else.
            others = {"GET", "HEAD"} if error.status_code == 405 else set[str]()
            problem = _not_so(methods_at(request.scope) or others)
        return problem_response(problem, request.scope.get("request_id"))

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    for kind in (Problem, OrdbmError, DBAPIError, PoolTimeout, OSError, Exception):
        app.add_exception_handler(kind, told)


PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


def problem_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of problems."""
    return {
        status: {
            "description": TITLES[status],
            "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}},
        }
        for status in statuses
    }
