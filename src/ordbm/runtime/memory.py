"""How much memory there is, and how much of it work may take."""

from __future__ import annotations

import os
import re
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

from ordbm.errors import CostError, SettingsError
from ordbm.runtime.checks import float_of, said

Memory = int | float | str | None  # bytes, "8GB", or None: what is free, less some room

_SHARE_OF_FREE = 0.8  # the rest is for what is not counted, and for others
_LEAST = 2**20
_UNITS = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12} | {
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40
}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-z]*)\s*", re.ASCII)
_CGROUPS = (  # limit, use, and what of the use is cache; of version 2 and of version 1
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
        "total_inactive_file",
    ),
)  # fmt: skip


def memory_there_is() -> int:
    """Bytes that this process can have at most: the machine's, or fewer if it is held to fewer."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return physical if limit == resource.RLIM_INFINITY else min(physical, limit)


def free_memory() -> int:
    """Bytes that this process can still take: of the machine, its group and its own limits."""
    free = [memory_there_is()]
    sizes = _fields(Path("/proc/meminfo"), 2**10)
    free += [sizes[name] for name in ("MemAvailable",) if name in sizes]
    status = _fields(Path("/proc/self/status"), 2**10)
    for limit, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            free.append(most - status.get(used, 0))
    for limit_at, use_at, parts_at, cache in _CGROUPS:
        with suppress(OSError, ValueError):  # no such version, or no limit ("max")
            group = Path("/sys/fs/cgroup")
            limit = int((group / limit_at).read_text())
            used_bytes = int((group / use_at).read_text())
            free.append(limit - used_bytes + _fields(group / parts_at, 1).get(cache, 0))
    return max(0, min(free))


def bytes_of(memory: Memory, name: str = "memory") -> int:
    """The setting `memory=` in bytes: a number, a text such as "8GB", or None for what is free."""
    if memory is None:
        return max(_LEAST, int(_SHARE_OF_FREE * free_memory()))
    size = _size_of(memory)
    if not _LEAST <= size < 2**62:
        raise SettingsError(
            f'{said(name, memory)}: give bytes or a size such as "8GB" or "500MB", at least 1 MB'
        )
    return int(size)


def check_memory(n_bytes: float, what: str, remedy: str) -> None:
    """An error unless `what`, so large at least, can be held; `remedy` says what to ask for."""
    most = memory_there_is()
    if n_bytes > most:
        raise CostError(
            f"{what} would take at least {gigabytes(n_bytes)} of memory, and there are "
            f"{gigabytes(most)}: {remedy}"
        )


def gigabytes(n_bytes: float) -> str:
    """A size in words: `1.5 GB`, `3.2e+09 GB`."""
    return f"{n_bytes / 1e9:.2g} GB"


def _size_of(memory: Any) -> float:
    if not isinstance(memory, str):
        return float_of(memory)
    found = _SIZE.fullmatch(memory.lower())
    if found is None or found[2] not in _UNITS:
        return -1.0
    return float(found[1]) * _UNITS[found[2]]


def _fields(path: Path, unit: int) -> dict[str, int]:
    """The numbers of a file of lines `name: number`, in bytes."""
    found = {}
    with suppress(OSError):
        for line in path.read_text().splitlines():
            name, *rest = line.replace(":", " ").split()
            if rest and rest[0].isdigit():
                found[name] = int(rest[0]) * unit
    return found
