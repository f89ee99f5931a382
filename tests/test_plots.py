"""Pictures: what is drawn is what was given, with no display and no global state."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from ordbm import OrdinalBM, Ratings, RatingScale, plots
from ordbm.data.scale import ContinuousScale
from ordbm.errors import NotFittedError, RatingsError, SettingsError
from ordbm.evaluation import Evaluation
from ordbm.inference.distributions import LevelDistribution, NormalDistribution
from ordbm.metrics.calibration import Reliability
from ordbm.training.loop import EpochRecord

TINY = {"hidden": 4, "members": 2, "item_links": 0, "epochs": 2}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=500), rng.integers(20, size=500)
    return OrdinalBM(**TINY).fit(Ratings(users, items, rng.integers(1, 6, size=500)))


def curve(label="4", count=(100, 50, 400)):
    predicted = np.array([0.1, 0.5, 0.9])
    return Reliability(4.0, label, predicted, predicted**1.1, np.array(count))


def drawn(ax, tmp_path):
    """The picture written as PNG, for a fault that shows only in drawing; its Axes again."""
    ax.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    return ax


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_bars_are_the_probabilities(model, tmp_path):
    ax = drawn(plots.plot_distribution(model, 1, 2), tmp_path)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, model.predict_proba(1, 2)[0])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "3", "4", "5"]
    assert texts(ax) == [f"mean {model.predict(1, 2)[0]:.3g}"]


def test_the_mean_is_marked_between_levels_wherever_they_lie():
    scale = RatingScale([1, 2, 10])
    ax = plots.plot_distribution(LevelDistribution(scale, np.array([[0.0, 0.5, 0.5]])))
    assert ax.lines[0].get_xdata()[0] == pytest.approx(1.5)  # 6 is half-way from 2 to 10


def test_labels_are_shown_as_they_are(tmp_path):
    scale = RatingScale(["$a$", "b_{", "<c>"])
    ax = plots.plot_distribution(LevelDistribution(scale, np.array([[0.2, 0.3, 0.5]])))
    drawn(ax, tmp_path)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["$a$", "b_{", "<c>"]
    drawn(plots.plot_reliability(curve(label="$x_{$")), tmp_path)


def test_a_continuous_rating_has_a_density():
    found = NormalDistribution(ContinuousScale(0.0, 1.0), np.array([5.0]), np.array([2.0]))
    ax = plots.plot_distribution(found)
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y, norm.pdf(x, 5.0, 2.0))


def test_one_pair_at_a_time(model):
    with pytest.raises(RatingsError, match="not of 2"):
        plots.plot_distribution(model.distribution([1, 2], [3, 4]))


def history(losses):
    return [
        EpochRecord(epoch + 1, len(losses), -1.0 - 0.1 / (epoch + 1), 0.1, {"log_loss": loss})
        for epoch, loss in enumerate(losses)
    ]


def test_the_best_epoch_is_marked(tmp_path):
    ax = drawn(plots.plot_learning(history([1.5, 1.2, 1.3])), tmp_path)
    training, validation, best = (line.get_data() for line in ax.lines)
    np.testing.assert_allclose(training[1], [1.1, 1.05, 1 + 0.1 / 3])
    np.testing.assert_allclose(validation, [[1, 2, 3], [1.5, 1.2, 1.3]])
    assert (best[0][0], best[1][0]) == (2, 1.2)
    assert texts(ax) == ["training", "validation", "best: 1.2000, epoch 2"]


def test_learning_without_validation_and_of_one_epoch(model, tmp_path):
    ax = drawn(plots.plot_learning(model.history), tmp_path)
    assert texts(ax) == ["training"]
    drawn(plots.plot_learning(model.history[:1]), tmp_path)
    with pytest.raises(RatingsError, match="no epochs"):
        plots.plot_learning([])


def test_reliability_of_an_evaluation_or_of_curves(tmp_path):
    curves = [curve("3"), curve("4"), curve("5")]
    found = Evaluation("m", {}, {}, {}, [], curves, 550, 10)
    for source in (found, curves):
        ax = drawn(plots.plot_reliability(source), tmp_path)
        assert texts(ax) == ["≥ 3", "≥ 4", "≥ 5"]
        zeros, lines = ax.lines[::2], ax.lines[1::2]
        for one, zero, line in zip(curves, zeros, lines, strict=True):
            excess = one.observed - one.predicted
            np.testing.assert_allclose(line.get_xdata(), one.predicted)
            np.testing.assert_allclose(line.get_ydata(), zero.get_ydata()[0] + excess)
    assert len(plots.plot_reliability(curves[0]).lines) == 2
    with pytest.raises(RatingsError, match="no reliability"):
        plots.plot_reliability([])


@pytest.mark.parametrize("n", [2, 4, 9])
def test_reliability_curves_can_be_told_apart(n):
    """Colours and dots of their own, and no line reaches another, however far off they are."""
    observed = (0.6, 0.5, 0.2)
    curves = [replace(curve(str(number)), observed=np.array(observed)) for number in range(n)]
    ax = plots.plot_reliability(curves)
    lines = ax.lines[1::2]
    assert len({line.get_color() for line in lines}) == n
    assert len({str(dots.get_paths()[0].vertices.tolist()) for dots in ax.collections}) == n
    for below, above in pairwise(lines):
        assert below.get_ydata().max() < above.get_ydata().min()


def test_bins_that_say_little_are_left_out_unless_all_do():
    few = plots.plot_reliability(curve(count=(100, 29, 400))).lines[1]
    np.testing.assert_allclose(few.get_xdata(), [0.1, 0.9])
    all_small = plots.plot_reliability(curve(count=(3, 3, 3))).lines[1]
    np.testing.assert_allclose(all_small.get_xdata(), [0.1, 0.5, 0.9])


def test_hidden_space_is_the_principal_plane(model, tmp_path):
    ax = drawn(plots.plot_hidden_space(model, n=5), tmp_path)
    space = model.item_factors().astype(float)
    left, scale, _ = np.linalg.svd(space - space.mean(axis=0), full_matrices=False)
    places = np.asarray(ax.collections[0].get_offsets())
    expected = (left * scale)[:, :2]
    # All items are drawn, in whatever order, and directions have no sign.
    for axis in (0, 1):
        np.testing.assert_allclose(
            np.sort(np.abs(places[:, axis])), np.sort(np.abs(expected[:, axis])), atol=1e-6
        )
    share = scale[0] ** 2 / (scale**2).sum()
    assert ax.get_xlabel() == f"first direction ({share:.0%} of the variance)"


def test_the_best_known_are_named_and_no_label_covers_another(model, tmp_path):
    titles = {item: f"Film {item} " + "x" * 60 for item in range(20)}
    ax = drawn(plots.plot_hidden_space(model, titles, n=8), tmp_path)
    assert 1 <= len(ax.texts) <= 8
    most_rated = int(np.argmax(np.diff(model.conditioned[0].ratings.by_item.start)))
    assert ax.texts[0].get_text().startswith(f"Film {model._state.items[most_rated]} ")
    boxes = [text.get_window_extent() for text in ax.texts]
    for place, box in enumerate(boxes):
        assert box.width < ax.get_window_extent().width
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
    assert len(plots.plot_hidden_space(model, n=0).texts) == 0


def test_users_too_and_a_single_hidden_unit(tmp_path):
    rng = np.random.default_rng(0)
    users, items = rng.integers(9, size=80), rng.integers(7, size=80)
    small = OrdinalBM(**{**TINY, "hidden": 1}).fit(Ratings(users, items, rng.integers(1, 6, 80)))
    ax = drawn(plots.plot_hidden_space(small, of="user"), tmp_path)
    assert len(ax.collections[0].get_offsets()) == 9
    with pytest.raises(SettingsError, match="of='film'"):
        plots.plot_hidden_space(small, of="film")
    with pytest.raises(NotFittedError):
        plots.plot_hidden_space(OrdinalBM())


def test_draws_on_the_axes_given(model):
    figure = Figure()
    first, second = figure.subplots(1, 2)
    assert plots.plot_distribution(model, 1, 2, ax=first) is first
    assert plots.plot_hidden_space(model, ax=second) is second
    assert plots.plot_learning(model.history, ax=first) is first
    assert plots.plot_reliability(curve(), ax=second) is second


def test_nothing_is_drawn_by_way_of_pyplot():
    script = """
import sys
import numpy as np
from ordbm import plots
from ordbm.inference.distributions import LevelDistribution
from ordbm.data.scale import RatingScale
assert "matplotlib" not in sys.modules
plots.plot_distribution(LevelDistribution(RatingScale([1, 2]), np.array([[0.5, 0.5]])))
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_matplotlib_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r'pip install "ordbm\[plot\]"'):
        plots.plot_reliability(curve())
