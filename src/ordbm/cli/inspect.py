"""`ordbm inspect`: what a model file holds."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ordbm.cli.app import app
from ordbm.cli.inputs import ModelFile, item_of, items_of, model_in_file, titles_of, users_of
from ordbm.cli.options import Json
from ordbm.cli.output import count_in_words, facts, print_json, stdout, table
from ordbm.cli.recommend import Titles
from ordbm.cli.values import options_for

if TYPE_CHECKING:
    from ordbm.data.ids import IdMap
    from ordbm.estimator import OrdinalBM
    from ordbm.model.structure import Structure


@app.command()
def inspect(
    file: ModelFile,
    item: Annotated[
        str | None,
        Option(help="List the items nearest to this one in hidden space.", metavar="ID"),
    ] = None,
    titles: Titles = None,
    n: Annotated[int, Option("-n", help="How many links and items to list.", metavar="N")] = 10,
    as_json: Json = False,
) -> None:
    """Say what a model is, what it was trained on and how that went; its strongest links.

    With `--item`, the items nearest to that one in hidden space.

    Examples: `ordbm inspect model.ordbm` ·
    `ordbm inspect model.ordbm --item 318 --titles movies.csv`
    """
    from ordbm.runtime.checks import check_count

    check_count("-n", n)
    model = model_in_file(file)
    names = titles_of(titles, model) or {}
    near = None
    if item is not None:
        near = model.similar_items(item_of(item, model, names), n)
    found = {
        "file": str(file),
        "bytes": model._file_bytes,
        **_identity(model),
        "trained_on": _trained_on(model),
        "training": _training(model),
        "since_learning": _since_learning(model),
        "history": model.history,
        "user_features": trusted_features(model, 0),
        "item_features": trusted_features(model, 1),
        "structure": _structure(model),
        "item_links": strongest_links(model, 0, items_of(model), n),
        "user_links": strongest_links(model, 1, users_of(model), n),
    }
    if near is not None:
        found["nearest"] = near
    if as_json:
        print_json(found)
        return
    out = stdout()
    out.print(facts({"file": f"{file} ({found['bytes'] / 1e6:.1f} MB)", **_identity(model)}))
    out.print(facts(found["trained_on"], title="\nTrained on"))
    out.print(facts(found["training"], title="\nTraining"))
    out.print(facts(found["since_learning"], title="\nSince it was learnt"))
    for kind in ("user", "item"):
        if trusted := found[f"{kind}_features"]:
            out.print(
                table(
                    ("column", "features", "biases", "couplings", "hidden units"),
                    [tuple(one.values()) for one in trusted],
                    title=f"\nFeatures of {kind}s: the deviation of their effects",
                )
            )
    if model.structure is not None:
        _print_structure(model.structure)
    for kind, called in (("item", names), ("user", {})):
        links: list[dict[str, Any]] = found[f"{kind}_links"]
        if links:
            rows = [
                (_name(link["ids"][0], called), _name(link["ids"][1], called), link["weight"],
                 link["similarity"])
                for link in links
            ]  # fmt: skip
            columns = (kind, f"and {kind}", "weight", "correlation")
            out.print(table(columns, rows, title=f"\nStrongest links between {kind}s"))
    if near is not None:
        nearest = [(_name(one.id, names), one.similarity) for one in near]
        out.print(table(("item", "cosine"), nearest, title=f"\nNearest to {item} in hidden space"))


def trusted_features(model: OrdinalBM, kind: int) -> list[dict[str, Any]]:
    """The columns of a table of users (0) or items (1), and the deviations of their effects."""
    about = model._state.described[kind]
    if about is None:
        return []
    return [
        {
            "column": column.name,
            "features": column.width,
            **dict(zip(("biases", "couplings", "hidden"), trust.tolist(), strict=True)),
        }
        for column, trust in zip(about.encoder.columns, about.trust, strict=True)
    ]


def _structure(model: OrdinalBM) -> dict[str, Any] | None:
    """The structure that was found, by names; None where none was searched."""
    found = model.structure
    if found is None:
        return None
    return {
        "sizes": found.sizes._asdict(),
        "validation_ratings": found.validation_ratings,
        "link_tests": {
            kind: tests._asdict()
            for kind, tests in zip(("items", "users"), found.links, strict=True)
        },
        "trials": [trial._asdict() for trial in found.trials],
    }


def _print_structure(found: Structure) -> None:
    from ordbm.model.structure import PARTS_IN_WORDS, SOUGHT

    lines: dict[str, Any] = {PARTS_IN_WORDS[part]: found.size_in_words(part) for part in SOUGHT}
    lines |= {
        f"tests of links between {kind}": f"{tests.tested:,} pairs, {tests.significant:,} stand "
        f"out; {tests.kept:,} kept, {tests.negative:,} of them negative"
        for kind, tests in zip(("items", "users"), found.links, strict=True)
        if tests.tested
    }
    lines["compared on"] = f"{found.validation_ratings:,} inner validation ratings"
    out = stdout()
    out.print(facts(lines, title="\nStructure found"))
    rows = [
        (PARTS_IN_WORDS[one.part], one.size_in_words, f"{one.log_loss:.4f}",
         f"{one.rise:+.4f}", f"{one.error:.4f}", "yes" if one.accepted else "no")
        for one in found.trials
    ]  # fmt: skip
    columns = ("tried", "size", "log-loss", "rise", "± error", "taken")
    out.print(table(columns, rows, title="\nSizes that were tried"))


def strongest_links(model: OrdinalBM, number: int, ids: IdMap, n: int) -> list[dict[str, Any]]:
    """The n links of a side whose mean weights are furthest from zero: ids, weight, correlation."""
    import numpy as np

    sides = [machine.sides[number] for machine in model.machines]
    side = sides[0]
    if side is None or not side.links.n_edges:
        return []
    links = side.links
    column = np.repeat(np.arange(links.n_columns), np.diff(links.start))
    first = column < links.neighbour  # each edge is listed at both of its ends
    ends = np.zeros((links.n_edges, 2), np.int64)
    ends[links.edge[first]] = np.stack([column[first], links.neighbour[first]], axis=1)
    weights = [one.parameters.link_weight.sum(axis=1) for one in sides if one is not None]
    weight = np.mean(weights, axis=0)
    strongest = np.argsort(-np.abs(weight), kind="stable")[:n]
    return [
        {
            "ids": [ids[int(ends[edge, 0])], ids[int(ends[edge, 1])]],
            "weight": float(weight[edge]),
            "similarity": float(links.similarity[edge]),
        }
        for edge in strongest.tolist()
    ]


def _identity(model: OrdinalBM) -> dict[str, Any]:
    told = model.settings
    machine = model.machines[0]
    sizes = [side.n_hidden if side else 0 for side in machine.sides]
    edges = [side.links.n_edges if side else 0 for side in machine.sides]
    presence = model._state.presence
    return {
        "model": f"OrdinalBM, {machine.features.kind} features, {told.sides}",
        "machines": f"{len(model.machines)}, averaged" if len(model.machines) > 1 else "one",
        "hidden units": f"{sizes[0]} per user, {sizes[1]} per item",
        "links": f"{edges[0]:,} between items, {edges[1]:,} between users",
        "presence": (
            f"learnt, with links between {count_in_words(len(presence.linked), 'item')}"
            if presence
            else "not learnt"
        ),
        "links by context": _in_words(model),
        "settings": shlex.join(options_for(model.get_params())) or "the defaults",
    }


def _in_words(model: OrdinalBM) -> str:
    """The kernels of the context, with the mean tilt that each is worth."""
    links = model.context
    if links is None:
        return "not learnt"
    columns = [f"{{:g}} of {name}" for name in model.known_ratings().context.names]
    said = ["{:g} s", "{:g} ratings", *columns]
    among = "", " among like items", " among items rated together"
    return ", ".join(
        f"{said[axis].format(scale)}{among[alike]}: {mean:.2f} of the mean and "
        f"{square:.2f} of the spread"
        for axis, scale, alike, (mean, square) in zip(
            links.axes, links.scales, links.alike.tolist(), links.weight.tolist(), strict=True
        )
    )


def _trained_on(model: OrdinalBM) -> dict[str, Any]:
    state = model.conditioned[0].ratings
    return {
        "ratings": len(state.by_user.column),
        "users": len(users_of(model)),
        "items": len(items_of(model)),
        "scale": str(model.scale),
    }


def _training(model: OrdinalBM) -> dict[str, Any]:
    history = model.history
    found: dict[str, Any] = {
        "version": f"ordbm {model.origin.version}",
        "time": model.origin.time,
        "epochs": f"{len(history)} of {model.settings.epochs}",
        "interrupted": True if model.interrupted else None,
        "seconds": f"{sum(record.seconds for record in history):.1f}",
    }
    if history:
        found["objective per rating"] = history[-1].objective
    scored = [record for record in history if record.validation]
    if scored:
        best = min(scored, key=lambda record: record.validation["log_loss"])
        found["best epoch"] = best.epoch
        found |= {f"validation {name}": value for name, value in best.validation.items()}
    return found


def _since_learning(model: OrdinalBM) -> dict[str, Any]:
    """How much came since, as a share of what was learnt from, and what to do about it."""
    from ordbm.inference.fitted import WORTH_REFITTING

    growth = model.growth
    return {
        "new ratings": growth.new,
        "changed": growth.changed,
        "withdrawn": growth.withdrawn,
        "new users": len(users_of(model)) - growth.users,
        "new items": len(items_of(model)) - growth.items,
        "drift": growth.drift,
        "ordbm refit": f"{'' if growth.wants_refit else 'not yet '}worth while "
        f"(from a drift of {WORTH_REFITTING:g})",
    }


def _name(one: Any, titles: Mapping[Any, str]) -> str:
    return f"{one} {titles[one]}" if one in titles else str(one)
