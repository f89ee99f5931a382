"""What learning which items get rated gives and costs: reliability, cost, growth, speed of lists.

    benchmarks/presence [--only reliability,fit] [--files ../shared/data] [--again lists] [--tiny]

- reliability: P(rated) of people whom the machine has never seen, ML-1M
- fit: a whole fit with presence against one without, ML-1M
- growth: learning presence alone by the number of ratings, links of all users and of a quarter of
  them, samples of whole users of the Netflix subset
- lists: the best ten items for everybody, ML-1M and the Netflix subset

Each measurement is a process of its own. A finished one is a row of
`benchmarks/results/presence.jsonl`; starting again goes on with those that are missing.
`presence.md` and its pictures are written from the rows after each.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accuracy import FILES, RESULTS, Row, chosen, stored_rows, told
from data import CACHE, HERE, sha256
from presence_measure import SETS, WHOLE
from presence_report import draw_growth, draw_reliability, page
from provenance import commit, cpu_model

PARTS = ("reliability", "fit", "growth", "lists")
SIZES = ["1", "2", "5", WHOLE]  # millions of ratings
SHARES = (1.0, 0.25)  # of the work of links
TINY = "0.05"

Measurement = dict[str, Any]


def measurements(sizes: Sequence[str], size: str, seed: int) -> list[Measurement]:
    """All of them; `sizes` are those of growth, `size` is that of the rest."""

    def one(part: str, data: str, size: str, **more: Any) -> Measurement:
        return {"part": part, "data": data, "size": size, "seed": seed, **more}

    return [
        one("reliability", "ml-1m", size),
        one("fit", "ml-1m", size),
        *(one("growth", "netflix", each, share=share) for each in sizes for share in SHARES),
        one("lists", "ml-1m", size),
        one("lists", "netflix", size),
    ]


def is_of(measurement: Measurement, row: Row) -> bool:
    """Whether the row is of this measurement."""
    return all(row.get(name) == value for name, value in measurement.items())


def found(measurement: Measurement, files: Path) -> Row:
    """What a process of its own answers; lists are made by another than the one that learns."""
    script = str(HERE / "presence_measure.py")

    def answer(told: Measurement) -> Row:
        command = [sys.executable, script, json.dumps(told), "--files", str(files)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
        return json.loads(done.stdout)

    if measurement["part"] != "lists":
        return answer(measurement)
    machine = answer({**measurement, "part": "machine"})
    listed = answer({"part": "lists", "name": machine.pop("name")})
    return {**listed, "ratings": machine["ratings"], "items": machine["items"], "machine": machine}


def row_of(measurement: Measurement, files: Path, digest: str, options: Sequence[str]) -> Row:
    """Measure, and say how it was done."""
    load = os.getloadavg()[0]
    measured = found(measurement, files)
    command = ["benchmarks/presence", "--only", measurement["part"], *options]
    return {
        **measurement,
        **measured,
        "file_sha256": digest,
        "command": shlex.join([*command, "--seed", str(measurement["seed"])]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": round(load, 2),
    }


def store(rows: Sequence[Row], path: Path) -> None:
    """Write the rows, in order, and the page and the pictures of them."""

    def place(row: Row) -> tuple[Any, ...]:
        part = PARTS.index(row["part"]), list(SETS).index(row["data"])
        return *part, row.get("share", 0.0), row["ratings"], row["seed"]

    rows = sorted(rows, key=place)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text("".join(json.dumps(row) + "\n" for row in rows))
    partial.replace(path)
    parts = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    pictures = {part: path.with_name(f"{path.stem}-{part}.svg") for part in PARTS}
    path.with_suffix(".md").write_text(page(parts, {k: one.name for k, one in pictures.items()}))
    for part, draw in (("reliability", draw_reliability), ("growth", draw_growth)):
        if parts[part]:
            draw(parts[part], pictures[part])


def main() -> None:
    """Measure what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def several(text: str) -> list[str]:
        return text.split(",")

    parser.add_argument("--only", type=several, default=["*"], help=f"of {', '.join(PARTS)}")
    parser.add_argument("--again", type=several, default=[], help="parts to do again")
    parser.add_argument("--seed", type=int, default=0, help="of samples, newcomers and machines")
    parser.add_argument("--files", type=Path, default=FILES, help="folder of the data files")
    parser.add_argument(
        "--tiny", action="store_true", help="small samples, to see that all of it runs"
    )
    parser.add_argument("--results", type=Path, help="rows (default: results/presence.jsonl)")
    arguments = parser.parse_args()
    results = arguments.results or RESULTS / "presence.jsonl"
    sizes, size, options = SIZES, WHOLE, []
    if arguments.tiny:
        sizes, size, options = [TINY, str(2 * float(TINY))], TINY, ["--tiny"]
        results = arguments.results or CACHE / "presence.jsonl"

    parts, again = (chosen(PARTS, names) for names in (arguments.only, arguments.again))
    all_of_them = measurements(sizes, size, arguments.seed)
    wanted = [one for one in all_of_them if one["part"] in parts]
    files = {name: arguments.files / SETS[name].file for name in {one["data"] for one in wanted}}
    for path in files.values():
        if not path.exists():
            parser.error(f"no {path}: say where the data files are with --files")
    digests = {name: sha256(path) for name, path in files.items()}

    def is_done(measurement: Measurement) -> bool:
        digest = digests[measurement["data"]]
        return measurement["part"] not in again and any(
            is_of(measurement, row) and row["file_sha256"] == digest for row in rows
        )

    rows = stored_rows(results)
    missing = [one for one in wanted if not is_done(one)]
    for number, one in enumerate(missing):
        print(f"[{number + 1}/{len(missing)}] {json.dumps(one)}", flush=True)
        row = row_of(one, arguments.files, digests[one["data"]], options)
        seconds = {name: told(value) for name, value in row.items() if name.endswith("seconds")}
        print(f"  {json.dumps(seconds)}", flush=True)
        rows = [other for other in rows if not is_of(one, other)] + [row]
        store(rows, results)
    if rows:
        store(rows, results)
    print(results.with_suffix(".md"))


if __name__ == "__main__":
    main()
