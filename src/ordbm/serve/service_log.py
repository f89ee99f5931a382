"""The log: a JSON document a line on the error stream, with no more of a request than its route."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any

SERVICE_LOG = logging.getLogger("ordbm.serve")
_OWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """A record as one line; JSON escapes whatever would end or forge one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's time, level, name and words, and what it was given besides."""
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[0] is not None:
            # Where it was and of what kind: words of errors may quote what people sent.
            told["error"] = record.exc_info[0].__name__
            told["at"] = [
                f"{frame.name} {frame.filename.rpartition('/')[2]}:{frame.lineno}"
                for frame in traceback.extract_tb(record.exc_info[2])[-8:]
            ]
        return json.dumps(told, default=str)


def log_settings(level: str) -> dict[str, Any]:
    """For `logging.config`, and so for uvicorn."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": "ordbm.serve.service_log.JsonLines"}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"
            }
        },
        "loggers": {
            name: {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
            for name in ("ordbm", "uvicorn")
        },
    }  # fmt: skip


def start_log(level: str) -> None:
    """Write the package's log from here on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("ordbm")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level.upper())
