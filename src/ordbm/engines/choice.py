"""Engines by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ordbm.engines.interface import WorkerEngine
from ordbm.errors import SettingsError

RAY = "ray"


def check_engine(name: str, value: Any) -> None:
    """An error unless this names an engine."""
    kind, colon, address = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind != RAY or bool(colon) != bool(address):
        raise SettingsError(
            f"{name}={value!r}: use 'ray', 'ray:ADDRESS' for a cluster, or None for this process"
        )


@contextmanager
def engine_named(name: str | None, threads: int | None = None) -> Iterator[WorkerEngine | None]:
    """The engine, for as long as it is needed; None for this process.

    One that is started on this machine has as many processors as `threads`, or all.
    """
    if name is None:
        yield None
        return
    from ordbm.engines.ray_core import RayCore  # noqa: PLC0415 -- few need it

    engine = RayCore(name.partition(":")[2] or None, threads)
    try:
        yield engine
    finally:
        engine.close()
