"""One training of the scaling benchmark, in a process of its own. Prints JSON.

    python benchmarks/scaling_fit.py RATINGS.parquet '{"item_links": 100, "epochs": 5}'

Reading, finding links and learning are timed apart. Everything is compiled before, on a few of the
ratings with the same settings.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
from pyarrow import Table, parquet

from ordbm import OrdinalBM, Ratings, read_ratings
from ordbm.runtime.progress import Progress
from ordbm.training.loop import EpochRecord

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from protocol import peak_gb
from rate_ordbm import WARM_UP, about

PACKAGES = ("ordbm", "numba", "numpy", "pyarrow")


class LinksClock:
    """A callback that notes when finding links begins and ends, and processor time by epoch."""

    def __init__(self) -> None:
        self.moments: list[float] = []
        self.processor: list[float] = []  # at the end of an epoch

    def on_progress(self, progress: Progress) -> None:
        if progress.phase == "links":
            self.moments.append(time.perf_counter())

    def __call__(self, _: EpochRecord) -> None:
        self.processor.append(time.process_time())

    @property
    def seconds(self) -> float:
        return self.moments[-1] - self.moments[0]


def main() -> None:
    """Warm up, read, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="ratings (.parquet with user, movie, rating)")
    parser.add_argument("settings", type=json.loads, help="of OrdinalBM, JSON")
    arguments = parser.parse_args()
    settings = arguments.settings

    some = Table.from_batches([next(parquet.ParquetFile(arguments.data).iter_batches(WARM_UP))])
    OrdinalBM(**{**settings, "epochs": 1}).fit(Ratings.from_frame(some, item="movie"))

    started = time.perf_counter()
    ratings = read_ratings(arguments.data, item="movie")
    read = time.perf_counter() - started
    clock = LinksClock()
    model = OrdinalBM(**settings)
    started = time.perf_counter()
    model.fit(ratings, callbacks=clock)
    fitted = time.perf_counter() - started
    print(
        json.dumps(
            {
                "ratings": len(ratings),
                "users": ratings.n_users,
                "items": ratings.n_items,
                "read_seconds": read,
                "fit_seconds": fitted,
                "links_seconds": clock.seconds if settings["item_links"] else 0.0,
                "epoch_seconds": [record.seconds for record in model.history],
                "processor_seconds": np.diff(clock.processor).tolist(),
                "peak_gb": peak_gb(),
                "versions": {
                    "python": platform.python_version(),
                    **{name: importlib.metadata.version(name) for name in PACKAGES},
                },
                **about(**settings),
            }
        )
    )


if __name__ == "__main__":
    main()
