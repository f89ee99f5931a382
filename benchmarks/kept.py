"""Machines that are learnt once and kept, with what that took, while the code stays the same."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from data import CACHE, HERE, sha256, stopwatch

import ordbm

sys.path.insert(0, str(HERE / "peers"))
from protocol import peak_gb
from rate_ordbm import about

MACHINES = CACHE / "machines"


def kept(
    name: str, settings: dict[str, Any], learnt: Callable[[], ordbm.OrdinalBM]
) -> tuple[ordbm.OrdinalBM, dict[str, Any]]:
    """The machine of this name, learnt first if it is not there, and what its fit took.

    `name` must tell training ratings and settings apart. `model_sha256`, the checksum of its file,
    says whether two results are of the same machine.
    """
    path = MACHINES / f"{name}.ordbm"
    beside = path.with_suffix(".json")
    code = about(**settings)["code_sha256"]
    known = json.loads(beside.read_text()) if path.exists() and beside.exists() else {}
    if known.get("code_sha256") == code and known["model_sha256"] == sha256(path):
        return ordbm.load(path), known
    load = os.getloadavg()[0]
    with stopwatch() as fitting:
        model = learnt()
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    took = {
        "code_sha256": code,
        "model_sha256": sha256(path),
        "fit_seconds": fitting.wall,
        "fit_cpu_seconds": fitting.cpu,
        "fit_load": round(load, 2),
        "peak_gb": peak_gb(),
    }
    beside.write_text(json.dumps(took))
    return model, took
