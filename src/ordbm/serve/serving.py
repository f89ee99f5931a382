"""Serve: bring the database up to date, bind the port, keep worker processes running."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
import webbrowser
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import uvicorn
from uvicorn.supervisors import Multiprocess

import ordbm
from ordbm.persistence.container import is_container
from ordbm.runtime.cpus import usable_cpus
from ordbm.serve.key_ring import read_keys
from ordbm.serve.model_versions import checksum_of, register_first
from ordbm.serve.patient_protocol import PatientProtocol
from ordbm.serve.service_log import log_settings
from ordbm.serve.service_settings import ServiceSettings
from ordbm.serve.store import Store, told_in_words
from ordbm.serve.upgrade import bring_up_to_date
from ordbm.serve.worker import WorkerApplication

_STOP_SECONDS = 30


def prepare(settings: ServiceSettings) -> None:
    """Bring the database up to date, and let it know the model file."""
    with settings.model.open("rb") as file:
        if not is_container(file):
            raise ordbm.errors.ModelFileError(f"{settings.model} is not a model file of ordbm")
    if settings.key_file is not None:
        read_keys(settings.key_file)
    store = Store(settings.database, 1)
    try:
        with told_in_words():
            bring_up_to_date(store)
            checksum = checksum_of(settings.model)
            path = settings.model.absolute()
            store.write(lambda connection: register_first(connection, path, checksum))
    finally:
        store.close()


def serve_until_told(settings: ServiceSettings, *, opened: bool = False) -> int:
    """Answer until told to stop, `opened` in a browser once it is ready; the exit status."""
    prepare(settings)
    listening = bound_socket(settings.host, settings.port)
    share = max(1, usable_cpus() // settings.workers)
    os.environ.setdefault("OMP_NUM_THREADS", str(share))  # of each worker
    with tempfile.TemporaryDirectory(prefix="ordbm-serve-") as folder:
        config = uvicorn_settings(settings, Path(folder))
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}"
        print(f"ordbm: {address}", file=sys.stderr, flush=True)
        if opened:
            threading.Thread(target=_open_when_ready, args=(address,), daemon=True).start()
        Multiprocess(config, sockets=[listening]).run()
    return 0


def uvicorn_settings(settings: ServiceSettings, run_folder: Path) -> uvicorn.Config:
    """How uvicorn runs workers."""
    return uvicorn.Config(
        WorkerApplication(settings, run_folder),
        factory=True,
        http=PatientProtocol,
        workers=settings.workers,
        log_config=log_settings(settings.log_level),
        access_log=False,  # the guard writes one
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_STOP_SECONDS,
        timeout_worker_healthcheck=60,
    )


def _open_when_ready(address: str) -> None:
    while True:
        with suppress(OSError), urlopen(f"{address}/health/ready") as answer:  # noqa: S310
            answer.read()
            if not webbrowser.open(address):
                print(f"ordbm: no browser here: open {address}", file=sys.stderr, flush=True)
            return
        time.sleep(0.5)


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there, or an error that says why not."""
    made: socket.socket | None = None
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        if made is not None:
            made.close()
        raise ordbm.errors.SettingsError(
            f"{host}:{port} cannot be listened to ({(error.strerror or str(error)).lower()}): "
            "choose another --port or --host"
        ) from None
    made.set_inheritable(True)
    return made
