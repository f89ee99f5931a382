"""The outcomes of `mutants` as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mutant_choice import ENOUGH, FOLDERS, SEED, reasons
from mutant_operators import Mutant

PAGE = Path("docs/results/mutants.md")
HEAD = (
    "# Do the tests notice?\n\n"
    "Written by `make mutants`. It puts small faults into the package, one at a time: a comparison "
    "turned round or off by one, `+` for `-`, `*` for `/`, `and` for `or`, a condition negated, a "
    "sign dropped, `min` for `max`, arguments or axes swapped, another constant or default, a "
    "statement left out, a return at once.\nAnnotations, texts, messages and what is about "
    "speed by its name are left alone. Seed {seed} draws so many from each folder, beside {hand} "
    "written by hand.\nEach is shown to the tests that run its line, until one fails. A "
    "fault that tests worth {enough:.0f} seconds do not notice has survived. A crash counts as "
    "noticed,\nand so does a test that computes for more than a minute and twenty times as long as "
    "ever; a test that fails is trusted only if it passes without the fault.\n\n"
    "**{caught:,} of {tried:,} faults are noticed, {share:.1%}.** {left}\n\n"
)


def folder_of(file: str) -> str:
    """The folder of the package, if faults are drawn from it."""
    part = Path(file).relative_to("src/ordbm").parts[0]
    return part if part in FOLDERS else "others"


def write_page(root: Path, mutants: Sequence[Mutant], known: Mapping[str, dict[str, Any]]) -> None:
    """Write the page from the outcomes of these faults; untried ones are not on it."""
    tried = [(mutant, known[mutant.key]) for mutant in mutants if mutant.key in known]
    caught = [row for _, row in tried if row["by"]]
    missed = [mutant for mutant, row in tried if not row["by"]]
    hand = len(mutants) - sum(min(count, _drawn(mutants, name)) for name, count in FOLDERS.items())
    why = reasons()
    told = [why.get((each.file, each.before, each.after)) for each in missed]
    left = "Those that are not, and why:" if missed else ""
    if None in told:
        left = f"{told.count(None)} of the others have no explanation yet."
    share = len(caught) / max(len(tried), 1)
    enough = min((row["enough"] for _, row in tried if not row["by"]), default=ENOUGH)
    head = HEAD.format(
        seed=SEED, hand=hand, enough=enough, caught=len(caught), tried=len(tried), share=share,
        left=left,
    )  # fmt: skip
    parts = [
        head,
        *_survivors(missed, told),
        "\n## By folder\n\n",
        *_by_folder(tried),
        "\n## Every fault\n\n",
        *_table(tried),
    ]
    (root / PAGE).write_text("".join(parts))
    print(f"{len(caught)} of {len(tried)} noticed, {share:.1%}; {PAGE}")


def _drawn(mutants: Iterable[Mutant], folder: str) -> int:
    return sum(folder_of(mutant.file) == folder for mutant in mutants)


def _code(text: str, most: int = 110) -> str:
    """A text as code in a cell of a table."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "`" + cut.replace("|", "\\|").replace("`", "'") + "`"


def _survivors(missed: Sequence[Mutant], told: Sequence[str | None]) -> Iterable[str]:
    if not missed:
        return
    yield "| where | before → after | why no test can |\n| --- | --- | --- |\n"
    for each, why in zip(missed, told, strict=True):
        where = f"{Path(each.file).relative_to('src/ordbm')}, `{each.within}`"
        yield f"| {where} | {_code(each.before)} → {_code(each.after)} | {why or '?'} |\n"


def _by_folder(tried: Sequence[tuple[Mutant, dict[str, Any]]]) -> Iterable[str]:
    yield "| folder | faults | noticed |\n| --- | ---: | ---: |\n"
    for folder in (*FOLDERS, "others"):
        rows = [row for mutant, row in tried if folder_of(mutant.file) == folder]
        if rows:
            yield f"| {folder} | {len(rows)} | {sum(bool(row['by']) for row in rows)} |\n"


def _differing(before: str, after: str) -> tuple[str, str]:
    """What differs between two lines, with a little around it."""
    first = next(
        (place for place, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0
    )
    begin = max(0, first - 30)
    lead = "…" if begin else ""
    return lead + before[begin : begin + 60], lead + after[begin : begin + 60]


def _table(tried: Sequence[tuple[Mutant, dict[str, Any]]]) -> Iterable[str]:
    yield "| file | line | before → after | noticed by |\n| --- | ---: | --- | --- |\n"
    ordered = sorted(tried, key=lambda pair: (pair[0].file, pair[0].line, pair[0].key))
    for mutant, row in ordered:
        before, after = map(_code, _differing(mutant.before, mutant.after))
        by = (row["by"] or "no test").removeprefix("tests/")
        if len(by) > 100:
            by = by[:99] + "…"
        shown = f"`{by}`".replace("|", "\\|") if row["by"] else "**no test**"
        file = Path(mutant.file).relative_to("src/ordbm")
        yield f"| {file} | {mutant.line} | {before} → {after} | {shown} |\n"
