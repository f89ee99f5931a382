"""The page of the stream benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CALLED = {"rmse": "RMSE", "mae": "MAE", "mae_mean": "MAE", "mae_median": "MAE of the median"}
CALLED |= {"mae_nearest": "MAE at the nearest level", "log_loss": "log-loss"}
STREAMS = {
    "whole": "The stream from its first hundredth on, beside river",
    "early": "Of it, up to the tenth hundredth",
    "late": "Of it, from 70 % on",
    "single": "One group at a time, beside river",
}
BATCHES = {
    "time": "The last 30 % in 50 batches",
    "items": "The last 30 % in 50 batches, a fifth of the items new",
}


def page(found: Mapping[str, Any]) -> str:
    """All figures in words."""
    lines = ["# MovieLens 1M as a stream", "", "Written by `benchmarks/stream`, whose first lines"]
    lines[-1] += f" say what is compared. Commit {found['commit']}, {found['cpu']}."
    lines.append("")
    for name, words in STREAMS.items():
        if found.get(name):
            lines += [f"## {words}", "", *_stream(found[name])]
    for name, words in BATCHES.items():
        if found.get(name) and found[name]["scores"]:
            lines += [f"## {words}", "", *_batches(found[name])]
    return "\n".join(lines)


def _stream(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"{one['ratings']:,} ratings in {one['groups']:,} groups, from the {one['from']:,}th on. "
    yield from _seconds(one["seconds"])
    for measure in ("rmse", "mae_mean", "mae_median", "mae_nearest", "log_loss"):
        yield from _table(one["scores"], measure)
    for title in ("rmse along the stream", "rmse so far"):
        yield f"{CALLED['rmse']}{title.removeprefix('rmse')}, at each twentieth:"
        yield ""
        yield "| | " + " | ".join(map(str, range(1, 21))) + " |"
        yield "| --- |" + " ---: |" * 20
        for model, values in one[title].items():
            yield f"| {model} | " + " | ".join(f"{value:.3f}" for value in values) + " |"
        yield ""


def _batches(one: Mapping[str, Any]) -> Iterator[str]:
    yield "Ratings: " + ", ".join(f"{part} {n:,}" for part, n in one["n"].items()) + ". "
    yield from _seconds(one["seconds"])
    for measure in ("log_loss", "rmse", "mae", "mae_median"):
        yield from _table(one["scores"], measure)
    again = one["beside retraining"]
    if again is None:
        return
    yield f"Beside a machine learnt anew before each of {len(again['batches'])} batches:"
    yield ""
    both = {name: again[name] for name in ("growing", "retrained")}
    for measure in ("log_loss", "rmse"):
        yield from _table(both, measure)
    yield "| drift before the batch | batches | log-loss lost |"
    yield "| --- | ---: | ---: |"
    for row in again["lost by drift"]:
        low, high = row["drift"]
        yield f"| {low:g} to {high:g} | {row['batches']} of {row['of']} | {row['lost']:+.4f} |"
    yield ""
    of = sum(row["of"] for row in again["lost by drift"])
    lost = sum(row["of"] * row["lost"] for row in again["lost by drift"]) / of
    yield f"They are not spread evenly: weighed by all {of} batches, {lost:+.4f} is lost."
    yield ""
    yield (
        f"All 50 batches took {again['seconds of growing, all 50']:.1f} s to take in; 50 fits, of "
        f"{again['seconds of a retraining']:.1f} s each, {again['seconds of all 50']:.0f} s: "
        f"{100 * again['share of the cost']:.2f} %."
    )
    yield ""


def _seconds(seconds: Mapping[str, float]) -> Iterator[str]:
    if not seconds:
        return
    each = ", ".join(f"{model} {value:.0f}" for model, value in seconds.items())
    yield f"Seconds of processor time after the first fit: {each}."
    yield ""


def _table(found: Mapping[str, Mapping[str, Mapping[str, float]]], measure: str) -> Iterator[str]:
    """A row for each model that has the measure, a column for each part."""
    parts = list(next(iter(found.values())))
    yield f"| {CALLED[measure]} | {' | '.join(parts)} |"
    yield "| --- |" + " ---: |" * len(parts)
    for model, scores in found.items():
        if measure in scores[parts[0]]:
            yield f"| {model} | " + " | ".join(f"{scores[p][measure]:.4f}" for p in parts) + " |"
    yield ""
