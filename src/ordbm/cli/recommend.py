"""`ordbm recommend` and `ordbm explain`: lists for people, and the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import (
    ModelFile,
    id_of,
    item_of,
    items_of,
    model_of,
    rated_of,
    titles_of,
    users_of,
)
from ordbm.cli.options import Json
from ordbm.cli.output import distribution_bars, print_json, stdout, table

if TYPE_CHECKING:
    from ordbm.explanation import Explanation

REASONS = 3  # beside each item of a list

User = Annotated[str | None, Option(help="A user the model has learnt from.", metavar="ID")]
Rated = Annotated[
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
    rated: Rated = None,
    n: Annotated[int, Option("-n", help="How many items.", metavar="N")] = 10,
    by: Annotated[
        str,
        Option(
            help="The expected rating, or the expected decrease of energy, which also lists what "
            "somebody surely dislikes.",
            metavar="mean|energy",
        ),
    ] = "mean",
    candidates: Annotated[
        str,
        Option(
            help="All items, those that similar users rated, or a file with an item id per line.",
            metavar="all|similar_users|FILE",
        ),
    ] = "all",
    titles: Titles = None,
    explain: Annotated[
        bool, Option("--explain", help="Say what moved each prediction most.", metavar="")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the best items for a known user, or for somebody new without any retraining.

    Items already rated are left out.

    Examples: `ordbm recommend model.ordbm --user 42` ·
    `ordbm recommend model.ordbm --rated 318=5 --rated 356=2.5 --titles movies.csv`
    """
    if (user is None) == (not rated):
        raise ordbm.errors.SettingsError(
            "say either who the list is for, --user ID, or what they rated, --rated ITEM=RATING"
        )
    model = model_of(file)
    names = titles_of(titles, model)
    whom = _whom(model, user, rated, names)
    lines = model.recommend(
        n=n,
        by=by,  # type: ignore[arg-type]
        candidates=_candidates(candidates, model),
        **whom,
    )
    reasons: list[Any] = [
        model.explain(item=line.item, n=REASONS, titles=names, **whom) if explain else None
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
    columns = ["item", *(["title"] if names else []), "predicted", "confidence"]
    rows = [
        [str(line.item), *([names.get(line.item, "")] if names else []), line.mean, line.confidence]
        for line in lines
    ]
    if by == "energy":
        columns.append("energy")
        rows = [[*row, line.score] for row, line in zip(rows, lines, strict=True)]
    out = stdout()
    out.print(table(columns, rows))
    for reason in reasons:
        if reason:
            out.print(str(reason), markup=False)
            out.print()


@app.command()
def explain(
    file: ModelFile,
    item: Annotated[str, Option(help="The item, by id or title.", metavar="ID")],
    user: User = None,
    rated: Rated = None,
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
    model = model_of(file)
    names = titles_of(titles, model)
    found = model.explain(
        item=item_of(item, model, names), n=n, titles=names, **_whom(model, user, rated, names)
    )
    if as_json:
        print_json(found.to_dict())
        return
    out = stdout()
    out.print(str(found), markup=False)
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
    return {"ratings": rated_of(rated or [], model, names)}


def _candidates(text: str, model: Any) -> Any:
    if text.replace("-", "_") in ("all", "similar_users"):
        return text.replace("-", "_")
    path = Path(text)
    if not path.exists():
        raise ordbm.errors.SettingsError(
            f"--candidates {text}: use all, similar_users or a file with an item id per line"
        )
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    return [id_of(line.strip(), items_of(model), "item") for line in lines if line.strip()]
