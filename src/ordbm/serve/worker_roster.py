"""Which workers are ready: a file for each, named after its process, in the folder they share."""

from __future__ import annotations

import os
from pathlib import Path


class WorkerRoster:
    """One worker's place among all."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._own = folder, folder / f"ready-{os.getpid()}"

    def begin(self) -> None:
        """Take away what workers that have ended left."""
        for path in self._folder.glob("ready-*"):
            if not _is_running(int(path.name.partition("-")[2])):
                path.unlink(missing_ok=True)

    def note_ready(self) -> None:
        """The worker can answer."""
        self._own.touch()

    def end(self) -> None:
        """It will not any more."""
        self._own.unlink(missing_ok=True)

    def n_ready(self) -> int:
        """How many can."""
        return sum(1 for _ in self._folder.glob("ready-*"))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
