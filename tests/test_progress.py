"""What `fit` shows and logs while it works."""

import io
import logging

import numpy as np
import pytest
from rich.console import Console

import ordbm
from ordbm.runtime.bars import bar
from ordbm.runtime.progress import Progress
from ordbm.training import learning_bar as bars
from ordbm.training.loop import EpochRecord

SMALL = {"hidden": 2, "epochs": 3, "members": 1, "item_links": 2, "threads": 1}


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    pairs = rng.choice(20 * 15, 150, replace=False)
    return ordbm.Ratings(pairs // 15, pairs % 15, rng.integers(1, 6, 150))


def logged(caplog, ratings, **told):
    caplog.set_level(logging.INFO, "ordbm")
    caplog.clear()
    model = ordbm.OrdinalBM(**SMALL | told).fit(ratings)
    return model, [record.getMessage() for record in caplog.records]


def test_the_cost_what_goes_before_and_every_epoch_are_logged(caplog, ratings):
    model, lines = logged(caplog, ratings)
    assert lines[0].startswith("learning from 150 ratings, members=1, hidden=(2, 2): about ")
    assert lines.index("finding links") < lines.index("learning which items get rated")
    epochs = [line for line in lines if line.startswith("epoch")]
    assert epochs == [str(record) for record in model.history]
    assert len(epochs) == 3


@pytest.mark.parametrize(
    ("values", "scale", "advice"),
    [
        ([1, 2, 3, 4, 5], None, ""),
        (range(1, 101), None, "100 levels, of which neighbours share couplings: bins of them cost"),
        (range(1, 101), "continuous", "continuous ratings: if they are answers on a scale"),
        ([1, 2, 3, 4, 5], "continuous", "continuous ratings with 5 different values: on levels"),
    ],
)
def test_scales_that_are_worth_a_comparison_are_named(caplog, values, scale, advice):
    rng = np.random.default_rng(0)
    pairs = rng.choice(20 * 15, 150, replace=False)
    levels = scale or list(values)
    given = ordbm.Ratings(pairs // 15, pairs % 15, rng.choice(list(values), 150), scale=levels)
    assert ordbm.OrdinalBM(**SMALL).estimate(given).advice.startswith(advice)
    _, lines = logged(caplog, given, presence=False, epochs=1)
    assert [line for line in lines if "held-out" in line] == (
        [ordbm.OrdinalBM(**SMALL).estimate(given).advice] if advice else []
    )


def test_only_what_is_done_is_logged(caplog, ratings):
    _, lines = logged(caplog, ratings, item_links=0, presence=False, epochs=0)
    assert [line for line in lines if not line.startswith("learning from")] == []


def test_without_a_listener_nothing_is_estimated_or_printed(ratings, monkeypatch, capfd):
    monkeypatch.setattr(ordbm.OrdinalBM, "estimate", None)
    logging.getLogger("ordbm").setLevel(logging.WARNING)
    try:
        ordbm.OrdinalBM(**SMALL).fit(ratings)
    finally:
        logging.getLogger("ordbm").setLevel(logging.NOTSET)
    assert capfd.readouterr() == ("", "")


def test_an_epoch_in_words():
    record = EpochRecord(2, 20, -1.25, 0.5, {"log_loss": 1.3}, 9.0)
    assert str(record) == (
        "epoch 2 of 20: objective -1.2500, validation log-loss 1.3000; 0.5 s, 9 s left"
    )


def shown(monkeypatch, ratings, **terminal):
    """What `fit(progress=True)` writes to such a console, and the model."""
    out = io.StringIO()
    console = Console(file=out, width=160, **terminal)
    monkeypatch.setattr(bars, "Console", lambda **_: console)
    model = ordbm.OrdinalBM(**SMALL).fit(ratings, progress=True)
    return out.getvalue(), model


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch, ratings):
    text, _ = shown(monkeypatch, ratings, force_terminal=True)
    assert "epoch 3 of 3" in text
    assert text.endswith("\x1b[2K")  # the line is cleared


def test_a_pipe_gets_nothing(monkeypatch, ratings):
    text, _ = shown(monkeypatch, ratings, force_terminal=False)
    assert text == ""


def test_a_notebook_has_the_bar_too(monkeypatch):
    """Rich draws it there; what is ours is that it is not switched off."""
    monkeypatch.setattr("rich.live.Live.refresh", lambda _: None)  # without IPython
    with bars.learning_bar(Console(force_jupyter=True)) as bar:
        assert not bar._bar.disable
        bar(EpochRecord(1, 2, -1.0, 0.1, {}, 0.1))
        assert bar._bar.tasks[0].fields["state"] == "epoch 1 of 2"


def test_a_bar_changes_no_bit(monkeypatch, ratings):
    _, model = shown(monkeypatch, ratings, force_terminal=True)
    plain = ordbm.OrdinalBM(**SMALL).fit(ratings)
    np.testing.assert_array_equal(plain.predict_proba(3, [1, 2]), model.predict_proba(3, [1, 2]))


def test_the_cost_is_shown_until_the_time_left_is_known():
    console = Console(file=io.StringIO(), force_terminal=True)
    with bars.learning_bar(console) as bar:
        bar.expect("about 3 min")
        bar.on_progress(Progress("links", 0.5))
        assert bar._bar.tasks[0].fields["left"] == "about 3 min"
        bar(EpochRecord(1, 2, -1.0, 0.1, {}, 65.0))
        assert bar._bar.tasks[0].fields["left"] == "1:05 left"


def test_a_bar_has_its_name_before_it():
    out = io.StringIO()
    shown = bar(Console(file=out, force_terminal=True, width=80), quiet=False)
    with shown:
        shown.add_task("learning", total=2)
        shown.refresh()
    assert out.getvalue().index("learning") < out.getvalue().index("━")
