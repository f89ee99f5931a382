"""One worker's service: the store, the model that answers, and what is done for every request."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import Response

from ordbm.runtime.freed_memory import give_back_freed_memory
from ordbm.serve.catalogue_rows import list_model_items
from ordbm.serve.gathering import Gathering
from ordbm.serve.guard import needs_key
from ordbm.serve.key_ring import Client, KeyRing
from ordbm.serve.model_slot import ModelSlot
from ordbm.serve.problems import Problem
from ordbm.serve.questions import PredictQuestion
from ordbm.serve.service_log import SERVICE_LOG
from ordbm.serve.service_metrics import ServiceMetrics
from ordbm.serve.service_settings import ServiceSettings
from ordbm.serve.shown_lists import ShownLists
from ordbm.serve.store import Store
from ordbm.serve.update_trigger import UpdateTrigger
from ordbm.serve.worker_roster import WorkerRoster
from ordbm.serve.workroom import Workroom


class Service:
    """What routes work with. The application sets what it has to be made for."""

    metrics: ServiceMetrics
    predicting: Gathering[PredictQuestion, dict[str, Any]]

    def __init__(self, settings: ServiceSettings, run_folder: Path) -> None:
        self.settings, self.run_folder = settings, run_folder
        self.store = Store(settings.database, settings.threads + 2)
        self.slot = ModelSlot(self.store)
        self.keys = None if settings.key_file is None else KeyRing(settings.key_file)
        # Single questions are computing, on one thread: several would do little but hand Python's
        # interpreter to each other, which makes lists twice as dear. What waits has the others.
        self.question_room = Workroom(1, settings.queue, settings.timeout)
        self.workroom = Workroom(settings.threads, settings.queue, settings.timeout)
        # Health is asked on a thread of its own: it must answer when all others are taken.
        self.side_room = Workroom(1, 16, settings.timeout)
        self.lists = ShownLists(self.store, settings.keep_lists)
        self.trigger = UpdateTrigger(settings, self.store)
        self._roster = WorkerRoster(run_folder)
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether every worker has a model that is warm."""
        return self.slot.is_ready and self._roster.n_ready() >= self.settings.workers

    def start(self) -> None:
        """Load the model beside the event loop; from then on look out for what changes."""
        self._roster.begin()
        self._watcher.start()
        self.lists.start()

    def end(self) -> None:
        """Let work under way finish, and store what is left to store."""
        self._ended.set()
        if self._watcher.is_alive():
            self._watcher.join(timeout=30)
        self._roster.end()
        for room in (self.question_room, self.workroom, self.side_room):
            room.close()
        self.lists.end()
        self.trigger.end()
        self.store.close()

    def _watch(self) -> None:
        wait, has_swapped = 0.0, False
        while not self._ended.wait(wait):
            wait = self.settings.poll
            try:
                if has_swapped:  # since then requests under way have finished with the old model
                    give_back_freed_memory()
                has_swapped = self.slot.refresh()
                if has_swapped:
                    list_model_items(self.store, self.slot.now())
                    self._roster.note_ready()
                if self.keys is not None:
                    self.keys.refresh()
                self.trigger.look(self.slot.now())
            except Exception:
                SERVICE_LOG.exception("watch")
                if not self.slot.is_ready and self.store.answers():
                    os._exit(3)  # the model cannot be loaded: no use in starting this anew


async def service_of(request: Request) -> Service:
    """The service of the application that a request came to; async, or it would need a thread."""
    service: Service = request.app.state.service
    return service


InService = Annotated[Service, Depends(service_of)]
BEARER = HTTPBearer(auto_error=False, description="A key of `ordbm keys add`, if there are any.")


def check_scope(request: Request, scope: str) -> Client:
    """Who asks; a problem if they have no key of this scope, where keys are needed."""
    client: Client = request.scope["client_key"]
    if scope not in client.scopes:
        if not client.name:
            raise needs_key("this needs a key: send Authorization: Bearer KEY")
        raise Problem(403, f"this key has not the scope {scope}")
    return client


def may(scope: str) -> Callable[..., Awaitable[Client]]:
    """A dependency of routes: whoever asks has a key of this scope, if keys are needed."""

    async def client_may(
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)] = None,
    ) -> Client:
        return check_scope(request, scope)

    return client_may


def answered(request: Request, content: Any, *, etag: str | None = None) -> Response:
    """JSON, or nothing but "not modified" where whoever asks has it already."""
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    tag = f'W/"{etag or hashlib.sha256(body).hexdigest()[:24]}"'
    told = {"ETag": tag, "Cache-Control": "private, no-cache"}
    seen = {one.strip() for one in request.headers.get("if-none-match", "").split(",")}
    if tag in seen or tag.removeprefix("W/") in seen or "*" in seen:
        return Response(status_code=304, headers=told)
    return Response(body, media_type="application/json", headers=told)
