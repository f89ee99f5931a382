"""What commands are given: ratings, models, titles, and ids typed as text."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import ordbm
from ordbm.runtime.atomic_files import NotOursError, Ours, check_replaceable
from ordbm.runtime.interruption import safe_point

if TYPE_CHECKING:
    from ordbm.cli.options import ReadingOptions
    from ordbm.data.ids import IdMap
    from ordbm.data.ratings import Ratings
    from ordbm.estimator import OrdinalBM

_STEPS = (
    "numpy", "scipy.optimize", "scipy.special", "pyarrow", "numba", "ordbm.estimator",
    "ordbm.evaluation",
)  # fmt: skip
_MOST_COMPARED = 100_000  # ids, when one was mistyped
STANDARD = "-"  # standard input, or output

RatingsSource = Annotated[
    str,
    Argument(
        help="A file (csv, tsv, parquet, Feather), a folder of parquet files, a MovieLens or "
        "Netflix archive or folder, an address (s3://…), the name of an embedded set, "
        "movielens-small, or - for standard input.",
        metavar="RATINGS",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path, Argument(help="A model file of ordbm fit.", metavar="MODEL", show_default=False)
]
UserFeatures = Annotated[
    Path | None,
    Option(
        help="A csv or tsv of what is known of users: ids first or in a column named user, a "
        "column for each thing; several values in one are split by |.",
        metavar="FILE",
    ),
]
ItemFeatures = Annotated[Path | None, Option(help="The same of items.", metavar="FILE")]


def ratings_and_facts(
    source: str, reading: ReadingOptions, *, beside: Path | None = None, scale: Any = None
) -> tuple[Ratings, dict[str, Any]]:
    """The ratings that `source` names, and what is to be said about them.

    They are on `scale` unless the options say otherwise, or an embedded set has its own.
    Options for reading are refused where no file is read: neither here nor, after this, `beside`.
    """
    _load_library()
    from ordbm.datasets import load_dataset, read_ratings
    from ordbm.datasets.embedded import EMBEDDED

    started = time.perf_counter()
    if source in EMBEDDED and not Path(source).exists():
        told = [option for option in reading.options() if option.startswith("--")]
        if told and beside is None:
            raise ordbm.errors.SettingsError(
                f"{told[0]} has no effect on {source}, which is read as it is: leave it out"
            )
        ratings = load_dataset(source)
    else:
        if beside is not None and source == str(beside) == STANDARD:
            raise ordbm.errors.SettingsError("standard input can be read once: name a file instead")
        arguments = reading.arguments()
        if arguments.get("scale") is None:
            arguments["scale"] = scale
        ratings = read_ratings(given_file(source), **arguments)
        source = "standard input" if source == STANDARD else source
    return ratings, {"source": source, **rating_facts(ratings), "seconds": _since(started)}


def given_file(source: str | Path) -> Any:
    """The path of a file, or standard input if it is `-`."""
    if str(source) != STANDARD:
        return source
    if sys.stdin is None or sys.stdin.closed:
        raise ordbm.errors.SettingsError("-: there is no standard input to read")
    return sys.stdin.buffer


def rating_facts(ratings: Ratings) -> dict[str, Any]:
    """Ratings in figures."""
    return {
        "ratings": len(ratings),
        "users": ratings.n_users,
        "items": ratings.n_items,
        "scale": str(ratings.scale),
        "times": ratings.has_times,
        "context": list(ratings.context.names),
        "duplicates": ratings.n_duplicates,
        "missing": ratings.n_missing,
        "bad_lines": ratings.n_bad_lines,
    }


def facts_in_words(found: dict[str, Any]) -> str:
    """The same in words."""
    beside = ["times"] * found["times"] + found["context"]
    remarks = f", with {', '.join(beside)}" if beside else ""
    remarks += "".join(
        f", {found[name]:,} {what if found[name] == 1 else several}"
        for name, what, several in (
            ("duplicates", "duplicate merged", "duplicates merged"),
            ("missing", "not rated left out", "not rated left out"),
            ("bad_lines", "bad line left out", "bad lines left out"),
        )
        if found[name]
    )
    return (
        f"{found['source']}: {found['ratings']:,} ratings by {found['users']:,} users of "
        f"{found['items']:,} items, {found['scale']}{remarks} (read in {found['seconds']:.1f} s)"
    )


def _since(started: float) -> float:
    return time.perf_counter() - started


def model_in_file(path: Path) -> OrdinalBM:
    """The model in a file."""
    if str(path) == STANDARD:
        raise ordbm.errors.SettingsError("-: a model is read from a file: name it")
    _load_library()
    return ordbm.load(path)


def _load_library() -> None:
    """Import what commands work with, in steps, so that Ctrl-C need not wait for all of it."""
    for name in _STEPS:
        safe_point()
        import_module(name)
    safe_point()


def users_of(model: OrdinalBM) -> IdMap:
    """All users of a model, even those without ratings."""
    return model._state.users


def items_of(model: OrdinalBM) -> IdMap:
    """All items of a model, even those without ratings."""
    return model._state.items


def id_of(text: str, known: IdMap, what: str) -> Any:
    """The id that was typed: "12" is the text, or else the number, whichever the model knows."""
    from ordbm.datasets import matched_ids

    found = matched_ids([text], known)[0]
    if known.codes([found])[0] < 0:
        raise ordbm.errors.RatingsError(
            f"{what} {text!r} is not in this model: {_similar(text, known)}"
        )
    return found


def _similar(text: str, known: IdMap) -> str:
    """Ids that look like the one that is not known, or else the first of all."""
    from difflib import get_close_matches
    from itertools import islice

    names = [str(one) for one in islice(known, _MOST_COMPARED)]
    close = [] if text.isdecimal() else get_close_matches(text, names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(names[:3])}, …"


def check_target(path: Path | None, ours: Ours | None = None) -> None:
    """An error before the work, not after it, where a file cannot be written.

    Unless None, `ours` are the files that may be replaced.
    """
    if path is None:
        return
    if str(path) == STANDARD:
        raise ordbm.errors.SettingsError("-: this is written to a file: name one")
    if path.exists() and not path.is_file():  # a folder, or a device, which must not be replaced
        raise ordbm.errors.SettingsError(f"{path} is not a file: name one to write to")
    if not path.absolute().parent.is_dir():
        raise ordbm.errors.SettingsError(
            f"{path}: there is no folder {path.absolute().parent} to write to"
        )
    if ours is not None:
        try:
            check_replaceable(path, ours)
        except NotOursError as problem:
            raise ordbm.errors.SettingsError(
                f"{path}: {problem.strerror}: choose another name, or replace it with --force"
            ) from None


def check_model_target(path: Path, force: bool) -> None:
    """The same of a model: unless forced, it replaces a model and nothing else."""
    from ordbm.persistence.container import is_container

    check_target(path, None if force else is_container)


def features_in(path: Path | None, known: IdMap, kind: str) -> dict[str, list[Any]] | None:
    """What a csv or tsv says of users or items (`kind`), by column; ids as the ratings have them.

    The ids are in a column called like them, or in the first.
    """
    if path is None:
        return None
    from ordbm.data.columns import is_usual_name
    from ordbm.datasets import matched_ids
    from ordbm.datasets.text_columns import INTEGER
    from ordbm.datasets.titles import read_item_table

    names, rows = read_item_table(path)
    if not rows:
        raise ordbm.errors.RatingsError(f"{path} has no rows below its header: give a table")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    if len(columns) < len(names):
        raise ordbm.errors.RatingsError(f"{path} has two columns of one name: rename one")
    key = next((name for name in names if name == kind or is_usual_name(name, kind)), names[0])
    ids = matched_ids(columns.pop(key), known)
    if "text" not in known.kinds:  # those that are new too
        ids = [int(one) if isinstance(one, str) and INTEGER.fullmatch(one) else one for one in ids]
    return {kind: ids, **columns}


def titles_of(source: str | None, model: OrdinalBM) -> dict[Any, str] | None:
    """What the model's items are called, by id; None if nobody asked for it."""
    if source is None:
        return None
    from ordbm.datasets import load_titles, matched_ids
    from ordbm.datasets.embedded import EMBEDDED

    embedded = source in EMBEDDED and not Path(source).exists()
    titles = load_titles(source) if embedded else _read_titles(Path(source))
    known = items_of(model)
    found = dict(zip(matched_ids(titles, known), titles.values(), strict=True))
    if not any(item in known for item in found):
        raise ordbm.errors.RatingsError(
            f"{source}: none of its {len(found):,} ids is in this model"
        )
    return found


def _read_titles(path: Path) -> dict[Any, str]:
    """Titles of a known set, or of a csv or tsv of one's own: the first two columns."""
    from ordbm.datasets.sources import open_source
    from ordbm.datasets.titles import TITLE_FILES, read_title_table, read_titles
    from ordbm.datasets.unpacking import unpacked_name

    own = path.suffix.lower() in (".csv", ".tsv", ".txt") and path.name not in TITLE_FILES
    if own and not path.is_dir():
        return dict(read_title_table(path))
    with open_source(path) as source:  # read_titles would look beside a file without titles
        untitled = source.single and unpacked_name(path.name) not in TITLE_FILES
    titles = None if untitled else read_titles(path)
    if titles is None:
        raise ordbm.errors.RatingsError(
            f"{path} has no titles: give a csv or tsv whose first columns are id and title"
        )
    return titles


def item_of(text: str, model: OrdinalBM, titles: dict[Any, str] | None) -> Any:
    """The item that was typed: an id, or else a title, whatever its case."""
    from ordbm.datasets import matched_ids

    known = items_of(model)
    called = [item for item, title in (titles or {}).items() if title.lower() == text.lower()]
    matches = [item for item in called if item in known]
    if not matches or matched_ids([text], known)[0] in known:
        return id_of(text, known, "item")
    if len(matches) > 1:
        raise ordbm.errors.RatingsError(
            f"{text!r} is what several items are called, {', '.join(map(str, matches))}: give an id"
        )
    return matches[0]


def given_ratings(
    texts: list[str], model: OrdinalBM, titles: dict[Any, str] | None
) -> dict[Any, Any]:
    """What somebody new has rated, from ITEM=RATING."""
    given = {}
    for text in texts:
        item, equals, rating = text.rpartition("=")
        if not equals:
            raise ordbm.errors.SettingsError(f"--rated {text}: write ITEM=RATING, as 318=5")
        given[item_of(item.strip(), model, titles)] = _rating_of(rating.strip(), model, text)
    return given


def _rating_of(text: str, model: OrdinalBM, whole: str) -> float | str:
    labels = getattr(model.scale, "labels", None)
    if labels:
        return text
    try:
        return float(text)
    except ValueError:
        raise ordbm.errors.SettingsError(f"--rated {whole}: {text!r} is not a number") from None
