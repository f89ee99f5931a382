"""`ordbm reproduce`: the paper's figures and table on its own data, and a report of them."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import progress
from typer import Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.options import Json, Quiet
from ordbm.cli.output import print_json, stderr, stdout, table
from ordbm.runtime.bars import bar, clock

if TYPE_CHECKING:
    from ordbm.experiments import Run, Session
    from ordbm.training.loop import EpochRecord

RESULTS = Path("results")

EXPERIMENTS = {
    "table1": "Table 1: MAE of nine models with K = 5, 20, 50 on the Netflix subset.",
    "figure3": "Figure 3: MAE by iteration of ordinal machines and SVD on MovieLens 1M.",
    "figure4": "Figure 4: MAE by number of hidden units on MovieLens 1M.",
    "figure5": "Figure 5: ranked lists against popularity on MovieLens 1M.",
}

Results = Annotated[Path, Option(help="Folder of results.", metavar="DIR")]

reproduce = typer.Typer(rich_markup_mode="markdown")
app.add_typer(reproduce, name="reproduce")


@reproduce.callback(invoke_without_command=True)
def reproduce_(context: typer.Context) -> None:
    """Do the paper's experiments again, with its learner and with ours."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _add_command(name: str, about: str) -> None:
    @reproduce.command(
        name,
        help=f"""{about}

        A finished run is a line in NAME.jsonl of the folder of results; runs that are there already
        are not done again, so that the same command goes on where it was stopped.

        Example: `ordbm reproduce {name} --data data --quick`""",
    )
    def command(
        data: Annotated[
            Path | None,
            Option(help="The ratings, or a folder that has them.", metavar="PATH"),
        ] = None,
        results: Results = RESULTS,
        quick: Annotated[
            bool, Option("--quick", help="A sample of users: minutes, not hours.", metavar="")
        ] = False,
        seeds: Annotated[
            int | None, Option(help="How many splits and starts to average over.", metavar="N")
        ] = None,
        threads: Annotated[
            int | None,
            Option(help="Threads to use; results do not depend on it.", metavar="N"),
        ] = None,
        plan: Annotated[
            bool, Option("--plan", help="List the runs and their cost; do nothing.", metavar="")
        ] = False,
        quiet: Quiet = False,
        as_json: Json = False,
    ) -> None:
        from ordbm.experiments import Session, experiment_of

        experiment = experiment_of(name)
        if quick:
            experiment = experiment.quickly()
        if data is None:
            raise ordbm.errors.SettingsError(
                f"say where {experiment.data.file} is: --data PATH ({experiment.data.get})"
            )
        session = Session(
            experiment,
            data,
            results,
            seeds=seeds,
            threads=threads,
            command=shlex.join(["ordbm", *sys.argv[1:]]),
        )
        if plan:
            _show_plan(session, as_json)
        else:
            _work(session, quiet or as_json, as_json)


for _name, _about in EXPERIMENTS.items():
    _add_command(_name, _about)


@reproduce.command()
def report(results: Results = RESULTS, quiet: Quiet = False, as_json: Json = False) -> None:
    """Write the results as one HTML page, and as Markdown with pictures beside it.

    Example: `ordbm reproduce report --results results`
    """
    from ordbm.experiments.reproduction_report import write_reproduction_report

    paths = write_reproduction_report(results)
    if as_json:
        print_json({"pages": paths})
    else:
        stderr(quiet).print(f"{' and '.join(map(str, paths))} written", markup=False)


def _show_plan(session: Session, as_json: bool) -> None:
    from ordbm.experiments.costs import seconds_of

    experiment = session.experiment
    missing = {session.key(run) for run in session.missing()}
    lines: list[dict[str, Any]] = [
        {
            "machine": run.machine,
            "learner": run.learner,
            "hidden": run.hidden,
            "seed": run.seed,
            "done": session.key(run) not in missing,
            "seconds": seconds_of(run, experiment, session.threads),
        }
        for run in session.runs
    ]
    left = sum(line["seconds"] for line in lines if not line["done"])
    if as_json:
        print_json({"experiment": experiment.name, "runs": lines, "seconds_left": left})
        return
    out = stdout()
    out.print(table(list(lines[0]), [list(line.values()) for line in lines]))
    done = len(lines) - len(missing)
    out.print(f"{len(lines)} runs, {done} done; about {clock(left)} to go, if nothing else runs")


def _work(session: Session, quiet: bool, as_json: bool) -> None:
    say = stderr(quiet).print
    missing = session.missing()
    done = len(session.runs) - len(missing)
    if missing:
        say(_about_data(session), markup=False)
    with _shown(session, missing, quiet) as bar:
        for row in session.rows(bar.watching):
            done += 1
            bar.finished(row)
            say(f"{_in_words(row)}; {done} of {len(session.runs)} done, {bar.left}", markup=False)
    if as_json:
        print_json({"results": session.path, "runs": len(session.runs), "new": len(missing)})
    else:
        say(
            f"{session.path}: {len(session.runs)} runs, {len(missing)} of them new; "
            f"ordbm reproduce report --results {shlex.quote(str(session.path.parent))} shows them",
            markup=False,
        )


def _about_data(session: Session) -> str:
    source = session.source
    found = source.description()
    text = (
        f"{source.path}: {found['ratings']:,} ratings by {found['users']:,} users of "
        f"{found['items']:,} items"
    )
    if session.experiment.is_quick:
        text += ", quick mode"
    if not found["is_the_papers"]:
        data = session.experiment.data
        text += f"; these are not the paper's: {data.title}, {data.ratings:,} ratings"
    return text


def _in_words(row: dict[str, Any]) -> str:
    scores = row["scores"]
    found = f"MAE {scores['mae']:.4f}" if "mae" in scores else ""
    listed = [f"{name} {scores[name]:.2f}" for name in scores if name.endswith("utility@50")]
    figures = ", ".join(filter(None, [found, *listed]))
    who = f"{row['machine']}, {row['hidden']}, {row['learner']}, seed {row['seed']}"
    return f"{who}: {figures} ({sum(row['seconds'].values()):.1f} s)"


class _Bar:
    """What is being done, and the time left by estimates that follow the time taken so far."""

    def __init__(self, session: Session, missing: list[Run], bar: progress.Progress) -> None:
        from ordbm.experiments.costs import seconds_of

        self._bar = bar
        self._costs = [seconds_of(run, session.experiment, session.threads) for run in missing]
        self._task = bar.add_task(
            session.experiment.name, total=sum(self._costs), state="", left=""
        )
        self._started = time.perf_counter()
        self._n = 0

    def watching(self, run: Run) -> list[Any]:
        """Callbacks for the fit of a run."""
        self._show(str(run), 0.0)

        def after_epoch(record: EpochRecord) -> None:
            self._show(
                f"{run}, epoch {record.epoch} of {record.epochs}", record.epoch / record.epochs
            )

        return [after_epoch]

    def finished(self, _: dict[str, Any]) -> None:
        self._n += 1
        self._show("", 0.0)

    @property
    def left(self) -> str:
        """The time left in words, from what the runs so far took of what they should have."""
        expected = sum(self._costs[: self._n])
        pace = (time.perf_counter() - self._started) / expected if expected else 1.0
        rest = sum(self._costs[self._n :]) * pace
        return f"{clock(rest)} left" if rest else "none left"

    def _show(self, state: str, share: float) -> None:
        own = share * self._costs[self._n] if self._n < len(self._costs) else 0.0
        completed = sum(self._costs[: self._n]) + own
        self._bar.update(self._task, completed=completed, state=state, left=self.left)


@contextmanager
def _shown(session: Session, missing: list[Run], quiet: bool) -> Iterator[_Bar]:
    with bar(
        stderr(quiet),
        progress.TextColumn("{task.fields[left]}", style="cyan"),
        progress.TextColumn("{task.fields[state]}"),
        quiet=quiet,
    ) as shown:
        yield _Bar(session, missing, shown)
