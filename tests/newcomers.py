"""Fold-in people for tests: rows of ratings, and machines conditioned on them."""

import numpy as np

from ordbm.data.csr import CSR
from ordbm.inference.people import FoldIns


def row_of(items, level=None, value=None):
    """One row of ratings, in any order of items."""
    items = np.asarray(items, np.int32)
    order = np.argsort(items)
    items = items[order]
    level = np.zeros(len(items), np.uint8) if level is None else np.asarray(level, np.uint8)[order]
    value = np.zeros(0) if value is None else np.asarray(value)[order]
    start = np.array([0, len(items)], np.int64)
    return CSR(start, items, level, value.astype(np.float32), np.zeros(0, np.int32))


def machines_for(state, given, user=-1):
    """Each machine conditioned on somebody who gave these ratings, code 0."""
    return FoldIns(state, np.array([user], np.int32), [given]).conditioned(0)[0]
