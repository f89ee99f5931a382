"""The OpenAPI document is kept: requests made from it get no error of the service."""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS

from service_runs import Server

pytestmark = pytest.mark.filterwarnings("ignore")  # schemathesis' own, and the library's remarks

# Left out: what is answered by a 404 or a 401 that OpenAPI cannot foresee is no fault.
EXAMPLES = int(os.environ.get("ORDBM_SCHEMA_EXAMPLES", "6"))
KEPT = ("not_a_server_error", "status_code_conformance", "content_type_conformance",
        "response_schema_conformance")  # fmt: skip


@pytest.fixture(scope="module")
def server(served_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("schema") / "model.ordbm"
    served_model.save(path)
    with Server(path) as found:
        yield found


@pytest.fixture(scope="module")
def document(server):
    return server.client.get("/v1/openapi.json").json()


def requests_of(document):
    return [
        (method.upper(), path)
        for path, methods in sorted(document["paths"].items())
        for method in methods
        if path != "/v1/model/update"  # starts a process
    ]


def test_every_route_answers_as_its_document_says(server, document):
    schema = schemathesis.openapi.from_dict(document)
    checks = list(CHECKS.get_by_names(KEPT))
    for method, path in requests_of(document):
        operation = schema[path][method]

        @settings(
            max_examples=EXAMPLES, deadline=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck), database=None,
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def keeps(case):
            case.call_and_validate(base_url=server.url, checks=checks, timeout=60)

        keeps()
    assert not [line for line in server.log if "unexpected" in line]


def test_every_route_says_what_it_takes_and_gives(document):
    for method, path in requests_of(document):
        told = document["paths"][path][method.lower()]
        assert told["summary"], path
        assert told["description"], path
        assert set(told["responses"]) & {"200", "202", "204"}, path
        if path.startswith("/v1"):
            assert "401" in told["responses"], path
            problem = told["responses"]["401"]["content"]
            assert list(problem) == ["application/problem+json"]


def test_the_examples_of_the_document_are_answered(server, document):
    shapes = document["components"]["schemas"]
    for name, route in (
        ("PredictQuestion", "predict"), ("RecommendQuestion", "recommend"),
        ("ExplainQuestion", "explain"), ("JointQuestion", "joint"),
    ):  # fmt: skip
        assert shapes[name]["examples"]
        for example in shapes[name]["examples"]:
            answer = server.client.post(f"/v1/{route}", json=example)
            # Items are those of another set of films: what is not known is told as such.
            assert answer.status_code in (200, 422), answer.text


def test_methods_that_an_address_does_not_have_are_told_those_that_it_has(server, document):
    for path, methods in document["paths"].items():
        address = path.replace("{number}", "1").replace("{list_id}", "A" * 16)
        address = address.replace("{user}", "1").replace("{item}", "101")
        known = {method.upper() for method in methods}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - known:
            refused = server.client.request(method, address)
            assert refused.status_code == 405, (method, address)
            assert {one.strip() for one in refused.headers["allow"].split(",")} == known
    assert server.client.post("/").headers["allow"] == "GET, HEAD"
