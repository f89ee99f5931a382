"""A session: the runs of an experiment that its results do not have yet, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from ordbm import __version__
from ordbm.experiments.definition import Experiment, Run
from ordbm.experiments.experiment_data import ExperimentData
from ordbm.experiments.measure import Measure, settings_of_run
from ordbm.experiments.ranking_protocol import neighbour_counts
from ordbm.experiments.result_rows import Row, append_row, rows_of
from ordbm.runtime.checks import check_count

Callbacks = Callable[[Run], Sequence[Any]]  # those that watch the fit of a run


class Session:
    """An experiment on its data, with a folder of results that may have some of the runs.

    `seeds` are how many, the experiment's own if not said. `command` is kept with each result.
    """

    def __init__(
        self,
        experiment: Experiment,
        data: Path,
        results: Path,
        *,
        seeds: int | None = None,
        threads: int | None = None,
        command: str = "",
    ) -> None:
        if seeds is not None:
            check_count("seeds", seeds, least=1)
        self.experiment = experiment
        self.source = ExperimentData(experiment, data)
        self.path = results / f"{experiment.name}.jsonl"
        self.runs = experiment.runs(seeds)
        self.threads, self.command = threads, command

    def missing(self) -> list[Run]:
        """The runs without a row."""
        done = {row["run"] for row in rows_of(self.path)}
        return [run for run in self.runs if self.key(run) not in done]

    def key(self, run: Run) -> str:
        """A name for all that determines a run's result."""
        text = json.dumps(self._identity(run), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def rows(self, callbacks: Callbacks = lambda _: ()) -> Iterator[Row]:
        """Do the missing runs; each row is on the disk when it comes out."""
        seed, measure = None, None
        for run in self.missing():
            if measure is None or run.seed != seed:
                seed, measure = run.seed, self._measure(run.seed)
            row = self._row(run, measure.outcome(run, callbacks(run)), measure)
            append_row(self.path, row)
            yield row

    def _measure(self, seed: int) -> Measure:
        split = self.source.split(seed)
        lengths = self.experiment.lengths
        return Measure(
            split,
            neighbour_counts(split.train) if lengths else None,
            lengths,
            each_epoch=self.experiment.shown_as == "curves",
            threads=self.threads,
        )

    def _identity(self, run: Run) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "quick": self.experiment.is_quick,
            "machine": run.machine,
            "learner": run.learner,
            "hidden": run.hidden,
            "seed": run.seed,
            "settings": settings_of_run(run),
            "decode": run.decode,
            "validation": run.validation,
            "data": self.source.identity(),
            "split": {"test_fraction": self.experiment.data.test_fraction, "seed": run.seed},
            "lengths": list(self.experiment.lengths),
            "version": __version__,
        }

    def _row(self, run: Run, found: dict[str, Any], measure: Measure) -> Row:
        identity = self._identity(run)
        identity["data"] = self.source.description()
        identity["split"] |= {"train": len(measure.split.train), "test": len(measure.split.test)}
        return {
            "run": self.key(run),
            **identity,
            "command": self.command,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "threads": self.threads,
            **found,
        }
