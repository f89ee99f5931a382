"""What Prometheus reads: requests by route, over all workers.

Each worker counts in a file of its own, mapped into memory, in a folder that all share; whoever is
asked adds the files up. Rows are routes, columns the classes of status, then buckets of time.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ordbm.runtime.arrays import Numbers

CLASSES = ("2xx", "3xx", "4xx", "5xx")
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)
_COLUMNS = len(CLASSES) + len(BUCKETS) + 2  # the last bucket has no end; then the sum of seconds
OTHER = "other"


class ServiceMetrics:
    """Counters of requests by (method and) route."""

    def __init__(self, folder: Path, routes: Sequence[str]) -> None:
        self._routes = [*routes, OTHER]
        self._row = {name: row for row, name in enumerate(self._routes)}
        self._folder = folder
        shape = (len(self._routes), _COLUMNS)
        mapped = np.memmap(folder / f"worker-{os.getpid()}", np.float64, "w+", shape=shape)
        self._own: Numbers = mapped.view(np.ndarray)  # whose rows are quicker to come by

    def count(self, route: str, status: int, seconds: float) -> None:
        """One request more."""
        row = self._own[self._row.get(route, -1)]
        row[min(max(status // 100, 2), 5) - 2] += 1
        row[len(CLASSES) + bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def lines(self) -> Iterable[str]:
        """The sums of all workers in Prometheus' text form."""
        total = np.zeros(self._own.shape)
        for path in sorted(self._folder.glob("worker-*")):
            found = np.fromfile(path, np.float64)
            if found.size == total.size:
                total += found.reshape(total.shape)
        yield "# HELP ordbm_requests_total Requests by route and class of status."
        yield "# TYPE ordbm_requests_total counter"
        for name, row in zip(self._routes, total, strict=True):
            for column, status in enumerate(CLASSES):
                if row[column]:
                    labels = f'route="{name}",status="{status}"'
                    yield f"ordbm_requests_total{{{labels}}} {row[column]:.0f}"
        yield "# HELP ordbm_request_seconds Seconds from a request's headers to its answer's end."
        yield "# TYPE ordbm_request_seconds histogram"
        for name, row in zip(self._routes, total, strict=True):
            below = np.cumsum(row[len(CLASSES) : -1])
            if not below[-1]:
                continue
            for end, count in zip((*BUCKETS, "+Inf"), below, strict=True):
                labels = f'route="{name}",le="{end}"'
                yield f"ordbm_request_seconds_bucket{{{labels}}} {count:.0f}"
            yield f'ordbm_request_seconds_sum{{route="{name}"}} {row[-1]:.6f}'
            yield f'ordbm_request_seconds_count{{route="{name}"}} {below[-1]:.0f}'


def gauge_lines(gauges: dict[str, tuple[str, float]]) -> Iterable[str]:
    """Single numbers, each with what it is."""
    for name, (what, value) in gauges.items():
        yield f"# HELP ordbm_{name} {what}"
        yield f"# TYPE ordbm_{name} gauge"
        yield f"ordbm_{name} {value:.10g}"
