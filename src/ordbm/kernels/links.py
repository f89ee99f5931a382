"""Links between the columns of a row: what linked ratings say, and the gradient of their weights.

`where[c]` is the position of the row's rating of column c. Entries left over from other rows lie
outside first..last, the row's own positions, so the table never needs clearing.
"""

from numba import njit

from ordbm.kernels.options import INNER, KERNEL


@njit(**INNER, inline="always")
def mark_row(first, last, column, where):
    """Enter a row's ratings into the table `where`, (C,)."""
    for position in range(first, last):
        where[column[position]] = position


@njit(**INNER)
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


@njit(**INNER)
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
        for s in range(pull.shape[1]):
            for other in range(pull.shape[1]):
                out[s] += pair[b, s, other] * pull[b, other]


@njit(**INNER, inline="always")
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


@njit(**INNER, inline="always")
def fill_link_residual(first, last, residual, pair, out):
    """out[slot, b, l] = sum_s D(s) f_b(s, l): the residual as level l feels it."""
    for slot in range(first, last):
        for b in range(pair.shape[0]):
            for level in range(pair.shape[2]):
                total = residual.dtype.type(0)
                for s in range(pair.shape[1]):
                    total += residual[slot, s] * pair[b, s, level]
                out[slot, b, level] = total


@njit(**INNER)
def add_link_gradient(first, last, shift, rows, links, pair, link_work, sample, work, gradient):
    """Add one row's part of the gradient of every edge between two of its ratings, (E, B).

    Pseudo-likelihood: sum_s D_i(s) f_b(s, r_j) + D_j(s) f_b(s, r_i), D being the residuals.
    Contrastive divergence: f_b(r_i, r_j) - f_b(r'_i, r'_j), r' being the sample.
    """
    where = work.where
    found = work.found
    mark_row(first, last, rows.column, where)
    felt = link_work.felt
    if sample is None:
        fill_link_residual(first - shift, last - shift, link_work.residual, pair, felt)
    one = gradient.dtype.type(1)
    gaussian = rows.value.size > 0
    for position in range(first, last):
        column = rows.column[position]
        slot = position - shift
        level = rows.level[position]
        value = rows.value[position] if gaussian else one
        count = find_linked(
            first_upper(column, links), links.start[column + 1], links.neighbour, where, first,
            last, found,
        )  # fmt: skip
        for hit in range(count):
            place = found[hit]
            e = links.edge[place]
            other_position = where[links.neighbour[place]]
            other = other_position - shift
            other_level = rows.level[other_position]
            other_value = rows.value[other_position] if gaussian else one
            for b in range(pair.shape[0]):
                if sample is None:
                    gradient[e, b] += (
                        felt[slot, b, other_level] * other_value + felt[other, b, level] * value
                    )
                else:
                    now = sample.value[slot] if gaussian else one
                    other_now = sample.value[other] if gaussian else one
                    sampled = pair[b, sample.level[slot], sample.level[other]]
                    data = pair[b, level, other_level] * value * other_value
                    gradient[e, b] += data - sampled * now * other_now


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
