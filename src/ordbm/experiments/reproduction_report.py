"""The report: our figures beside the paper's, and its orderings one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from ordbm.errors import ModelFileError, SettingsError
from ordbm.experiments.claims import ClaimCheck, Verdict, check_claims
from ordbm.experiments.definition import EXPERIMENT_NAMES, Experiment, experiment_of
from ordbm.experiments.effect_sizes import EffectSize, advantages_by_epoch, effect_sizes
from ordbm.experiments.figures import (
    Groups,
    draw_curves,
    draw_lists,
    draw_sizes,
    draw_table,
)
from ordbm.experiments.report_tables import (
    LEARNER_NAMES,
    claim_table,
    effect_table,
    list_table,
    measurement_table,
    progress_table,
    table_beside_the_papers,
)
from ordbm.experiments.result_rows import Row, rows_of
from ordbm.report.page import (
    FactList,
    PagePart,
    Paragraph,
    Picture,
    SectionHeading,
    Table,
    html_page,
    markdown_page,
    picture_files,
    write_page,
)

_TITLE = "The paper's experiments, reproduced"
_ABOUT = (
    "Tran, Phung and Venkatesh, Ordinal Boltzmann Machines for Collaborative Filtering, section 4. "
    "No setting was chosen on test ratings. Figures are means over seeds ± standard error; a seed "
    "is that of the split into training and test ratings, of initial parameters and of sampling."
)
_QUICK = (
    "Quick mode: samples of users and fewer seeds. It shows that all of it runs, and how; its "
    "figures do not compare with the paper's."
)
_OWN_DATA = "These are not the ratings of the paper: its figures do not compare."


def write_reproduction_report(results: Path) -> list[Path]:
    """Write `report.html` and `report.md` from the rows in a folder of results; their paths."""
    found = {}
    for name in EXPERIMENT_NAMES:
        rows = rows_of(results / f"{name}.jsonl")
        if rows:
            found[name] = latest_rows(rows)
    if not found:
        raise SettingsError(
            f"{results} has no results yet: run ordbm reproduce figure3 --data PATH first, or name "
            "their folder with --results"
        )
    checks: list[ClaimCheck] = []
    effects: list[PagePart] = []
    sections: list[PagePart] = []
    for name, rows in found.items():
        experiment = _as_run(experiment_of(name), rows)
        _check_known(experiment, rows, results)
        own = check_claims(experiment, rows)
        checks += own
        effects += _effects(experiment, own)
        sections += _section(experiment, rows, own)
    parts = [Paragraph(_ABOUT), *_summary(found, checks), *effects, *sections]
    for name, text in picture_files(parts).items():
        write_page(results / name, text, overwrite=True)  # the folder is the results' own
    pages = {
        results / "report.html": html_page(_TITLE, parts),
        results / "report.md": markdown_page(_TITLE, parts),
    }
    for path, text in pages.items():
        write_page(path, text, overwrite=True)
    return list(pages)


def latest_rows(rows: Sequence[Row]) -> list[Row]:
    """The last row of each run; quick ones only where there are no others."""
    full = [row for row in rows if not row["quick"]]
    last = {
        (row["machine"], row["learner"], row["hidden"], row["seed"]): row for row in full or rows
    }
    return list(last.values())


def _as_run(experiment: Experiment, rows: Sequence[Row]) -> Experiment:
    return experiment.quickly() if rows[0]["quick"] else experiment


def _check_known(experiment: Experiment, rows: Sequence[Row], results: Path) -> None:
    for row in rows:
        if row["machine"] not in experiment.machines or row["learner"] not in experiment.learners:
            raise ModelFileError(
                f"{results / experiment.name}.jsonl has a run that is no part of this experiment: "
                f"{row['machine']}, {row['learner']}; take its lines out, or choose another folder"
            )


def _summary(found: dict[str, list[Row]], checks: Sequence[ClaimCheck]) -> Iterator[PagePart]:
    """What holds of what the paper claims."""
    if any(rows[0]["quick"] for rows in found.values()):
        yield Paragraph(_QUICK)
    yield SectionHeading("Orderings that the paper claims")
    yield Paragraph(
        "Each is checked with each learner, at each number of hidden units: it holds if the whole "
        "95 % interval of the difference, seed by seed on the same split, is on its side of zero, "
        "and is undecided if the interval has zero in it. From one seed there is no interval. What "
        "figure 5 claims counts once for each of its two readings."
    )
    counted: dict[str, dict[str, int]] = {}
    for one in checks:
        if one.claim.of_the_paper:
            of_learner = counted.setdefault(one.learner, {})
            of_learner[one.verdict] = of_learner.get(one.verdict, 0) + 1
    verdicts = [name for name in get_args(Verdict) if any(name in one for one in counted.values())]
    yield Table(
        ["", *verdicts],
        [
            (LEARNER_NAMES[learner], [str(one.get(verdict, 0)) for verdict in verdicts])
            for learner, one in counted.items()
        ],
    )


def _section(
    experiment: Experiment, rows: Sequence[Row], checks: Sequence[ClaimCheck]
) -> Iterator[PagePart]:
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: _order(experiment, row)):
        groups.setdefault((row["machine"], row["learner"], row["hidden"]), []).append(row)
    yield SectionHeading(experiment.title)
    yield Paragraph(experiment.about)
    if rows[0]["quick"]:
        yield Paragraph(_QUICK)
    elif not all(row["data"]["is_the_papers"] for row in rows):
        yield Paragraph(_OWN_DATA)
    yield from _pictures(experiment, groups)
    yield from _tables(experiment, groups)
    if not experiment.is_quick:  # what it says is about the whole
        yield from map(Paragraph, experiment.discussion)
    yield from _progress(experiment, rows)
    yield claim_table(checks)
    yield measurement_table(groups)
    yield _facts(experiment, rows)


def _order(experiment: Experiment, row: Row) -> tuple[Any, ...]:
    machines, learners = list(experiment.machines), list(experiment.learners)
    place = machines.index(row["machine"]), learners.index(row["learner"])
    return *place, row["hidden"], row["seed"]


def _pictures(experiment: Experiment, groups: Groups) -> Iterator[PagePart]:
    if experiment.shown_as == "table":
        yield Picture(draw_table(groups, experiment), experiment.name, _caption(experiment))
        return
    for learner in dict.fromkeys(its for _, its, _ in groups if its in LEARNER_NAMES):
        if experiment.shown_as == "curves":
            ax = draw_curves(groups, learner)
        elif experiment.shown_as == "sizes":
            ax = draw_sizes(groups, learner)
        else:
            ax = draw_lists(groups, experiment, learner)
        caption = f"{_caption(experiment)}, {LEARNER_NAMES[learner]}"
        yield Picture(ax, f"{experiment.name}-{learner}", caption)


def _caption(experiment: Experiment) -> str:
    return experiment.title + (" (quick mode)" if experiment.is_quick else "")


def _effects(experiment: Experiment, checks: Sequence[ClaimCheck]) -> Iterator[PagePart]:
    """How large the effects are beside the paper's."""
    effects = effect_sizes(experiment, checks)
    if effects:
        yield SectionHeading("Effect sizes, in the paper and here")
        yield Paragraph(_sizes_in_words(effects))
        yield effect_table(experiment, effects)


def _progress(experiment: Experiment, rows: Sequence[Row]) -> Iterator[PagePart]:
    """What becomes of the effects while machines learn."""
    progress = list(advantages_by_epoch(experiment, rows))
    if progress:
        yield Paragraph(
            "Advantages while the machines learn, in MAE of the median on validation ratings; a "
            "dash where one of the two had stopped."
        )
        yield progress_table(experiment, progress)


def _sizes_in_words(effects: Sequence[EffectSize]) -> str:
    """That an ordering holds says nothing of its size: how many effects are half as large."""
    counted = []
    for learner, name in LEARNER_NAMES.items():
        pairs = [
            (here, reported)
            for one in effects
            for here, reported in zip(one.measured[learner], one.reported, strict=True)
            if here is not None
        ]
        smaller = sum(here < reported / 2 for here, reported in pairs)
        counted.append(f"{smaller} of {len(pairs)} are less than half as large with {name}")
    return (
        "That an ordering holds does not say that the effect is as large. Of the advantages in MAE "
        f"that the paper's table 1 reports, {' and '.join(counted)}."
    )


def _tables(experiment: Experiment, groups: Groups) -> Iterator[PagePart]:
    if experiment.shown_as == "lists":
        yield list_table(experiment, groups)
    if experiment.shown_as == "table":
        yield table_beside_the_papers(experiment, groups)


def _facts(experiment: Experiment, rows: Sequence[Row]) -> FactList:
    """How it was done, so that it can be done again."""

    def several(*values: Any) -> str:
        return "; ".join(dict.fromkeys(str(value) for value in values))

    data, split = [row["data"] for row in rows], [row["split"] for row in rows]
    return FactList(
        {
            "data": several(
                *(
                    f"{experiment.data.title}: {one['ratings']:,} ratings by {one['users']:,} "
                    f"users of {one['items']:,} items"
                    for one in data
                )
            ),
            "file": several(*(f"{one['file']}, SHA-256 {one['sha256']}" for one in data)),
            "split": f"{100 * split[0]['test_fraction']:.0f} % of each user's ratings to test on, "
            f"seeds {several(*sorted({one['seed'] for one in split}))}",
            **{
                f"learner {name}": f"{one['about']}{_length(one)}"
                for name, one in experiment.learners.items()
            },
            "version": several(*(f"ordbm {row['version']}" for row in rows)),
            "command": several(*(row["command"] for row in rows)),
        }
    )


def _length(learner: Any) -> str:
    if "epochs" not in learner:
        return ""
    if not learner.get("validation"):
        return f"; {learner['epochs']} epochs"
    share = f"{100 * learner['validation']:.0f} % of the training ratings"
    return f"; up to {learner['epochs']} epochs, the one kept with the best log-loss on {share}"
