"""The arrays that kernels read and write, by name.

A rating is a level and a weight: on a discrete scale the level says which row of the tables it
uses and the weight is one; for a Gaussian machine there is a single level and the weight is the
standardised rating. With that, nearly every kernel serves both.

n levels, C columns, d hidden units, E links, B pair features. While learning, d is padded to whole
vectors (see `stages`), and couplings are those of G groups of levels: all of a group have the same.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
LANES = 8  # hidden units in a vector; they are kept in whole vectors
LEVELS = 8  # levels in a vector


def padded(size: int, lanes: int = LANES) -> int:
    """`size` rounded up to whole vectors."""
    return -(-size // lanes) * lanes


class Tables(NamedTuple):
    """What the features say about levels."""

    smoothing: Floats  # (G, G) F F': how a step on one group of levels moves the others
    bias_smoothing: Floats  # (n, n) the same for levels' biases
    pair: Floats  # (B, n, n) f_b of two levels
    bias_mean: Floats  # (C, n) where the prior has the columns' biases; (0, n) outside learning
    coupling_mean: Floats  # (C, G, d) the same of couplings; (1, G, d) for all, (0, n, 1) outside


class Entries(NamedTuple):
    """The ratings of a block, grouped by column.

    Integers that grow with ratings are int32, or int64 from 2**31 ratings on.
    """

    row: NDArray[np.int32]  # the place of its row in the block
    level: NDArray[np.uint8]
    group: NDArray[np.uint8]  # of levels, to which its level belongs
    position: NDArray[np.signedinteger]  # empty where nothing asks for it
    score: NDArray[np.signedinteger]  # its place among scores; empty where they come in turn
    first: int  # of the latter the first
    column: NDArray[np.int32]  # (columns,) the columns that the block touches
    column_entry: NDArray[np.int32]  # (columns + 1,) the first entry of each
    width: NDArray[np.int32]  # (columns,) how many entries each has, those of other workers too


class Block(NamedTuple):
    """Rows that are learnt from together, and their ratings.

    A rating has a position (its place among all ratings of the side) and, in its block, a slot (its
    place among the block's ratings by row) and an entry (the same by column).
    """

    row: NDArray[np.int32]
    row_slot: NDArray[np.int64]  # (rows + 1,) a row's first slot
    row_shift: NDArray[np.int64]  # (rows,) position minus slot
    entries: Entries
    chunk_column: NDArray[np.int64]  # (chunks + 1,) the first column of each chunk
    n_rows: int  # with those of other workers
    n_ratings: int  # with those of other workers


class Hidden(NamedTuple):
    """Hidden units of a block's rows given their ratings, (rows, d) each."""

    input: Floats
    on: Floats  # P(h = 1 | ratings)
    off: Floats  # P(h = 0 | ratings)
    chunk_input: Floats  # (chunks, rows, d) float64: what the ratings of a chunk add to the input


class Gradients(NamedTuple):
    """Sums over a block."""

    context: Floats  # (rows, d) PL: what hidden units ask of a row's ratings; CD: P(h | sample)
    chunk_context: Floats  # (chunks, rows, d) PL
    coupling: Floats  # (columns, G, d)
    bias: Floats  # (columns, n)
    hidden_bias: Floats  # (d,)
    level_bias: Floats  # (n,)
    link: Floats  # (LINK_CHUNKS, E, B)


class LinkWork(NamedTuple):
    """Pseudo-likelihood with links: of each of a block's ratings; none without links."""

    score: Floats  # (slots, n) what linked ratings say
    residual: Floats  # (slots, n) observed minus expected
    felt: Floats  # (slots, B, n) the residual as linked ratings feel it


class Sample(NamedTuple):
    """Contrastive divergence: a block's sampled ratings; none for pseudo-likelihood."""

    level: NDArray[np.uint8]  # (slots,)
    value: Floats  # (slots,) Gaussian


class Workspace(NamedTuple):
    """What one block needs; shared by the threads, each of which writes its own part."""

    hidden: Hidden
    gradients: Gradients
    links: LinkWork
    sample: Sample


class Tile(NamedTuple):
    """One thread's work on a few of a column's ratings, on a discrete scale."""

    up: Floats  # (G, d) e^W of a column
    down: Floats  # (G, d) e^-W
    mean: Floats  # (tile, G, d) P(h = 1 | level, others)
    product: Floats  # (tile, padded G, LEVELS) ratios of groups to the observed level's
    by_group: Floats  # (tile, padded G) scores or residuals; `scores` itself if G = n
    scores: Floats  # (tile, padded n)
    level_bias: Floats  # (padded n,)
    bias_gradient: Floats  # (padded n,) of a column
    column: NDArray[np.int64]  # (tile,) the same for all
    slot: NDArray[np.int64]  # (tile,)
    score: NDArray[np.int64]  # (tile,)
    safe: NDArray[np.uint8]  # (tile, padded G / LEVELS) which products are in range, by bits


class RowWork(NamedTuple):
    """One thread's work on one row or column."""

    total: Floats  # (d,) float64
    sum: Floats  # (d,)
    potential: Floats  # (n,)
    pull: Floats  # (B, n)
    where: NDArray[np.int64]  # (C,) position of a row's rating of a column; links only
    found: NDArray[np.int64]  # (most links of a column + 1,) places of linked ratings


class Step(NamedTuple):
    """rate, momentum, and for each kind of parameter its prior precision and curvature per rating.

    A column with c ratings moves by rate / (precision + curvature c + per_row R) in a block of R
    rows; the pull of the prior is shared out over an epoch by the ratings that a block holds.
    """

    rate: np.floating
    momentum: np.floating
    per_row: np.floating
    coupling_precision: np.floating
    coupling_curvature: np.floating
    bias_precision: np.floating
    bias_curvature: np.floating
    hidden_precision: np.floating
    hidden_curvature: np.floating
    link_precision: np.floating
    link_curvature: np.floating


class Team(NamedTuple):
    """One thread among those that learn together; alone, it meets nobody."""

    thread: int
    threads: int
    barrier: NDArray[np.int64]
