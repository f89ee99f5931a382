"""How much memory there is, so that what cannot fit is refused before work starts."""

from __future__ import annotations

import os
import resource

from ordbm.errors import CostError


def memory_there_is() -> int:
    """Bytes that this process can have at most: the machine's, or fewer if it is held to fewer."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return physical if limit == resource.RLIM_INFINITY else min(physical, limit)


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
