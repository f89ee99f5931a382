"""The command line, `ordbm`. Heavy libraries are imported inside commands: help must be quick."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from ordbm.cli import (  # noqa: F401
    data,
    database,
    demo,
    evaluate,
    fit,
    inspect,
    keys,
    predict,
    recommend,
    reproduce,
    serve,
    tune,
    update,
)
from ordbm.cli.app import app, by_option
from ordbm.runtime.printable import printable

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line, once `listen_from_now_on` has been called."""
    warnings.filterwarnings("ignore", message="stopped by Ctrl-C")  # commands say it themselves
    warnings.showwarning = _remark
    app()


def _remark(message: Any, *_: Any, **__: Any) -> None:
    print(f"ordbm: {printable(by_option(str(message)))}", file=sys.stderr)
