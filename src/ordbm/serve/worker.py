"""A worker process, as the process that watches over all of them starts it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ordbm.serve.service_settings import ServiceSettings


@dataclass(frozen=True)
class WorkerApplication:
    """Makes the application in a worker process, which is sent this."""

    settings: ServiceSettings
    run_folder: Path

    def __call__(self) -> Any:
        # Here, since whoever watches over workers needs no compiled kernels, nor their memory.
        from ordbm.serve.application import application  # noqa: PLC0415
        from ordbm.serve.service import Service  # noqa: PLC0415

        warnings.simplefilter("ignore")  # the library's remarks are for who wrote the call
        return application(Service(self.settings, self.run_folder))
