"""Peak resident memory and time per epoch on the Netflix subset, and what `import ordbm` costs.

    benchmarks/memory [--data ../shared/data/netflix-3000.parquet]

Each machine is fitted in a process of its own. Writes `benchmarks/results/memory.json` and
`memory.md`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from data import HERE
from provenance import commit, cpu_model

RESULTS = HERE / "results"

FIT = """
import json, resource, sys, time
import pyarrow.parquet as parquet
import ordbm

started = time.perf_counter()
ratings = ordbm.Ratings.from_frame(parquet.read_table(sys.argv[1]), item="movie")
read = time.perf_counter() - started
model = ordbm.OrdinalBM(hidden=20, item_links=int(sys.argv[2]), epochs=3, members=1)
model.fit(ratings)
print(json.dumps({
    "ratings": len(ratings),
    "read_seconds": read,
    "epoch_seconds": min(record.seconds for record in model.history[1:]),
    "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
}))
"""
IMPORT = """
import time
import numpy
started = time.perf_counter()
import ordbm
print(time.perf_counter() - started)
"""
MACHINES = {
    "joint, d = d′ = 20": 0,
    "joint, d = d′ = 20, 100 item links": 100,
}


def run(script: str, *options: object) -> Any:
    """What a script prints, read as JSON."""
    command = [sys.executable, "-c", script, *map(str, options)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    return json.loads(result.stdout)


def page(record: dict[str, Any]) -> str:
    """The report in Markdown."""
    rows = "\n".join(
        f"| {name} | {found['peak_gb']:.2f} GB | {found['epoch_seconds']:.1f} s |"
        for name, found in record["machines"].items()
    )
    size = next(iter(record["machines"].values()))["ratings"]
    return f"""# Memory

Written by `{record["command"]}` (commit {record["commit"]}) on {record["cpu"]}.

Netflix subset, {size:,} ratings, all of them used for training; peak resident memory of the whole
process, reading included. The bound for the first machine is 3 GB.

| machine | peak memory | an epoch |
| --- | --- | --- |
{rows}

`import ordbm` after NumPy: {1000 * record["import_seconds"]:.0f} ms (bound: 300 ms).
"""


def main() -> None:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path("../shared/data/netflix-3000.parquet")
    parser.add_argument("--data", type=Path, default=default, help="the Netflix subset")
    arguments = parser.parse_args()
    if not arguments.data.exists():
        parser.error(f"no {arguments.data}: say where the Netflix subset is with --data")
    record = {
        "command": shlex.join(["benchmarks/memory", *sys.argv[1:]]),
        "commit": commit(),
        "cpu": cpu_model(),
        "machines": {name: run(FIT, arguments.data, links) for name, links in MACHINES.items()},
        "import_seconds": min(run(IMPORT) for _ in range(5)),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "memory.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    report = page(record)
    (RESULTS / "memory.md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
