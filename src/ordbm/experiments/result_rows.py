"""Rows of finished runs, a JSON document per line, kept as they come."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ordbm.errors import ModelFileError

Row = dict[str, Any]

_NEEDED = {"run", "machine", "learner", "hidden", "seed", "quick", "scores"}


def rows_of(path: Path) -> list[Row]:
    """The rows of a file; none if there is no file. A last line that was cut off does not count."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(_whole(path).splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not set(row) >= _NEEDED:
            raise ModelFileError(
                f"{path}: line {number} is no row of results: take it out, or choose another folder"
            )
        rows.append(row)
    return rows


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row such that it is on the disk, whole, when this returns."""
    line = json.dumps(row, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            whole = len(_whole(path))
            if whole < file.tell():  # a line that was cut off when its writer was killed
                file.truncate(whole)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise ModelFileError(
            f"cannot write {path}: {problem.strerror or problem}; choose another folder"
        ) from None


def _whole(path: Path) -> bytes:
    """All lines that have come to their end."""
    text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1]
