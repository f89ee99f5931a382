"""Values that options are given as text, and options for values."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

import ordbm


def hidden_of(text: str) -> int | tuple[int, ...]:
    """Hidden units: one number, or one per side."""
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ordbm.errors.SettingsError(
            f"--hidden {text}: a whole number, or two with a comma between, as 30,60"
        ) from None
    return sizes[0] if len(sizes) == 1 else sizes


def named_value(text: str) -> tuple[str, str]:
    """The parts of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ordbm.errors.SettingsError(f"--set {text}: write NAME=VALUE, as in --set rate=0.3")
    return name.strip().replace("-", "_"), value.strip()


def value_of(text: str) -> float | str:
    """A number if the text is one, otherwise the text."""
    try:
        return float(text)
    except ValueError:
        return text


def learner_with(preset: str, learner: str | None, told: Mapping[str, str]) -> Any:
    """The learner by its name, or the preset's, with settings given as text."""
    from ordbm.model.learners import learner_of
    from ordbm.model.settings import settings_of

    base = learner_of(settings_of(preset, learner=learner).learner)
    known = {name: value for name, value in base.settings().items() if not is_dataclass(value)}
    found = {}
    for name, text in told.items():
        if name not in known:
            raise ordbm.errors.SettingsError(
                f"--set {name}: the learner has no such setting; it has {', '.join(known)}"
            )
        found[name] = _like(known[name], name, text)
    return replace(base, **found)


def _like(example: Any, name: str, text: str) -> Any:
    """`text` as a value of the same kind as `example`; block_rows is a number or none."""
    if isinstance(example, bool):
        if text.lower() not in ("true", "false"):
            raise ordbm.errors.SettingsError(f"--set {name}={text}: true or false")
        return text.lower() == "true"
    if isinstance(example, str):
        return text
    if text.lower() == "none":
        return None
    try:
        return float(text) if isinstance(example, float) else int(text)
    except ValueError:
        raise ordbm.errors.SettingsError(f"--set {name}={text}: must be a number") from None


def options_for(arguments: Mapping[str, Any]) -> list[str]:
    """The options that make `ModelOptions` say these arguments of `OrdinalBM`: its inverse."""
    from ordbm.model.learners import LEARNERS, Learner

    found: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, Learner):
            same = [name for name, known in LEARNERS.items() if type(known) is type(value)]
            base = min(same, key=lambda name: LEARNERS[name].other_side != value.other_side)
            found += ["--learner", base]
            plain = LEARNERS[base].settings()
            for setting, one in value.settings().items():
                if one != plain[setting]:
                    found += ["--set", f"{setting}={one}"]
        elif isinstance(value, bool):
            found.append(f"--{'' if value else 'no-'}{name.replace('_', '-')}")
        elif value is not None and (name, value) != ("preset", "default"):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            found += [f"--{name.replace('_', '-')}", text]
    return found
