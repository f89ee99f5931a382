"""Records of text checked field by field, and what is wrong with them said by line."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.columns import ColumnChoice, EncodedColumn, at_rows, is_context
from ordbm.data.not_rated import NotRated
from ordbm.data.scale import Scale
from ordbm.data.times import is_time, text_seconds
from ordbm.datasets.delimited import NOT_UTF8, Record, quoted_line
from ordbm.datasets.left_out import BadLine, LeftOut, bad_lines_of
from ordbm.datasets.text_columns import bad_ratings, text_ids, text_ratings
from ordbm.errors import SHOWN_ROWS, RatingsError
from ordbm.runtime.interruption import safe_point

_BATCH = 10_000  # records checked together
_COMMA_IN_RATING = re.compile(r"the rating '[^']*,[^']*' is not a number")


class Rules(NamedTuple):
    """What is asked of a file: which columns, ratings on which scale if that is given, and what may
    be left out.
    """

    choices: Mapping[str, ColumnChoice]
    left_out: LeftOut
    scale: Scale | None = None
    missing: NotRated = NotRated()
    time_if_found: bool = False

    def with_time(self, place: int | None) -> Rules:
        """The same with times at this place of the columns, unless it is None."""
        if place is None or not self.time_if_found:
            return self
        return self._replace(choices={**self.choices, "time": place})

    @property
    def rating(self) -> int | None:
        """The place of ratings among the roles."""
        return list(self.choices).index("rating") if "rating" in self.choices else None


def good_columns(texts: list[EncodedColumn] | None, rules: Rules) -> list[EncodedColumn] | None:
    """The columns without the rows that mean "not rated", which are counted.

    None unless there are rows, every one with ids and a rating: then lines have to be looked at.
    """
    if texts is None:
        return None
    rated = _rated_only(texts, rules)
    if not _are_good(rated, rules):
        return None
    rules.left_out.n_missing += len(texts[0]) - len(rated[0])
    return rated


def _rated_only(texts: list[EncodedColumn], rules: Rules) -> list[EncodedColumn]:
    """The columns without the rows whose rating means "not rated"."""
    if not rules.missing:
        return texts
    assert rules.rating is not None  # or nothing could be missing
    ratings = texts[rules.rating]
    rated = np.array([not rules.missing.has_text(text) for text in ratings.distinct], bool)
    if rated.all():
        return texts
    kept = [at_rows(column, np.flatnonzero(rated[ratings.codes])) for column in texts]
    new_code = np.cumsum(rated, dtype=np.int32) - np.int32(1)
    distinct = [text for text, is_rated in zip(ratings.distinct, rated, strict=True) if is_rated]
    kept[rules.rating] = EncodedColumn(distinct, new_code[kept[rules.rating].codes])
    return kept


def _are_good(texts: list[EncodedColumn], rules: Rules) -> bool:
    by_role = dict(zip(rules.choices, texts, strict=True))
    if not len(by_role["user"].codes) or "" in by_role["user"].distinct:
        return False
    if "" in by_role["item"].distinct:
        return False
    if "time" in by_role and not np.isfinite(text_seconds(by_role["time"].distinct)).all():
        return False
    if "rating" not in by_role:
        return True
    rated = by_role["rating"].distinct
    batches = (rated[first : first + _BATCH] for first in range(0, len(rated), _BATCH))
    return not any(bad_ratings(batch, rules.scale) for batch in batches)


def ids_and_ratings(texts: list[EncodedColumn], rules: Rules, label: str) -> list[Any]:
    """Columns of ids, encoded, and perhaps of ratings and times, in place of their texts.

    `texts` is emptied: of many distinct ids both forms would take much memory.
    """
    if not len(texts[0].codes):
        if rules.left_out.n_missing:
            raise RatingsError(
                f"{label}: all {rules.left_out.n_missing:,} ratings mean 'not rated', by missing="
            )
        if rules.left_out.bad:
            raise unreadable(label, rules.left_out.bad, len(rules.left_out.bad), 0, rules)
        raise RatingsError(f"{label} has no data: need lines of {', '.join(rules.choices)}")
    return [_values(role, texts.pop(0), rules) for role in rules.choices]


def _values(role: str, texts: EncodedColumn, rules: Rules) -> Any:
    if role == "rating":
        return text_ratings(texts, rules.scale)
    # Times are made of texts once and for all by `Ratings`: seconds might be taken for finer ones.
    return texts if role == "time" or is_context(role) else text_ids(texts)


def fields_at(
    cut: Iterator[Record], width: int, places: Sequence[int], skip: int
) -> Iterator[Record]:
    """The records after the header with only the fields at `places`."""
    for record in cut:
        if skip:
            skip -= 1
        elif record.problem:
            yield record
        elif len(record.fields) != width:
            n_fields = len(record.fields)
            problem = f"{n_fields} field{'s' * (n_fields != 1)} instead of {width}"
            yield Record(record.line, [], problem)
        else:
            yield Record(record.line, [record.fields[place] for place in places])


def checked_columns(
    label: str, cut: Iterator[Record], rules: Rules, content: bytes
) -> list[EncodedColumn]:
    """The columns of records of the right shape, or an error that says which are wrong and how.

    Where bad lines are to be skipped, they are handed to `rules.left_out` instead.
    """
    tables: list[dict[str, int]] = [{} for _ in rules.choices]
    codes = array("i")
    problems: list[tuple[int, str]] = []
    total = 0
    kept = None if rules.left_out.skips else SHOWN_ROWS
    place = rules.rating if rules.missing else None
    for (line, fields, wrong), bad in _with_bad_ratings(cut, rules):
        if place is not None and not wrong and rules.missing.has_text(fields[place]):
            rules.left_out.n_missing += 1
            continue
        found = [table.get(field) for table, field in zip(tables, fields, strict=False)]
        if wrong or None in found:  # texts that were there before need no check
            problem = wrong or _problem(fields, rules, bad)
            if problem:
                total += 1
                problems += [(line, problem)] if kept is None or total <= kept else []
                continue
            found = [
                table.setdefault(field, len(table))
                for table, field in zip(tables, fields, strict=True)
            ]
        codes.extend(found)  # type: ignore[arg-type]
    by_role = np.array(codes, np.int32).reshape(-1, len(tables))
    if total:
        found_bad = bad_lines_of(label, problems, content)
        if kept is not None:
            raise unreadable(label, found_bad, total, len(by_role), rules)
        rules.left_out.bad += found_bad
    return [EncodedColumn(list(table), by_role[:, role]) for role, table in enumerate(tables)]


def _with_bad_ratings(
    cut: Iterator[Record], rules: Rules
) -> Iterator[tuple[Record, Mapping[str, str]]]:
    """Each record, and what is wrong with the ratings around it: quick to find for many at once."""
    place = rules.rating
    while batch := list(islice(cut, _BATCH)):
        safe_point()
        bad: dict[str, str] = {}
        if place is not None:
            texts = {record.fields[place] for record in batch if not record.problem}
            bad = bad_ratings(list(texts), rules.scale)
        for record in batch:
            yield record, bad


def _problem(fields: Sequence[str], rules: Rules, bad: Mapping[str, str]) -> str:
    """What is wrong with the fields of a record, or nothing; `bad` has the bad ratings."""
    for role, field in zip(rules.choices, fields, strict=True):
        strange = NOT_UTF8.search(field)
        if strange:
            byte = ord(strange.group()) - 0xDC00
            return f"the {role} has byte 0x{byte:02x}, which is not UTF-8"
        if role == "rating":
            if field in bad:
                return f"the rating {quoted_line(field)} {bad[field]}"
        elif role == "time":
            if not is_time(field):
                return f"the time {quoted_line(field)} is neither a number nor an ISO 8601 date"
        elif not field and not is_context(role):
            return f"the {role} is empty"
    return ""


def unreadable(
    label: str, bad: Sequence[BadLine], total: int, n_good: int, rules: Rules
) -> RatingsError:
    """An error that shows the first bad lines."""
    problems = [(one.line, one.reason) for one in bad[:SHOWN_ROWS]]
    said = "; ".join(map(str, bad[:SHOWN_ROWS]))
    if any(_COMMA_IN_RATING.match(problem) for _, problem in problems):
        advice = "if commas stand before decimals, say decimal=','; else correct these lines"
    elif not n_good and rules.scale is None and all("number" in p for _, p in problems):
        advice = (
            "if the ratings are labels, give them from lowest to highest, as in "
            'scale=["poor", "fair", "good"]; if another column has them, say rating='
        )
    elif any("UTF-8" in problem for _, problem in problems):
        advice = "if the file is in another encoding, say which, as in encoding='latin-1'"
    else:
        advice = "correct or remove these lines, or leave them out with bad_lines='skip'"
    return RatingsError(
        f"{label}: {total:,} line{'s' * (total > 1)} cannot be used: {said}"
        f"{'; ...' if total > len(problems) else ''}; {advice}"
    )
