"""A span for each request, where OpenTelemetry is installed and something receives spans.

It is named by method and route, and has no address: that would tell who asked about whom, which the
log does not tell either. The framework's own telemetry, which has both, is off.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers

try:
    from opentelemetry import context, propagate, trace
except ImportError:
    HAS_TELEMETRY = False
else:
    HAS_TELEMETRY = True

FRAMEWORKS_OWN: Any = {"tracing": False, "metrics": False, "logs": False}


class RequestSpan:
    """The span of a request, current while it is answered; nothing where nobody receives spans."""

    def __init__(self, headers: Headers) -> None:
        self._span: Any = None
        provider = trace.get_tracer_provider() if HAS_TELEMETRY else None
        if provider is None or isinstance(provider, trace.ProxyTracerProvider):
            return  # which stands for one that has not been set
        parent = propagate.extract(headers)
        tracer = provider.get_tracer("ordbm.serve")
        self._span = tracer.start_span("HTTP", context=parent, kind=trace.SpanKind.SERVER)
        self._token = context.attach(trace.set_span_in_context(self._span, parent))

    def end(self, method: str, route: str, status: int, request_id: str) -> None:
        """Say what it was, and what came of it."""
        if self._span is None:
            return
        self._span.update_name(f"{method} {route}".rstrip())
        told = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "ordbm.request_id": request_id,
        }
        self._span.set_attributes({name: value for name, value in told.items() if value})
        if status >= 500:
            self._span.set_status(trace.StatusCode.ERROR)
        context.detach(self._token)
        self._span.end()
