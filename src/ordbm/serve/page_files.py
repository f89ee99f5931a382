"""The page's own files: a folder of the package, sent with types, tags and compression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles

PAGE = Path(__file__).with_name("page")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFiles(StaticFiles):
    """Files that a browser may keep, and asks about each time: an update is seen at once."""

    def __init__(self) -> None:
        super().__init__(directory=PAGE, html=True)

    def file_response(self, full_path: Any, *rest: Any, **told: Any) -> Response:
        found = super().file_response(full_path, *rest, **told)
        found.headers["Cache-Control"] = "no-cache"
        kind = _TYPES.get(Path(full_path).suffix)
        if kind is not None and found.status_code == 200:
            found.headers["Content-Type"] = kind  # whatever types this machine has on its lists
        return found
