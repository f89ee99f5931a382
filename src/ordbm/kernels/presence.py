"""Log-odds of being rated for whole rows of items, and the gradient of their pseudo-likelihood.

Rows of users are dense over the linked items: the inner loops run along them and fill vectors.
`start` and `column` are the ratings of the linked items, by user.
"""

from numba import njit

from ordbm.kernels.numerics import fast_exp, fast_log
from ordbm.kernels.options import KERNEL

_NEWTON_STEPS = 100
_NEAR = 1e-5  # a step after which a user's bias is where it should be


@njit(**KERNEL)
def log_odds(begin, end, users, start, column, gain, weight, bias, user_bias, out):
    """out[p, i] = user bias + item bias + gain times the weights towards i of what p's user rated.

    `weight` is (items rated, items asked for); four of its rows are added at a time.
    """
    size = out.shape[1]
    for place in range(begin, end):
        u = users[place]
        row = out[place]
        for i in range(size):
            row[i] = 0
        position = start[u]
        last = start[u + 1]
        while position + 4 <= last:
            a = weight[column[position]]
            b = weight[column[position + 1]]
            c = weight[column[position + 2]]
            d = weight[column[position + 3]]
            for i in range(size):
                row[i] += (a[i] + b[i]) + (c[i] + d[i])
            position += 4
        while position < last:
            a = weight[column[position]]
            for i in range(size):
                row[i] += a[i]
            position += 1
        scale = gain[u]
        own = user_bias[u]
        for i in range(size):
            row[i] = row[i] * scale + (bias[i] + own)


@njit(**KERNEL)
def pair_log_odds(
    begin, end, users, items, start, column, gain, less, weight, bias, user_bias, out
):
    """out[p], as `log_odds` has it at one item; by `less` instead of gain where u rated this item.

    `weight` is symmetric, so that its row of the item asked for has all that is added.
    """
    for pair in range(begin, end):
        u = users[pair]
        item = items[pair]
        row = weight[item]
        total = out.dtype.type(0)
        scale = gain[u]
        for position in range(start[u], start[u + 1]):
            j = column[position]
            total += row[j]
            if j == item:
                scale = less[u]
        out[pair] = total * scale + (bias[item] + user_bias[u])


@njit(**KERNEL)
def recalibrate(begin, end, chosen, first, step, recalibration, out):
    """Adds to each value of the chosen rows of `out` what `recalibration` has there.

    That is given at first, first + step and so on, straight between these and the same beyond.
    """
    none = out.dtype.type(0)
    last = out.dtype.type(len(recalibration) - 1)
    for place in range(begin, end):
        if chosen[place]:
            row = out[place]
            for i in range(len(row)):
                where = min(max((row[i] - first) / step, none), last)
                knot = min(int(where), len(recalibration) - 2)
                row[i] += recalibration[knot] + (where - out.dtype.type(knot)) * (
                    recalibration[knot + 1] - recalibration[knot]
                )


@njit(**KERNEL)
def residuals(begin, end, start, column, odds, loss, slope):
    """Log-odds (users, items) become P(rated) - rated; loss and slope are each user's own."""
    size = odds.shape[1]
    none = odds.dtype.type(0)  # other zeros and ones would make all of it double precision
    one = odds.dtype.type(1)
    for u in range(begin, end):
        row = odds[u]
        total = 0.0
        for position in range(start[u], start[u + 1]):
            total -= row[column[position]]
        part = none
        for i in range(size):
            z = row[i]
            e = fast_exp(-abs(z))
            part += max(z, none) + fast_log(one + e)
            row[i] = (one if z >= none else e) / (one + e)
        for position in range(start[u], start[u + 1]):
            row[column[position]] -= one
        pull = 0.0
        for i in range(size):
            pull += row[i]
        loss[u] = total + part
        slope[u] = pull


@njit(**KERNEL)
def add_link_gradient(begin, end, first, last, start, user, gain, residual, room, out):
    """out[j] += the residuals, times gain, of the users first to last who rated item j.

    `start` and `user` are the ratings by item; row p of `residual` is user first + p. Each thread
    owns the rows begin to end of `out`.
    """
    size = residual.shape[1]
    for j in range(begin, end):
        low = start[j]
        high = start[j + 1]
        while low < high:  # where the users from `first` on begin
            middle = (low + high) // 2
            if user[middle] < first:
                low = middle + 1
            else:
                high = middle
        for i in range(size):
            room[i] = 0
        for position in range(low, start[j + 1]):
            u = user[position]
            if u >= last:
                break
            scale = gain[u]
            row = residual[u - first]
            for i in range(size):
                room[i] += scale * row[i]
        for i in range(size):
            out[j, i] += room[i]


@njit(**KERNEL)
def fit_user_biases(begin, end, wanted, precision, odds, bias):
    """bias = c where sum_i sigmoid(z_i + c) + precision c = wanted; rows z of `odds` become
    sigmoid(z + c).

    Newton's steps from the bias that is there, no longer than one unit, within a bracket.
    """
    none = odds.dtype.type(0)
    one = odds.dtype.type(1)
    for u in range(begin, end):
        row = odds[u]
        low = -50.0
        high = 50.0
        c = bias[u]
        for _ in range(_NEWTON_STEPS):
            excess = precision * c - wanted[u]
            curvature = precision
            shift = odds.dtype.type(c)
            for i in range(row.size):
                z = row[i] + shift
                e = fast_exp(-abs(z))
                proba = (one if z >= none else e) / (one + e)
                excess += proba
                curvature += proba * (one - proba)
            if excess > 0:
                high = c
            else:
                low = c
            step = c - excess / max(curvature, 1e-30)
            if not low < step < high:
                step = (low + high) / 2
            moved = abs(step - c)
            c = step
            if moved < _NEAR:
                break
        bias[u] = c
        shift = odds.dtype.type(c)
        for i in range(row.size):
            z = row[i] + shift
            e = fast_exp(-abs(z))
            row[i] = (one if z >= none else e) / (one + e)
