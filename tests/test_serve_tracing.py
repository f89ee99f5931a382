"""Spans of OpenTelemetry: one for each request, tied to the caller's, with no more than the log."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from service_runs import asked_here, settings_for

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch):
    """Where spans go, of a provider that is set for this test alone."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


def test_a_request_is_a_span_of_its_caller_and_tells_nobody_about_whom(
    served_model, tmp_path, spans
):
    with asked_here(settings_for(served_model, tmp_path)) as client:
        spans.clear()
        told = {"traceparent": CALLER, "X-Request-Id": "mine"}
        address = "/v1/users/somebody/ratings/101"
        assert client.put(address, json={"rating": 3}, headers=told).status_code == 200
        assert client.get("/v1/users/stranger?limit=7").status_code == 404
        assert client.get("/nothing").status_code == 404
    stored, unknown, nowhere = (one for one in spans.get_finished_spans())
    assert stored.name == "PUT /v1/users/{user}/ratings/{item}"
    assert stored.kind is trace.SpanKind.SERVER
    assert format(stored.context.trace_id, "032x") == CALLER.split("-")[1]
    assert format(stored.parent.span_id, "016x") == CALLER.split("-")[2]
    assert dict(stored.attributes) == {
        "http.request.method": "PUT",
        "http.route": "/v1/users/{user}/ratings/{item}",
        "http.response.status_code": 200,
        "ordbm.request_id": "mine",
    }
    assert unknown.attributes["http.response.status_code"] == 404
    assert nowhere.parent is None
    text = "".join(one.to_json() for one in (stored, unknown, nowhere))
    assert "somebody" not in text
    assert "stranger" not in text
    assert "limit" not in text


def test_spans_of_the_work_belong_to_the_request_and_errors_are_told(
    served_model, tmp_path, spans, monkeypatch
):
    settings = settings_for(served_model, tmp_path)
    with asked_here(settings, raise_server_exceptions=False) as client:
        spans.clear()

        def broken(*_):
            with trace.get_tracer_provider().get_tracer("test").start_as_current_span("inside"):
                raise RuntimeError("secret words")

        monkeypatch.setattr("ordbm.serve.predict_together.predict_together", broken)
        asked = client.post("/v1/predict", json={"user": 1, "items": [101]})
        assert asked.status_code == 500
    inside, request = spans.get_finished_spans()
    assert (inside.name, request.name) == ("inside", "POST /v1/predict")
    assert inside.parent.span_id == request.context.span_id
    assert request.status.status_code is trace.StatusCode.ERROR
    assert "secret" not in request.to_json()


def test_it_serves_without_opentelemetry(served_model, tmp_path, monkeypatch):
    monkeypatch.setattr("ordbm.serve.tracing.HAS_TELEMETRY", False)
    with asked_here(settings_for(served_model, tmp_path)) as client:
        assert client.get("/v1/model").status_code == 200
