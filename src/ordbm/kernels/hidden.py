"""Hidden units: their input and what they say about the levels of a rating."""

from numba import njit

from ordbm.kernels.barrier import meet
from ordbm.kernels.numerics import fast_exp, fast_log, sigmoid
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.unit_rows import add_coupling_rows, add_level_rows

_SURE = 60.0  # the largest |x_k| that makes a difference in float32


@njit(inline="always")
def row_input(first, last, column, level, value, hidden_bias, coupling, total, out):
    """x_k = alpha_k + sum_j v_j W[j, r_j, k] of one row (section 2), summed in float64 `total`."""
    d = out.size
    for k in range(d):
        total[k] = hidden_bias[k]
    if value.size:
        for position in range(first, last):
            weights = coupling[column[position], level[position]]
            for k in range(d):
                total[k] += value[position] * weights[k]
    else:
        add_level_rows(first, last, column, level, coupling, total)
    for k in range(d):
        out[k] = total[k]


@njit(**KERNEL)
def rows_input(first_row, last_row, rows, hidden_bias, coupling, total, out):
    """`row_input` of a range of rows, into out (R, d)."""
    for row in range(first_row, last_row):
        row_input(
            rows.start[row], rows.start[row + 1], rows.column, rows.level, rows.value,
            hidden_bias, coupling, total, out[row],
        )  # fmt: skip


@njit(**KERNEL)
def sum_inputs(
    first_chunk, last_chunk, chunk_column, entries, value, coupling, n_rows, chunk_input, team
):
    """chunk_input[c] (rows, d) = sum of v W[j, r_j] over the entries of a chunk of columns."""
    for chunk in range(first_chunk, last_chunk):
        total = chunk_input[chunk]
        total[:n_rows] = 0
        for place in range(chunk_column[chunk], chunk_column[chunk + 1]):
            weights = coupling[entries.column[place]]
            begin = entries.column_entry[place]
            end = entries.column_entry[place + 1]
            if value.size:
                for q in range(begin, end):
                    amount = value[entries.position[q]]
                    row = total[entries.row[q]]
                    for k in range(row.size):
                        row[k] += amount * weights[0, k]
            else:
                add_coupling_rows(entries.row[begin:end], entries.group[begin:end], weights, total)
    return meet(team.barrier, team.threads)


@njit(**KERNEL)
def gather_inputs(first, last, n_chunks, chunk_input):
    """chunk_input[0] (rows, d) becomes the sum of the chunks', for rows first..last."""
    for chunk in range(1, n_chunks):
        for r in range(first, last):
            for k in range(chunk_input.shape[2]):
                chunk_input[0, r, k] += chunk_input[chunk, r, k]


@njit(**KERNEL)
def fill_hidden(first, last, side, n_hidden, hidden, team):
    """x_k = alpha_k + chunk_input[0, :, k] of the block's rows first..last, and P(h_k = 1 | r).

    Units that fill a vector are never on.
    """
    steepest = side.hidden_bias.dtype.type(_SURE if side.hidden_bias.itemsize == 4 else 10 * _SURE)
    for r in range(first, last):
        x = hidden.input[r]
        on = hidden.on[r]
        off = hidden.off[r]
        for k in range(x.size):
            x[k] = side.hidden_bias[k] + hidden.chunk_input[0, r, k]
            # Beyond this a unit is as good as fixed, and what it asks would be denormal, so slow.
            z = min(max(x[k], -steepest), steepest)
            on[k] = sigmoid(z)
            off[k] = sigmoid(-z)
        for k in range(n_hidden, x.size):
            on[k] = 0
            off[k] = 1
    return meet(team.barrier, team.threads)


@njit(**INNER)
def hidden_mean(x, out):
    """P(h_k = 1 | r) = 1 / (1 + e^-x_k)."""
    for k in range(x.size):
        out[k] = sigmoid(x[k])


@njit(inline="always")
def softplus(z):
    """log(1 + e^z) without overflow."""
    return max(z, z * 0) + fast_log(fast_exp(-abs(z)) + 1)


@njit(**INNER)
def add_softplus_scores(x, weights, scores):
    """scores[s] += sum_k softplus(x_k + W[s, k]): hidden units summed out (A.1).

    `weights` is the column's coupling, (n, d); `x` is without the column's own rating.
    """
    for s in range(weights.shape[0]):
        total = scores.dtype.type(0)
        at_level = weights[s]
        for k in range(x.size):
            total += softplus(x[k] + at_level[k])
        scores[s] += total


@njit(**INNER)
def add_mean_scores(hidden, weights, scores):
    """scores[s] += sum_k P(h_k) W[s, k]: the mean-field form of equation 2."""
    for s in range(weights.shape[0]):
        total = scores.dtype.type(0)
        at_level = weights[s]
        for k in range(hidden.size):
            total += hidden[k] * at_level[k]
        scores[s] += total
