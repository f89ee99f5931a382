"""The downloader against a local server that does what servers do on bad days."""

import hashlib
import http.server
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from cli_runs import HANGS
from ordbm.datasets import download
from ordbm.datasets.download import DOWNLOADS, DownloadError, get_dataset
from ordbm.errors import OrdbmError, SettingsError

NAME = "ml-100k"
CONTENT = bytes(range(256)) * 4000


def md5(content):
    return hashlib.md5(content).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.plan.content`; the plan says what goes wrong."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        plan = self.server.plan
        plan.requests.append((self.path, dict(self.headers)))
        if plan.actions:
            action = plan.actions.pop(0)
            if action is not None and action(self, plan):
                return
        if self.path.endswith(".md5"):
            self.reply(200, f"MD5 ({NAME}.zip) = {md5(plan.content)}\n".encode())
        elif not self.path.endswith(".zip"):
            self.reply(404, b"no")
        else:
            self.serve(plan)

    def serve(self, plan, cut=None):
        """The file, or the rest of it if that is asked for and it is still the same."""
        body, status, headers = plan.content, 200, {"ETag": plan.etag} if plan.etag else {}
        if plan.last_modified:
            headers["Last-Modified"] = plan.last_modified
        asked = self.headers.get("Range")
        same = self.headers.get("If-Range") in (plan.etag, plan.last_modified)
        if asked and plan.ranges and (same or plan.ignores_if_range):
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                self.reply(416, b"", {"Content-Range": f"bytes */{len(body)}"})
                return
            headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
            body, status = body[first:], 206
        self.reply(status, body, headers, cut)

    def reply(self, status, body, headers=(), cut=None):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    """A plan of what the server does, and a `get` that asks it."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        plan = running.plan = SimpleNamespace(
            content=CONTENT, etag='"v1"', last_modified=None, ranges=True, ignores_if_range=False,
            requests=[], actions=[], url=f"http://127.0.0.1:{running.server_port}/sets/",
        )  # fmt: skip
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setitem(DOWNLOADS, NAME, download.Download("", len(CONTENT), md5(CONTENT)))

        def get(folder, progress=None, **settings):
            settings = {"insecure": True, "pause": 0.001, "base_url": plan.url, **settings}
            return get_dataset(NAME, folder, progress, **settings)

        plan.get = get
        yield plan
        running.shutdown()


def dropping(after):
    """The connection breaks after so many bytes of the body."""

    def act(handler, plan):
        handler.serve(plan, cut=after)
        return True

    return act


def answering(status, **headers):
    def act(handler, _plan):
        handler.reply(status, b"sorry", headers)
        return True

    return act


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def ranges(plan):
    return [headers.get("Range") for _, headers in plan.requests]


def test_a_file_is_fetched_and_not_fetched_again(server, tmp_path):
    told = []
    path = server.get(tmp_path / "new" / "folder", lambda *numbers: told.append(numbers))
    assert path == tmp_path / "new" / "folder" / f"{NAME}.zip"
    assert path.read_bytes() == CONTENT
    assert files(path.parent) == [path.name]
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert told == sorted(told)
    assert server.get(path.parent) == path
    assert len(server.requests) == 1
    path.write_bytes(b"something else")
    assert server.get(path.parent).read_bytes() == CONTENT


@pytest.mark.parametrize("dated", [False, True])
def test_broken_downloads_go_on_where_they_stopped(server, tmp_path, dated):
    if dated:
        server.etag, server.last_modified = 'W/"weak"', "Wed, 21 Oct 2015 07:28:00 GMT"
    server.actions = [dropping(300_000), dropping(200_000), None]
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert ranges(server) == [None, "bytes=300000-", "bytes=500000-"]
    validator = server.last_modified if dated else server.etag
    assert {headers["If-Range"] for _, headers in server.requests[1:]} == {validator}


def test_a_later_run_goes_on_where_an_earlier_one_gave_up(server, tmp_path):
    server.actions = [dropping(400_000)] + [answering(503)] * download.PATIENCE
    with pytest.raises(DownloadError, match=r"503 .*, 5 times in a row; what has come is kept"):
        server.get(tmp_path)
    assert files(tmp_path) == [f"{NAME}.zip.part", f"{NAME}.zip.part.json"]
    told = []
    assert server.get(tmp_path, lambda *numbers: told.append(numbers)).read_bytes() == CONTENT
    assert ranges(server)[-1] == "bytes=400000-"
    assert told[0] == (400_000, len(CONTENT))
    assert files(tmp_path) == [f"{NAME}.zip"]


def test_a_complete_part_is_only_checked(server, tmp_path):
    (tmp_path / f"{NAME}.zip.part").write_bytes(CONTENT)
    record = {"url": f"{server.url}{NAME}.zip", "validator": '"v1"', "size": len(CONTENT)}
    (tmp_path / f"{NAME}.zip.part.json").write_text(json.dumps(record))
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert server.requests == []


@pytest.mark.parametrize("record", [None, "{", "[]", '{"url": 1}', "other"])
def test_parts_of_unknown_origin_are_not_used(server, tmp_path, record):
    (tmp_path / f"{NAME}.zip.part").write_bytes(b"x" * 1000)
    if record == "other":
        record = json.dumps({"url": "https://else.where/", "validator": '"v1"', "size": 10})
    if record is not None:
        (tmp_path / f"{NAME}.zip.part.json").write_text(record)
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert ranges(server) == [None]


def test_a_server_without_ranges_is_asked_for_all_again(server, tmp_path):
    server.ranges = False
    server.actions = [dropping(300_000)]
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_without_a_validator_parts_are_not_joined(server, tmp_path):
    server.etag = None
    server.actions = [dropping(300_000)]
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert ranges(server) == [None, None]


def changed(_handler, plan):
    """Another version of the file is there from now on."""
    plan.content, plan.etag = CONTENT[::-1], '"v2"'
    return False


@pytest.mark.parametrize("honest", [True, False])
def test_parts_of_two_versions_are_never_joined(server, tmp_path, monkeypatch, honest):
    """Not even if the server sends the rest of the new version in spite of If-Range."""
    server.ignores_if_range = not honest
    monkeypatch.setitem(DOWNLOADS, NAME, download.Download("", None, md5(CONTENT[::-1])))
    server.actions = [dropping(300_000), changed]
    assert server.get(tmp_path).read_bytes() == CONTENT[::-1]


def test_a_shorter_file_than_the_part_is_fetched_anew(server, tmp_path, monkeypatch):
    short = CONTENT[:1000]
    monkeypatch.setitem(DOWNLOADS, NAME, download.Download("", None, md5(short)))

    def shortened(_handler, plan):
        plan.content, plan.ignores_if_range = short, True

    server.actions = [dropping(300_000), shortened]
    assert server.get(tmp_path).read_bytes() == short


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(DownloadError, match=f"instead of {md5(CONTENT)}, and was removed"):
        server.get(tmp_path)
    assert files(tmp_path) == []


def test_checksums_of_files_that_change_are_fetched(server, tmp_path, monkeypatch):
    monkeypatch.setitem(DOWNLOADS, NAME, download.Download("", None, None))
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert [path for path, _ in server.requests] == [f"/sets/{NAME}.zip.md5", f"/sets/{NAME}.zip"]
    server.actions = [answering(404)]
    with pytest.raises(DownloadError, match=r"zip\.md5: the server answers 404"):
        server.get(tmp_path)
    server.actions = [answering(200)]
    with pytest.raises(DownloadError, match="has no checksum"):
        server.get(tmp_path)


def test_busy_servers_are_asked_again_and_missing_files_are_not(server, tmp_path):
    server.actions = [answering(503), answering(429), None]
    assert server.get(tmp_path).read_bytes() == CONTENT
    server.actions = [answering(404)]
    with pytest.raises(DownloadError, match="404 Not Found; it may have moved"):
        server.get(tmp_path / "other")
    assert len(server.requests) == 4


def test_redirects_are_followed_but_not_to_other_schemes(server, tmp_path):
    server.actions = [answering(302, Location="/elsewhere/x.zip"), None]
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert server.requests[-1][0] == "/elsewhere/x.zip"
    for target in ("ftp://127.0.0.1/x.zip", "file:///etc/hostname"):
        server.actions = [answering(302, Location=target)]
        with pytest.raises(OrdbmError):
            server.get(tmp_path / "other")
    assert files(tmp_path / "other") == []


def test_only_https_is_fetched_from_unless_told(server, tmp_path):
    with pytest.raises(DownloadError, match="only https addresses"):
        server.get(tmp_path, insecure=False)
    for url in ("file:///etc/", "ftp://host/", "data:,", "/etc/"):
        with pytest.raises(DownloadError, match="only https and http addresses"):
            server.get(tmp_path, base_url=url)
    assert server.requests == []
    assert files(tmp_path) == []


def test_slow_starts_are_waited_for_and_silence_is_not(server, tmp_path):
    silent = threading.Event()

    def slow(_handler, _plan):
        silent.wait(0.3)

    def mute(_handler, _plan):
        silent.wait()

    server.actions = [slow]
    assert server.get(tmp_path, timeout=HANGS).read_bytes() == CONTENT
    assert len(server.requests) == 1
    server.actions = [mute]
    try:
        assert server.get(tmp_path / "other", timeout=2).read_bytes() == CONTENT
    finally:
        silent.set()
    assert len(server.requests) > 2  # again after the silence


def test_without_a_network_it_says_so(tmp_path, server):
    with pytest.raises(DownloadError, match="the host is not found; is there a network"):
        server.get(tmp_path, base_url="http://no-such-host.invalid/")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(DownloadError, match=r"no connection \(Connection refused\), 5 times"):
        server.get(tmp_path, base_url=f"http://127.0.0.1:{port}/")
    assert files(tmp_path) == []


def test_full_disks_are_noticed(server, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(download.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
        with pytest.raises(DownloadError, match="1,024,000 bytes are needed and 1,000 are free"):
            server.get(tmp_path)

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    with pytest.raises(DownloadError, match="the disk is full; make room"):
        server.get(tmp_path, full)
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"Not a directory|File exists"):
        server.get(tmp_path / "file")


def test_a_stop_by_the_user_keeps_the_part(server, tmp_path):
    def stop(done, _total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        server.get(tmp_path, stop)
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert ranges(server)[1].startswith("bytes=")


def test_the_list_of_downloads():
    with pytest.raises(SettingsError, match="no data set 'netflix'; there are ml-100k, ml-1m"):
        get_dataset("netflix")
    for known in DOWNLOADS.values():
        assert known.md5 is None or len(known.md5) == 32
        assert "rating" in known.about


def test_the_known_checksum_is_that_of_the_archive(data_file):
    content = data_file("ml-1m.zip").read_bytes()
    assert (len(content), md5(content)) == DOWNLOADS["ml-1m"][1:]


# -- several at once ------------------------------------------------------------------------------


def test_several_who_want_the_same_file_fetch_it_once(server, tmp_path):
    together = threading.Barrier(4)

    def get(_):
        together.wait(HANGS)
        return server.get(tmp_path)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(get, range(4)))
    assert found == [tmp_path / f"{NAME}.zip"] * 4
    assert found[0].read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == [found[0]]


def test_one_that_fails_leaves_the_next_to_go_on(server, tmp_path):
    right, server.content = server.content, b"altered on the way"
    with pytest.raises(DownloadError, match="MD5"):
        server.get(tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.content = right
    assert server.get(tmp_path).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == [f"{NAME}.zip"]
