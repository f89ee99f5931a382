"""OrdinalBM, the front door: how it learns, and what it answers."""

from ordbm.estimator.ordinal_bm import OrdinalBM, load

__all__ = ["OrdinalBM", "load"]
