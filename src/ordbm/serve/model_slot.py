"""The model that answers now: loaded beside the one before, warmed up, then swapped in at once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ordbm
from ordbm.errors import SettingsError
from ordbm.estimator import OrdinalBM
from ordbm.runtime.threads import thread_count
from ordbm.serve.model_versions import Version, active_version, checksum_of
from ordbm.serve.person import learnt_ratings_of
from ordbm.serve.problems import unavailable
from ordbm.serve.service_log import SERVICE_LOG
from ordbm.serve.store import Store


class Served(NamedTuple):
    """A model that is warm, and the version that it is."""

    model: OrdinalBM
    version: Version


class ModelSlot:
    """Holds one model; requests that have taken the one before finish with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._served: Served | None = None
        self._failed: int | None = None  # a version that could not be loaded

    @property
    def is_ready(self) -> bool:
        return self._served is not None

    def now(self) -> Served:
        """What answers; a problem as long as nothing does."""
        if self._served is None:
            raise unavailable("the model is being loaded")
        return self._served

    def refresh(self) -> bool:
        """Whether another version had become active, and has been swapped in."""
        active = self._store.read(active_version)
        old = self._served
        if active is None or active.number == self._failed:
            return False
        if old is not None and old.version.number == active.number:
            return False
        try:
            model = opened(active)
        except (ordbm.errors.OrdbmError, OSError):
            if old is None:
                raise
            self._failed = active.number
            SERVICE_LOG.exception("version cannot be loaded", extra={"version": active.name})
            return False
        self._served, self._failed = Served(model, active), None
        SERVICE_LOG.info("version swapped in", extra={"version": active.name})
        return True


def opened(version: Version) -> OrdinalBM:
    """The model of a version, warm; an error if its file is another one by now."""
    path = Path(version.path)
    if checksum_of(path) != version.checksum:
        raise ordbm.errors.ModelFileError(
            f"{path} is not the file it was as version {version.name}: start the service anew"
        )
    model = ordbm.load(path)
    model._state.threads = thread_count(None)  # a worker's share
    return warmed(model)


def warmed(model: OrdinalBM) -> OrdinalBM:
    """The model, with whatever any first question would wait for compiled and prepared."""
    model.warm_up()
    state = model._state
    user, item = (ids[int(np.flatnonzero(rated)[0])] for ids, rated in (
        (state.users, state.rated_users), (state.items, state.rated_items)
    ))  # fmt: skip
    if state.is_quick:
        state.tables.items()  # of all items, each of which the first question about it would make
    given = learnt_ratings_of(model, user)
    for asked in ({"user": user}, {"ratings": given}, {"user": user, "ratings": given}):
        model.explain(item=item, n=1, **asked)
        model.recommend(n=1, **asked)
    model.predict_joint([user], [item])
    model.predict_joint(items=[item], ratings=given)
    with suppress(SettingsError):  # of machines without hidden units
        model.similar_items(item, 1)
        model.similar_users(user, 1)
        model.similar_users(ratings=given, n=1)
    return model
