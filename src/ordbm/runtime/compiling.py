"""Says that kernels are being compiled, which happens once on a machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ordbm.runtime.progress import Progress, Tell

COMPILING = "compiling for this machine, once: later runs start at once"


@contextmanager
def compilation_shown(tell: Tell | None) -> Iterator[None]:
    """Within it, the first function that Numba compiles is told: a record, and a `Progress`.

    What Numba has in its cache is loaded without a word.
    """
    from numba.core import event  # noqa: PLC0415

    class Listener(event.Listener):
        shown = False

        def on_start(self, _: object) -> None:
            if not self.shown:
                self.shown = True
                logging.getLogger("ordbm").info(COMPILING)
                if tell is not None:
                    tell(Progress("compiling", 0.0))

        def on_end(self, _: object) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield
