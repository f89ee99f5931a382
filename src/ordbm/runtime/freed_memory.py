"""Memory that has been freed, back to the system."""

from __future__ import annotations

import ctypes
import gc


def give_back_freed_memory() -> None:
    """Let the C library return what it keeps for later, where it can (glibc's `malloc_trim`).

    It keeps the pages of a large model that is gone between smaller things that are not, so that a
    process that has held two models at once would go on holding the memory of two.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
