"""HTTP as uvicorn speaks it, with limits of connections and of the time that clients may take."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ordbm.serve.problems import MEDIA_TYPE, document

HEADER_SECONDS = 10.0
READ_SECONDS = 30.0  # in which a client must read some of what waits to be sent
MOST_CONNECTIONS = 1000
MOST_HEADER_BYTES = 64_000  # of a request's first line and headers
_STATUS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large",
           503: "Service Unavailable"}  # fmt: skip


class PatientProtocol(HttpToolsProtocol):
    """Ends connections that do not come to the point."""

    _deadline: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Expect the headers of a request from here on."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # be told as soon as something has to wait
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(503, "too many connections")
            return
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect no more."""
        self._stop_expecting()
        self._goes_on()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes while headers are expected: the parser would keep any amount."""
        if self._deadline is not None:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._header_bytes > MOST_HEADER_BYTES:
            self._refuse(431, f"the headers are larger than {MOST_HEADER_BYTES:,} bytes")

    def pause_writing(self) -> None:
        """The client does not read: wait so long for it, and then no more."""
        super().pause_writing()
        self._goes_on()
        self._stuck = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        self._goes_on()

    def on_message_begin(self) -> None:
        """The first byte of a request: its headers are to follow."""
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        """They are there."""
        self._stop_expecting()
        if sum(len(name) + len(value) for name, value in self.headers) > MOST_HEADER_BYTES:
            self._refuse(431, f"the headers are larger than {MOST_HEADER_BYTES:,} bytes")
            return
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """A request that is no HTTP."""
        self._refuse(400, msg)

    def _goes_on(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _expect(self) -> None:
        self._stop_expecting()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_expecting(self) -> None:
        self._header_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._refuse(408, "the headers did not arrive in time")

    def _refuse(self, status: int, detail: str) -> None:
        if self.transport.is_closing():
            return
        body = json.dumps(document(status, detail, None)).encode()
        head = (
            f"HTTP/1.1 {status} {_STATUS[status]}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
