"""Why the paper's effects are smaller here: its machines and its learner, one thing changed.

    python benchmarks/reproduction_reasons.py [--data PATH] [--seeds 2]

MovieLens 1M as the paper cut it. Learnt from nine tenths of the training part and scored on the
tenth left over: test ratings are not opened. A finished fit is a line in `reasons.jsonl`; those
that are there are not done again. The tables go to `tables.md` beside it; without `--data` they are
written from the rows that there are.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

import ordbm
from ordbm import ContrastiveDivergence
from ordbm.data.scale import level_values
from ordbm.experiments import experiment_of
from ordbm.experiments.experiment_data import ExperimentData
from ordbm.experiments.open_models import OpenMachine
from ordbm.experiments.result_rows import append_row
from ordbm.model.neighbours import correlation_links
from ordbm.report.page import (
    FactList,
    PagePart,
    Paragraph,
    SectionHeading,
    Table,
    markdown_page,
    write_page,
)

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "reasons"
SCORED = (1, 2, 3, 5, 10, 20, 50, 100, 200, 300)  # epochs after which the machine is scored
VALIDATION = 0.1

# How a block's gradient is scaled: by the block's rows (the paper's "block of 100", as we read it),
# or each parameter's by the ratings (of a link: the pairs of ratings) that it has in the block.
NORMALISATIONS: dict[str, dict[str, float]] = {
    "rows": {},
    "own": {
        "per_row": 0.0,
        **dict.fromkeys(
            ("coupling_curvature", "bias_curvature", "hidden_curvature", "link_curvature"), 1.0
        ),
    },
}
# Whom Pearson's correlation makes a neighbour: from three common ratings on, as it is; or drawn to
# zero as if there were a hundred more that do not agree.
NEIGHBOURS: dict[str, dict[str, Any]] = {
    "pearson": {"link_support": 3, "link_shrinkage": 0.0},
    "shrunk": {"link_support": 5, "link_shrinkage": 100.0},
}


class Fit(NamedTuple):
    """One machine for users, with the paper's learner but for what is said here."""

    features: str
    hidden: int
    rate: float = 0.1
    epochs: int = 100
    normalisation: str = "rows"
    neighbours: str = ""  # no links

    def machine(self, seed: int) -> OpenMachine:
        """Not fitted."""
        learner = ContrastiveDivergence(
            rate=self.rate, other_side="mean_field_with_own", **NORMALISATIONS[self.normalisation]
        )
        return OpenMachine(
            preset="paper",
            sides="user",
            features=self.features,
            hidden=self.hidden,
            item_links=100 if self.neighbours else 0,
            user_links=0,
            learner=learner,
            epochs=self.epochs,
            seed=seed,
            **NEIGHBOURS.get(self.neighbours, {}),
        )


_FEATURES = ("categorical", "ordinal")
_LINKED = ("pearson", "shrunk")
FITS = [  # the most telling first
    *(Fit(features, 20) for features in _FEATURES),
    *(Fit("ordinal", 20, epochs=50, neighbours=neighbours) for neighbours in _LINKED),
    Fit("categorical", 20, epochs=300),  # which needs longer
    *(Fit(features, 20, 0.3) for features in _FEATURES),
    *(
        Fit("ordinal", 20, epochs=50, normalisation="own", neighbours=neighbours)
        for neighbours in ("", *_LINKED)
    ),
    *(Fit(features, 5) for features in _FEATURES),
    *(Fit(features, 20, rate) for rate in (1.0, 0.03) for features in _FEATURES),
]


def curve_of(
    fit: Fit, train: ordbm.Ratings, validation: ordbm.Ratings, seed: int
) -> dict[str, Any]:
    """Scores after some of the epochs, by epoch; prediction is the paper's, mean-field MAP."""
    model = fit.machine(seed)
    curve: dict[str, Any] = {}

    def score(record: Any) -> None:
        if record.epoch in SCORED:
            found = model.scores(validation, "mean_field")
            curve[str(record.epoch)] = {name: found[name] for name in ("mae_mode", "log_loss")}

    model.fit(train, callbacks=[score])
    return curve


def cpu_seconds() -> float:
    """Of this process so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def learn(data: Path, seeds: int, path: Path) -> None:
    """Do the fits that have no row yet."""
    done = {(Fit(**row["fit"]), row["seed"]) for row in rows_of(path)}
    source = ExperimentData(experiment_of("figure4"), data)
    for seed in range(seeds):
        missing = [fit for fit in FITS if (fit, seed) not in done]
        if not missing:
            continue
        train, validation = ordbm.hold_out(source.split(seed).train, VALIDATION, seed)
        for fit in missing:
            before = cpu_seconds()
            curve = curve_of(fit, train, validation, seed)
            row = {
                "fit": fit._asdict(),
                "seed": seed,
                "curve": curve,
                "learnt_from": len(train),
                "scored_on": len(validation),
                "data": source.identity(),
                "cpu_seconds": round(cpu_seconds() - before, 1),
                "version": ordbm.__version__,
                "command": shlex.join(
                    ["python", "benchmarks/reproduction_reasons.py", *sys.argv[1:]]
                ),
            }
            append_row(path, row)
            print(fit, seed, curve[max(curve, key=int)], row["cpu_seconds"], flush=True)


def common_raters(data: Path) -> dict[str, list[float]]:
    """Quartiles of how many people have rated both ends of a link, by choice of neighbours."""
    train = ExperimentData(experiment_of("figure4"), data).split(0).train
    train, _ = ordbm.hold_out(train, VALIDATION, 0)
    ones = np.ones(len(train))
    rated = csr_array((ones, (train.user_codes, train.item_codes)))
    common = (rated.T @ rated).toarray()
    found = {}
    for name, told in NEIGHBOURS.items():
        links = correlation_links(
            train.by_user,
            train.by_item,
            level_values(train.scale),
            n_neighbours=100,
            shrinkage=told["link_shrinkage"],
            min_support=told["link_support"],
        )
        item = np.repeat(np.arange(links.n_columns), np.diff(links.start))
        found[name] = np.quantile(common[item, links.neighbour], [0.25, 0.5, 0.75]).tolist()
    return found


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows that are there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


Curve = Mapping[int, Mapping[int, float]]  # epoch to seed to score


def curves_of(rows: Sequence[Mapping[str, Any]], score: str) -> dict[Fit, Curve]:
    """A score by fit, epoch and seed; fits that differ in length alone are one."""
    found: dict[Fit, dict[int, dict[int, float]]] = {}
    for row in rows:
        curve = found.setdefault(Fit(**row["fit"])._replace(epochs=0), {})
        for epoch, scores in row["curve"].items():
            curve.setdefault(int(epoch), {})[row["seed"]] = scores[score]
    return found


def feature_table(name: str, curves: Mapping[Fit, Curve]) -> Table:
    """Categorical and ordinal machines by epoch, and what the order of levels gains."""
    pairs = {
        f"K = {fit.hidden}, rate {fit.rate:g}": (
            ("categorical", curves.get(fit._replace(features="categorical"), {})),
            ("ordinal", curve),
        )
        for fit, curve in curves.items()
        if fit.features == "ordinal" and not fit.neighbours and fit.normalisation == "rows"
    }
    return comparison(name, pairs)


def link_table(name: str, curves: Mapping[Fit, Curve]) -> Table:
    """Machines with and without links by epoch, and what links gain."""
    pairs = {
        f"by {fit.normalisation}, {fit.neighbours}": (
            ("without links", curves.get(fit._replace(neighbours=""), {})),
            ("with links", curve),
        )
        for fit, curve in curves.items()
        if fit.neighbours
    }
    return comparison(name, pairs)


Named = tuple[str, Curve]


def comparison(name: str, pairs: Mapping[str, tuple[Named, Named]]) -> Table:
    """Three lines for each pair: the one, the other, and by how much the other is better."""
    shown = [
        epoch
        for epoch in SCORED
        if any(epoch in curve for pair in pairs.values() for _, curve in pair)
    ]
    rows = []
    for about, ((one, first), (other, second)) in pairs.items():
        rows += [
            (f"{about}, {one}", _means(first, shown)),
            (f"{about}, {other}", _means(second, shown)),
            (f"{about}, advantage", _advantages(first, second, shown)),
        ]
    return Table([name, *(f"epoch {epoch}" for epoch in shown), "best"], rows)


def _means(curve: Curve, shown: Sequence[int]) -> list[str]:
    found = [list(curve.get(epoch, {}).values()) for epoch in shown]
    best = list(_best(curve).values())
    return [f"{np.mean(values):.4f}" if values else "" for values in (*found, best)]


def _advantages(worse: Curve, better: Curve, shown: Sequence[int]) -> list[str]:
    """Mean over the seeds that both have, and the range; last, of the best epoch of each."""
    pairs = [(worse.get(epoch, {}), better.get(epoch, {})) for epoch in shown]
    return [_advantage(*pair) for pair in (*pairs, (_best(worse), _best(better)))]


def _advantage(worse: Mapping[int, float], better: Mapping[int, float]) -> str:
    found = [worse[seed] - better[seed] for seed in sorted(set(worse) & set(better))]
    if not found:
        return ""
    spread = f" ({min(found):+.3f} to {max(found):+.3f})" if len(found) > 1 else ""
    return f"{np.mean(found):+.4f}{spread}"


def _best(curve: Curve) -> dict[int, float]:
    """By seed, over the epochs that were scored."""
    seeds = {seed for values in curve.values() for seed in values}
    return {
        seed: min(values[seed] for values in curve.values() if seed in values) for seed in seeds
    }


def report(path: Path) -> None:
    """Write the tables of all rows beside them."""
    rows = rows_of(path)
    parts: list[PagePart] = [
        Paragraph(
            "MovieLens 1M as the paper cut it, a machine for users with K hidden units, its "
            f"learner but for what a line says. Learnt from {rows[0]['learnt_from']:,} ratings, "
            f"scored on {rows[0]['scored_on']:,} others from inside the training part; MAE of the "
            "mean-field mode. Means over seeds; advantages are of the same seeds, "
            "in parentheses the smallest and the largest; best: of the best epoch of each."
        ),
        Paragraph(
            "Links are by rows if the gradient of a block is divided by the block's 100 users, by "
            "own if each parameter's is divided by the ratings, or pairs of ratings, that it has "
            "in the block. Neighbours are by Pearson's correlation as it is (pearson), or drawn to "
            "zero as if there were 100 more common ratings that do not agree (shrunk)."
        ),
    ]
    for score, name in (("mae_mode", "MAE"), ("log_loss", "log-loss")):
        curves = curves_of(rows, score)
        for title, table in (
            ("Ordinal and categorical features", feature_table(name, curves)),
            ("Links", link_table(name, curves)),
        ):
            parts += [SectionHeading(f"{title}, {name}"), table]
    common = json.loads(path.with_name("neighbours.json").read_text())
    parts.append(
        FactList(
            {
                "people who have rated both ends of a link, quartiles": "; ".join(
                    f"{name} {' / '.join(f'{one:g}' for one in quartiles)}"
                    for name, quartiles in common.items()
                ),
                "seeds, of split, validation and start": ", ".join(
                    str(seed) for seed in sorted({row["seed"] for row in rows})
                ),
                "data": f"{rows[0]['data']['set']}, SHA-256 {rows[0]['data']['sha256']}",
                "seconds of processor time": f"{sum(row['cpu_seconds'] for row in rows):,.0f}",
                "version": f"ordbm {rows[0]['version']}",
                "command": "; ".join(dict.fromkeys(row["command"] for row in rows)),
            }
        )
    )
    write_page(path.with_name("tables.md"), markdown_page("Why effects differ: all figures", parts))


def main() -> None:
    """Do what is missing, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="ml-1m.zip, or its folder; without, only tables")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    path = asked.results / "reasons.jsonl"
    if asked.data is not None:
        learn(asked.data, asked.seeds, path)
        path.with_name("neighbours.json").write_text(json.dumps(common_raters(asked.data)) + "\n")
    report(path)


if __name__ == "__main__":
    main()
