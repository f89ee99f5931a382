"""Starts updates of the model, each in a process of its own and one at a time over all workers."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import asdict

from ordbm.serve.item_features import learnt_features
from ordbm.serve.model_slot import Served
from ordbm.serve.model_versions import end_lease, n_pending, take_lease
from ordbm.serve.service_log import SERVICE_LOG
from ordbm.serve.service_settings import ServiceSettings
from ordbm.serve.store import Store

LEASE = "update"
LEASE_SECONDS = 60.0


def pending_of(store: Store, served: Served) -> int:
    """How many changes a model has not learnt, and could."""
    learns, folded = bool(learnt_features(served.model)), served.version.folded
    return store.read(lambda one: n_pending(one, folded, learns_features=learns))


class UpdateTrigger:
    """What a worker knows of updates: its own process, if it has started one."""

    def __init__(self, settings: ServiceSettings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._process: subprocess.Popen[bytes] | None = None
        self._holder = ""
        self._looked = time.monotonic()

    def look(self, served: Served) -> None:
        """See to an update that has ended; start one if it is time to, and there is reason to."""
        if self._process is not None and self._process.poll() is not None:
            self._finish()
        every = self._settings.update_every
        if not every or time.monotonic() - self._looked < every:
            return
        self._looked = time.monotonic()
        if pending_of(self._store, served):
            self.start()

    def start(self) -> bool:
        """Whether an update has been started: nobody else had one under way."""
        if self._process is not None and self._process.poll() is None:
            return False
        holder = secrets.token_hex(8)
        if not self._store.write(lambda one: take_lease(one, LEASE, holder, LEASE_SECONDS)):
            return False
        told = {name: str(value) for name, value in asdict(self._settings).items()}
        told |= {"holder": holder, "versions": str(self._settings.versions)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ordbm.serve.update_job"],
            stdin=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # beside a service that answers
        )
        self._holder = holder
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode())  # not as arguments, which all can see
        self._process.stdin.close()
        return True

    def _finish(self) -> None:
        assert self._process is not None
        if self._process.returncode:
            SERVICE_LOG.error("an update has failed", extra={"status": self._process.returncode})
        self._process, holder = None, self._holder
        self._store.write(lambda one: end_lease(one, LEASE, holder))

    def end(self) -> None:
        """End an update under way: nothing of it has taken over."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=10)
