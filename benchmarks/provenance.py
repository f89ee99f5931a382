"""What a benchmark says about where and on which code it ran."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def cpu_model() -> str:
    """The processor's name as Linux gives it, elsewhere whatever Python knows."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit measured, marked if the working tree differs from it."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return result.stdout.strip() or "unknown"
