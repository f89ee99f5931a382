"""The most memory that this process has used since a moment of one's choice."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_FORGET = Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Start anew, where the system can; elsewhere the peak is that of the process's whole life."""
    with suppress(OSError):
        _FORGET.write_text("5", encoding="ascii")


def peak_bytes() -> int | None:
    """The largest resident size; None where the system does not tell."""
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    with suppress(ImportError):
        import resource  # noqa: PLC0415

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None
