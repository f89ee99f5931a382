"""Pictures, drawn with matplotlib: each function returns the Axes it drew on.

Without `ax` a figure of its own is made, outside of pyplot: `ax.figure.savefig("picture.png")`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import RatingsError, SettingsError
from ordbm.evaluation import Evaluation
from ordbm.explain import hidden_space
from ordbm.inference.distributions import (
    LevelDistribution,
    NormalDistribution,
    RatingDistribution,
)
from ordbm.metrics.calibration import Reliability
from ordbm.model.structure import PARTS_IN_WORDS, Structure
from ordbm.runtime.checks import check_count
from ordbm.runtime.printable import shown
from ordbm.training.loop import EpochRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

# Okabe and Ito's colours, told apart by everybody.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"
_PALE = "#D5D5D5"
# A scale's thresholds, from low to high: colours from cold to warm, each with dots of its own.
_HUES = ("#332288", BLUE, "#56B4E9", "#44AA99", "#117733", "#B8A100", "#E69F00", ORANGE, "#AA3377")
_DOTS = "osD^vPX*h"

_FEWEST_IN_BIN = 30  # ratings: the share of fewer says little
_MOST_POINTS = 2_000  # of hidden space, the best known
_LABEL_ROOM = ((6, 0), (-6, 0), (0, 4), (0, -4))  # where a label may go, in points from its dot
_LONGEST_LABEL = 32
_ERRORS_SHOWN = 6  # of a trial of sizes, the median


def plot_distribution(
    source: Any, user: Any = None, item: Any = None, *, ax: Axes | None = None
) -> Axes:
    """A predicted distribution: `plot_distribution(model, user, item)`, or of one pair.

    A bar for each level, or the density on a continuous scale, and a line at the mean.
    """
    found = source if isinstance(source, RatingDistribution) else source.distribution(user, item)
    if len(found.mean()) != 1:
        raise RatingsError(f"a picture is of one pair's distribution, not of {len(found.mean())}")
    ax = _axes(ax)
    if isinstance(found, LevelDistribution):
        mean = _draw_levels(found, ax)
    else:
        mean = _draw_density(found, ax)
    ax.axvline(mean, color=ORANGE, linewidth=1.5)
    ax.annotate(
        f"mean {found.mean()[0]:.3g}",
        (mean, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        color=ORANGE,
    )
    ax.set_xlabel("rating")
    ax.set_ylim(bottom=0)
    return ax


def plot_learning(history: Sequence[EpochRecord], *, ax: Axes | None = None) -> Axes:
    """Loss per rating by epoch, in training and on validation ratings, the best epoch marked.

    Training loss is the objective's negative. It is of another kind than log-loss unless the
    learner maximises the exact pseudo-likelihood, so only the shapes compare.
    """
    if not history:
        raise RatingsError("nothing to draw: the history has no epochs")
    ax = _axes(ax)
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    epoch = [record.epoch for record in history]
    ax.plot(epoch, [-record.objective for record in history], color=BLUE, marker=".")
    _name_line(ax, epoch[-1], -history[-1].objective, "training", BLUE)
    checked = [record for record in history if record.validation]
    if checked:
        loss = [record.validation["log_loss"] for record in checked]
        ax.plot([record.epoch for record in checked], loss, color=ORANGE, marker=".")
        _name_line(ax, checked[-1].epoch, loss[-1], "validation", ORANGE)
        best = int(np.argmin(loss))
        ax.plot(
            checked[best].epoch,
            loss[best],
            "o",
            color=ORANGE,
            markersize=9,
            fillstyle="none",
        )
        ax.annotate(
            f"best: {loss[best]:.4f}, epoch {checked[best].epoch}",
            (checked[best].epoch, loss[best]),
            xytext=(0, 10),
            textcoords="offset points",
            ha="left" if best < len(checked) / 2 else "right",
            color=ORANGE,
        )
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss per rating")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(x=0.05, y=0.12)
    return ax


def plot_structure(structure: Structure | None, *, ax: Axes | None = None) -> Axes:
    """What each size that was tried did to the inner validation log-loss, in the order of trials.

    With one standard error to either side; a filled dot was taken, and what is far worse is a
    figure at the edge. `model.structure` has them.
    """
    if structure is None or not structure.trials:
        raise RatingsError('nothing to draw: the model was not fitted with structure="auto"')
    trials = structure.trials
    ax = _axes(ax, (6.4, max(2.4, 1.0 + 0.24 * len(trials))))
    place = np.arange(len(trials))
    rise, error = (np.array([getattr(one, name) for one in trials]) for name in ("rise", "error"))
    taken = np.array([one.accepted for one in trials])
    ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    # What is far worse stands at the edge with its figure, so that the others can be told apart.
    reach = (np.abs(rise) + error)[taken].max(initial=0.0)
    edge = max(_ERRORS_SHOWN * float(np.median(error)), 1.5 * float(reach))
    far = (rise > edge) & ~taken
    near = ~far & ~taken
    ax.errorbar(rise[~far], place[~far], xerr=error[~far], fmt="none", ecolor=_PALE, elinewidth=2)
    ax.scatter(rise[taken], place[taken], color=BLUE, zorder=3)
    ax.scatter(rise[near], place[near], facecolors="white", edgecolors=ORANGE, zorder=3)
    for y, value in zip(place[far], rise[far], strict=True):
        ax.annotate(
            f"{value:+.3f} →", (1.0, y), xycoords=("axes fraction", "data"), ha="right",
            va="center", color=ORANGE,
        )  # fmt: skip
    told = ((PARTS_IN_WORDS[one.part], one.size_in_words) for one in trials)
    names = [": ".join(filter(None, words)) for words in told]
    ax.set_yticks(place, names)
    ax.set_ylim(len(trials) - 0.5, -0.5)
    ax.set_xlabel("rise of the log-loss (filled: taken)")
    return ax


def plot_reliability(
    source: Evaluation | Sequence[Reliability] | Reliability, *, ax: Axes | None = None
) -> Axes:
    """How often P(rating ≥ threshold) came true, less that probability; a line per threshold.

    Zero, the dashed line of each, is perfect. Curves of several thresholds are drawn one above the
    other, as all good ones would lie on one line. Bins of fewer than 30 ratings are left out where
    there are larger ones.
    """
    if isinstance(source, Evaluation):
        source = source.reliability
    curves = [source] if isinstance(source, Reliability) else list(source)
    if not curves:
        raise RatingsError("nothing to draw: there are no reliability curves")
    ax = _axes(ax, (5.2, max(3.2, 1.2 + 0.42 * len(curves))))
    most = max(int(curve.count.max()) for curve in curves)
    drawn = [curve.count >= min(_FEWEST_IN_BIN, int(curve.count.max())) for curve in curves]
    excess = [
        (curve.observed - curve.predicted)[chosen]
        for curve, chosen in zip(curves, drawn, strict=True)
    ]
    # Twice the largest excess, as one curve may bend up and the next one down.
    largest = max(float(np.abs(one).max()) for one in excess)
    apart = max(0.04, 0.02 * np.ceil(100 * largest))
    for place, curve in enumerate(curves):
        hue = round(place * (len(_HUES) - 1) / max(len(curves) - 1, 1))
        colour, zero = _HUES[hue], place * apart
        line = curve.predicted[drawn[place]], zero + excess[place]
        ax.axhline(zero, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
        ax.plot(*line, color=colour, linewidth=1.4)
        size = 6 + 40 * curve.count[drawn[place]] / most
        ax.scatter(*line, s=size, color=colour, marker=_DOTS[hue], zorder=3)
        ax.annotate(
            f"≥ {curve.label}", (1.0, zero), xycoords=("axes fraction", "data"), xytext=(6, 0),
            textcoords="offset points", va="center", color=colour, parse_math=False,
        )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-apart, len(curves) * apart))
    ax.set_yticks([place * apart for place in range(len(curves))], ["0"] * len(curves))
    ax.set_xlabel("predicted probability")
    ax.set_ylabel(f"observed − predicted (lines {apart:.2f} apart)")
    return ax


def plot_hidden_space(
    model: Any,
    titles: Mapping[Any, str] | None = None,
    n: int = 30,
    *,
    of: str = "item",
    ax: Axes | None = None,
) -> Axes:
    """Items (or users: `of="user"`) in the two directions in which hidden space varies most.

    The n with most ratings are named, as far as labels do not overlap.
    """
    check_count("n", n)
    if of not in {"item", "user"}:
        raise SettingsError(f"of={shown(of)} is not known: use 'item' or 'user'")
    state = model._state
    ids = state.items if of == "item" else state.users
    count = np.diff((state.ratings.by_item if of == "item" else state.ratings.by_user).start)
    known = np.argsort(-count, kind="stable")[: min(_MOST_POINTS, int((count > 0).sum()))]
    place, share = _principal_plane(hidden_space(state.conditioned, of)[count > 0])
    at = np.zeros((len(count), 2))
    at[count > 0] = place
    ax = _axes(ax, (8.0, 6.0))
    ax.scatter(at[known, 0], at[known, 1], s=6, color=_PALE, linewidths=0)
    ax.set_xlabel(f"first direction ({share[0]:.0%} of the variance)")
    ax.set_ylabel(f"second direction ({share[1]:.0%})")
    ax.set(xticks=[], yticks=[])
    ax.margins(0.08)
    names = [(str((titles or {}).get(ids[code], ids[code])), code) for code in known.tolist()]
    _name_points(ax, [(name, *at[code]) for name, code in names[: 4 * n]], n)
    return ax


def _draw_levels(found: LevelDistribution, ax: Axes) -> float:
    """Bars of equal width at 0..n-1; the place of the mean among them."""
    scale = found.scale
    names = scale.labels or [f"{value:g}" for value in scale.values]
    ax.bar(np.arange(len(scale)), found.proba[0], width=0.8, color=BLUE)
    every = -(-len(scale) // 20)
    ax.set_xticks(range(0, len(scale), every), names[::every], parse_math=False)
    ax.set_ylabel("probability")
    return float(np.interp(found.mean()[0], scale.values, np.arange(len(scale))))


def _draw_density(found: NormalDistribution, ax: Axes) -> float:
    mean, deviation = float(found.mean()[0]), float(found.deviation()[0])
    z = np.linspace(-4, 4, 201)
    density = np.exp(-0.5 * z**2) / (deviation * np.sqrt(2 * np.pi))
    ax.plot(mean + deviation * z, density, color=BLUE)
    ax.fill_between(mean + deviation * z, density, color=BLUE, alpha=0.2, linewidth=0)
    ax.set_ylabel("density")
    return mean


def _name_line(ax: Axes, x: float, y: float, name: str, colour: str) -> None:
    ax.annotate(name, (x, y), xytext=(6, 0), textcoords="offset points", va="center", color=colour)


def _principal_plane(space: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[float]]:
    """Rows in their first two principal directions, and those directions' shares of variance."""
    centred = space - space.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    plane = vectors[:, ::-1][:, :2]
    place = np.zeros((len(space), 2))
    place[:, : plane.shape[1]] = centred @ plane
    shares = np.zeros(2)
    shares[: plane.shape[1]] = values[::-1][:2] / max(float(values.sum()), 1e-300)
    return place, shares.tolist()


def _name_points(ax: Axes, points: Sequence[tuple[str, float, float]], n: int) -> None:
    """Name up to n points, in order, each where its label covers no other, or not at all."""
    ax.figure.canvas.figure.draw_without_rendering()  # where things are is known only then
    taken: list[Bbox] = []
    dots: list[Any] = []
    for name, x, y in points:
        dot = ax.transData.transform((x, y))
        if any(box.contains(*dot) for box in taken):
            continue
        short = name if len(name) <= _LONGEST_LABEL else name[: _LONGEST_LABEL - 1] + "…"
        for room in _LABEL_ROOM:
            label = _label(ax, short, (x, y), room)
            box = label.get_window_extent()
            covers = any(box.overlaps(other) for other in taken) or box.count_contains(dots) > 0
            if _inside(ax, box) and not covers:
                taken.append(box)
                dots.append(dot)
                break
            label.remove()
        if len(taken) == n:
            break
    named = ax.transData.inverted().transform(dots) if dots else np.zeros((0, 2))
    ax.scatter(named[:, 0], named[:, 1], s=14, color=BLUE, linewidths=0, zorder=3)


def _label(ax: Axes, text: str, at: tuple[float, float], room: tuple[int, int]) -> Annotation:
    sideways, upwards = room
    return ax.annotate(
        text,
        at,
        xytext=room,
        textcoords="offset points",
        ha="center" if not sideways else "left" if sideways > 0 else "right",
        va="center" if not upwards else "bottom" if upwards > 0 else "top",
        fontsize=8,
        parse_math=False,
    )


def _inside(ax: Axes, box: Bbox) -> bool:
    window = ax.get_window_extent()
    return bool(box.x0 >= window.x0 and box.x1 <= window.x1)


def _axes(ax: Axes | None, size: tuple[float, float] = (5.6, 3.6)) -> Axes:
    """The Axes given, or those of a new figure, bare of what carries no information."""
    if ax is None:
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415
        except ImportError:
            raise SettingsError('plots need matplotlib: pip install "ordbm[plot]"') from None
        ax = Figure(figsize=size, layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return ax
