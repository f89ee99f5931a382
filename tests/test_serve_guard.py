"""Who may ask what and how much; what is told to others, and what the log is told."""

import json
import logging
import re

import pytest

from ordbm.errors import SettingsError
from ordbm.serve.guard import POLICY
from ordbm.serve.key_ring import add_key, read_keys, revoke_key
from ordbm.serve.rate_limit import MOST_CLIENTS, RateLimit
from ordbm.serve.service_log import JsonLines
from ordbm.serve.service_settings import ServiceSettings, database_url
from service_runs import asked_here, settings_for, until


@pytest.fixture(scope="module")
def open_client(served_model, tmp_path_factory):
    settings = settings_for(served_model, tmp_path_factory.mktemp("open"), max_body=2000)
    with asked_here(settings, raise_server_exceptions=False) as found:
        yield found


@pytest.fixture
def locked(served_model, tmp_path):
    """A client of a service with keys, and the keys by scope."""
    file = tmp_path / "keys"
    keys = {scope: add_key(file, f"for-{scope}", [scope]) for scope in ("read", "write", "admin")}
    with asked_here(settings_for(served_model, tmp_path, key_file=file)) as found:
        yield found, keys, file


QUESTION = {"user": 1, "items": [101]}
ROUTES = [
    ("read", "POST", "/v1/predict", QUESTION),
    ("read", "GET", "/v1/items", None),
    ("read", "GET", "/v1/users/1", None),
    ("read", "GET", "/metrics", None),
    ("write", "PUT", "/v1/users/1/ratings/101", {"rating": 3}),
    ("write", "DELETE", "/v1/users/1/ratings/101", None),
    ("write", "PUT", "/v1/items/101", {"title": "x"}),
    ("write", "POST", "/v1/lists/AAAAAAAAAAAA/feedback", {"item": 101, "kind": "seen"}),
    ("admin", "GET", "/v1/users/1/export", None),
    ("admin", "GET", "/v1/ratings", None),
    ("admin", "GET", "/v1/model/quality", None),
    ("admin", "DELETE", "/v1/users/1", None),
]


def test_each_route_needs_a_key_of_its_scope(locked):
    client, keys, _ = locked
    for needed, method, address, body in ROUTES:
        statuses = {}
        for scope, key in {**keys, "none": None, "wrong": "ordbm_wrong"}.items():
            told = {} if key is None else {"Authorization": f"Bearer {key}"}
            statuses[scope] = client.request(method, address, json=body, headers=told).status_code
        assert statuses.pop(needed) in (200, 204), address
        assert statuses.pop("none") == statuses.pop("wrong") == 401, address
        assert set(statuses.values()) == {403}, address
    for address in ("/health/live", "/health/ready", "/", "/v1/openapi.json"):
        assert client.get(address).status_code == 200


def test_a_key_that_is_revoked_opens_nothing_and_a_new_one_does(locked):
    client, keys, file = locked

    def status(key):
        told = {"Authorization": f"Bearer {key}"}
        return client.get("/v1/model", headers=told).status_code

    assert status(keys["read"]) == 200
    revoke_key(file, "for-read")
    until(lambda: status(keys["read"]) == 401)
    new = add_key(file, "another", ["read", "write"])
    until(lambda: status(new) == 200)


def test_keys_are_kept_as_hashes_in_a_file_of_ones_own(tmp_path):
    file = tmp_path / "keys"
    key = add_key(file, "shop", ["read", "write"])
    assert key not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [(client.name, client.scopes) for client, _ in read_keys(file)] == [
        ("shop", {"read", "write"})
    ]
    for name, scopes in (("shop", ["read"]), ("a b", ["read"]), ("x", ["root"]), ("x", [])):
        with pytest.raises(SettingsError):
            add_key(file, name, scopes)
    with pytest.raises(SettingsError, match="no key called"):
        revoke_key(file, "nobody")
    file.write_text("shop read nonsense\n")
    with pytest.raises(SettingsError, match="line 1"):
        read_keys(file)


def test_it_listens_elsewhere_with_keys_or_when_told_twice(tmp_path):
    told = {"model": tmp_path / "m", "database": "sqlite:///x"}
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        ServiceSettings(**told, host=host)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(SettingsError, match="no keys"):
            ServiceSettings(**told, host=host)
        ServiceSettings(**told, host=host, key_file=tmp_path / "keys")
        ServiceSettings(**told, host=host, open_elsewhere=True)


def test_a_database_is_of_a_kind_that_is_known(tmp_path):
    assert database_url(None, tmp_path / "m").startswith("sqlite:////")
    assert database_url("postgres://a:b@c/d", tmp_path) == "postgresql+psycopg://a:b@c/d"
    with pytest.raises(SettingsError) as error:
        database_url("mysql://root:secret@host/db", tmp_path)
    assert "secret" not in str(error.value)


def test_pages_of_other_sites_can_neither_read_nor_write(open_client):
    rebound = open_client.get("/v1/model", headers={"Host": "evil.example"})
    assert rebound.status_code == 421
    for site in ("cross-site", "same-site"):
        told = {"Sec-Fetch-Site": site}
        assert open_client.delete("/v1/users/1", headers=told).status_code == 403
    preflight = open_client.options(
        "/v1/predict",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
    )
    assert preflight.status_code == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    form = open_client.post(
        "/v1/predict", content=json.dumps(QUESTION), headers={"Content-Type": "text/plain"}
    )
    assert form.status_code == 415  # as a form of another site would send it


def test_every_answer_has_the_headers_of_a_careful_one(open_client):
    for answer in (
        open_client.get("/"), open_client.get("/nothing"), open_client.get("/v1/model"),
        open_client.post("/v1/predict", content="{"),
    ):  # fmt: skip
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
        assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])
    assert "unsafe" not in POLICY
    told = open_client.get("/v1/model", headers={"X-Request-Id": "mine-1"})
    assert told.headers["x-request-id"] == "mine-1"
    forged = open_client.get("/v1/model", headers={"X-Request-Id": 'a"}\t{"forged'})
    assert re.fullmatch(r"[0-9a-f]{16}", forged.headers["x-request-id"])


@pytest.mark.parametrize(
    ("method", "address", "status", "told"),
    [
        ("GET", "/nothing", 404, {}),
        ("GET", "/v1/nothing", 404, {}),
        ("GET", "/v1/users/1/", 404, {}),
        ("GET", "/..%2f..%2fetc%2fpasswd", 404, {}),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404, {}),
        ("GET", "/v1/users/%ff", 400, {}),
        ("GET", "/v1/users/%22", 422, {}),
        ("PATCH", "/v1/model", 405, {}),
        ("POST", "/v1/predict", 413, {"content": "x" * 3000}),
        ("POST", "/v1/predict", 422, {"content": "{"}),
        ("POST", "/v1/predict/batch", 413, {"json": {"questions": [QUESTION] * 200}}),
        ("PUT", "/v1/users/1/ratings/101", 422, {"json": {"rating": [1]}}),
        ("PUT", "/v1/users/1/ratings/101", 422, {"json": {"rating": 77}}),
        ("POST", "/v1/lists/x/feedback", 422, {"json": {"item": 1, "kind": "seen"}}),
        ("GET", "/v1/items/5000", 404, {}),
        ("GET", "/v1/items/5000/similar", 404, {}),
        ("POST", "/v1/model/versions/99/activate", 404, {}),
    ],
)
def test_every_error_is_a_problem_document(open_client, method, address, status, told):
    if "content" in told:
        told = {**told, "headers": {"Content-Type": "application/json"}}
    answer = open_client.request(method, address, **told)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert {"type", "title", "status", "detail", "request_id"} <= set(problem)
    assert problem["status"] == status
    assert problem["title"]


def test_a_body_is_counted_though_nobody_said_its_length(open_client):
    def endless():
        for _ in range(100):
            yield b"x" * 1000

    answer = open_client.post(
        "/v1/predict", content=endless(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413


def test_an_error_of_our_own_tells_no_secret(open_client, monkeypatch, caplog):
    def broken():
        raise RuntimeError("postgresql://somebody:secret@host")

    monkeypatch.setattr(open_client.service.slot, "now", broken)
    monkeypatch.setattr(logging.getLogger("ordbm"), "propagate", True)
    answer = open_client.get("/v1/model")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text
    formatter = JsonLines()
    lines = [formatter.format(record) for record in caplog.records]
    assert any(answer.json()["request_id"] in line for line in lines)
    assert not any("secret" in line for line in lines)
    told = [json.loads(line) for line in lines if "RuntimeError" in line]
    assert told
    assert "broken test_serve_guard.py" in " ".join(told[0]["at"])


def test_the_log_has_a_line_for_each_request_without_what_is_in_it(locked, caplog, monkeypatch):
    client, keys, _ = locked
    monkeypatch.setattr(logging.getLogger("ordbm"), "propagate", True)
    caplog.clear()
    told = {"Authorization": f"Bearer {keys['write']}", "X-Request-Id": "abc"}
    client.put("/v1/users/john%0A%22%7D/ratings/101", json={"rating": 3}, headers=told)
    lines = [
        JsonLines().format(record)
        for record in caplog.records
        if record.name == "ordbm.serve.access"
    ]
    (line,) = [line for line in lines if '"abc"' in line]
    assert "\n" not in line
    found = json.loads(line)
    assert found["route"] == "/v1/users/{user}/ratings/{item}"
    assert (found["status"], found["client"]) == (200, "for-write")
    assert "john" not in line
    assert keys["write"] not in line


def test_metrics_count_requests_by_route(open_client):
    def counted():
        found = re.search(
            r'requests_total{route="POST /v1/explain",status="2xx"} (\d+)',
            open_client.get("/metrics").text,
        )
        return int(found[1]) if found else 0

    before = counted()
    for _ in range(3):
        open_client.post("/v1/explain", json={"user": 1, "item": 101})
    assert counted() == before + 3
    text = open_client.get("/metrics").text
    assert re.search(r'request_seconds_bucket{route="POST /v1/explain",le="\+Inf"} \d', text)
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) ordbm_\w+ .+|ordbm_\w+({.+})? [-+.e\d]+", line), line


def test_a_bucket_lets_so_many_pass_and_says_when_to_come_back(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ordbm.serve.rate_limit.time.monotonic", lambda: now[0])
    limit = RateLimit(2.0)
    assert [limit.wait("a") for _ in range(5)] == [0, 0, 0, 0, 1]
    assert limit.wait("b") == 0
    now[0] = 0.5
    assert [limit.wait("a"), limit.wait("a")] == [0, 1]
    for number in range(MOST_CLIENTS + 5):
        limit.wait(str(number))
    assert len(limit._buckets) == MOST_CLIENTS
    assert {RateLimit(0.0).wait("a") for _ in range(100)} == {0}


def test_who_asks_too_often_is_told_when_to_come_back(served_model, tmp_path):
    with asked_here(settings_for(served_model, tmp_path, rate=0.5)) as client:
        answers = [client.get("/v1/model") for _ in range(3)]
    refused = answers[-1]
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1


PREDICTING = "ordbm.serve.predict_together.predict_together"


def answered_after(gate):
    """A stand-in for what answers questions about ratings."""

    def answer(_, questions):
        assert gate.wait(60)
        yield [(number, {}) for number in range(len(questions))]

    return answer


def test_more_than_the_queue_holds_is_refused_at_once(served_model, tmp_path, monkeypatch):
    import threading
    from concurrent.futures import ThreadPoolExecutor

    settings = settings_for(served_model, tmp_path, queue=1)
    gate = threading.Event()
    with asked_here(settings) as client, ThreadPoolExecutor(2) as pool:
        room = client.service.question_room
        monkeypatch.setattr(PREDICTING, answered_after(gate))
        waiting = [pool.submit(client.post, "/v1/predict", json=QUESTION) for _ in range(2)]
        until(lambda: room.taken == 2)
        refused = client.post("/v1/predict", json=QUESTION)
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 200
        gate.set()
        assert [one.result().status_code for one in waiting] == [200, 200]
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"


def test_an_answer_that_takes_too_long_is_given_up(served_model, tmp_path, monkeypatch):
    import threading

    gate = threading.Event()
    with asked_here(settings_for(served_model, tmp_path, timeout=0.2)) as client:
        monkeypatch.setattr(PREDICTING, answered_after(gate))
        assert client.post("/v1/predict", json=QUESTION).status_code == 503
        gate.set()
