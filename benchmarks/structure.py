"""What `structure="auto"` finds: true structures on simulated ratings, accuracy on real ones.

    benchmarks/structure [--recovery] [--data filmtrust,ml-100k] [--members 2] [--seeds 0,1,2]

Recovery: ratings are drawn from machines with known links, or known numbers of hidden units; how
many of the true links are found, how many of those found are true, and how many units, by the
number of ratings. Beside it as many links of the highest Pearson correlation.

Data: a fifth of the ratings is held out for the test. Machines of sizes set by hand and of
`structure="auto"` learn from the others, without times; of the sizes set by hand the best is the
one with the lowest log-loss on a tenth of the training ratings, learnt from the rest, and only it
and the default sizes are tested. Differences on the test come with intervals of 95 % over users.
All on one thread, in processor time. A finished run is at once a row of
`benchmarks/results/structure.jsonl`; what is there is not run again. `structure.md` is written from
the rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from data import CACHE, HERE
from provenance import commit

from ordbm import OrdinalBM, Ratings, hold_out, load_dataset, read_ratings, simulate
from ordbm.estimator.comparison import mean_by_users
from ordbm.metrics.prediction import losses, validation_scores
from ordbm.model.neighbours import Links, correlation_links
from ordbm.model.rules import StructureRules
from ordbm.model.structure import LINKS_IN_WORDS, USUAL

SHARED = HERE.parent.parent / "shared" / "data"
SOURCES: dict[str, Callable[[], Ratings]] = {
    "movielens-small": lambda: load_dataset("movielens-small"),
    "filmtrust": lambda: read_ratings(SHARED / "filmtrust.zip"),
    "ml-100k": lambda: read_ratings(SHARED / "ml-100k.zip"),
    "ml-1m": lambda: read_ratings(SHARED / "ml-1m.zip"),
}
DEFAULT = "default"
BY_HAND = ("0,50,100", "8,32,100", "12,50,100", "25,100,0", "25,100,100", "50,200,100")  # + links
RESULTS = HERE / "results" / "structure.jsonl"
LINKED = {"n_users": 1200, "n_items": 40}
LINKED_KINDS = (("ordinal", 0, 30), ("gaussian", 4, 30), ("gaussian", 4, 0))  # hidden units, links
LINKED_SIZES = (5_000, 10_000, 20_000, 40_000)
OWNERS, COLUMNS = 800, 100  # of hidden units, and what they are coupled with
HIDDEN_SIZES = (10_000, 20_000, 40_000)
TRUE_HIDDEN = (0, 2, 4, 8)
Row = dict[str, Any]
Losses = dict[str, Any]  # arrays by the name of the loss


def pairs_of(links: Links) -> dict[tuple[int, int], float]:
    """Each pair of linked columns, and its similarity."""
    column = np.repeat(np.arange(links.n_columns), np.diff(links.start))
    up = column < links.neighbour
    ends = zip(column[up].tolist(), links.neighbour[up].tolist(), strict=True)
    return dict(zip(ends, links.similarity[links.edge[up]].tolist(), strict=True))


def link_recovery(features: str, hidden: int, links: int, n_ratings: int, seed: int) -> Row:
    """Links that are found, beside as many of the most correlated pairs.

    Where the usual links were kept, none is said to be found.
    """
    drawn = simulate(
        **LINKED, n_ratings=n_ratings, features=features, hidden=(hidden, 0), links=links, seed=seed
    )
    truth = pairs_of(drawn.machine.user_side.links)
    model = OrdinalBM(
        structure="auto", features=features, hidden=(4 * hidden, 0), members=1, presence=False,
        threads=1, seed=seed,
    ).fit(drawn.ratings)  # fmt: skip
    kind = model.structure.kind_of("item_links")
    side = model.machines[0].user_side
    found = pairs_of(side.links) if side is not None and kind != USUAL else {}
    hits = [ends for ends in found if truth.get(ends, 0.0) * found[ends] > 0]
    negative = [ends for ends in truth if truth[ends] < 0]
    both = drawn.ratings.by_user, drawn.ratings.by_item
    levels = getattr(drawn.ratings.scale, "values", None)
    near = pairs_of(correlation_links(*both, levels, shrinkage=100.0))
    near = dict(sorted(near.items(), key=lambda one: -one[1])[: len(truth)])
    return {
        "kind": LINKS_IN_WORDS.get(kind, "none"),
        "found": len(found),
        "true": len(hits),
        "negative": sum(weight < 0 for weight in found.values()),
        "true_negative": len([ends for ends in negative if ends in hits]),
        "pearson": len(near.keys() & truth.keys()),
    }


def hidden_recovery(side: str, owners: int, true: int, n_ratings: int, seed: int) -> Row:
    """Hidden units that are found where each of so many owners, on one side, has so many."""
    sizes = (owners, OWNERS + COLUMNS - owners)
    drawn = simulate(
        *(sizes if side == "user" else sizes[::-1]),
        n_ratings, hidden=true, sides=side, strength=2.0, seed=seed,
    )  # fmt: skip
    model = OrdinalBM(
        structure="auto", sides=side, hidden=16, item_links=0, members=1, presence=False,
        threads=1, seed=seed, structure_rules=StructureRules(times_larger=4),
    ).fit(drawn.ratings)  # fmt: skip
    return {"found": max(model.structure.hidden)}


def parameters(model: OrdinalBM) -> int:
    """Numbers that one machine has learnt: couplings, biases, links."""
    return sum(
        side.n_hidden
        + side.parameters.coupling.size
        + side.parameters.rating_bias.size
        + side.parameters.link_weight.size
        for side in model.machines[0].sides
        if side is not None
    )


def fitted(training: Ratings, held: Ratings, **told: Any) -> tuple[OrdinalBM, Row, Losses]:
    """A model, what it took and how well it predicts, and what it loses rating by rating."""
    started = time.process_time()
    model = OrdinalBM(**told, presence=False, context=False, threads=1).fit(training)
    seconds = time.process_time() - started
    state = model._state
    predicted = state.distribution_now(*state.validation_codes(held))
    row = {
        **validation_scores(predicted, held),
        "seconds": seconds,
        "parameters": parameters(model),
        "sizes": [*told_sizes(model), model.machines[0].user_side.links.n_edges],
    }
    return model, row, losses(predicted, held.values)


def told_sizes(model: OrdinalBM) -> list[int]:
    """Hidden units per user and per item."""
    return [side.n_hidden for side in model.machines[0].sides if side is not None]


def told_by(kind: str) -> Row:
    """Settings of sizes set by hand."""
    if kind in (DEFAULT, "auto"):
        return {} if kind == DEFAULT else {"structure": "auto"}
    user, item, links = map(int, kind.split(","))
    return {"hidden": (user, item), "item_links": links}


def validated(name: str, kind: str, members: int, seed: int) -> Row:
    """Sizes set by hand, on validation ratings inside the training part."""
    training, _ = hold_out(SOURCES[name](), 0.2, seed=seed)
    inner, validation = hold_out(training, 0.1, seed=seed + 1)
    return fitted(inner, validation, members=members, seed=seed, **told_by(kind))[1]


def tested(name: str, kind: str, members: int, seed: int) -> Row:
    """One kind of sizes on the test ratings."""
    training, test = hold_out(SOURCES[name](), 0.2, seed=seed)
    model, row, lost = fitted(training, test, members=members, seed=seed, **told_by(kind))
    CACHE.mkdir(parents=True, exist_ok=True)
    np.savez(kept_losses(name, kind, members, seed), user=test.user_codes, **lost)
    if model.structure is not None:
        row["structure"] = model.structure.sizes._asdict()
        row["link_tests"] = model.structure.links[0]._asdict()
        row["trials"] = [one._asdict() for one in model.structure.trials]
    return row


def kept_losses(name: str, kind: str, members: int, seed: int) -> Path:
    """Where the losses on test ratings are kept."""
    return CACHE / f"structure-{name}-{kind}-{members}-{seed}.npz"


def difference(name: str, beside: str, members: int, seed: int) -> Row:
    """What `auto` loses less what sizes set by hand do: mean and interval of 95 %, by users."""
    auto, hand = (np.load(kept_losses(name, kind, members, seed)) for kind in ("auto", beside))
    found: Row = {}
    for loss in ("log_loss", "rmse", "mae_median"):
        mean, error = mean_by_users(auto[loss] - hand[loss], auto["user"])
        found[loss] = [mean, mean - 1.96 * error, mean + 1.96 * error]
    return found


def wanted(told: argparse.Namespace, rows: list[Row]) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """What identifies each run, and the run."""
    for seed in map(int, told.seeds.split(",")):
        if told.recovery:
            for (features, hidden, links), n in product(LINKED_KINDS, LINKED_SIZES):
                of = (features, hidden, links, n, seed)
                key = dict(zip(("features", "hidden", "links", "ratings", "seed"), of, strict=True))
                yield {"what": "links", **key}, lambda of=of: link_recovery(*of)
            for (side, owners), true, n in product(
                (("user", OWNERS), ("item", OWNERS), ("user", COLUMNS)), TRUE_HIDDEN, HIDDEN_SIZES
            ):
                key = {"side": side, "owners": owners, "true": true, "ratings": n, "seed": seed}
                yield {"what": "hidden", **key}, lambda of=key: hidden_recovery(*of.values())
        for name in filter(None, told.data.split(",")):
            of = (name, told.members, seed)
            key = {"what": name, "members": told.members, "seed": seed}
            test = {**key, "part": "test"}
            for kind in ("auto", DEFAULT):
                yield {**test, "kind": kind}, lambda kind=kind, of=of: tested(of[0], kind, *of[1:])
            for kind in BY_HAND:
                yield (
                    {**key, "kind": kind, "part": "validation"},
                    lambda kind=kind, of=of: validated(of[0], kind, *of[1:]),
                )
            best = best_by_hand(rows, *of)
            yield {**test, "kind": best}, lambda kind=best, of=of: tested(of[0], kind, *of[1:])
            for kind in (DEFAULT, best):
                yield (
                    {**key, "kind": kind, "part": "difference"},
                    lambda kind=kind, of=of: difference(of[0], kind, *of[1:]),
                )


def best_by_hand(rows: list[Row], name: str, members: int, seed: int) -> str:
    """Of the sizes set by hand, those with the lowest log-loss on validation ratings."""
    key = {"what": name, "members": members, "seed": seed, "part": "validation"}
    best = min((row for row in rows if key.items() <= row.items()), key=lambda row: row["log_loss"])
    return str(best["kind"])


def page(rows: list[Row]) -> str:
    """The tables."""
    lines = ["# Structure that is found", "", "`benchmarks/structure`, see there how.", ""]
    links = [row for row in rows if row["what"] == "links"]
    if links:
        head = (
            "ratings are", "units", "seeds", "ratings", "usual kept", "true links", "found", "true",
            "precision", "recall", "negative found", "true", "Pearson's true",
        )  # fmt: skip
        lines += [
            "Links between {n_items} items, rated by {n_users} users:".format(**LINKED),
            "all that were found over the seeds, how many of them are true, and of both how many",
            "are negative. Where the usual links (the most correlated) predict better, they are",
            "kept, and none is said to be found. Last, of as many most correlated pairs as there",
            "are true links, how many are true.",
            "", f"| {' | '.join(head)} |", "| --- " + "| ---: " * 12 + "|",
        ]  # fmt: skip
        names = ("features", "hidden", "links", "ratings")
        for key in sorted({tuple(row[name] for name in names) for row in links}, reverse=True):
            here = [row for row in links if tuple(row[name] for name in names) == key]
            kind, units, n_links, n = key
            total = n_links * len(here)
            found, true, negative, true_negative, near = (
                sum(row[name] for row in here)
                for name in ("found", "true", "negative", "true_negative", "pearson")
            )
            usual = sum(row["kind"] == "usual" for row in here)
            precision = f"{true / found:.2f}" if found else ""
            recall = f"{true / total:.2f}" if total else ""
            told = (
                kind, units, len(here), f"{n:,}", usual, total, found, true, precision, recall,
                negative, true_negative, near,
            )  # fmt: skip
            lines.append(f"| {' | '.join(map(str, told))} |")
    hidden = [row for row in rows if row["what"] == "hidden"]
    if hidden:
        lines += [
            "", f"Hidden units: found by seed, from a start of 16. {OWNERS} own some, coupled with",
            f"{COLUMNS}, or the other way round.", "",
            "| side | owners | true | ratings | found |", "| --- " + "| ---: " * 3 + "| --- |",
        ]  # fmt: skip
        names = ("side", "owners", "true", "ratings")
        for key in dict.fromkeys(tuple(row[name] for name in names) for row in hidden):
            here = [row["found"] for row in hidden if tuple(row[name] for name in names) == key]
            lines.append(f"| {' | '.join(map(str, key))} | {', '.join(map(str, here))} |")
    for name in SOURCES:
        for seed, members in sorted(
            {(row["seed"], row["members"]) for row in rows if row["what"] == name}
        ):
            key = {"what": name, "seed": seed, "members": members}
            lines += _data_table([row for row in rows if key.items() <= row.items()], name, seed)
    return "\n".join(lines) + "\n"


def _data_table(rows: list[Row], name: str, seed: int) -> Iterator[str]:
    yield from ("", f"{name}, split {seed}, {rows[0]['members']} members:", "")
    yield "| sizes | validation | log-loss | RMSE | MAE | parameters | processor seconds |"
    yield "| --- " + "| ---: " * 6 + "|"
    parts = {(row["part"], row["kind"]): row for row in rows}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        inner, test = (parts.get((part, kind)) for part in ("validation", "test"))
        own = test or inner
        assert own is not None
        user, item, links = own["sizes"]
        figures = [f"{inner['log_loss']:.4f}" if inner else ""]
        figures += [f"{test[loss]:.4f}" if test else "" for loss in ("log_loss", "rmse", "mae")]
        figures += [f"{test['parameters']:,}", f"{test['seconds']:.0f}"] if test else ["", ""]
        yield f"| {kind}: {user}, {item}, {links:,} links | {' | '.join(figures)} |"
    for row in rows:
        if row["part"] == "difference":
            names = ("log_loss", "rmse", "mae_median")
            told = (f"{row[n][0]:+.4f} ({row[n][1]:+.4f} to {row[n][2]:+.4f})" for n in names)
            yield ""
            yield (
                f"auto less {row['kind']}, log-loss, squared and absolute error: {'; '.join(told)}"
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
    for key, run in wanted(told, rows):
        if any(key.items() <= row.items() for row in rows):
            continue
        rows.append({**key, **run(), "commit": commit()})
        with RESULTS.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print({name: value for name, value in rows[-1].items() if name != "trials"}, flush=True)
    RESULTS.with_suffix(".md").write_text(page(rows))


if __name__ == "__main__":
    main()
