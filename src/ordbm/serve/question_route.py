"""How questions come in: a body of JSON, checked once, straight to what answers it.

FastAPI's own handler works out the same few dependencies anew for each request, which takes longer
than all else that the event loop does for one. The OpenAPI document is its, from the signature.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from ordbm.serve.problems import Problem
from ordbm.serve.service import check_scope


class QuestionRoute(APIRoute):
    """A route whose endpoint takes the service and a question, and needs the scope read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        assert self.body_field is not None
        body_type: Any = self.body_field.field_info.annotation
        shape = TypeAdapter(body_type)
        endpoint = self.endpoint

        async def handler(request: Request) -> Response:
            check_scope(request, "read")
            body = await request.body()
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Problem(415, "send application/json")
            question = _checked(shape, body)
            found: Response = await endpoint(request.app.state.service, question)
            return found

        return handler


def _checked(shape: TypeAdapter[Any], body: bytes) -> Any:
    try:
        told = json.loads(body)
    except json.JSONDecodeError as error:
        raise _invalid("json_invalid", ("body", error.pos), f"no JSON: {error.msg}") from None
    except (ValueError, RecursionError):  # bytes that are no text, numbers of thousands of digits
        raise _invalid("json_invalid", ("body",), "no JSON that can be read") from None
    try:
        return shape.validate_python(told)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(
            [{**one, "loc": ("body", *one["loc"])} for one in errors]
        ) from None


def _invalid(kind: str, place: tuple[Any, ...], words: str) -> RequestValidationError:
    return RequestValidationError([{"type": kind, "loc": place, "msg": words}])
