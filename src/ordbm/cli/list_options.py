"""What a list is ranked by and which items may be in it, from the options of `ordbm recommend`."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ordbm
from ordbm.cli.inputs import id_of, item_of, items_of

if TYPE_CHECKING:
    from ordbm.estimator import OrdinalBM

FROM_RATINGS = ("mean", "energy")  # the scores of a model without presence
SHOWN = 8  # values of a column, when another one was asked for


def criterion_option(
    model: OrdinalBM, by: str | None, at_least: str | None, long_tail: float | None
) -> Any:
    """What to rank by, a name or a score of `ordbm.scores`; unless told, the library's default."""
    from ordbm.recommend.lists import default_criterion

    if at_least is not None and by not in (None, "liked"):
        raise ordbm.errors.SettingsError(
            f"--at-least is for --by liked, not for --by {by}: leave one of them out"
        )
    name = by or default_criterion(has_presence(model))
    if name not in FROM_RATINGS:
        ordbm.scores.score_of(name)  # an unknown name is the first fault to tell
    if not has_presence(model):
        _refuse({"--by": by, "--at-least": at_least, "--long-tail": long_tail})
    if at_least is None and long_tail is None:
        return name
    if name == "energy":
        raise ordbm.errors.SettingsError(
            "--long-tail is not for --by energy, whose zero differs from item to item: use another"
        )
    score = ordbm.scores.score_of(name)
    if at_least is not None:
        score = ordbm.scores.AtLeast(_threshold(at_least, model))
    if long_tail is None:
        return score
    if not (math.isfinite(long_tail) and long_tail >= 0):
        raise ordbm.errors.SettingsError(
            f"--long-tail {long_tail:g}: must be a number, 0 or more; 0.5 is a moderate one"
        )
    return ordbm.scores.LongTail(score, long_tail)


def has_presence(model: OrdinalBM) -> bool:
    """Whether the model has learnt which items get rated."""
    return model._state.presence is not None


def _refuse(told: dict[str, Any]) -> None:
    """An error if an option needs presence, which the model has not."""
    for option, value in told.items():
        if value not in (None, *FROM_RATINGS):
            raise ordbm.errors.SettingsError(
                f"{option} {value}: this model has not learnt which items get rated; fit it with "
                f"--presence, or use --by {' or '.join(FROM_RATINGS)} alone"
            )


def _threshold(text: str, model: OrdinalBM) -> float | str:
    """A rating that is not above the scale."""
    labels = getattr(model.scale, "labels", None)
    if labels:
        if text not in labels:
            raise ordbm.errors.SettingsError(f"--at-least {text}: use one of {', '.join(labels)}")
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    levels = getattr(model.scale, "values", [math.inf])
    if not (math.isfinite(value) and value <= levels[-1]):
        raise ordbm.errors.SettingsError(f"--at-least {text}: give a rating of {model.scale}")
    return value


def candidates_option(text: str, model: OrdinalBM, known_user: bool) -> Any:
    """Candidates as the library takes them."""
    name = text.replace("-", "_")
    if name in ("similar_users", "linked") and not known_user:
        raise ordbm.errors.SettingsError(
            f"--candidates {text} needs a known user, --user ID: use all for somebody new"
        )
    if name in ("all", "similar_users", "linked"):
        return name
    if not Path(text).exists():
        raise ordbm.errors.SettingsError(
            f"--candidates {text}: use all, similar_users, linked or a file with an item id per "
            "line"
        )
    return [id_of(line, items_of(model), "item") for line in _lines(text)]


def excluded_items(texts: list[str], model: OrdinalBM, titles: dict[Any, str] | None) -> list[Any]:
    """The items to leave out: ids, titles, and files with an id per line."""
    from ordbm.datasets import matched_ids

    known = items_of(model)
    found: list[Any] = []
    for text in texts:
        if Path(text).is_file() and matched_ids([text], known)[0] not in known:
            found += matched_ids(_lines(text), known)  # of which some may be no items of the model
            continue
        try:
            found.append(item_of(text, model, titles))
        except ordbm.errors.RatingsError as problem:
            raise ordbm.errors.RatingsError(
                f"--exclude {text}: there is no such file, and {problem}"
            ) from None
    return found


def _lines(path: str) -> list[str]:
    text = Path(path).read_text(encoding="utf-8-sig", errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def items_filtered_out(source: str | None, where: list[str], model: OrdinalBM) -> list[Any]:
    """The items of the model that do not have all the values asked for by COLUMN=VALUE."""
    if (source is None) != (not where):
        raise ordbm.errors.SettingsError(
            "--items and --where go together: --items movies.csv --where genres=Comedy"
        )
    if source is None:
        return []
    from ordbm.data.columns import is_usual_name
    from ordbm.datasets import matched_ids

    header, rows = _item_table(source)
    usual = (name.lower() == "id" or is_usual_name(name, "item") for name in header)
    ids = next((place for place, is_usual in enumerate(usual) if is_usual), 0)
    conditions = [_condition(text, source, header, rows) for text in where]
    known = items_of(model)
    kept = [row[ids].strip() for row in rows if all(_has(row, *one) for one in conditions)]
    left = set(matched_ids(kept, known))
    if not any(item in known for item in left):
        raise ordbm.errors.RatingsError(
            f"{source}: none of the {len(left):,} items with {' and '.join(where)} is in this model"
        )
    return [item for item in known if item not in left]


def _condition(text: str, source: str, header: list[str], rows: list[list[str]]) -> tuple[int, str]:
    """The place of a column and the value it must have, which some item does have."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise ordbm.errors.SettingsError(f"--where {text}: write COLUMN=VALUE, as genres=Comedy")
    if name not in header:
        raise ordbm.errors.SettingsError(
            f"--where {text}: {source} has no column {name!r}; it has {', '.join(header)}"
        )
    place = header.index(name)
    if not any(_has(row, place, value) for row in rows):
        values = sorted({one for row in rows for one in row[place].split("|") if one})
        more = ", …" if len(values) > SHOWN else ""
        raise ordbm.errors.RatingsError(
            f"--where {text}: no item of {source} has it; there is "
            f"{', '.join(values[:SHOWN])}{more}"
        )
    return place, value


def _has(row: list[str], place: int, value: str) -> bool:
    """Whether the value, in any case, is that of a row's column, or one of several."""
    cell = row[place].lower()
    return value.lower() in (cell, *cell.split("|"))


def _item_table(source: str) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and a row of texts for each item."""
    from ordbm.datasets import load_genres, load_titles
    from ordbm.datasets.embedded import EMBEDDED
    from ordbm.datasets.titles import read_item_table

    path = Path(source)
    if source in EMBEDDED and not path.exists():
        titles, genres = load_titles(source), load_genres(source)
        rows = [[str(item), title, "|".join(genres[item])] for item, title in titles.items()]
        return ["item", "title", "genres"], rows
    return read_item_table(path)
