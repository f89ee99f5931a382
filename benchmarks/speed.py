"""The speed benchmark: ordbm and its peers on ML-1M, in alternation within one run.

    benchmarks/run [--data ../shared/data/ml-1m.zip] [--seed 0] [--quick] [--peers-only]

Each round measures Surprise (a process of its own, in the peers' environment) and then ordbm, so
that a slow spell of the machine falls on both; a ratio is taken within its round, and the median
over rounds is reported. myFM and a whole training of ordbm follow, one after the other. Writes
`benchmarks/results/speed.json` and `speed.md`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import ours
from data import CACHE, HERE, Split, add_arguments, cached_split, load_split
from provenance import commit, cpu_model

RESULTS = HERE / "results"
PEERS = HERE / "peers"
PEERS_PYTHON = HERE / ".venv-peers" / "bin" / "python"
THREADS = 2
PACKAGES = ("ordbm", "numpy", "numba", "scipy")  # of our own environment


class Effort(NamedTuple):
    """How much to measure."""

    rounds: int
    pairs: int  # predict calls per round
    draws: int  # myFM's Gibbs sweeps
    folder: Path  # where the report goes


FULL = Effort(rounds=5, pairs=200_000, draws=200, folder=RESULTS)
QUICK = Effort(rounds=1, pairs=20_000, draws=10, folder=CACHE)  # tries the plumbing: not a result


class Claim(NamedTuple):
    """The ratio of two figures and the bound it must keep."""

    text: str
    ours: str
    against: str
    ratio: float
    bound: str
    holds: bool


# --- measuring ------------------------------------------------------------------------------------


def peer(python: Path, script: str, split_path: Path, *options: object) -> dict[str, Any]:
    """The JSON that a peer's script prints; its progress goes to our stderr."""
    command = [str(python), str(PEERS / script), str(split_path), *map(str, options)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def ordbm_round(split: Split) -> dict[str, float]:
    """Our figures of one round, in seconds."""
    return {
        "epoch": ours.epoch_seconds(split, THREADS),
        "epoch_one_thread": ours.epoch_seconds(split, 1),
        "floor": ours.floor_seconds(split, THREADS),
        "floor_one_thread": ours.floor_seconds(split, 1),
        "pair": ours.scoring_seconds(split, THREADS) / (split.n_users * split.n_items),
    }


def measure(split_path: Path, python: Path, effort: Effort, peers_only: bool) -> dict[str, Any]:
    """Every figure of the run, raw: the rounds, then the two whole trainings."""
    split = load_split(split_path)
    if not peers_only:
        ours.warm_up(split)
    rounds = []
    for number in range(effort.rounds):
        print(f"round {number + 1} of {effort.rounds}", file=sys.stderr)
        surprise = peer(
            python, "surprise_svd.py", split_path, "--repeats", 1, "--pairs", effort.pairs
        )
        rounds.append({"surprise": surprise, "ordbm": None if peers_only else ordbm_round(split)})
    print("myFM, then a whole training of ordbm", file=sys.stderr)
    return {
        "rounds": rounds,
        "myfm": peer(python, "myfm_probit.py", split_path, "--draws", effort.draws),
        "training": None if peers_only else ours.training(split, THREADS)._asdict(),
    }


# --- reporting ------------------------------------------------------------------------------------


def claims(figures: dict[str, Any]) -> list[Claim]:
    """The issue's claims (a) to (d) and the gain of the second thread."""
    myfm, training = figures["myfm"], figures["training"]
    rounds = [  # one flat table of seconds per round
        {
            **one["ordbm"],
            "surprise_epoch": one["surprise"]["epoch_seconds_median"],
            "surprise_predict": one["surprise"]["predict_seconds_median"],
        }
        for one in figures["rounds"]
    ]

    def middle(name: str) -> float:
        return float(median(one[name] for one in rounds))

    def ratio(top: str, bottom: str) -> float:
        return float(median(one[top] / one[bottom] for one in rounds))

    def seconds(name: str) -> str:
        return f"{middle(name):.3f} s"

    def nanoseconds(name: str) -> str:
        return f"{middle(name) * 1e9:.1f} ns"

    def reached(seconds_taken: float, log_loss: float) -> str:
        return f"{seconds_taken:.1f} s, log-loss {log_loss:.4f}"

    def at_most(text: str, top: str, bottom: str, bound: float) -> Claim:
        found = ratio(top, bottom)
        return Claim(text, seconds(top), seconds(bottom), found, f"≤ {bound:g}", found <= bound)

    time_share = training["seconds"] / myfm["fit_seconds"]
    pair_share = ratio("pair", "surprise_predict")
    gain = ratio("epoch_one_thread", "epoch")
    return [
        at_most("(a) an epoch, against Surprise's", "epoch", "surprise_epoch", 1),
        at_most("(b) an epoch, against its exponentials", "epoch", "floor", 6),
        at_most("(b) the same on one thread", "epoch_one_thread", "floor_one_thread", 6),
        Claim(
            "(c) to a lower test log-loss than myFM's",
            reached(training["seconds"], training["log_loss"]),
            reached(myfm["fit_seconds"], myfm["log_loss"]),
            time_share,
            "≤ 1/10, and lower",
            time_share <= 1 / 10 and training["log_loss"] < myfm["log_loss"],
        ),
        Claim(
            "(d) mean-field scoring of a pair, against `predict`",
            nanoseconds("pair"),
            nanoseconds("surprise_predict"),
            pair_share,
            "< 1/200",
            pair_share < 1 / 200,
        ),
        Claim(
            "an epoch on one thread, against two",
            seconds("epoch_one_thread"),
            seconds("epoch"),
            gain,
            "≥ 1.6",
            gain >= 1.6,
        ),
    ]


def claims_table(found: Sequence[Claim]) -> str:
    """The claims as a Markdown table."""
    head = (
        "| claim | ordbm | against | ratio | bound | holds |\n| --- | --- | --- | --- | --- | --- |"
    )
    rows = (
        f"| {one.text} | {one.ours} | {one.against} | {one.ratio:.4g} | {one.bound} "
        f"| {'yes' if one.holds else '**no**'} |"
        for one in found
    )
    return "\n".join([head, *rows])


def peers_list(figures: dict[str, Any]) -> str:
    """What the peers took and reached, as a Markdown list."""
    surprise, myfm = [one["surprise"] for one in figures["rounds"]], figures["myfm"]
    epoch = [one["epoch_seconds_median"] for one in surprise]
    processor = [one["epoch_cpu_seconds_median"] for one in surprise]
    call = [one["predict_seconds_median"] * 1e6 for one in surprise]
    return (
        f"- {surprise[0]['peer']}: epoch {median(epoch):.3f} s (least {min(epoch):.3f}; "
        f"processor time {median(processor):.3f}), "
        f"`predict` {median(call):.2f} µs (least {min(call):.2f})\n"
        f"- {myfm['peer']}: fit {myfm['fit_seconds']:.0f} s "
        f"(processor time {myfm['fit_cpu_seconds']:.0f}), log-loss {myfm['log_loss']:.4f}, "
        f"MAE by median {myfm['mae_by_median']:.4f}, RMSE by mean {myfm['rmse_by_mean']:.4f}"
    )


def page(record: dict[str, Any], found: Sequence[Claim]) -> str:
    """The whole report in Markdown."""
    made, data = record["made"], record["data"]
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return f"""# Speed

Written by `{made["command"]}` on {made["time"]} (commit {made["commit"]}).

{claims_table(found) if found else "ordbm was not measured (`--peers-only`)."}

Medians over the rounds of one run; a ratio is taken within its round. Load average at the start:
{made["load"]:.2f}. A peer's processor time well below its wall clock means a busy machine.

{peers_list(record["figures"])}

- data: {data["description"]}; seed {data["seed"]}
- sha256 of the archive: `{data["zip_sha256"]}`
- sha256 of the split: `{data["split_sha256"]}`
- machine: {made["cpu"]}, {made["cores"]} cores, {made["platform"]}
- versions: {versions}
"""


# --- provenance -----------------------------------------------------------------------------------


def installed_versions(figures: dict[str, Any]) -> dict[str, str]:
    """Ours from this environment, the peers' as they report them."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    for report in (figures["rounds"][0]["surprise"], figures["myfm"]):
        for name, version in report["versions"].items():
            found[f"{name} (peers)" if name in ("python", *PACKAGES) else name] = version
    return found


def provenance(figures: dict[str, Any], load: float) -> dict[str, Any]:
    """How and where the figures were made."""
    return {
        "command": shlex.join(["benchmarks/run", *sys.argv[1:]]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "load": load,
        "versions": installed_versions(figures),
    }


def description(split: Split) -> dict[str, Any]:
    """What data the figures are about."""
    return {
        "description": (
            "ML-1M, movies with 20 ratings or more, 80/20 per user: "
            f"{split.n_users:,} users, {split.n_items:,} items, "
            f"{len(split.train_rating):,} + {len(split.test_rating):,} ratings"
        ),
        "seed": split.seed,
        "zip_sha256": split.zip_sha256,
        "split_sha256": split.split_sha256,
    }


def main() -> None:
    """Measure, print the report, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true", help="one short round; the report goes to the cache folder"
    )
    parser.add_argument("--peers-only", action="store_true", help="measure the peers alone")
    parser.add_argument(
        "--peers-python", type=Path, default=PEERS_PYTHON, help="Python of the peers' environment"
    )
    arguments = parser.parse_args()
    python = arguments.peers_python
    if not python.exists():
        parser.error(f"no peers' environment at {python}: start with benchmarks/run, it makes one")

    effort = QUICK if arguments.quick else FULL
    load = os.getloadavg()[0]
    split_path = cached_split(arguments.data, arguments.seed)
    figures = measure(split_path, python, effort, arguments.peers_only)
    found = [] if arguments.peers_only else claims(figures)
    record = {
        "made": provenance(figures, load),
        "data": description(load_split(split_path)),
        "claims": [one._asdict() for one in found],
        "figures": figures,
    }
    effort.folder.mkdir(exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (effort.folder / "speed.json").write_text(text + "\n")
    report = page(record, found)
    (effort.folder / "speed.md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
