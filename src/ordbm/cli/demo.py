"""`ordbm demo`: the main job on embedded ratings: learn, compare, predict, recommend."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import time
from typing import Any

import ordbm
from ordbm.cli.app import app
from ordbm.cli.evaluate import OURS
from ordbm.cli.inputs import facts_in_words, ratings_and_facts
from ordbm.cli.options import Json, Quiet, ReadingOptions
from ordbm.cli.output import (
    count_in_words,
    distribution_bars,
    fit_bar,
    print_json,
    stderr,
    stdout,
    step_bar,
    table,
)
from ordbm.cli.score_table import score_tables

_DATA = "movielens-small"
LIST_LENGTH = 5
_MEMBERS = 2  # instead of eight: a demo should be quick
_NOT_SHOWN = (
    "Calibration error is left out: predicting the same for everybody wins it trivially; "
    "ordbm evaluate shows it."
)
_WHY_LISTED = (
    "Lists are of what somebody is most likely to come across and to rate 4 or higher, among all "
    "items: the machine has also learnt which items get rated."
)
_TASTE = {
    "Star Wars: Episode IV - A New Hope (1977)": 5.0,
    "Matrix, The (1999)": 5.0,
    "Alien (1979)": 4.5,
    "Titanic (1997)": 2.0,
}


@app.command()
def demo(quiet: Quiet = False, as_json: Json = False) -> None:
    """Fit a machine to embedded MovieLens ratings, score it beside baselines, and recommend.

    Example: `ordbm demo`
    """
    from ordbm.datasets import load_titles
    from ordbm.evaluation import train_and_test

    quiet = quiet or as_json
    started = time.perf_counter()
    ratings, read = ratings_and_facts(_DATA, ReadingOptions())
    train, test = ordbm.hold_out(ratings, 0.2, seed=0)
    say = stderr(quiet).print
    say(f"{facts_in_words(read)}; {len(test):,} held out to test on", markup=False)
    model = ordbm.OrdinalBM(members=_MEMBERS)
    with fit_bar(quiet, "learning") as show:
        ours = train_and_test(
            model, train, test, validation=0.1, callbacks=[show], name=OURS, bootstrap=0
        )
    say(
        f"learnt in {ours.seconds['fit']:.1f} s, {count_in_words(len(ours.history), 'epoch')}",
        markup=False,
    )
    found = {OURS: _shown(ours.scores), **_baseline_scores(train, test, quiet)}
    titles = load_titles(_DATA)
    user, item, truth = _first_test(test)
    pair: Any = model.distribution([user], [item])
    known = model.recommend(user, LIST_LENGTH)
    new = model.recommend(ratings=_taste(titles), n=LIST_LENGTH)
    if as_json:
        print_json(
            {
                "ratings": read,
                "scores": found,
                "recommended": _listed(known, titles),
                "recommended_to_somebody_new": _listed(new, titles),
                "seconds": time.perf_counter() - started,
            }
        )
        return
    out = stdout()
    for one in score_tables(found, out.width):
        out.print(one)
    out.print(_NOT_SHOWN, "", sep="\n")
    out.print(
        f"User {user} on {titles[item]}: predicted {pair.mean()[0]:.2f}, gave it {truth:g}",
        markup=False,
    )
    out.print(distribution_bars(pair.scale.values, pair.proba[0]))
    out.print("", _WHY_LISTED, sep="\n")
    for whom, lines in (
        (f"User {user}", known),
        ("Somebody new who rated " + ", ".join(f"{t} {v:g}" for t, v in _TASTE.items()), new),
    ):
        out.print("", f"{whom}:", sep="\n")
        columns = ("title", "predicted", "confidence", "P(rated)")
        rows = [(titles[x.item], x.mean, x.confidence, f"{x.rated:8.1%}") for x in lines]
        out.print(table(columns, rows))
    say(f"{time.perf_counter() - started:.1f} s in all", markup=False)


def _baseline_scores(train: Any, test: Any, quiet: bool) -> dict[str, dict[str, float]]:
    from ordbm.baselines import BASELINES
    from ordbm.evaluation import train_and_test

    found = {}
    names = [name for name in BASELINES if name != "popularity"]  # rates as "item" does
    with step_bar(quiet, "baselines", len(names), "fitted") as done:
        for name in names:
            scores = train_and_test(BASELINES[name](), train, test, bootstrap=0).scores
            found[name] = _shown(scores)
            done(len(found))
    return found


def _shown(scores: dict[str, float]) -> dict[str, float]:
    """All but the calibration error: predicting the same for everybody is well calibrated."""
    return {name: score for name, score in scores.items() if name != "calibration_error"}


def _first_test(test: Any) -> tuple[Any, Any, float]:
    return test.users[test.user_codes[0]], test.items[test.item_codes[0]], float(test.values[0])


def _taste(titles: dict[int, str]) -> dict[int, float]:
    item_of = {title: item for item, title in titles.items()}
    return {item_of[title]: value for title, value in _TASTE.items()}


def _listed(lines: Any, titles: dict[int, str]) -> list[dict[str, Any]]:
    return [{"title": titles[line.item], **line._asdict()} for line in lines]
