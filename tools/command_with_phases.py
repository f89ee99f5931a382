"""A command of `ordbm` that tells on a pipe which phase of its work begins, and when.

    python tools/command_with_phases.py FILE_DESCRIPTOR fit ratings.csv ...

Functions are wrapped as their modules are imported, at the time when the command imports them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

PHASES = {
    "ordbm.cli.app": {"Commands._exit_code": "command"},
    "ordbm.cli.inputs": {"_load_library": "imports"},
    "ordbm.datasets.reader": {"read_ratings": "reading"},
    "ordbm.model.neighbours": {"correlation_links": "links"},
    "ordbm.training.presence_learning": {"learn_presence": "presence"},
    "ordbm.priors.resolved": {"priors_of": "priors"},
    "ordbm.training.loop": {"train": "epochs"},
    "ordbm.estimator.ordinal_bm": {"_validator": "validation"},
    "ordbm.persistence.checkpoint": {"Checkpoint.write": "checkpoint"},
    "ordbm.persistence.model_file": {"write_model": "saving", "load_model": "loading"},
    "ordbm.evaluation.validation": {"evaluate": "evaluation"},
    "ordbm.recommend.lists": {"person_list": "lists", "all_lists": "lists"},
    "ordbm.report.evaluation_page": {"evaluation_page": "report"},
    "ordbm.datasets.writer": {"write_ratings": "writing"},
}
pipe = int(sys.argv.pop(1))
stack = ["start"]


def mark(word: str) -> None:
    """Say that a phase begins, by the clock that all processes share."""
    os.write(pipe, f"{time.monotonic_ns()} {word}\n".encode())


def marked(function: Callable[..., Any], phase: str) -> Callable[..., Any]:
    """The function, with a mark where it begins and one where it ends."""

    def work(*arguments: Any, **named: Any) -> Any:
        stack.append(phase)
        mark(phase)
        try:
            return function(*arguments, **named)
        finally:
            stack.pop()
            mark(stack[-1])

    return work


def patch(module: ModuleType) -> None:
    """Wrap the functions of a module that are phases."""
    for name, phase in PHASES[module.__name__].items():
        *within, last = name.split(".")
        holder = getattr(module, within[0]) if within else module
        if hasattr(holder, last):
            setattr(holder, last, marked(getattr(holder, last), phase))
    if module.__name__ == "ordbm.persistence.checkpoint":
        module.__dict__["PAUSE"] = 0  # every epoch is kept, however short


class Patching(importlib.abc.MetaPathFinder):
    """Finds the modules of `PHASES` as ever, and wraps their functions once they are run."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name not in PHASES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module)

        loader.exec_module = exec_module
        return spec


def main() -> None:
    """Run the command."""
    sys.meta_path.insert(0, Patching())
    from ordbm.runtime import interruption  # noqa: PLC0415

    note = interruption.Listener.note

    def noting(self: interruption.Listener, number: int, frame: FrameType | None) -> None:
        mark("noted")
        note(self, number, frame)

    interruption.Listener.note = noting  # type: ignore[method-assign, assignment]
    from ordbm.__main__ import run  # noqa: PLC0415

    mark("start")
    try:
        run()
    finally:
        mark("end")


if __name__ == "__main__":
    main()
