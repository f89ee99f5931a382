"""`ordbm demo` keeps its word: best in every column, with titles, a distribution and lists."""

import json

import pytest

from cli_runs import run
from ordbm.cli import demo
from ordbm.cli.score_table import best_of
from ordbm.datasets import load_titles
from ordbm.model import settings


@pytest.mark.slow
def test_ours_is_best_in_every_column(monkeypatch):
    """Even with two machines of the eight, which cost a quarter of the time."""
    monkeypatch.setitem(settings.PRESETS, "default", {"members": 2})
    done = run("demo", "--json", "-q")
    assert done.stderr == ""
    told = json.loads(done.stdout)
    scores = told["scores"]
    assert len(scores) >= 7
    assert {"mae_mean", "mae_median", "mae_mode", "rmse", "log_loss", "rps"} <= set(
        scores[demo.OURS]
    )
    for name in scores[demo.OURS]:
        assert best_of(scores, name) == {demo.OURS}, name
    assert len(told["recommended"]) == len(told["recommended_to_somebody_new"]) == demo.LIST_LENGTH


def test_the_demo_in_words(monkeypatch):
    monkeypatch.setitem(
        settings.PRESETS, "default", {"epochs": 1, "hidden": 2, "item_links": 5, "members": 2}
    )
    done = run("demo")
    assert done.exit_code == 0, done.stderr
    assert "100,004 ratings" in done.stderr
    assert "Calibration error is left out" in done.stdout
    assert "which items get rated" in done.stdout
    lines = done.stdout.splitlines()
    for name in (demo.OURS, "bias", "item-knn", "svd"):
        assert any(line.strip().startswith(name) for line in lines)
    shares = sum("█" in line or line.rstrip().endswith("%") for line in lines)
    assert shares == 10 + 2 * demo.LIST_LENGTH  # of levels, and of listed items
    titles = set(load_titles("movielens-small").values())
    assert sum(any(title in line for title in titles) for line in lines) >= 2 * demo.LIST_LENGTH
