"""What a file has of links: each once, from its lower end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ordbm.model.neighbours import Links, links_between
from ordbm.persistence.container import Arrays, taken


def link_arrays(links: Links) -> Arrays:
    """Both ends and the similarity of each link."""
    owner = np.repeat(np.arange(links.n_columns, dtype=np.int32), np.diff(links.start))
    upward = links.neighbour > owner  # each link once, from its lower end: in the order of edges
    return {
        "link_low": owner[upward],
        "link_high": links.neighbour[upward],
        "link_similarity": links.similarity,
    }


def unpacked_links(arrays: Arrays, name: str, n_columns: int) -> Links | None:
    """A side's links, of which there may be none; None if there is no such side."""
    if f"{name}_side.link_low" not in arrays:
        return None
    low, high = (
        taken(arrays, f"{name}_side.{end}", np.int32, None) for end in ("link_low", "link_high")
    )
    similarity = taken(arrays, f"{name}_side.link_similarity", np.float32, len(low))
    if len(high) != len(low):
        raise ValueError(f"the links of the {name} side do not add up")
    return _links(low, high, similarity, n_columns)


def _links(
    low: NDArray[np.int32], high: NDArray[np.int32], similarity: NDArray[np.float32], n_columns: int
) -> Links:
    """The graph of these links, which must be in the order of their (low, high) columns."""
    key = low.astype(np.int64) * n_columns + high
    in_range = (low >= 0) & (low < high) & (high < n_columns)
    if not in_range.all() or (key[1:] <= key[:-1]).any():
        raise ValueError("links are out of range or out of order")
    if not ((similarity != 0) & (np.abs(similarity) <= 1)).all():
        raise ValueError("a link has no similarity")
    return links_between(low, high, similarity, n_columns)
