"""A worker of a service, forked from a process that has imported and compiled everything.

`tools/kill_server.py` starts hundreds of them: what is tried is how they end.
"""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn

import ordbm.serve.application  # noqa: F401 -- what a worker would import
from ordbm.serve.model_slot import warmed
from ordbm.serve.service_settings import ServiceSettings
from ordbm.serve.serving import uvicorn_settings
from service_runs import small_model  # type: ignore[import-not-found]


def work(settings: ServiceSettings, run_folder: Path, listening: socket.socket) -> None:
    """Answer until killed, as a worker of `ordbm serve` does."""
    uvicorn.Server(uvicorn_settings(settings, run_folder)).run(sockets=[listening])


warmed(small_model())  # where this is imported: before the forks
