"""What `structure="auto"` finds: true structures on simulated ratings, accuracy on real ones.

    benchmarks/structure [--recovery] [--data filmtrust,ml-100k] [--members 2] [--seeds 0,1,2]

Recovery: ratings are drawn from machines with known links, or known numbers of hidden units; how
many of the true links are found, how many of those found are true, and how many units, by the
number of ratings. Beside it as many links of the highest Pearson correlation.

Data: a fifth of the ratings is held out for the test. Machines of sizes set by hand and of
`structure="auto"` learn from the others; of the sizes set by hand the best is the one with the
lowest log-loss on a tenth of the training ratings, learnt from the rest. All on one thread, in
processor time. A finished run is at once a row of `benchmarks/results/structure.jsonl`; what is
there is not run again. `structure.md` is written from the rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from data import HERE
from provenance import commit

from ordbm import OrdinalBM, Ratings, hold_out, load_dataset, read_ratings, simulate
from ordbm.metrics.prediction import validation_scores
from ordbm.model.neighbours import Links, correlation_links

SHARED = HERE.parent.parent / "shared" / "data"
SOURCES: dict[str, Callable[[], Ratings]] = {
    "movielens-small": lambda: load_dataset("movielens-small"),
    "filmtrust": lambda: read_ratings(SHARED / "filmtrust.zip"),
    "ml-100k": lambda: read_ratings(SHARED / "ml-100k.zip"),
    "ml-1m": lambda: read_ratings(SHARED / "ml-1m.zip"),
}
BY_HAND = [(0, 50), (8, 32), (12, 50), (25, 100), (50, 200)]
RESULTS = HERE / "results" / "structure.jsonl"
LINKED = {"n_users": 1200, "n_items": 40, "hidden": 0, "links": 30}
LINKED_SIZES = (5_000, 10_000, 20_000, 40_000)
HIDDEN = {"n_users": 800, "n_items": 100, "strength": 2.0}
HIDDEN_SIZES = (10_000, 20_000, 40_000)
Row = dict[str, Any]


def pairs_of(links: Links) -> dict[tuple[int, int], float]:
    """Each pair of linked columns, and its similarity."""
    column = np.repeat(np.arange(links.n_columns), np.diff(links.start))
    up = column < links.neighbour
    ends = zip(column[up].tolist(), links.neighbour[up].tolist(), strict=True)
    return dict(zip(ends, links.similarity[links.edge[up]].tolist(), strict=True))


def link_recovery(n_ratings: int, seed: int) -> Row:
    """Links that are found, beside as many of the most correlated pairs."""
    drawn = simulate(**LINKED, n_ratings=n_ratings, seed=seed)
    truth = pairs_of(drawn.machine.user_side.links)
    model = OrdinalBM(
        structure="auto", hidden=0, members=1, presence=False, threads=1, seed=seed
    ).fit(drawn.ratings)
    found = pairs_of(model.machines[0].user_side.links)
    hits = [ends for ends in found if truth.get(ends, 0.0) * found[ends] > 0]
    negative = [ends for ends in truth if truth[ends] < 0]
    both = drawn.ratings.by_user, drawn.ratings.by_item
    near = pairs_of(correlation_links(*both, drawn.ratings.scale.values, shrinkage=100.0))
    near = dict(sorted(near.items(), key=lambda one: -one[1])[: len(truth)])
    return {
        "found": len(found),
        "precision": len(hits) / max(len(found), 1),
        "recall": len(hits) / len(truth),
        "negative_recall": len([ends for ends in negative if ends in hits]) / len(negative),
        "pearson_precision": len(near.keys() & truth.keys()) / len(truth),
    }


def hidden_recovery(side: str, true: int, n_ratings: int, seed: int) -> Row:
    """Hidden units that are found where one side has so many."""
    sizes = (true, 0) if side == "user" else (0, true)
    drawn = simulate(**HIDDEN, n_ratings=n_ratings, hidden=sizes, sides=side, seed=seed)
    model = OrdinalBM(
        structure="auto", sides=side, hidden=16, item_links=0, members=1, presence=False,
        threads=1, seed=seed,
    ).fit(drawn.ratings)  # fmt: skip
    return {"found": max(model.structure.hidden)}


def parameters(model: OrdinalBM) -> int:
    """Numbers that one machine has learnt: couplings, biases, links."""
    return sum(
        side.n_hidden * (1 + side.parameters.coupling[:, :, 0].size)
        + side.parameters.rating_bias.size
        + side.parameters.link_weight.size
        for side in model.machines[0].sides
        if side is not None
    )


def fitted(training: Ratings, held: Ratings, **told: Any) -> tuple[OrdinalBM, Row]:
    """A model, and what it took and how well it predicts."""
    started = time.process_time()
    model = OrdinalBM(**told, presence=False, threads=1).fit(training)
    seconds = time.process_time() - started
    found = validation_scores(
        model._state.distribution_now(*model._state.validation_codes(held)), held
    )
    return model, {**found, "seconds": seconds, "parameters": parameters(model)}


def on_data(name: str, kind: str, members: int, seed: int) -> Row:
    """One kind of sizes on one data set."""
    training, test = hold_out(SOURCES[name](), 0.2, seed=seed)
    told: Row = {"members": members, "seed": seed}
    if kind == "auto":
        model, row = fitted(training, test, **told, structure="auto")
        assert model.structure is not None
        return row | {
            "sizes": model.structure.sizes._asdict(),
            "trials": [one._asdict() for one in model.structure.trials],
        }
    told["hidden"] = tuple(map(int, kind.split(",")))
    inner, validation = hold_out(training, 0.1, seed=seed + 1)
    _, chosen_by = fitted(inner, validation, **told)
    _, row = fitted(training, test, **told)
    return row | {"validation_log_loss": chosen_by["log_loss"]}


def wanted(told: argparse.Namespace) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """What identifies each run, and the run."""
    for seed in map(int, told.seeds.split(",")):
        if told.recovery:
            for n in LINKED_SIZES:
                key = {"what": "links", "ratings": n, "seed": seed}
                yield key, lambda n=n, seed=seed: link_recovery(n, seed)
            for side, true, n in (
                (side, true, n)
                for side in ("user", "item")
                for true in (2, 4)
                for n in HIDDEN_SIZES
            ):
                key = {"what": "hidden", "side": side, "true": true, "ratings": n, "seed": seed}
                yield key, lambda of=(side, true, n, seed): hidden_recovery(*of)
        for name in filter(None, told.data.split(",")):
            for kind in ("auto", *(f"{user},{item}" for user, item in BY_HAND)):
                key = {"what": name, "kind": kind, "members": told.members, "seed": seed}
                yield key, lambda of=(name, kind, told.members, seed): on_data(*of)


def page(rows: list[Row]) -> str:
    """The tables."""
    lines = ["# Structure that is found", "", "`benchmarks/structure`, see there how.", ""]
    links = [row for row in rows if row["what"] == "links"]
    if links:
        names = ("found", "precision", "recall", "negative_recall", "pearson_precision")
        lines += [
            "Links: {n_items} items, {n_users} users, {links} links,".format(**LINKED),
            "half of them negative; means over seeds. Last, which share of as many most correlated",
            "pairs are true links.",
            "", "| ratings | seeds | found | precision | recall | of negative | Pearson's |",
            "| ---: " * 7 + "|",
        ]  # fmt: skip
        for n in sorted({row["ratings"] for row in links}):
            here = [row for row in links if row["ratings"] == n]
            means = (f"{np.mean([row[name] for row in here]):.2f}" for name in names)
            lines.append(f"| {n:,} | {len(here)} | {' | '.join(means)} |")
    hidden = [row for row in rows if row["what"] == "hidden"]
    if hidden:
        lines += [
            "", "Hidden units: found by seed, from a start of 16.", "",
            "| side | true | ratings | found |", "| --- | ---: | ---: | --- |",
        ]  # fmt: skip
        for key in sorted({(row["side"], row["true"], row["ratings"]) for row in hidden}):
            here = [r["found"] for r in hidden if (r["side"], r["true"], r["ratings"]) == key]
            lines.append(f"| {key[0]} | {key[1]} | {key[2]:,} | {', '.join(map(str, here))} |")
    for name in SOURCES:
        for seed, members in sorted(
            {(row["seed"], row["members"]) for row in rows if row["what"] == name}
        ):
            lines += _data_table(name, seed, members, rows)
    return "\n".join(lines) + "\n"


def _data_table(name: str, seed: int, members: int, rows: list[Row]) -> Iterator[str]:
    here = [
        row
        for row in rows
        if (row["what"], row.get("seed"), row.get("members")) == (name, seed, members)
    ]
    yield from ("", f"{name}, split {seed}, {members} members:", "")
    yield "| sizes | log-loss | RMSE | MAE | parameters | processor seconds | validation |"
    yield "| --- " + "| ---: " * 6 + "|"
    by_hand = [row for row in here if row["kind"] != "auto"]
    best = min(by_hand, key=lambda row: row["validation_log_loss"], default=None)
    for row in sorted(here, key=lambda row: row["kind"] != "auto"):
        sizes = row.get("sizes")
        kind = f"hidden={row['kind']}" + (", best by hand" if row is best else "")
        if sizes:
            kind = "auto: " + ", ".join(f"{part} {size:,}" for part, size in sizes.items())
        validation = row.get("validation_log_loss")
        yield (
            f"| {kind} | {row['log_loss']:.4f} | {row['rmse']:.4f} | {row['mae']:.4f} | "
            f"{row['parameters']:,} | {row['seconds']:.0f} | "
            f"{'' if validation is None else f'{validation:.4f}'} |"
        )


def main() -> None:
    """Run what is missing, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--recovery", action="store_true")
    parser.add_argument("--data", default="")
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--seeds", default="0")
    told = parser.parse_args()
    text = RESULTS.read_text() if RESULTS.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    for key, run in wanted(told):
        if any(key.items() <= row.items() for row in rows):
            continue
        rows.append({**key, **run(), "commit": commit()})
        with RESULTS.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print({name: value for name, value in rows[-1].items() if name != "trials"}, flush=True)
    RESULTS.with_suffix(".md").write_text(page(rows))


if __name__ == "__main__":
    main()
