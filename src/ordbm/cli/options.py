"""Options shared by several commands: a dataclass per group, unfolded into a command's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, is_dataclass, make_dataclass
from functools import partial, wraps
from typing import Annotated, Any, get_type_hints

from typer import Option

import ordbm
from ordbm.cli.values import hidden_of, learner_with, named_value, value_of
from ordbm.model.declaration import declaration, default_in_words
from ordbm.model.settings import LEARNING_PANEL, Settings

Json = Annotated[
    bool, Option("--json", help="Print one JSON document instead of tables.", metavar="")
]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Show no progress and no remarks.", metavar="")
]
Force = Annotated[
    bool,
    Option(
        "--force",
        help="Replace a file that is there, even if it is not one that this command writes.",
        metavar="",
    ),
]


def _option(panel: str, *names: str, unless_told: str = "", **told: Any) -> Any:
    """An option in a panel of the help; `unless_told` is what the default preset has."""
    if unless_told:
        told["help"] += f" [default: {unless_told}]"
    return Option(*names, rich_help_panel=panel, **told)


reading: Callable[..., Any] = partial(_option, "Reading ratings")
learning: Callable[..., Any] = partial(_option, LEARNING_PANEL)


def unfolded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with each parameter that is a group of options replaced by those options."""
    hints = get_type_hints(command, include_extras=True)
    shape = inspect.signature(command)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in shape.parameters.items():
        if name in groups:
            parameters += inspect.signature(groups[name], eval_str=True).parameters.values()
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    @wraps(command)
    def with_groups(**told: Any) -> None:
        for name, group in groups.items():
            told[name] = group(**{field.name: told.pop(field.name) for field in fields(group)})
        command(**told)

    with_groups.__signature__ = shape.replace(  # type: ignore[attr-defined]
        parameters=[one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    with_groups.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_groups


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """How a file of users and items is to be read."""

    user: Annotated[
        str | None,
        reading("--user-column", help="Column of users, by name or number from 0.", metavar="NAME"),
    ] = None
    item: Annotated[
        str | None, reading("--item-column", help="Column of items.", metavar="NAME")
    ] = None
    time: Annotated[
        str | None,
        reading(
            "--time-column",
            help="Column of times, in seconds or ISO 8601; 'none' for none. Found by its name if "
            "not given.",
            metavar="NAME",
        ),
    ] = None
    context_column: Annotated[
        list[str] | None,
        reading(
            help="Column of other context (device, mood...); repeatable.",
            metavar="NAME",
        ),
    ] = None
    layout: Annotated[
        str | None,
        reading(
            help="Where it cannot be told from the file.",
            metavar="csv|tsv|colons|spaces|netflix|parquet|feather",
        ),
    ] = None
    member: Annotated[
        str | None,
        reading(help="Which file of a folder or archive, if there are several.", metavar="NAME"),
    ] = None
    header: Annotated[
        bool | None,
        reading(
            "--header/--no-header",
            help="Whether the first line has names, where that cannot be told.",
            metavar="",
        ),
    ] = None
    encoding: Annotated[str, reading(help="Of text files.", metavar="NAME")] = "utf-8"
    skip_bad_lines: Annotated[
        bool,
        reading(
            "--skip-bad-lines",
            help="Leave out lines of a text file that cannot be used, and say how many.",
            metavar="",
        ),
    ] = False
    bad_lines_to: Annotated[
        str | None,
        reading(help="A csv for skipped lines, with number and reason.", metavar="FILE"),
    ] = None
    max_rows: Annotated[
        int | None,
        reading(
            help="Most rows to read. [default: a million, or one per byte of the file]",
            metavar="N",
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        reading(
            help="Most bytes to unpack. [default: 32 MiB, or 32 per byte of the file]", metavar="N"
        ),
    ] = None
    max_members: Annotated[
        int | None,
        reading(help="Most files in an archive. [default: 100,000]", metavar="N"),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """What `read_pairs` is to be told."""
        from ordbm.datasets.limits import ReadLimits  # noqa: PLC0415 -- help must be quick

        told = {field.name: getattr(self, field.name) for field in fields(self)}
        most = {name: told.pop(f"max_{name}") for name in ("rows", "bytes", "members")}
        told["limits"] = ReadLimits(**{name: n for name, n in most.items() if n is not None})
        told["bad_lines"] = "skip" if told.pop("skip_bad_lines") else "error"
        for role in ("user", "item", "rating", "time"):
            if told.get(role) is not None and told[role].isdecimal():
                told[role] = int(told[role])
        told["time"] = False if self.time == "none" else told["time"]
        told["context"] = tuple(told.pop("context_column") or ())
        return told


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(PairOptions):
    """How a file of ratings is to be read."""

    rating: Annotated[
        str | None, reading("--rating-column", help="Column of ratings.", metavar="NAME")
    ] = None
    scale: Annotated[
        str | None,
        reading(
            help="Levels from lowest to highest, as 1,2,3,4,5 or poor,fair,good; 'continuous'; or "
            "bins:0,10,60,600. Found from the ratings if not given.",
            metavar="LEVELS",
        ),
    ] = None
    duplicates: Annotated[
        str,
        reading(
            help="Of a pair rated more than once: keep the last, take the mean, or refuse.",
            metavar="last|mean|error",
        ),
    ] = "last"
    missing: Annotated[
        list[str] | None,
        reading(
            help="A value that means 'not rated', as 0 or NA; nan for empty fields; repeatable.",
            metavar="VALUE",
        ),
    ] = None
    decimal: Annotated[
        str | None,
        reading(help="What stands before decimals, where it cannot be told.", metavar=".|,"),
    ] = None
    memory: Annotated[
        str | None,
        reading(
            help="What ratings, and learning from them, may take in memory, as 8GB; the rest is in "
            "mapped files. [default: most of what is free]",
            metavar="SIZE",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """What `read_ratings` is to be told."""
        from ordbm.data.scale import scale_from_text  # noqa: PLC0415 -- help must be quick

        scale = None if self.scale is None else scale_from_text(self.scale)
        missing = [value_of(text) for text in self.missing] if self.missing else None
        return {**super().arguments(), "scale": scale, "missing": missing}

    def options(self) -> list[str]:
        """The options that say the same."""
        found: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "header" and value is not None:
                found.append("--header" if value else "--no-header")
            elif value is True:
                found.append(f"--{field.name.replace('_', '-')}")
            elif isinstance(value, list):
                option = field.name.replace("_", "-")
                found += [word for one in value for word in (f"--{option}", one)]
            elif value != field.default:
                column = "-column" if field.name in ("user", "item", "rating", "time") else ""
                found += [f"--{field.name.replace('_', '-')}{column}", str(value)]
        return found


def _option_of(one: Field[Any]) -> tuple[str, Any, Any]:
    """A setting as a field of options: its name, its type with the option, and its default."""
    about = declaration(one)
    is_switch = about.kind is bool
    names = [f"--{one.name}/--no-{one.name}".replace("_", "-")] if is_switch else []
    value = one.default if one.name == "preset" else None
    default = one.name if is_switch else "" if value else default_in_words(one)
    option = _option(
        about.panel, *names, help=about.help, metavar=about.metavar, unless_told=default
    )
    kind = about.kind if about.kind in (bool, int, float) else str
    return one.name, Annotated[kind if value else kind | None, option], value


_Settings: Any = make_dataclass(
    "_Settings",
    [_option_of(one) for one in fields(Settings) if declaration(one).panel],
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(_Settings):  # type: ignore[misc]
    """The machine and how it is learnt; None where the preset decides."""

    set_: Annotated[
        list[str] | None,
        learning(
            "--set",
            help="A setting of the learner, as rate=0.3; repeatable. A wrong name lists all.",
            metavar="NAME=VALUE",
        ),
    ] = None

    def given(self) -> list[str]:
        """The names of the options that were given."""
        names = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        no = {name: "no-" if getattr(self, name) is False else "" for name in names}
        return [f"--{no[name]}{name.rstrip('_').replace('_', '-')}" for name in names]

    def model(self) -> ordbm.OrdinalBM:
        """A new machine with these settings."""
        return ordbm.OrdinalBM(**self.arguments())

    def arguments(self) -> dict[str, Any]:
        """What `OrdinalBM` is to be told."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        settings = dict(named_value(text) for text in told.pop("set_") or ())
        if self.hidden is not None:
            told["hidden"] = hidden_of(self.hidden)
        if settings:
            told["learner"] = learner_with(self.preset, self.learner, settings)
        return told
