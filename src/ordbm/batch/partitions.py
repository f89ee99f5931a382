"""Work in parts, each a file of a folder that is whole or not there: what was killed goes on.

A part that is done is a file under its own name; until then it is written under another, and takes
its name at once. `_ordbm.json` says what the folder is for, so that no two jobs meet in it, and
`_SUCCESS` that all parts are there. A lock, which ends with its process, keeps a second one out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ordbm.errors import SettingsError
from ordbm.runtime.atomic_files import atomic_file, none_is_ours, remove_left_overs
from ordbm.runtime.file_locks import locked_file
from ordbm.runtime.interruption import listening, safe_point
from ordbm.runtime.printable import shown

_MANIFEST, _DONE, _LOCK = "_ordbm.json", "_SUCCESS", "_ordbm.lock"


class Partition(NamedTuple):
    """One part of a job: the name of its file below the folder, and what it is made of."""

    name: str
    size: int  # of the input, so that another one of the same name is noticed
    what: Any  # for `work` alone


class Done(NamedTuple):
    """What a job has done: parts written now, parts found done, and the rows written now."""

    written: int
    found: int
    rows: int


OnPart = Callable[[int, int], object]  # told how many parts are done, of how many
WritePart = Callable[[Any, BinaryIO], int]  # writes a part, and returns its number of rows


def run_partitions(
    folder: str | os.PathLike[str],
    job: dict[str, Any],
    parts: Sequence[Partition],
    work: WritePart,
    on_part: OnPart = lambda _, __: None,
) -> Done:
    """Write each part that is not there yet; `on_part` is told how many are there, of how many.

    `job` says in plain values what is asked, of which model: a folder is for one job.
    """
    place = Path(folder)
    _check_names(parts)
    about = {**job, "parts": [[part.name, part.size] for part in parts]}
    written = rows = found = 0
    with listening(), _held(place):
        _claim(place, about)
        for number, part in enumerate(parts):
            safe_point()
            target = place / part.name
            if target.is_file():
                found += 1
            else:
                with _writing(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with atomic_file(target, none_is_ours) as file:
                        rows += work(part.what, file)
                written += 1
            on_part(number + 1, len(parts))
        with _writing(place / _DONE), atomic_file(place / _DONE):
            pass
    return Done(written, found, rows)


def _claim(place: Path, about: dict[str, Any]) -> None:
    """Have the folder for this job, or an error if it is somebody else's."""
    manifest = place / _MANIFEST
    text = json.dumps(about, indent=1, sort_keys=True) + "\n"
    if manifest.is_file():
        try:
            before = json.loads(manifest.read_text("utf-8"))
        except (OSError, ValueError) as problem:
            raise SettingsError(
                f"{manifest} cannot be read: {problem}; choose another folder"
            ) from None
        if before != about:
            raise SettingsError(
                f"{place} is of another job, {_difference(before, about)}: choose another folder, "
                "or remove this one"
            )
        return
    others = [entry.name for entry in place.iterdir() if not entry.name.startswith(("_ordbm", "."))]
    if others:
        raise SettingsError(
            f"{place} has other files, such as {shown(min(others))}: choose a folder that is "
            "new or empty"
        )
    for name in (_MANIFEST, _DONE):
        remove_left_overs(place / name)
    with _writing(manifest), atomic_file(manifest, none_is_ours) as file:
        file.write(text.encode())


def _difference(before: Any, about: dict[str, Any]) -> str:
    """What two jobs differ in, in words."""
    if not isinstance(before, dict):
        return "or of none"
    for name in sorted({*before, *about}):
        if before.get(name) != about.get(name):
            if name == "parts":
                return "whose input has other files"
            return f"whose {name} is {shown(before.get(name))}, not {shown(about.get(name))}"
    return "or of none"


def _check_names(parts: Sequence[Partition]) -> None:
    """An error unless each part has a name of its own, below the folder."""
    seen: set[str] = set()
    for part in parts:
        path = PurePosixPath(part.name)
        if path.is_absolute() or ".." in path.parts or part.name in seen:
            raise SettingsError(f"{shown(part.name)} cannot be the name of a file of its own")
        seen.add(part.name)


@contextmanager
def _held(place: Path) -> Iterator[None]:
    """The folder, for as long as this process works on it."""
    with _writing(place):
        place.mkdir(parents=True, exist_ok=True)
    try:
        lock = locked_file(place / _LOCK)
        lock.__enter__()
    except BlockingIOError as problem:
        raise SettingsError(
            f"{place} is being written to by process {problem.args[2]}: wait for it, or end it"
        ) from None
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise SettingsError(
            f"cannot write {target}: {problem.strerror or problem}; choose a folder that has room"
        ) from problem
