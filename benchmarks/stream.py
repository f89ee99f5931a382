"""MovieLens 1M in time order: predicted, then learnt, beside river, retraining and other libraries.

    benchmarks/stream [--parts grown,retrained,whole,single,refitted,foldin] [--protocols time]

- grown: the earliest 70 % are learnt, the rest comes in 50 batches, each taken in by `partial_fit`
- retrained: a machine learnt from everything that came before a batch; as many as there is time for
- whole: from the first hundredth of the stream on, beside river, which learns rating by rating from
  the very first on; ours takes in 100 ratings at a time, and learns anew with each three tenths
  more, which is in its cost
- single: the last 30 % begun, each group of ratings by itself, for 6,000 ratings
- refitted: other libraries fitted anew to everything as the stream goes on
- foldin: a factorisation that folds in users and items

By "time" nearly all items are known when the batches begin, and by "items" a fifth of them comes
with the stream. All are one machine without presence and times. What is computed stays in
`benchmarks/.cache/stream`, so that starting again goes on; `--minutes` ends early. Figures go to
`benchmarks/results/stream.json` and `stream.md`. Nothing is chosen on these ratings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from features import python_of
from provenance import commit, cpu_model
from stream_data import (
    BATCHES,
    FIRST,
    LEARNT_FIRST,
    Stream,
    cut,
    had_before,
    in_groups,
    losses,
    read,
)
from stream_report import page

import ordbm

HERE = Path(__file__).resolve().parent
FILE = HERE.parent.parent / "shared" / "data" / "ml-1m.zip"
DRIFTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45)
RIVER = ("river BiasedMF", "river BiasedMF, one by one", "river Baseline")
CACHE = HERE / ".cache" / "stream"
ONE: dict[str, Any] = {"members": 1, "presence": False, "context": False, "threads": 1}


class Stretch(NamedTuple):
    """A part of the stream."""

    begin: float
    end: float
    batch: int
    refit: float | None
    n_parts: int  # after each of which the model is saved


STRETCHES = {
    "whole": Stretch(0.01, 1.0, 100, 0.3, 99),
    "single": Stretch(LEARNT_FIRST, 0.706, 1, None, 1),
}
SHOWN = {
    "whole": ("whole", 0.01, 1.0),
    "early": ("whole", 0.01, 0.1),
    "late": ("whole", LEARNT_FIRST, 1.0),
    "single": ("single", LEARNT_FIRST, 1.0),
}  # name: run, begin and end of what is scored
# Before which batches a machine is learnt anew, spread first: each is a fit of everything.
SPREAD = (0, 25, 49, 12, 37, 6, 18, 31, 43, 3, 9, 15, 21, 28, 34, 40, 46)


class StoppedError(Exception):
    """The minutes are over."""


class Clock:
    """Says when to stop, and whose results are there."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes

    def missing(self, target: Path) -> bool:
        """Whether to make this file now."""
        if target.exists():
            return False
        if time.monotonic() > self.end:
            raise StoppedError
        return True


def ratings_of(stream: Stream, *, times: bool = False) -> ordbm.Ratings:
    """As the library has them."""
    told = {"times": stream.time} if times else {}
    return ordbm.Ratings(stream.user, stream.item, stream.rating, scale=[1, 2, 3, 4, 5], **told)


def joined(parts: list[Stream]) -> Stream:
    """One after the other."""
    return in_groups(*(np.concatenate([part[column] for part in parts]) for column in range(4)))


def timed(work: Callable[[], Any]) -> float:
    """Its seconds of processor time."""
    started = time.process_time()
    work()
    return time.process_time() - started


def first_model(path: Path, protocol: str, clock: Clock) -> Path:
    """The machine learnt before the stream."""
    target = CACHE / f"first-{protocol}.ordbm"
    if clock.missing(target):
        learnt, _ = cut(path, protocol)
        model = ordbm.OrdinalBM(**ONE)
        seconds = timed(lambda: model.fit(ratings_of(learnt)))
        target.with_suffix(".json").write_text(json.dumps(seconds))
        model.save(target)
    return target


def grown(path: Path, protocol: str, clock: Clock) -> None:
    """Each batch is predicted and then taken in."""
    target = CACHE / f"grown-{protocol}.npz"
    model = ordbm.load(first_model(path, protocol, clock))
    if not clock.missing(target):
        return
    _, batches = cut(path, protocol)
    # Compile first: one rating comes and is withdrawn again, in a copy.
    ordbm.load(first_model(path, protocol, clock)).partial_fit(ratings_of(batches[0]))
    predictions, seconds = [], []
    for batch in batches:
        predictions.append(model.predict_proba(batch.user, batch.item))
        seconds.append(timed(lambda batch=batch: model.partial_fit(ratings_of(batch))))
    np.savez(target, prediction=np.concatenate(predictions), seconds=seconds)


def retrained(path: Path, protocol: str, clock: Clock) -> None:
    """Before each batch a machine is learnt from everything that came."""
    learnt, batches = cut(path, protocol)
    for number in (*SPREAD, *(k for k in range(BATCHES) if k not in SPREAD)):
        target = CACHE / f"retrained-{protocol}-{number}.npz"
        if clock.missing(target):
            model, told = ordbm.OrdinalBM(**ONE), joined([learnt, *batches[:number]])
            seconds = timed(lambda model=model, told=told: model.fit(ratings_of(told)))
            batch = batches[number]
            np.savez(target, p=model.predict_proba(batch.user, batch.item), seconds=seconds)


def ends_of(stream: Stream, name: str) -> np.ndarray:
    """Where the parts of a stretch begin and end."""
    told = STRETCHES[name]
    share = np.linspace(told.begin, told.end, told.n_parts + 1)
    ends: np.ndarray = stream.group[np.searchsorted(stream.group, share * len(stream))]
    return ends


def stretch(path: Path, name: str, clock: Clock) -> None:
    """A stretch of the stream, part by part."""
    stream, told = read(path), STRETCHES[name]
    for number, (begin, end) in enumerate(pairwise(ends_of(stream, name).tolist())):
        target = CACHE / f"{name}-{number}.npz"
        before = CACHE / f"{name}-{number - 1}.ordbm"
        if not clock.missing(target):
            continue
        if number:
            model = ordbm.load(before)
        elif told.begin == LEARNT_FIRST:
            model = ordbm.load(first_model(path, "time", clock))
        else:
            model = ordbm.OrdinalBM(**ONE).fit(ratings_of(stream.at(slice(0, begin)), times=True))
        progressed(model, stream.at(slice(begin, end)), target, told)
        before.unlink(missing_ok=True)


def progressed(
    model: ordbm.OrdinalBM,
    stream: Stream,
    target: Path,
    how: Stretch,
) -> None:
    """Losses and seconds, and the model as it is then."""
    told, started = ratings_of(stream, times=True), time.process_time()
    found = ordbm.progressive_validation(model, told, batch=how.batch, refit=how.refit)
    model.save(target.with_suffix(".ordbm"))
    seconds = time.process_time() - started
    # Within a second people come in another order there: each loss to its place in the stream.
    pair = stream.user * 10_000 + stream.item
    ids = np.array(told.users.ids)[told.user_codes], np.array(told.items.ids)[told.item_codes]
    asked = (ids[0] * 10_000 + ids[1])[found.order]
    place = np.argsort(pair)[np.searchsorted(np.sort(pair), asked)]
    in_order = {name: np.empty(len(stream)) for name in found.losses}
    for name, loss in found.losses.items():
        in_order[name][place] = loss
    np.savez(target, seconds=seconds, groups=len(stream.group) - 1, **in_order)


# -- other libraries ------------------------------------------------------------------------------


def of_peers(path: Path, told: argparse.Namespace, clock: Clock) -> None:
    """Their predictions, each in an environment of its own."""
    jobs: list[tuple[str, str, list[str]]] = []
    if {"whole", "single"} & set(told.parts):
        jobs.append(("river", "peers-stream", ["stream_river.py"]))
    for protocol in told.protocols:
        if "refitted" in told.parts:
            for model, refits in (("svd", "4"), ("myfm", "1")):
                script = ["stream_refitted.py", model, protocol, refits]
                jobs.append((f"{model}-{protocol}", "peers", script))
        if "foldin" in told.parts:
            script = ["stream_cmfrec.py", protocol]
            jobs.append((f"cmfrec-{protocol}", "peers-features", script))
    for name, environment, (script, *more) in jobs:
        target = CACHE / f"{name}.npz"
        if clock.missing(target):
            command = [python_of(environment), str(HERE / "peers" / script), str(path), *more]
            subprocess.run([*command, str(target)], check=True)  # noqa: S603


# -- figures --------------------------------------------------------------------------------------

Losses = dict[str, np.ndarray]


def root(name: str, mean: float) -> float:
    """Of RMSE the root."""
    return float(np.sqrt(mean)) if name == "rmse" else float(mean)


def scored(loss: Losses, parts: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """The mean of each loss over each part."""
    return {
        part: {name: root(name, one[chosen].mean()) for name, one in loss.items()}
        for part, chosen in parts.items()
        if chosen.any()
    }


def parts_of(learnt: Stream, streamed: Stream) -> dict[str, np.ndarray]:
    """Which ratings of the stream are of users and items known, new and just come."""
    had_user = had_before(streamed.user, learnt.user, streamed.group)
    had_item = had_before(streamed.item, learnt.item, streamed.group)
    new_user = ~np.isin(streamed.user, learnt.user)
    new_item = ~np.isin(streamed.item, learnt.item)
    return {
        "all": np.ones(len(streamed), bool),
        "known users and items": ~new_user & ~new_item,
        "new users": new_user,
        f"a user's first {FIRST}": had_user < FIRST,
        "new items": new_item,
        f"an item's first {FIRST}": had_item < FIRST,
        "items that had 5 to 30": (had_item >= FIRST) & (had_item <= 30),
    }


def kept(name: str) -> Any:
    """What was computed, or None."""
    target = CACHE / f"{name}.npz"
    return np.load(target) if target.exists() else None


def batch_figures(path: Path, protocol: str) -> dict[str, Any]:
    """All models on the last 30 %."""
    learnt, batches = cut(path, protocol)
    streamed = joined(batches)
    parts = parts_of(learnt, streamed)
    found: dict[str, Any] = {"scores": {}, "seconds": {}, "n": {}}
    found["n"] = {name: int(chosen.sum()) for name, chosen in parts.items()}

    def add(name: str, prediction: np.ndarray, seconds: float) -> None:
        found["scores"][name] = scored(losses(prediction, streamed.rating), parts)
        found["seconds"][name] = seconds

    ours = kept(f"grown-{protocol}")
    if ours is not None:
        add("ordbm, growing", ours["prediction"], float(ours["seconds"].sum()))
    for name, called in (("svd", "Surprise SVD"), ("myfm", "myFM"), ("cmfrec", "cmfrec")):
        peer = kept(f"{name}-{protocol}")
        if peer is not None:
            add(f"{called}, {peer['how'].item()}", peer["prediction"], float(peer["seconds"]))
    found["beside retraining"] = retraining_figures(protocol, batches, parts, ours)
    return found


def retraining_figures(
    protocol: str, batches: list[Stream], parts: dict[str, np.ndarray], ours: Any
) -> dict[str, Any] | None:
    """Growing and retraining on the batches before which a machine was retrained."""
    ends = np.cumsum([0, *map(len, batches)])
    again = {k: kept(f"retrained-{protocol}-{k}") for k in range(BATCHES)}
    again = {k: one for k, one in again.items() if one is not None}
    if ours is None or not again:
        return None
    chosen = np.concatenate([np.arange(ends[k], ends[k + 1]) for k in again])
    anew = np.concatenate([one["p"] for one in again.values()])
    rating = np.concatenate([batches[k].rating for k in again])
    few = {name: mask[chosen] for name, mask in parts.items()}
    each = float(np.mean([one["seconds"] for one in again.values()]))
    return {
        "batches": sorted(again),
        "growing": scored(losses(ours["prediction"][chosen], rating), few),
        "retrained": scored(losses(anew, rating), few),
        "lost by drift": lost_by_drift(batches, again, ours["prediction"], ends),
        "seconds of a retraining": each,
        "seconds of all 50": BATCHES * each,
        "seconds of growing, all 50": float(ours["seconds"].sum()),
        "share of the cost": float(ours["seconds"].sum()) / (BATCHES * each),
    }


def lost_by_drift(
    batches: list[Stream], again: dict[int, Any], prediction: np.ndarray, ends: np.ndarray
) -> list[dict[str, Any]]:
    """Log-loss of growing above that of retraining, by the drift before a batch."""
    found = []
    drift = ends[:-1] / (LEARNT_FIRST * ends[-1] / (1 - LEARNT_FIRST))
    for low, high in pairwise(DRIFTS):
        gaps = [
            (
                losses(prediction[ends[k] : ends[k + 1]], batches[k].rating)["log_loss"]
                - losses(one["p"], batches[k].rating)["log_loss"]
            ).mean()
            for k, one in again.items()
            if low <= drift[k] < high
        ]
        if gaps:
            of = int(np.count_nonzero((low <= drift) & (drift < high)))
            lost = float(np.mean(gaps))
            found.append({"drift": [low, high], "batches": len(gaps), "of": of, "lost": lost})
    return found


def stream_figures(path: Path, name: str) -> dict[str, Any] | None:
    """Losses along a part of a run, of ours and of river's, on the same ratings."""
    run, *shares = SHOWN[name]
    stream, n_parts = read(path), STRETCHES[run].n_parts
    first = int(ends_of(stream, run)[0])
    done = [kept(f"{run}-{number}") for number in range(n_parts)]
    done = done[: next((k for k, one in enumerate(done) if one is None), n_parts)]
    river = kept("river")
    begin, end = (
        int(stream.group[np.searchsorted(stream.group, share * len(stream))]) for share in shares
    )
    end = min(end, first + sum(len(one["rmse"]) for one in done))
    if end <= begin or river is None:
        return None
    names = ("rmse", "mae_mean", "mae_median", "log_loss")
    part = slice(begin - first, end - first)
    ours = {key: np.concatenate([one[key] for one in done])[part] for key in names}
    learnt, streamed = stream.at(slice(0, begin)), stream.at(slice(begin, end))
    parts = parts_of(learnt, streamed)
    tables = {"ordbm": ours}
    for peer in RIVER:
        loss = losses(river[peer][begin : begin + len(streamed)], streamed.rating)
        tables[peer] = {
            "rmse": loss["rmse"],
            "mae_mean": loss["mae"],
            "mae_nearest": loss["mae_nearest"],
        }
    ends = np.linspace(0, len(streamed), 21).astype(int)
    return {
        "ratings": len(streamed),
        "from": begin,
        "scores": {model: scored(loss, parts) for model, loss in tables.items()},
        "rmse along the stream": {
            model: [root("rmse", loss["rmse"][a:b].mean()) for a, b in pairwise(ends)]
            for model, loss in tables.items()
        },
        "rmse so far": {
            model: [root("rmse", loss["rmse"][:b].mean()) for b in ends[1:]]
            for model, loss in tables.items()
        },
        "seconds": {
            "ordbm": float(sum(one["seconds"] for one in done)),
            **{peer: float(river[f"{peer} seconds"]) for peer in RIVER},
        }
        if name == run
        else {},
        "groups": len(streamed.group) - 1,
    }


def main() -> None:
    """Compute what is missing, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = "grown,retrained,whole,single,refitted,foldin"
    parser.add_argument("--parts", default=every, type=lambda text: text.split(","))
    parser.add_argument("--protocols", default="time,items", type=lambda text: text.split(","))
    parser.add_argument("--minutes", default=1e6, type=float, help="after which nothing is begun")
    parser.add_argument("--file", type=Path, default=FILE, help="ml-1m.zip")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "stream.json")
    told = parser.parse_args()
    if not told.file.exists():
        parser.error(f"no {told.file}: say where the data file is with --file")
    warnings.simplefilter("ignore", ordbm.errors.UnknownIdsWarning)
    CACHE.mkdir(parents=True, exist_ok=True)
    clock = Clock(told.minutes)
    try:
        for protocol in told.protocols:
            if "grown" in told.parts:
                grown(told.file, protocol, clock)
        of_peers(told.file, told, clock)
        for name in STRETCHES:
            if name in told.parts:
                stretch(told.file, name, clock)
        for protocol in told.protocols:
            if "retrained" in told.parts:
                retrained(told.file, protocol, clock)
    except StoppedError:
        print("the minutes are over: start again to go on")
    found: dict[str, Any] = {"commit": commit(), "cpu": cpu_model()}
    found |= {protocol: batch_figures(told.file, protocol) for protocol in ("time", "items")}
    found |= {name: stream_figures(told.file, name) for name in SHOWN}
    told.results.write_text(json.dumps(found, indent=1) + "\n")
    told.results.with_suffix(".md").write_text(page(found))
    print(told.results.with_suffix(".md"))


if __name__ == "__main__":
    main()
