"""Whatever is sent is answered without an error of the service, and harms no later answer."""

import json
import re
from csv import reader
from io import StringIO
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra serve")

from service_runs import asked_here, settings_for

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's remarks, as in a worker

VALUES = [
    r'"\ud800"', r'"a\u0000b"', r'"\u202e"', '"=1+1"', '"../../etc/passwd"', '"%2e%2e"', "1.5",
    "1e308", str(10**30), str(-(10**30)), "1" * 5000, f'"{"x" * 600}"', "[1]", "{}", "null", "true",
    "NaN", '{"uuid": "x"}', '{"tuple": [1, [2, [3]]]}', '{"text": "eda080"}', '{"bytes": "//8="}',
    '{"datetime": "9999-99-99"}', '{"decimal": "1e999999999"}', '{"float": "nan"}', '{"": ""}',
    '{"tuple": [' * 200 + "1" + "]}" * 200, "[" * 100_000, '"\'; DROP TABLE ratings; --"',
    '"{{7*7}}${7*7}"', r'"a\r\nSet-Cookie: x=1"',
]  # fmt: skip
BODIES = [
    ("POST", "/v1/predict", '{"user": %s, "items": [101]}'),
    ("POST", "/v1/predict", '{"user": 1, "items": [%s]}'),
    ("POST", "/v1/predict", '{"ratings": [{"item": %s, "rating": 3}], "items": [101]}'),
    ("POST", "/v1/predict", '{"ratings": [{"item": 101, "rating": %s}], "items": [101]}'),
    ("POST", "/v1/predict", '{"ratings": {"101": 3}, "items": [101], "mass": %s}'),
    ("POST", "/v1/predict/batch", '{"questions": [{"user": %s, "items": [101]}]}'),
    ("POST", "/v1/recommend", '{"user": %s}'),
    ("POST", "/v1/recommend", '{"user": 1, "exclude": [%s]}'),
    ("POST", "/v1/recommend", '{"user": 1, "candidates": [%s]}'),
    ("POST", "/v1/recommend", '{"user": 1, "at_least": %s}'),
    ("POST", "/v1/explain", '{"user": 1, "item": %s}'),
    ("POST", "/v1/joint", '{"user": 1, "items": [%s]}'),
    ("POST", "/v1/joint", '{"people": [{"user": %s}], "items": [101]}'),
    ("POST", "/v1/map/place", '{"user": %s}'),
    ("PUT", "/v1/users/1/ratings/101", '{"rating": %s}'),
    ("PUT", "/v1/items/101", '{"title": %s}'),
    ("PUT", "/v1/items/101", '{"features": {"a": %s}}'),
    ("POST", "/v1/lists/AAAAAAAAAAAAAAAA/feedback", '{"item": %s, "kind": "seen", "user": 1}'),
    ("POST", "/v1/lists/AAAAAAAAAAAAAAAA/feedback", '{"item": 1, "kind": "seen", "user": %s}'),
]
TEXTS = [
    "%00", "%ED%A0%80", "%F0%9F", "..", "%2e%2e%2f", "a%2Fb", "%22%5Cud800%22", "%22a%5Cu0000b%22",
    "1" * 400, "%7B%22uuid%22:%22x%22%7D", "%7B", "%22", "9" * 21, "1e5", "-0", "%20",
    "%F0%9F%98%80", "%27%20OR%201=1--", "%3Cscript%3E", quote('{"tuple":[' * 40 + "1" + "]}" * 40),
]  # fmt: skip
ADDRESSES = [
    ("GET", "/v1/users/%s"), ("PUT", "/v1/users/%s/ratings/101"),
    ("DELETE", "/v1/users/%s/ratings/101"), ("PUT", "/v1/users/1/ratings/%s"),
    ("GET", "/v1/users/%s/similar"), ("GET", "/v1/users/%s/export"), ("DELETE", "/v1/users/%s"),
    ("GET", "/v1/items/%s"), ("PUT", "/v1/items/%s"), ("GET", "/v1/items/%s/similar"),
    ("GET", "/v1/items/%s/levels"), ("GET", "/v1/items/%s/links"), ("GET", "/v1/items?search=%s"),
    ("GET", "/v1/items?after=%s"), ("GET", "/v1/users/1?after=%s"), ("GET", "/v1/ratings?after=%s"),
    ("GET", "/js/%s"), ("GET", "/%s"),
]  # fmt: skip
WHOLE = ["/v1/items?limit=1000", "/v1/ratings", "/v1/users/1", "/v1/users/1/export", "/v1/model",
         "/v1/model/quality", "/metrics", "/v1/map", "/v1/openapi.json", "/"]  # fmt: skip


@pytest.fixture
def client(served_model, tmp_path, database):
    settings = settings_for(served_model, tmp_path, database)
    with asked_here(settings, raise_server_exceptions=False) as found:
        yield found


def check(answer, asked):
    assert answer.status_code < 500, (asked, answer.text[:300])
    assert not [name for name in answer.headers if name.lower() == "set-cookie"], asked
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json", asked
        assert answer.json()["status"] == answer.status_code


def test_no_value_leads_to_an_error_of_the_service(client):
    for value in VALUES:
        for method, address, body in BODIES:
            content = (body % value).encode()
            headers = {"Content-Type": "application/json"}
            answer = client.request(method, address, content=content, headers=headers)
            check(answer, (method, address, body, value[:60]))
        for kind, text in (
            ("application/x-ndjson", f'{{"user": {value}, "item": 101, "rating": 3}}\n'),
            ("application/x-ndjson", f'{{"user": 1, "item": {value}, "rating": 3}}\n'),
            ("text/csv", f"user,item,rating\n{value},{value},3\n"),
        ):
            told = {"content": text.encode(), "headers": {"Content-Type": kind}}
            check(client.post("/v1/ratings", **told), text[:60])
        if value.startswith('"'):
            told = {"headers": {"Content-Type": "application/json"}}
            for body in ('{"features": {%s: 1}}', "{%s: 1}"):
                content = (body % value).encode()
                check(client.put("/v1/items/101", content=content, **told), (body, value))
    _is_well(client)


def test_no_address_leads_to_an_error_of_the_service(client):
    for text in TEXTS:
        for method, address in ADDRESSES:
            body = {"rating": 3} if "/ratings/" in address else {"title": "x"}
            told = {"json": body} if method == "PUT" else {}
            check(client.request(method, address % text, **told), (method, address, text))
    _is_well(client)


def _is_well(client):
    """Whatever got stored can be listed, exported, learnt and asked about."""
    for address in WHOLE:
        assert client.get(address).status_code == 200, address
    csv = client.get("/v1/ratings", headers={"Accept": "text/csv"})
    assert csv.status_code == 200
    for row in reader(StringIO(csv.text)):
        for cell in row:
            assert re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", cell) or cell[:1] not in set("=+-@\t\r")
    for line in client.get("/v1/ratings").text.splitlines():
        one = json.loads(line)
        asked = {"user": one["user"], "items": [one["item"]]}
        assert client.post("/v1/predict", json=asked).status_code == 200, asked
    assert client.post("/v1/recommend", json={"user": 1}).status_code == 200
