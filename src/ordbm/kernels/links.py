"""Links between the columns of a row: what linked ratings say, and the gradient of their weights.

`where[c]` is the position of the row's rating of column c. Entries left over from other rows lie
outside first..last, the row's own positions, so the table never needs clearing.
"""

from numba import njit

from ordbm.kernels.options import KERNEL
from ordbm.kernels.steps import add_scaled


@njit(inline="always")
def mark_row(first, last, column, where):
    """Enter a row's ratings into the table `where`, (C,)."""
    for position in range(first, last):
        where[column[position]] = position


@njit(inline="always")
def find_linked(begin, end, neighbour, where, first, last, found):
    """The places begin..end whose neighbour the row has rated, into `found`; how many.

    Few have been rated, and which is hard to guess: no branch.
    """
    count = 0
    for place in range(begin, end):
        position = where[neighbour[place]]
        found[count] = place
        count += (position >= first) & (position < last)
    return count


@njit(inline="always")
def add_link_scores(
    column, where, first, last, shift, level, value, links, weight, pair, found, pull, out
):
    """out[s] += J(s) = sum_jb lambda_ijb f_b(s, r_j) over the row's linked ratings (section 2).

    A rating at position p has level[p - shift] (and value[p - shift]); `found` is room for the
    places of linked ratings, `pull` for (B, n).
    """
    pull[:] = 0
    begin = links.start[column]
    for hit in range(
        find_linked(begin, links.start[column + 1], links.neighbour, where, first, last, found)
    ):
        place = found[hit]
        position = where[links.neighbour[place]] - shift
        amount = value[position] if value.size else value.dtype.type(1)
        for b in range(pull.shape[0]):
            pull[b, level[position]] += weight[links.edge[place], b] * amount
    for b in range(pull.shape[0]):
        for other in range(pull.shape[1]):
            if pull[b, other] != 0:  # on a long scale few levels have linked ratings
                add_scaled(pull[b, other], pair[b, other], out)


@njit(inline="always")
def first_upper(column, links):
    """Where the neighbours above `column` begin: an edge is visited from its lower end only."""
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
def fill_link_scores(first, last, row, row_shift, rows, links, weight, pair, work, out):
    """J(s) of every rating of the block's rows first..last, into out (slots, n)."""
    for r in range(first, last):
        begin = rows.start[row[r]]
        end = rows.start[row[r] + 1]
        mark_row(begin, end, rows.column, work.where)
        for position in range(begin, end):
            score = out[position - row_shift[r]]
            for s in range(score.size):
                score[s] = 0
            add_link_scores(
                rows.column[position], work.where, begin, end, 0, rows.level, rows.value, links,
                weight, pair, work.found, work.pull, score,
            )  # fmt: skip


@njit(**KERNEL)
def sum_link_residuals(first, last, row, row_shift, rows, links, pair, link_work, work, gradient):
    """gradient[e, b] = sum over rows of sum_s D_i(s) f_b(s, r_j) + D_j(s) f_b(s, r_i).

    Pseudo-likelihood: D are the residuals, e is the edge between i and j, both rated by a row of
    the block's rows first..last. `felt`[slot, b, l] = sum_s D(s) f_b(s, l).
    """
    where, found, felt, residual = work.where, work.found, link_work.felt, link_work.residual
    one = gradient.dtype.type(1)
    for e in range(gradient.shape[0]):
        for b in range(gradient.shape[1]):
            gradient[e, b] = 0
    for r in range(first, last):
        begin = rows.start[row[r]]
        end = rows.start[row[r] + 1]
        shift = row_shift[r]
        mark_row(begin, end, rows.column, where)
        for slot in range(begin - shift, end - shift):
            for b in range(pair.shape[0]):
                for level in range(pair.shape[2]):
                    felt[slot, b, level] = 0
                for s in range(pair.shape[1]):
                    add_scaled(residual[slot, s], pair[b, s], felt[slot, b])
        for position in range(begin, end):
            column = rows.column[position]
            level = rows.level[position]
            value = rows.value[position] if rows.value.size else one
            count = find_linked(
                first_upper(column, links), links.start[column + 1], links.neighbour, where, begin,
                end, found,
            )  # fmt: skip
            for hit in range(count):
                other = where[links.neighbour[found[hit]]]
                other_value = rows.value[other] if rows.value.size else one
                for b in range(pair.shape[0]):
                    gradient[links.edge[found[hit]], b] += (
                        felt[position - shift, b, rows.level[other]] * other_value
                        + felt[other - shift, b, level] * value
                    )


@njit(**KERNEL)
def sum_link_contrasts(first, last, row, row_shift, rows, links, pair, sample, work, gradient):
    """gradient[e, b] = sum over rows of f_b(r_i, r_j) - f_b(r'_i, r'_j), r' being the sample.

    Contrastive divergence; e and rows as in `sum_link_residuals`.
    """
    where, found = work.where, work.found
    one = gradient.dtype.type(1)
    gradient[:] = 0
    for r in range(first, last):
        begin = rows.start[row[r]]
        end = rows.start[row[r] + 1]
        mark_row(begin, end, rows.column, where)
        for position in range(begin, end):
            column = rows.column[position]
            slot = position - row_shift[r]
            count = find_linked(
                first_upper(column, links), links.start[column + 1], links.neighbour, where, begin,
                end, found,
            )  # fmt: skip
            for hit in range(count):
                other = where[links.neighbour[found[hit]]]
                other_slot = other - row_shift[r]
                both = sampled = one
                if rows.value.size:
                    both = rows.value[position] * rows.value[other]
                    sampled = sample.value[slot] * sample.value[other_slot]
                for b in range(pair.shape[0]):
                    gradient[links.edge[found[hit]], b] += (
                        pair[b, rows.level[position], rows.level[other]] * both
                        - pair[b, sample.level[slot], sample.level[other_slot]] * sampled
                    )


@njit(**KERNEL)
def add_link_support(start, column, links, where, found, support):
    """support[e] += how many rows rated both ends of edge e; `where` (C,) starts at -1."""
    for row in range(start.size - 1):
        mark_row(start[row], start[row + 1], column, where)
        for position in range(start[row], start[row + 1]):
            i = column[position]
            count = find_linked(
                first_upper(i, links), links.start[i + 1], links.neighbour, where, start[row],
                start[row + 1], found,
            )  # fmt: skip
            for hit in range(count):
                support[links.edge[found[hit]]] += 1
