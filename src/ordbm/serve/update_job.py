"""Folds the ratings that came since into the parameters: `python -m ordbm.serve.update_job`.

The newest tenth of the changes stays out and is what the new model is checked on, beside the old
one, which is conditioned on all the rest; they stay conditioned on, until the next update. So the
model that takes over is the very one that was checked.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection

import ordbm
from ordbm.estimator import OrdinalBM
from ordbm.serve.item_features import learnt_features
from ordbm.serve.model_slot import opened
from ordbm.serve.model_versions import (
    Version,
    active_version,
    add_version,
    all_versions,
    checksum_of,
    set_state,
    take_lease,
)
from ordbm.serve.pending import Pending, ids_of, pending_changes, updated
from ordbm.serve.quality import NewRating, left_out_losses
from ordbm.serve.rating_rows import Said
from ordbm.serve.service_log import SERVICE_LOG, start_log
from ordbm.serve.store import Store
from ordbm.serve.update_trigger import LEASE, LEASE_SECONDS

CHECKED_SHARE = 0.1
MOST_CHECKED = 1000
FEWEST_CHECKED = 20  # fewer tell nothing, and the new model only has to be sound
ERRORS = 2.0  # standard errors by which it may be worse


def last_learnt(pending: Pending) -> int:
    """The change up to which is learnt: nine tenths of the ratings, who asked to be forgotten.

    Features are learnt at once, since they are no ratings to be checked on; those after this change
    are learnt again next time, which changes nothing.
    """
    if not pending.rows:
        described = (number for *_, number in pending.described)
        return max([*pending.erased.values(), *described], default=0)
    place = int(len(pending.rows) * (1 - CHECKED_SHARE))
    return max([pending.rows[max(place - 1, 0)].number, *pending.erased.values()])


def compared(old: OrdinalBM, new: OrdinalBM, pending: Pending, last: int) -> dict[str, Any]:
    """Both models on the newest ratings, and whether the new one may take over."""
    kept = [row for row in pending.rows if row.number > last and row.rating is not None]
    held = [NewRating(*ids_of(row), json.loads(row.rating or "")) for row in kept[-MOST_CHECKED:]]
    before, _ = left_out_losses(old, held, _said(pending, 0))
    after, _ = left_out_losses(new, held, _said(pending, last))
    sound = bool(np.isfinite(after).all())
    found: dict[str, Any] = {"checked": len(held), "accepted": sound}
    if held and sound:
        worse = after - before
        error = float(worse.std(ddof=1) / np.sqrt(len(worse))) if len(worse) > 1 else 0.0
        found |= {"log_loss_before": float(before.mean()), "log_loss_after": float(after.mean())}
        if len(held) >= FEWEST_CHECKED:
            found["accepted"] = bool(worse.mean() <= ERRORS * error)
    return found


def _said(pending: Pending, after: int) -> dict[Hashable, Said]:
    """What everybody said after a change, as a model that has learnt up to it is asked."""
    found: dict[Hashable, dict[Hashable, Any]] = {}
    for row in pending.rows:
        if row.number > after:
            user, item = ids_of(row)
            rating = None if row.rating is None else json.loads(row.rating)
            found.setdefault(user, {})[item] = rating
    erased = {user for user, number in pending.erased.items() if number > after}
    return {user: Said(found.get(user, {}), user in erased, 0) for user in found.keys() | erased}


def run_update(store: Store, versions: Path, keep: int) -> dict[str, Any]:
    """One update: what was learnt and measured, and whether the new version took over."""
    active = store.read(active_version)
    if active is None:
        raise ordbm.errors.SettingsError("no version is active: start the service first")
    pending = pending_changes(store, active.folded)
    old = opened(active)
    if not learnt_features(old):
        pending = pending._replace(described=[])
    if not any(pending):
        return {"from": active.name, "ratings": 0, "accepted": False, "nothing": "new"}
    last, new = last_learnt(pending), opened(active)
    report = {"from": active.name, **updated(old, new, pending, last)}
    report |= compared(old, new, pending, last)
    versions.mkdir(mode=0o700, exist_ok=True)
    path = versions / f"{active.number + 1:06d}-{active.checksum[:8]}.ordbm"
    if report["accepted"]:
        new.save(path, overwrite=True)
    state = "active" if report["accepted"] else "refused"
    checksum = checksum_of(path) if report["accepted"] else ""

    def take_over(connection: Connection) -> Version | None:
        now = active_version(connection)
        if now is None or now.number != active.number:
            return None  # somebody went back to another version meanwhile
        return add_version(connection, path, checksum, last, state, report)

    made = store.write(take_over)
    report["version"] = None if made is None else made.name
    _forget_old(store, versions, keep)
    return report


def _forget_old(store: Store, versions: Path, keep: int) -> None:
    """Remove files of updates beyond the last few that are kept."""
    kept = [one for one in store.read(all_versions) if one.state == "kept"]
    for one in kept[keep:]:
        path = Path(one.path)
        if path.parent == versions.absolute():
            store.write(partial(set_state, number=one.number, state="removed"))
            path.unlink(missing_ok=True)


def run_job() -> None:
    """Read what the worker says on standard input, run, and say what came of it in the log."""
    told = json.loads(sys.stdin.buffer.read())
    start_log(told["log_level"])
    warnings.simplefilter("ignore")
    store, ended = Store(told["database"], 2), threading.Event()

    def renew() -> None:
        while not ended.wait(LEASE_SECONDS / 3):
            store.write(lambda one: take_lease(one, LEASE, told["holder"], LEASE_SECONDS))

    threading.Thread(target=renew, daemon=True).start()
    try:
        report = run_update(store, Path(told["versions"]), int(told["keep_versions"]))
        SERVICE_LOG.info("update", extra={"report": report})
    except Exception:
        SERVICE_LOG.exception("update")
        sys.exit(1)
    finally:
        ended.set()


if __name__ == "__main__":
    run_job()
