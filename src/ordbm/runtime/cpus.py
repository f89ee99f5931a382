"""How many processors this process may use: cores, affinity, a container's quota, its share.

A share is what OMP_NUM_THREADS says: whoever runs several processes side by side (Ray, Dask,
joblib, a scheduler of jobs) sets it so that together they have no more threads than cores.
"""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cpus() -> int:
    """Cores that the system lets this process run on, or fewer by its quota or its share."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    limits = [limit for limit in (cpu_quota(), cpu_share()) if limit is not None]
    return max(1, int(min([cores, *limits])))


def cpu_share() -> int | None:
    """The threads that OMP_NUM_THREADS grants at the outermost level; None if it does not say."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and len(first) < 10 else None


def cpu_quota(root: Path = CGROUPS, own: Path = OWN_CGROUP) -> float | None:
    """Processors' worth of time that control groups grant, the least of all levels; None if all.

    Version 2 states quota and period in `cpu.max`, version 1 in `cpu.cfs_quota_us` and
    `cpu.cfs_period_us`. Inside a container a group may be seen as the root itself.
    """
    quotas = [
        quota
        for folder in _folders(root, own)
        for quota in (_quota_v2(folder), _quota_v1(folder))
        if quota is not None
    ]
    return min(quotas, default=None)


def _folders(root: Path, own: Path) -> set[Path]:
    """The folders of this process's groups and of all groups above them."""
    folders = set()
    for line in (_text(own) or "0::/").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        tops = [root] if not controllers else [root / controllers, root / "cpu"]
        parts = [part for part in path.split("/") if part and part != ".."]
        folders |= {top.joinpath(*parts[:depth]) for top in tops for depth in range(len(parts) + 1)}
    return folders


def _quota_v2(folder: Path) -> float | None:
    words = (_text(folder / "cpu.max") or "max").split()
    return _ratio(words[0], words[1]) if len(words) == 2 else None


def _quota_v1(folder: Path) -> float | None:
    return _ratio(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))


def _ratio(quota: str | None, period: str | None) -> float | None:
    """quota / period; None if there is no limit ("max", -1) or it cannot be read."""
    try:
        limit, length = float(quota or "max"), float(period or "")
    except ValueError:
        return None
    return limit / length if limit > 0 and length > 0 else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
