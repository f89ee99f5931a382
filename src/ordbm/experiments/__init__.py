"""The paper's figures and its table: each is a TOML file, and one runner does them all."""

from ordbm.experiments.definition import EXPERIMENT_NAMES, Experiment, Run, experiment_of
from ordbm.experiments.session import Session

__all__ = ["EXPERIMENT_NAMES", "Experiment", "Run", "Session", "experiment_of"]
