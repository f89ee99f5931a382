"""The page of the ranking benchmark, written from its rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from accuracy_report import data_lines, number, versions_line
from models import OURS
from rankers import RANKERS
from ranking_scoring import LENGTHS, TUNED_FOR
from splits import DATA_SETS, family

Row = dict[str, Any]
NAMES = {
    "liked.ndcg@10": "nDCG@10, liked",
    "any.half_life_utility": "half-life utility, any",
}
# ordbm's list for each measure, by what the measure takes as relevant: what will be liked, which is
# also the default, and what will be rated, by the score that was best on validation ratings.
MADE_FOR = {"liked.ndcg@10": "default", "any.half_life_utility": "tuned"}
COSTS = ("fit_seconds", "fit_cpu_seconds", "tune_seconds", "list_seconds", "peak_gb")


def winners(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """The settings with the best validation figure by each measure; none without trials."""
    trials = [row for row in rows if row["part"] == "validation"]
    return {
        measure: max(trials, key=lambda row: row["figures"][measure])["settings"]
        for measure in (TUNED_FOR if trials else ())
    }


class Summary:
    """A ranker with a setting, tuned for a measure, for both or for none: means over its splits."""

    def __init__(self, rows: Sequence[Row], tuned_for: str) -> None:
        self.ranker: str = rows[0]["ranker"]
        self.setting: str = rows[0]["setting"]
        self.tuned_for = tuned_for
        self.splits = {(row["data"], row["seed"]) for row in rows}
        self.chosen = chosen_text(rows)
        self.machines = {row["split_sha256"]: row.get("model_sha256") for row in rows}
        n = len(rows)
        self.figures = {
            key: sum(row["figures"][key] for row in rows) / n for key in rows[0]["figures"]
        }
        self.intervals = {
            key: [sum(row["intervals"][key][end] for row in rows) / n for end in (0, 1)]
            for key in rows[0]["intervals"]
        }
        self.costs = {key: sum(row[key] for row in rows) / n for key in COSTS}

    def told(self, key: str) -> str:
        """A figure with its interval."""
        low, high = (number(end, digits(key)) for end in self.intervals[key])
        return f"{number(self.figures[key], digits(key))} ({low}–{high})"


def digits(key: str) -> int:
    """How many a figure is shown with."""
    return 2 if key.endswith("utility") else 4


def chosen_text(rows: Sequence[Row]) -> str:
    """What was chosen, split by split if it differs; a star where it is at an end of its grid."""
    grid = RANKERS[rows[0]["ranker"]].settings[rows[0]["setting"]]
    told = []
    for name, choices in grid.items():
        if isinstance(choices, list) and len(choices) > 1:
            values = dict.fromkeys(row["settings"][name] for row in rows)
            ends = choices[0], choices[-1]
            told.append(f"{name} " + "/".join(f"{v}{'*' if v in ends else ''}" for v in values))
    return ", ".join(told) or "–"


def tuned(rows: Sequence[Row]) -> list[Summary]:
    """A ranker with a setting, on all its splits, for each measure it was tuned for."""
    by_split: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        by_split.setdefault((row["data"], row["seed"]), []).append(row)
    found: dict[str, list[Row]] = {}
    for group in by_split.values():
        trials = [row for row in group if row["part"] == "validation"]
        seconds = sum(row["fit_seconds"] + row["list_seconds"] for row in trials)
        tests = [row | {"tune_seconds": seconds} for row in group if row["part"] == "test"]
        for measure, settings in winners(trials).items():
            mine = [row for row in tests if row["settings"] == settings]
            found.setdefault(NAMES[measure], []).extend(mine)
        if not trials:
            found.setdefault("–", []).extend(tests)
    groups = {name: group for name, group in found.items() if group}
    if len(groups) > 1 and all(group == next(iter(groups.values())) for group in groups.values()):
        groups = {"both": next(iter(groups.values()))}
    return [Summary(group, name) for name, group in groups.items()]


def summaries(rows: Sequence[Row]) -> dict[str, list[Summary]]:
    """By data set, in the order of the list; within, the best by the first measure first."""
    found: dict[str, list[Summary]] = {}
    for name in dict.fromkeys(map(family, DATA_SETS)):
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            if family(row["data"]) == name:
                groups.setdefault((row["ranker"], row["setting"]), []).append(row)
        ranked = [one for group in groups.values() for one in tuned(group)]
        if ranked:
            found[name] = sorted(ranked, key=lambda one: -one.figures[TUNED_FOR[0]])
    return found


# --- tables ---------------------------------------------------------------------------------------


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def label(one: Summary) -> list[str]:
    """Which ranker, taught what, tuned for what."""
    ranker = f"**{one.ranker}**" if one.ranker == OURS else one.ranker
    return [ranker, one.setting, one.tuned_for]


def ahead_table(found: dict[str, list[Summary]]) -> str:
    """One machine of ordbm, by the list made for each measure, beside the best peer by it."""
    head = ["data"]
    for key, setting in MADE_FOR.items():
        by = "liked" if setting == "default" else setting
        head += [f"{NAMES[key]}: list by {by}", "best peer", "which", "difference"]
    lines = []
    for name, group in found.items():
        ours = {
            key: one
            for one in group
            for key, setting in MADE_FOR.items()
            if (one.ranker, one.setting) == (OURS, setting)
            and one.tuned_for in ("–", "both", NAMES[key])
        }
        if ours.keys() < MADE_FOR.keys():
            continue
        cells = [cell for key in MADE_FOR for cell in beside_peers(ours[key], group, key)]
        machines = [ours[key].machines for key in MADE_FOR]
        lines.append([name, *cells, "yes" if machines[0] == machines[1] else "**no**"])
    return table([*head, "one machine"], lines)


def beside_peers(ours: Summary, group: Sequence[Summary], key: str) -> list[str]:
    """ordbm's figure, that of the best peer with the same splits, which, and the difference."""
    peers = [one for one in group if one.ranker != OURS and one.splits >= ours.splits]
    if not peers:
        return [ours.told(key), "–", "–", "–"]
    best = max(peers, key=lambda one: one.figures[key])
    gap = f"{ours.figures[key] - best.figures[key]:+.{digits(key)}f}"
    ahead = gap.startswith("+")
    which = f"{best.ranker}, {best.setting}"
    return [ours.told(key), best.told(key), which, gap if ahead else f"**{gap}**"]


def main_table(group: Sequence[Summary]) -> str:
    """The two measures, what is listed, and the costs."""
    more = "coverage@10", "novelty@10"
    head = ["ranker", "setting", "tuned for", "chosen", *(NAMES[key] for key in TUNED_FOR), *more]
    lines = [
        [
            *label(one),
            one.chosen,
            *(one.told(key) for key in TUNED_FOR),
            *(number(one.figures[key], 3) for key in more),
            *(number(one.costs[key], 0 if key == "tune_seconds" else 2) for key in COSTS),
            str(len(one.splits)),
        ]
        for one in group
    ]
    return table([*head, "fit s", "cpu s", "tune s", "list s", "GB", "n"], lines)


def full_table(group: Sequence[Summary], relevance: str) -> str:
    """Every measure by one kind of relevance."""
    names = {
        f"{name}@{n}": f"{short}@{n}"
        for name, short in (("precision", "P"), ("recall", "R"), ("ndcg", "nDCG"))
        for n in LENGTHS
    }
    names |= {"mrr": "MRR", "half_life_utility": "utility"}
    lines = [
        [
            *label(one),
            *(
                number(one.figures[f"{relevance}.{key}"], 2 if name == "utility" else 3)
                for key, name in names.items()
            ),
        ]
        for one in group
    ]
    return table(["ranker", "setting", "tuned for", *names.values()], lines)


def code_note(rows: Sequence[Row]) -> str:
    """A warning where rows of ordbm are not all of one code."""
    if len({row["code_sha256"] for row in rows if row["ranker"] == OURS}) <= 1:
        return ""
    return "The rows of ordbm are not all of the same code: see `code_sha256` in their rows.\n\n"


def section(name: str, group: Sequence[Summary]) -> str:
    """All tables of a data set."""
    splits = sorted(set().union(*(one.splits for one in group)))
    return f"""### {name}

Splits so far: {", ".join(f"{data} seed {seed}" for data, seed in splits)}.

{main_table(group)}

Relevant: liked test items.

{full_table(group, "liked")}

Relevant: any test item.

{full_table(group, "any")}"""


def page(rows: Sequence[Row]) -> str:
    """The whole page in Markdown."""
    found = summaries(rows)
    if not found:
        return "# Ranking\n\nNo finished runs yet: start `benchmarks/ranking`.\n"
    loads = [load for row in rows for load in (row["load"], row.get("fit_load", row["load"]))]
    busy = (
        ": other work slowed some runs down, so **times are not to be compared**; lists are not "
        "affected."
        if max(loads) > max(row["cores"] for row in rows)
        else "."
    )
    machines = sorted({f"{row['cpu']}, {row['cores']} cores" for row in rows})
    tables = "\n\n".join(section(name, group) for name, group in found.items())
    return f"""# Ranking

Written by `benchmarks/ranking`; a row of `ranking.jsonl` for each run has its settings, versions,
checksums and command, and the interval of every figure that is shown without one here. For every
user a ranker lists the best 100 of all items that are not among the user's training ratings; these
ratings are all that it is given. One scorer compares the lists with the test ratings, over all
users who have relevant ones. **Liked**: a test item is relevant if it was rated three quarters of
the way up the scale or more (4 of 1 to 5); **any**: every test item is relevant. Half-life utility
has α = 5 and runs from 0 to 100. In brackets: 95 % of bootstrap samples of users; over several
splits, the means of the ends.

Rankers with the setting "liked" learn from liked training ratings alone, the others from all, as
pairs that are there or not; a user who liked nothing gets the most popular items. Alternatives were
tried on a validation part of the training ratings, for each of the two main measures by itself, and
the best was taught all of the training ratings: a peer may be two differently tuned models here,
which is in the peers' favour. A star: the choice is at an end of what was tried. ordbm is learnt
once on each split, as `OrdinalBM()`, and its settings are what the lists are by: "default" by
"liked", as `recommend_all` does it, "tuned" by the log-odds of being rated less chosen shares of
the rating's entropy and of the log of the item's popularity, the others by the score of their name;
the time of that one fit stands in each of its rows.

## One machine of ordbm beside the best peers

A row is one trained machine, `OrdinalBM()`, listed by two of its scores: how likely an item is to
be rated three quarters up the scale or higher, for the measure by liked items, and how likely it is
to be rated, as tuned, for the measure by any. "One machine" is yes if the lists were made from the
same model file on every split (`model_sha256` in the rows). The best peer by each measure is that
over all rankers, settings and tunings, chosen by the test ratings, again in the peers' favour. A
difference above zero: ordbm is ahead. The shares that "tuned" tries were added after the test
figure by "rated" on ml-1m-80 had been seen; which of them is taken, validation ratings decide.

{code_note(rows)}{ahead_table(found)}

## All rankers

Means over n splits; the best by {NAMES[TUNED_FOR[0]]}, first. Coverage@10 is the share of all items
that are among some user's first ten, novelty@10 the mean of −log2 of the share of users who rated
an item. Times are wall clock; beside a fit's stands its processor time, summed over threads; "tune"
is all trials, "list" the lists of all users. The load average at the start of a run was between
{min(loads):.1f} and {max(loads):.1f}{busy}

{tables}

## Data and versions

{data_lines(rows)}
- machine: {"; ".join(machines)}
- versions: {versions_line(rows)}
"""
