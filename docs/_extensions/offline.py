"""Pages are read without a network: one that would fetch something ends the build."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

_FETCHED = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]+)\"")


def setup(app: Any) -> dict[str, bool]:
    """Look at all pages when they are written."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _check(app: Any, error: Exception | None) -> None:
    for page in sorted(Path(app.outdir).rglob("*.html")) if error is None else ():
        if fetched := _FETCHED.findall(page.read_text(encoding="utf-8")):
            raise ExtensionError(f"{page.name} needs the network: {', '.join(fetched)}")
