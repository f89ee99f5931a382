"""Links between the columns of a row: what linked ratings say, and the gradient of their weights.

`where[c]` is the position of the row's rating of column c. Entries left over from other rows lie
outside first..last, the row's own positions, so the table never needs clearing.
"""

from numba import njit

from ordbm.kernels.options import KERNEL


@njit(**KERNEL)
def mark_row(first, last, column, where):
    """Enter a row's ratings into the table `where`, (C,)."""
    for position in range(first, last):
        where[column[position]] = position


@njit(**KERNEL)
def add_link_scores(
    column, where, first, last, shift, level, value, links, weight, pair, pull, out
):
    """out[s] += J(s) = sum_jb lambda_ijb f_b(s, r_j) over the row's linked ratings (section 2).

    A rating at position p has level[p - shift] (and value[p - shift]); `pull` is room for (B, n).
    """
    pull[:] = 0
    for place in range(links.start[column], links.start[column + 1]):
        position = where[links.neighbour[place]]
        if first <= position < last:
            amount = value[position - shift] if value.size else value.dtype.type(1)
            for b in range(pull.shape[0]):
                pull[b, level[position - shift]] += weight[links.edge[place], b] * amount
    for b in range(pull.shape[0]):
        for s in range(pull.shape[1]):
            for other in range(pull.shape[1]):
                out[s] += pair[b, s, other] * pull[b, other]


@njit(**KERNEL)
def first_upper(column, links):
    """Where the neighbours above `column` begin: a column owns the edges to those."""
    low = links.start[column]
    high = links.start[column + 1]
    while low < high:
        middle = (low + high) // 2
        if links.neighbour[middle] > column:
            high = middle
        else:
            low = middle + 1
    return low


@njit(**KERNEL)
def add_residual_gradient(own, other, own_level, own_value, other_level, other_value, pair, out):
    """Pseudo-likelihood gradient of one edge in one row.

    out[b] += sum_s D_i(s) f_b(s, r_j) + D_j(s) f_b(s, r_i)
    """
    for b in range(out.size):
        for s in range(own.size):
            out[b] += own[s] * pair[b, s, other_level] * other_value
            out[b] += other[s] * pair[b, s, own_level] * own_value
