"""Settings declared once: a dataclass field with its help, its bounds, and the reason of its value.

Constructors, checks, documentation, command-line options and the identity of a run are made from
these declarations. Nothing here needs NumPy: the help of the command line must be quick.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from numbers import Real
from textwrap import fill
from typing import Any, Concatenate, ParamSpec, TypeVar

from ordbm.errors import SettingsError
from ordbm.runtime.checks import check_choice, check_count, said

P = ParamSpec("P")
T = TypeVar("T")
LARGEST_SETTING = 1e15  # products of two such numbers are numbers in single precision
Check = Callable[[str, Any], object]


@dataclass(frozen=True)
class Declaration:
    """What a setting means and which values it may have."""

    help: str
    kind: type  # bool, int, float, str, or a group of settings
    choices: tuple[str, ...]
    least: float | None
    above: float | None
    most: float | None
    below: float | None
    optional: bool  # None is a value
    default: str  # in words, where the number does not say it
    panel: str  # of the command line's help; none without one
    metavar: str
    why: str  # the reason of the default, with what shows it
    own_check: Check | None

    def check(self, name: str, value: Any) -> None:
        """An error that names the setting unless it may have this value."""
        if value is None and self.optional:
            return
        if self.own_check is not None:
            self.own_check(name, value)
        elif self.choices:
            check_choice(name, value, self.choices)
        elif self.kind is bool:
            if not isinstance(value, bool):
                raise SettingsError(f"{said(name, value)}: use True or False")
        elif self.kind is int:
            most = None if self.most is None else int(self.most)
            check_count(name, value, int(self.least or 0), most)
        elif self.kind is float:
            self._check_number(name, value)
        elif not isinstance(value, self.kind):
            raise SettingsError(f"{said(name, value)}: must be a {self.kind.__name__}")

    def _check_number(self, name: str, value: Any) -> None:
        number = _as_float(value)
        if not self._is_within(number):
            raise SettingsError(f"{said(name, value)}: must be a number, {self._range}")
        if number > LARGEST_SETTING and self.most is None:
            raise SettingsError(f"{said(name, value)}: must be at most {LARGEST_SETTING:g}")

    def _is_within(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    @property
    def _range(self) -> str:
        low = f"{self.least:g}" if self.above is None else f"above {self.above:g}"
        if self.most is not None and self.most < math.inf:
            return f"from {low} to {self.most:g}"
        if self.below is not None:
            return f"from {low} to below {self.below:g}"
        return low if self.above is not None else f"{low} or more"


def _as_float(value: Any) -> float:
    """The number that it is; not one of those there are if it is none, or a whole one too large."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.nan


def setting(
    value: Any,
    text: str,
    *,
    kind: type | None = None,
    choices: tuple[str, ...] = (),
    least: float | None = 0,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    optional: bool = False,
    default: str = "",
    panel: str = "",
    metavar: str = "",
    why: str = "",
    check: Check | None = None,
) -> Any:
    """A field of settings with `value` for a default and `text` for its help."""
    kind = kind or type(value)
    metavar = metavar or "|".join(choices) or {int: "N", float: "X"}.get(kind, "")
    about = Declaration(
        text, kind, choices, least, above, most, below, optional, default, panel, metavar, why,
        check,
    )  # fmt: skip
    return field(default=value, metadata={"declaration": about})


def declaration(one: Field[Any]) -> Declaration:
    """What was declared of a field."""
    found: Declaration = one.metadata["declaration"]
    return found


class Checked:
    """A dataclass of settings that refuses values which these may not have."""

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            declaration(one).check(one.name, getattr(self, one.name))


def leaves(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The names and values of all settings; those of a group within as `group.name`."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value) and not isinstance(value, type):
            yield from leaves(value, f"{prefix}{one.name}.")
        else:
            yield prefix + one.name, value


def default_in_words(one: Field[Any]) -> str:
    """What a setting is if nothing is said: `25,100`, `0.5`, or a rule."""
    about = declaration(one)
    if about.default:
        return about.default
    if one.default is None or one.default is MISSING or is_dataclass(one.default):
        return ""
    if isinstance(one.default, float):
        return f"{one.default:g}".replace("e+", "e")
    return str(one.default)


# -- constructors ---------------------------------------------------------------------------------


def arguments_of(
    settings: Callable[P, Any],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """For an `__init__(self, **given)`: takes the arguments of `settings`, None if not given.

    A setting with choices and no None among its values, such as a preset, keeps its default.
    """
    known = [_unless_given(one) for one in inspect.signature(settings).parameters.values()]

    def with_arguments(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        shape = inspect.Signature([me, *known], return_annotation=None)

        @wraps(init)
        def wrapped(*args: Any, **given: Any) -> None:
            try:
                bound = shape.bind(*args, **given)
            except TypeError as error:
                names = ", ".join(one.name for one in known)
                raise TypeError(f"{type(args[0]).__name__}: {error}; it takes {names}") from None
            bound.apply_defaults()
            init(**bound.arguments)

        wrapped.__signature__ = shape  # type: ignore[attr-defined]
        return wrapped

    return with_arguments


def _unless_given(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.name == "preset":
        return parameter
    kind = str(parameter.annotation)
    kind = kind if kind == "Any" or kind.endswith("| None") else f"{kind} | None"
    return parameter.replace(default=None, annotation=kind)


def documented_by(settings: type) -> Callable[[type[T]], type[T]]:
    """For a class: its docstring goes on with what these settings are."""

    def with_list(documented: type[T]) -> type[T]:
        add_documentation(documented, documentation(settings))
        return documented

    return with_list


def with_reasons(settings: type[T]) -> type[T]:
    """For a dataclass of settings: its docstring goes on with what they are, and why."""
    add_documentation(settings, documentation(settings, reasons=True))
    return settings


def add_documentation(documented: type, lines: str) -> None:
    """Let the docstring of a class go on with these lines."""
    documented.__doc__ = f"{inspect.cleandoc(documented.__doc__ or '')}\n\n{lines}\n"


def documentation(
    settings: type, values: Mapping[str, Any] | None = None, *, reasons: bool = False
) -> str:
    """A line `name: help [default; reason]` for each setting; `values` are other defaults."""
    lines = []
    for one in fields(settings):
        about = declaration(one)
        value = (values or {}).get(one.name, one.default)
        default = str(value) if value != one.default else default_in_words(one)
        note = "; ".join(part for part in (default, reasons and about.why) if part)
        text = f"{one.name}: {about.help}" + (f" [{note}]" if note else "")
        lines.append(fill(text, 96, subsequent_indent="    "))
    return "\n".join(lines)
