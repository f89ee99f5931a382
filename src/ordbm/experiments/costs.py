"""How long runs will take, about: for a plan, and for the time left."""

from __future__ import annotations

from ordbm.experiments.definition import Experiment, Run
from ordbm.runtime.threads import thread_count

# Microseconds of one thread per rating and epoch, measured on both data sets: a constant, and a
# part that grows with hidden units.
_LEARNING = {
    ("paper", "user"): (0.11, 0.003),
    ("paper", "joint"): (0.70, 0.016),
    ("ours", "user"): (0.06, 0.002),
    ("ours", "joint"): (0.20, 0.005),
}
_LINKS = {"paper": (1.1, 1.3), "ours": (1.4, 2.4)}  # between items, between users
_FACTORS = (0.45, 0.006)
# Microseconds of one thread per rating that is predicted, and per rating looked at for neighbours.
_PREDICTING = {"mean_field": (1.5, 0.01), "exact": (1.4, 0.07)}
_COMPARING = 17.0
_THREAD_GAIN = 0.8  # of a thread beyond the first
_FIXED = 0.3  # seconds of a run however small


def seconds_of(run: Run, experiment: Experiment, threads: int | None = None) -> float:
    """An estimate for a run on this experiment's data; what other work is going on adds to it."""
    speed = 1.0 + _THREAD_GAIN * (thread_count(threads) - 1)
    ratings = rating_count(experiment)
    test = experiment.data.test_fraction * ratings
    train = (ratings - test) * (1.0 - run.validation)
    if run.model == "popularity":  # the first run of its split, which finds the neighbours
        return _FIXED + _COMPARING * train * 1e-6
    epochs = run.settings["epochs"]
    if run.model == "svd":
        learning = _FACTORS[0] + _FACTORS[1] * run.hidden
        # One thread does it all.
        return _FIXED + 1e-6 * (epochs * train * learning + test * _PREDICTING["exact"][0])
    base, per_unit = _LEARNING[run.learner, run.settings["sides"]]
    learning = base + per_unit * run.hidden
    if run.settings["features"] == "gaussian":
        learning /= 2
    for name, cost in zip(("item_links", "user_links"), _LINKS[run.learner], strict=True):
        learning += cost if run.settings[name] else 0.0
    base, per_unit = _PREDICTING[run.method]
    predicting = base + per_unit * run.hidden
    times = epochs + 1 if experiment.shown_as == "curves" else 1
    work = epochs * train * learning + times * test * predicting
    if run.validation:
        work += epochs * run.validation * train * _PREDICTING["exact"][0]
    return _FIXED + 1e-6 * work / speed


def rating_count(experiment: Experiment) -> float:
    """How many ratings there are to be expected, in a sample too."""
    data = experiment.data
    users = data.users if experiment.sampled_users is None else experiment.sampled_users
    return data.ratings * min(1.0, users / data.users)
