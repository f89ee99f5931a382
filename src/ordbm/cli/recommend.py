"""`ordbm recommend` and `ordbm explain`: lists for people, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.datasets import part_bar, tell_done
from ordbm.cli.inputs import (
    ModelFile,
    given_ratings,
    id_of,
    item_of,
    model_in_file,
    titles_of,
    users_of,
)
from ordbm.cli.list_options import (
    candidates_option,
    criterion_option,
    excluded_items,
    has_presence,
    items_filtered_out,
)
from ordbm.cli.options import Json, Quiet
from ordbm.cli.output import distribution_bars, print_json, stderr, stdout, table

if TYPE_CHECKING:
    from ordbm.explain import Explanation
    from ordbm.recommend.recommendation import Recommendation

_REASONS = 3  # beside each item of a list
_SHOWN_SCORES = ("energy", "gain")  # others are in the table already, or say little by themselves

User = Annotated[str | None, Option(help="A user the model has learnt from.", metavar="ID")]
RatedItems = Annotated[
    list[str] | None,
    Option(
        help="What somebody new has rated; repeatable. The item is an id, or a title of --titles.",
        metavar="ITEM=RATING",
    ),
]
Titles = Annotated[
    str | None,
    Option(
        help="What items are called: a csv or tsv of ids and titles, a MovieLens archive, or "
        "movielens-small.",
        metavar="FILE",
    ),
]


@app.command()
def recommend(
    file: ModelFile,
    user: User = None,
    rated: RatedItems = None,
    n: Annotated[int, Option("-n", help="How many items.", metavar="N")] = 10,
    by: Annotated[
        str | None,
        Option(
            help="How likely an item is to be rated high, or to be rated at all; the expected gain "
            "of its rating, decrease of energy, or rating. [default: liked; mean without presence]",
            metavar="liked|rated|gain|energy|mean",
        ),
    ] = None,
    at_least: Annotated[
        str | None,
        Option(
            help="What is rated so high is liked. [default: three quarters up the scale]",
            metavar="RATING",
        ),
    ] = None,
    long_tail: Annotated[
        float | None,
        Option(
            help="Favour what is less known: the score less so many times the log of an item's "
            "number of ratings.",
            metavar="STRENGTH",
        ),
    ] = None,
    diversity: Annotated[
        float,
        Option(help="From 0 to 1: how much unlike each other items should be.", metavar="SHARE"),
    ] = 0.0,
    candidates: Annotated[
        str,
        Option(
            help="All items, those that similar users rated, those linked to what the user rated, "
            "or a file with an item id per line.",
            metavar="all|similar_users|linked|FILE",
        ),
    ] = "all",
    exclude: Annotated[
        list[str] | None,
        Option(
            help="An item to leave out, or a file with an item id per line; repeatable.",
            metavar="ID|FILE",
        ),
    ] = None,
    items: Annotated[
        str | None,
        Option(
            help="Columns of items for --where: a csv or tsv with a header, or movielens-small.",
            metavar="FILE",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        Option(
            help="List only items with this value, alone or one of several with | between, as "
            "genres=Comedy; repeatable, and then all must hold.",
            metavar="COLUMN=VALUE",
        ),
    ] = None,
    titles: Titles = None,
    explain: Annotated[
        bool, Option("--explain", help="Say why each item is there.", metavar="")
    ] = False,
    everybody: Annotated[
        bool, Option("--all", help="Lists for all users of the model, to --output.", metavar="")
    ] = False,
    users: Annotated[
        str | None,
        Option(
            help="Lists for the users of a parquet dataset, a folder or an address, to --output.",
            metavar="DATASET",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "--output", "-o", help="A folder for the lists of many, in parquet.", metavar="FOLDER"
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the best items for a known user, or for somebody new without any retraining.

    Items already rated are left out. Unless told otherwise, a list has what somebody is most likely
    to come across and to rate high.

    With --all or --users the lists of many go to a folder of parquet files. Started again after it
    was ended, at any moment, it goes on with the files that are not there.

    Examples: `ordbm recommend model.ordbm --user 42` ·
    `ordbm recommend model.ordbm --rated 318=5 --rated 356=2.5 --titles movies.csv` ·
    `ordbm recommend model.ordbm --user 42 --items movies.csv --where genres=Comedy` ·
    `ordbm recommend model.ordbm --all -o lists/`
    """
    many = everybody or users is not None
    if many or output is not None:
        _check_many(everybody, users, output, user=user, rated=rated, explain=explain)
    elif (user is None) == (not rated):
        raise ordbm.errors.SettingsError(
            "say either who the list is for, --user ID, or what they rated, --rated ITEM=RATING"
        )
    model = model_in_file(file)
    names = titles_of(titles, model)
    way = criterion_option(model, by, at_least, long_tail)
    asked = {
        "n": n,
        "by": way,
        "candidates": candidates_option(candidates, model, many or user is not None),
        "exclude": excluded_items(exclude or [], model, names)
        + items_filtered_out(items, where or [], model),
        "diversity": diversity,
    }
    if many:
        _recommend_many(model, users, output, quiet, as_json, asked)
        return
    whom = _whom(model, user, rated, names)
    lines = model.recommend(**asked, **whom)
    reasons: list[Any] = [
        model.explain(item=line.item, n=_REASONS, titles=names, **whom) if explain else None
        for line in lines
    ]
    if as_json:
        print_json(
            {
                **{key: value for key, value in whom.items() if key == "user"},
                "recommendations": [
                    {"title": names.get(line.item) if names else None, **line._asdict()}
                    | ({"explanation": reason.to_dict()} if reason else {})
                    for line, reason in zip(lines, reasons, strict=True)
                ],
            }
        )
        return
    if n and not lines:
        stderr().print("no item is left to list: allow more candidates, or exclude fewer")
    _show_lines(model, lines, reasons, names, way)


def _show_lines(
    model: Any,
    lines: list[Recommendation],
    reasons: list[Any],
    names: dict[Any, str] | None,
    way: Any,
) -> None:
    """A list as a table, and the reasons for each item below it."""
    columns = ["item", *(["title"] if names else []), "predicted", "confidence"]
    rows = [
        [str(line.item), *([names.get(line.item, "")] if names else []), line.mean, line.confidence]
        for line in lines
    ]
    if has_presence(model):
        columns.append("P(rated)")
        rows = [[*row, f"{line.rated:8.1%}"] for row, line in zip(rows, lines, strict=True)]
    if way in _SHOWN_SCORES:
        columns.append(way)
        rows = [[*row, line.score] for row, line in zip(rows, lines, strict=True)]
    out = stdout()
    out.print(table(columns, rows))
    for line, reason in zip(lines, reasons, strict=True):
        if reason:
            out.print(*str(reason).split("\n"), sep="\n")
            if line.because:
                out.print(_because(line, names or {}), markup=False)
            out.print()


def _check_many(everybody: bool, users: str | None, output: Path | None, **alone: Any) -> None:
    """An error unless lists for many are asked for in one way, and for a folder."""
    given = [f"--{name}" for name, value in alone.items() if value]
    if everybody and users is not None:
        given.append("--users")
    if given:
        said = "--all" if everybody else "--users" if users is not None else "--output"
        raise ordbm.errors.SettingsError(f"{said} is for lists of many: leave {given[0]} out")
    if not everybody and users is None:
        raise ordbm.errors.SettingsError(
            "say whose lists --output is for: --all, or --users DATASET"
        )
    if output is None or output.suffix in (".csv", ".parquet"):
        raise ordbm.errors.SettingsError("name a folder for the lists, as -o lists/")


def _recommend_many(
    model: Any, users: str | None, output: Path | None, quiet: bool, as_json: bool, asked: Any
) -> None:
    """Lists in a folder of parquet files."""
    from ordbm.batch import recommend_dataset  # noqa: PLC0415 -- help must be quick

    assert output is not None
    with part_bar(quiet or as_json, "listing") as done:
        found = recommend_dataset(model, output, users, on_part=done, **asked)
    tell_done(found, output, quiet, as_json, "line")


def _because(line: Recommendation, titles: Mapping[Any, str]) -> str:
    """The items that make it likely to be rated, with what each adds to the log-odds."""
    parts = [f"{titles.get(item, item)} ({added:+.2f})" for item, added in line.because]
    return f"P(rated) = {line.rated:.1%}, because you rated: {', '.join(parts)}"


@app.command()
def explain(
    file: ModelFile,
    item: Annotated[str, Option(help="The item, by id or title.", metavar="ID")],
    user: User = None,
    rated: RatedItems = None,
    titles: Titles = None,
    n: Annotated[
        int, Option("-n", help="How many of the user's ratings to list.", metavar="N")
    ] = 8,
    as_json: Json = False,
) -> None:
    """Say which of a user's ratings moved the prediction for an item, and by how much.

    Example: `ordbm explain model.ordbm --user 42 --item 318`
    """
    if (user is None) == (not rated):
        raise ordbm.errors.SettingsError(
            "say either whose prediction it is, --user ID, or what they rated, --rated ITEM=RATING"
        )
    model = model_in_file(file)
    names = titles_of(titles, model)
    found = model.explain(
        item=item_of(item, model, names), n=n, titles=names, **_whom(model, user, rated, names)
    )
    if as_json:
        print_json(found.to_dict())
        return
    out = stdout()
    out.print(*str(found).split("\n"), sep="\n")
    show_distribution(found)


def show_distribution(found: Explanation) -> None:
    """The predicted distribution of a pair as bars."""
    shape = found.to_dict()["distribution"]
    if "levels" in shape:
        stdout().print(distribution_bars(shape["levels"], shape["proba"]))


def _whom(
    model: Any, user: str | None, rated: list[str] | None, names: dict[Any, str] | None
) -> dict[str, Any]:
    """The user, or the ratings of somebody new, as the library takes them."""
    if user is not None:
        return {"user": id_of(user, users_of(model), "user")}
    return {"ratings": given_ratings(rated or [], model, names)}
