"""Real servers on loopback: several workers, kills under load, clients that dawdle."""

import json
import socket
import threading
import time
from contextlib import suppress

import httpx2 as httpx
import pytest
from sqlalchemy import select

from cli_runs import run
from ordbm.serve.schema import LISTS
from ordbm.serve.serving import bound_socket
from ordbm.serve.store import Store
from service_runs import Server, until
from test_serve_store import rows_of


@pytest.fixture(scope="module")
def model_file(served_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("process") / "model.ordbm"
    served_model.save(path)
    return path


@pytest.fixture(scope="module")
def two_workers(model_file):
    url = f"sqlite:///{model_file.with_name('two.sqlite3')}"
    with Server(model_file, "--workers", "2", "--database", url) as server:
        yield server


def new_client(server):
    """One connection of its own: any worker may take it."""
    return httpx.Client(base_url=server.url, timeout=60)


def test_several_workers_see_one_truth(two_workers):
    seen = set()
    for number in range(30):
        with new_client(two_workers) as writer, new_client(two_workers) as reader:
            address = f"/v1/users/77/ratings/{101 + number % 9}"
            assert writer.put(address, json={"rating": 1 + number % 5}).status_code == 200
            found = reader.get("/v1/users/77").json()["ratings"]
            told = {one["item"]: one["rating"] for one in found}
            assert told[101 + number % 9] == 1 + number % 5
            gauge = reader.get("/metrics").text
            seen.add(gauge.partition("ordbm_worker_peak_bytes ")[2].split("\n")[0])
    counted = two_workers.client.get("/metrics").text
    line = next(one for one in counted.splitlines() if "PUT" in one and "2xx" in one)
    assert int(line.split()[-1]) == 30  # of both workers together
    assert len(seen) >= 1


def test_a_client_that_dawdles_is_let_go_and_harms_nobody(two_workers):
    host, port = two_workers.url.removeprefix("http://").split(":")
    slow = [socket.create_connection((host, int(port))) for _ in range(20)]
    for one in slow:
        one.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    question = {"user": 1, "items": [101]}
    assert two_workers.client.post("/v1/predict", json=question).status_code == 200
    slow[0].settimeout(60)
    told = slow[0].recv(2000)
    assert told.startswith(b"HTTP/1.1 408")
    assert b"application/problem+json" in told
    for one in slow:
        one.close()


def test_a_body_that_does_not_come_is_not_waited_for(two_workers):
    host, port = two_workers.url.removeprefix("http://").split(":")
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(head + b"Content-Length: 100\r\n\r\n{")
        slow.settimeout(60)
        assert slow.recv(2000).startswith(b"HTTP/1.1 408")
    with socket.create_connection((host, int(port))) as dripping:
        dripping.sendall(head + b"Content-Length: 1000\r\n\r\n")
        dripping.settimeout(0.5)
        told = b""
        while not told:  # each byte comes in time, and all of them never would
            with suppress(BrokenPipeError, ConnectionResetError):
                dripping.sendall(b" ")
            with suppress(TimeoutError):
                told = dripping.recv(2000)
        assert told.startswith(b"HTTP/1.1 408")
    with socket.create_connection((host, int(port))) as odd:
        odd.sendall(b"nonsense\r\n\r\n")
        odd.settimeout(60)
        told = odd.recv(2000)
    assert told.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in told


def test_a_slash_within_an_id_is_none_of_the_address(two_workers):
    address = "/v1/users/a%2Fb/ratings/101"
    assert two_workers.client.put(address, json={"rating": 2}).json()["user"] == "a/b"


def writes_until(url, ended, acknowledged, number):
    """Ratings, one after the other, each noted once it was acknowledged."""
    with httpx.Client(base_url=url, timeout=5) as client:
        step = 0
        while not ended.is_set():
            step += 1
            item = f"item-{step}"
            try:
                answer = client.put(f"/v1/users/writer-{number}/ratings/{item}", json={"rating": 3})
            except httpx.TransportError:
                if ended.is_set():
                    return
                continue
            if answer.status_code == 200:
                acknowledged.append((f"writer-{number}", item))


def test_what_was_acknowledged_outlives_a_kill_and_is_there_once(model_file, database):
    acknowledged, ended = [], threading.Event()
    with Server(model_file, "--database", database, "--workers", "2") as server:
        threads = [
            threading.Thread(target=writes_until, args=(server.url, ended, acknowledged, number))
            for number in range(3)
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) >= 20)
        server.kill()
        ended.set()
        for thread in threads:
            thread.join()
    store = Store(database)
    stored = [(json.loads(row.user), json.loads(row.item)) for row in rows_of(store)]
    store.close()
    assert set(stored) >= set(acknowledged)
    assert len(stored) == len(set(stored))


def test_it_ends_well_with_requests_under_way(model_file):
    with Server(model_file, "--database", f"sqlite:///{model_file}.end") as server:
        failed, stop = [], threading.Event()

        def ask():
            with new_client(server) as client:
                while not stop.is_set():
                    try:
                        answer = client.post("/v1/predict", json={"user": 1, "items": [101]})
                    except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
                        return  # it listens no more
                    if answer.status_code != 200:
                        failed.append(answer.text)

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.3)
        server.process.terminate()
        server.process.wait(timeout=60)
        stop.set()
        thread.join()
    assert failed == []
    assert not [line for line in server.log if "Traceback" in line]


def test_commands_say_in_a_sentence_what_is_wrong(model_file, tmp_path):
    (tmp_path / "no-model").write_text("nonsense")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = [
            (("serve", model_file, "--host", "0.0.0.0"), "there are no keys"),
            (("serve", tmp_path / "no-model"), "not a model file"),
            (("serve", tmp_path / "missing"), "no such file"),
            (("serve", model_file, "--port", port), "choose another"),
            (("serve", model_file, "--database", "mysql://a:secret@b/c"), "sqlite:///FILE"),
            (("serve", model_file, "--key-file", tmp_path / "nothing"), "no such file"),
            (
                ("database", "restore", f"sqlite:///{tmp_path / 'x'}", tmp_path / "no-model"),
                "backup",
            ),
            (("keys", "revoke", "x", "--key-file", tmp_path / "missing"), "no such file"),
        ]
        for words, expected in told:
            done = run(*words)
            assert done.exit_code == 2, words
            assert expected in done.stderr.lower() or expected in done.stderr, done.stderr
            assert "Traceback" not in done.stderr
            assert "secret" not in done.stderr


def test_keys_and_backups_on_the_command_line(model_file, tmp_path):
    keys = tmp_path / "keys"
    done = run("keys", "add", "shop", "--key-file", keys, "--scope", "write")
    key = done.stdout.strip()
    assert key.startswith("ordbm_")
    assert "write" in run("keys", "list", "--key-file", keys).stdout
    url = f"sqlite:///{tmp_path / 'a.sqlite3'}"
    with Server(model_file, "--database", url, "--key-file", str(keys)) as server:
        told = {"Authorization": f"Bearer {key}"}
        stored = server.client.put("/v1/users/1/ratings/101", json={"rating": 3}, headers=told)
        assert stored.status_code == 200
        done = run("database", "backup", url, "-o", tmp_path / "backup")  # while it runs
        assert done.exit_code == 0, done.stderr
    other = f"sqlite:///{tmp_path / 'b.sqlite3'}"
    assert run("database", "restore", other, tmp_path / "backup").exit_code == 0
    store = Store(other)
    assert [json.loads(row.user) for row in rows_of(store)] == [1]
    store.close()
    assert not [line for line in server.log if key in line]


def test_it_is_opened_in_a_browser_once_it_is_ready(model_file, tmp_path):
    seen = tmp_path / "seen"
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {seen}.part && mv {seen}.part {seen}\n')
    script.chmod(0o755)
    database = f"sqlite:///{tmp_path / 'open.sqlite3'}"
    told = {"BROWSER": f"{script} %s"}
    with Server(model_file, "--open", "--database", database, environment=told) as server:
        until(seen.exists)
        assert seen.read_text() == server.url


def test_without_a_browser_it_serves_and_lists_are_kept_at_an_orderly_end(model_file, tmp_path):
    url = f"sqlite:///{tmp_path / 'lists.sqlite3'}"
    told = {"BROWSER": str(tmp_path / "none"), "PATH": str(tmp_path), "DISPLAY": ""}
    with Server(model_file, "--open", "--database", url, environment=told) as server:
        until(lambda: any("no browser" in line for line in server.log))
        asked = [server.client.post("/v1/recommend", json={"user": 1, "n": 3}) for _ in range(5)]
        server.process.terminate()
        server.process.wait(timeout=60)
    store = Store(url)
    with store.reading() as connection:
        kept = set(connection.execute(select(LISTS.c.list_id)).scalars())
    store.close()
    assert kept == {one.json()["list_id"] for one in asked}


@pytest.mark.parametrize("flood", ["one header", "many", "address"])
def test_headers_without_an_end_are_not_kept(two_workers, flood):
    host, port = two_workers.url.removeprefix("http://").split(":")
    begin = (
        b"GET /" if flood == "address" else b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: "
    )
    more = b"X-Y: z\r\n" * 2000 if flood == "many" else b"x" * 14_000
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(60)
        sent = 0
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(begin)
            while sent < 100_000_000:
                client.sendall(more)
                sent += len(more)
        assert sent < 100_000_000  # what the buffers of the system hold, and no more
    usual = {"X-Long": "x" * 20_000}
    assert two_workers.client.get("/health/live", headers=usual).status_code == 200
    whole = {f"X-{n}": "x" * 7_000 for n in range(10)}
    assert two_workers.client.get("/health/live", headers=whole).status_code == 431


def test_a_client_that_reads_nothing_is_let_go(monkeypatch):
    import uvicorn

    from ordbm.serve import patient_protocol

    monkeypatch.setattr(patient_protocol, "READ_SECONDS", 0.3)
    sent, over = [0], threading.Event()

    async def endless(_, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not receive.__self__.disconnected:
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            sent[0] += 1
        over.set()

    config = uvicorn.Config(
        endless, http=patient_protocol.PatientProtocol, lifespan="off", ws="none", log_config=None
    )
    server = uvicorn.Server(config)
    listening = bound_socket("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until(lambda: server.started)
        with socket.create_connection(listening.getsockname()) as idle:
            idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert over.wait(60)
            held = sent[0]
        assert held < 1000  # what the buffers of the system hold, and no more
    finally:
        over.set()
        server.should_exit = True
        thread.join()
        listening.close()
