"""What every request passes: its id, who asks and how often, sizes, headers, the log, the counters.

The outermost layer, in plain ASGI. Whatever a route fails to catch ends here as a problem document.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from ordbm.serve.key_ring import EVERYBODY, Client, KeyRing
from ordbm.serve.problems import Problem, problem_of, problem_response
from ordbm.serve.rate_limit import RateLimit
from ordbm.serve.service_log import SERVICE_LOG
from ordbm.serve.service_metrics import OTHER
from ordbm.serve.tracing import RequestSpan

ACCESS = logging.getLogger("ordbm.serve.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SLOWEST = 10_000  # bytes of a body that have to come in a second
_SAFE = {"GET", "HEAD", "OPTIONS"}
_LOCAL_HOST = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


class Guard:
    """The application behind its checks."""

    def __init__(
        self,
        app: Any,
        *,
        keys: KeyRing | None,
        local_only: bool,
        rate: float,
        max_body: int,
        max_import: int,
        timeout: float,
        count: Callable[[str, int, float], None],
    ) -> None:
        self._app, self._keys, self._local_only = app, keys, local_only
        self._limit, self._timeout, self._count = RateLimit(rate), timeout, count
        self._max_body, self._max_import = max_body, max_import

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, headers = time.perf_counter(), Headers(scope=scope)
        asked_id = headers.get("x-request-id", "")
        request_id = asked_id if _REQUEST_ID.fullmatch(asked_id) else secrets.token_hex(8)
        scope["request_id"] = request_id
        # Routes match what was sent, so that a slash within an id (%2F) is none of the address.
        scope["path"] = scope["raw_path"].decode("ascii", "replace")
        answer, span = _Answer(send, request_id), RequestSpan(headers)
        try:
            scope["client_key"] = self._checked(scope, headers)
            body = _Body(receive, self._most(scope["path"]), self._timeout)
            await self._app(scope, body, answer)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the last resort
            problem = problem_of(error)
            if problem.status == 500:
                SERVICE_LOG.exception("unexpected", extra={"request_id": request_id})
            if not answer.status:
                response = problem_response(problem, request_id)
                await response(scope, receive, answer)
        finally:
            self._tell(scope, answer.status or 499, time.perf_counter() - started, span)

    def _most(self, path: str) -> int:
        return self._max_import if path == "/v1/ratings" else self._max_body

    def _checked(self, scope: Any, headers: Headers) -> Client:
        """Who asks; a problem if they may not."""
        if self._local_only and not _LOCAL_HOST.fullmatch(headers.get("host", "localhost")):
            raise Problem(421, "this service answers to localhost alone")
        elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if elsewhere and scope["method"] not in _SAFE:
            raise Problem(403, "pages of other sites may not write here")
        size = headers.get("content-length", "0")
        if not size.isdecimal():
            raise Problem(400, "Content-Length is not a number")
        if int(size) > self._most(scope["path"]):
            raise _too_large(self._most(scope["path"]))
        client = EVERYBODY if self._keys is None else self._client(headers)
        host = (scope.get("client") or ("",))[0]
        wait = self._limit.wait(client.name or host)
        if wait:
            told = {"Retry-After": str(wait)}
            raise Problem(429, f"too many requests: wait {wait} s", headers=told)
        return client

    def _client(self, headers: Headers) -> Client:
        """By the key; somebody without one may do nothing that needs a scope."""
        assert self._keys is not None
        authorization = headers.get("authorization")
        if authorization is None:
            return Client("", frozenset())
        client = self._keys.client(authorization)
        if client is None:
            raise needs_key("this key is not known")
        return client

    def _tell(self, scope: Any, status: int, seconds: float, span: RequestSpan) -> None:
        path = getattr(scope.get("route"), "path", "") or OTHER
        name = f"{scope['method']} {path}" if path != OTHER else OTHER
        self._count(name, status, seconds)
        span.end(scope["method"], path, status, scope["request_id"])
        ACCESS.info(
            "request",
            extra={
                "request_id": scope["request_id"], "method": scope["method"], "route": path,
                "status": status, "ms": round(1000 * seconds, 2),
                "client": scope.get("client_key", EVERYBODY).name,
            },
        )  # fmt: skip


def needs_key(detail: str) -> Problem:
    """The problem of somebody without a key that is known."""
    return Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="ordbm"'})


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {most:,} bytes")


class _Answer:
    """Sends, with the headers that every answer has; knows what has been sent."""

    def __init__(self, send: Any, request_id: str) -> None:
        self._send, self._own = send, [*HEADERS, (b"x-request-id", request_id.encode())]
        self.status = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            told = {name for name, _ in message["headers"]}
            more = [] if b"cache-control" in told else [(b"cache-control", b"no-store")]
            message["headers"] = [*message["headers"], *self._own, *more]
        await self._send(message)


class _Body:
    """Receives so many bytes at most, and waits so long at most, however few come at a time.

    All waiting counts, and what comes earns more of it, so that a body may be as long as it is
    allowed to be, and none can be dragged out.
    """

    def __init__(self, receive: Any, most: int, timeout: float) -> None:
        self._receive, self._most, self._timeout = receive, most, timeout
        self._left, self._whole, self._patience = most, False, timeout

    async def __call__(self) -> Any:
        if self._whole:  # what comes now is the end of the connection, at any time
            return await self._receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time") from None
        earned = len(message.get("body", b"")) / SLOWEST - (time.monotonic() - began)
        self._patience = min(self._timeout, self._patience + earned)
        self._left -= len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._left < 0:
            raise _too_large(self._most)
        return message
