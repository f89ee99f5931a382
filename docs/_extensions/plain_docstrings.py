"""Docstrings are plain text with `code` in backticks; Sphinx reads reStructuredText."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

ARRAY = re.compile(r"~?(numpy\.)?ndarray\[tuple\[[^]]*\], ~?(numpy\.)?dtype\[~?(numpy\.)?(\w+)\]\]")
ENTRY = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): (?=\S)")


def setup(app: Any) -> dict[str, bool]:
    """Rewrite every docstring and signature before it is parsed."""
    app.connect("autodoc-process-docstring", _rewrite)
    app.connect("autodoc-process-signature", _shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _shorten(
    _app: Any,
    _what: str,
    _name: str,
    _object: Any,
    _options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Arrays by the type of their numbers alone."""
    short = [text and ARRAY.sub(r"ndarray[\4]", text) for text in (signature, returned)]
    return short[0] and short[0].replace("<factory>", "..."), short[1]


def _rewrite(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list) -> None:
    rewritten: list[str] = []
    for is_text, block in groupby(lines, key=lambda line: bool(line.strip())):
        rewritten += _as_rst(list(block)) if is_text else [""]
    lines[:] = [*rewritten, ""]


def _as_rst(block: list[str]) -> list[str]:
    """A paragraph; or a list, where each line that is not indented opens with `name: `."""
    if block[0].startswith("    "):
        return ["::", "", *block]  # a formula or an example, as it stands
    heads = [line for line in block if not line.startswith(" ")]
    if len(heads) > 1 and all(ENTRY.match(line) for line in heads):
        return [_entry(line) for line in block]
    return [_escaped(line.strip()) for line in block]


def _entry(line: str) -> str:
    head = ENTRY.match(line)
    if head is None:
        return "  " + _escaped(line.strip())
    names = ", ".join(f"``{name}``" for name in head[1].split(", "))
    return f"- {names}: {_escaped(line[head.end() :])}"


def _escaped(text: str) -> str:
    parts = re.split(r"`([^`]+)`", text)
    return "".join(
        f"``{part}``" if place % 2 else re.sub(r"([*_|\\`])", r"\\\1", part)
        for place, part in enumerate(parts)
    )
