"""Columns of text as ids and as ratings, worked on by their distinct texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import EncodedColumn
from ordbm.data.ids import IdMap
from ordbm.data.numeric_columns import LARGEST_NUMBER, NUMBER, number_of
from ordbm.data.scale import RatingScale, Scale

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,99}", re.ASCII)  # one text per integer: no 007, +7, -0
_WHOLE = re.compile(rf"(?:{INTEGER.pattern})\.0", re.ASCII)  # as floats that are whole are written
_COMMA = re.compile(r"[+-]?[0-9]+,([0-9]+)", re.ASCII)


def has_decimal_comma(texts: Iterable[str]) -> bool:
    """Whether these ratings are written with a comma: `4,5`, and none with a point.

    Commas before three digits each may stand between thousands, and say nothing.
    """
    found = False
    for text in texts:
        if "." in text:
            return False
        digits = _COMMA.fullmatch(text.strip(" "))
        found = found or bool(digits and len(digits.group(1)) != 3)
    return found


def with_point(text: str) -> str:
    """A number that is written with a comma, with a point; any other text as it is."""
    return text.replace(",", ".") if _COMMA.fullmatch(text.strip(" ")) else text


def text_ids(texts: EncodedColumn) -> EncodedColumn:
    """The ids of a column: integers if every text is one as Python writes it, otherwise text.

    So `007` and `+1` keep their column text, and nothing is lost either way. Where every text ends
    in `.0`, they are integers too: a column of integers with a gap is often written so. Integers
    beyond 64 bits become Python's.
    """
    distinct = texts.distinct
    if len(distinct) and all(map(_WHOLE.fullmatch, distinct)):
        distinct = [text.removesuffix(".0") for text in distinct]
    elif not all(map(INTEGER.fullmatch, distinct)):
        return EncodedColumn(list(distinct), texts.codes)
    try:
        integers: Any = np.fromiter(map(int, distinct), np.int64, len(distinct))
    except OverflowError:
        integers = [int(text) for text in distinct]
    return EncodedColumn(integers, texts.codes)


def matched_ids(ids: Iterable[Any], known: IdMap) -> list[Any]:
    """Each id as `known` has it: `"12"` becomes 12 where only 12 is known, and 12 becomes `"12"`.

    Ids read from a file or a command line have lost their kind. An id that is known as it is stays
    as it is, and so does one that is known in no form.
    """
    values = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    return [value if value in known else _other_form(value, known) for value in values]


def _other_form(value: Any, known: IdMap) -> Any:
    if not isinstance(value, str):
        return str(value) if isinstance(value, int) and str(value) in known else value
    if INTEGER.fullmatch(value):
        return int(value) if int(value) in known else value
    # Only as Python writes it: 7.5 may be meant by "7.5", but 7 is not meant by "007".
    if NUMBER.fullmatch(value) and repr(float(value)) == value and float(value) in known:
        return float(value)
    return value


def _numbers(distinct: Sequence[str]) -> NDArray[np.float64]:
    """The number of each text, NaN for those that are none."""
    return np.fromiter(map(number_of, distinct), np.float64, len(distinct))


def bad_ratings(distinct: Sequence[str], scale: Scale | None) -> dict[str, str]:
    """What is wrong with each of the texts that cannot be a rating on this scale."""
    if isinstance(scale, RatingScale) and scale.labels is not None:
        levels = set(scale.labels)
        return {text: "is not on the scale" for text in distinct if text not in levels}
    numbers = _numbers(distinct)
    bad = {
        distinct[place]: "is empty" if not distinct[place] else "is not a number"
        for place in np.flatnonzero(np.isnan(numbers)).tolist()
    }
    large = np.flatnonzero(np.abs(numbers) > LARGEST_NUMBER).tolist()
    bad |= {distinct[place]: f"is beyond {LARGEST_NUMBER:g}" for place in large}
    if isinstance(scale, RatingScale):
        good = np.flatnonzero(np.abs(numbers) <= LARGEST_NUMBER)
        wrong = f"is not on the scale ({scale})"
        bad |= {distinct[place]: wrong for place in good[_are_off(scale, numbers[good])].tolist()}
    return bad


def text_ratings(texts: EncodedColumn, scale: Scale | None) -> NDArray[Any]:
    """The ratings of a column that has no bad ones: numbers, or labels of the scale."""
    if isinstance(scale, RatingScale) and scale.labels is not None:
        return texts.values
    return _numbers(texts.distinct)[texts.codes]


def _are_off(scale: RatingScale, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which numbers are no level; `scale.codes` would word an error instead."""
    if not len(numbers):
        return np.zeros(0, bool)
    return scale._found(numbers, {}) < 0
