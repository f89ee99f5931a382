"""Defaults and bounds are a promise: a change of one shows in a list that is read and committed.

`python tests/test_defaults.py` writes the list anew.
"""

import inspect
from dataclasses import fields
from pathlib import Path

import ordbm
from ordbm.baselines import BASELINES
from ordbm.model import rules, settings
from ordbm.model.declaration import declaration
from ordbm.model.learners import LEARNERS, PARTS, learner_of

LISTED = Path(__file__).parent / "samples" / "defaults.txt"
GROUPS = [
    settings.Settings,
    *PARTS.values(),
    *(getattr(rules, name) for name in sorted(vars(rules)) if name.endswith("Rules")),
]


def bounds(about):
    """Which values a setting may have, as in [0, 1)."""
    low = f"({about.above:g}" if about.above is not None else f"[{about.least:g}"
    high = "inf)"
    if about.most is not None:
        high = f"{about.most:g}]"
    elif about.below is not None:
        high = f"{about.below:g})"
    return f"{low}, {high}"


def lines():
    for group in GROUPS:
        for one in fields(group):
            about = declaration(one)
            among = f" in {bounds(about)}" if about.kind in (int, float) else ""
            yield f"{group.__name__}.{one.name} = {one.default!r}{among}"
    for name in sorted(settings.PRESETS):
        yield f"preset {name}: {settings.PRESETS[name]!r}"
    for name in sorted(LEARNERS):
        for key, value in learner_of(name).settings().items():
            yield f"learner {name}: {key} = {value!r}"
    for name, kind in sorted([*((name, getattr(ordbm, name)) for name in ordbm.__all__)]):
        yield from signatures(name, kind)
    for name in sorted(BASELINES):
        yield from signatures(f"baseline {name}", BASELINES[name])


def signatures(name, kind):
    """Name and defaults of a function, or of a class and its public methods."""
    parts = {name: kind}
    if inspect.isclass(kind):
        found = inspect.getmembers(kind, inspect.isfunction)
        parts |= {f"{name}.{key}": part for key, part in found if not key.startswith("_")}
    for key, part in parts.items():
        if callable(part) and not (inspect.isclass(part) and issubclass(part, Exception)):
            given = inspect.signature(part).parameters.values()
            told = [f"{one.name}={one.default!r}" for one in given if one.default is not one.empty]
            if told:
                yield f"{key}({', '.join(told)})"


def test_defaults_and_bounds_are_those_listed():
    assert "\n".join(lines()) + "\n" == LISTED.read_text(encoding="utf-8")


if __name__ == "__main__":
    LISTED.write_text("\n".join(lines()) + "\n", encoding="utf-8")
