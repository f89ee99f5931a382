"""Ratings of columns of which nothing but features is known: log-probabilities and gradients."""

from numba import njit

from ordbm.kernels.numerics import fast_exp, fast_log, sigmoid
from ordbm.kernels.options import INNER, KERNEL


@njit(**INNER)
def log_of_product(p, growth):
    """sum_k log(1 + p_k g_k)."""
    one = p.dtype.type(1)
    total = p.dtype.type(0)
    for k in range(p.size):
        total += fast_log(one + p[k] * growth[k])
    return total


@njit(**INNER)
def add_shares(residual, p, growth, out):
    """out_k += residual P(h_k = 1 | level) = residual p_k (1 + g_k) / (1 + p_k g_k)."""
    one = p.dtype.type(1)
    for k in range(p.size):
        grows = p[k] * growth[k]
        out[k] += residual * (p[k] + grows) / (one + grows)


@njit(**KERNEL)
def cold_gradients(
    first, last, start, row, level, n_warm, rest, on, own, growth, cold, room, gradient, objective
):
    """log P(r_ui | what else u has rated, i as if nobody had rated it), and its derivatives.

    The level potentials of a rating of column i by row u are

        rest_u(s) + b_i(s) + sum_k log(1 + p_uk (e^{W_i(s)k} - 1))
                           + sum_k log(1 + g_ik (e^{V_u(s)k} - 1)),

    with p_uk = P(h_k = 1 | u's other ratings) and g_ik = sigmoid(y_ik). Columns first..last, whose
    ratings are start[c]..start[c + 1], have b (n,), W (n, d) and y (D,) in `cold`; `gradient` has
    the derivatives by them, summed over ratings. `on` (rows, d) is P(h = 1 | all that u has rated),
    of which the column's learnt couplings, `own` (C, n, d) = e^W, are freed; `growth` (rows, n, D)
    is e^V - 1. Rows from n_warm on are as if they had rated nothing.
    """
    bias, coupling, own_input = cold
    by_bias, by_coupling, by_input = gradient
    grown, freed, scores, share = room
    n, d = coupling.shape[1], coupling.shape[2]
    one = rest.dtype.type(1)
    for c in range(first, last):
        objective[c] = 0
        by_bias[c, :] = 0
        by_coupling[c, :, :] = 0
        by_input[c, :] = 0
        if start[c] == start[c + 1]:
            continue
        for s in range(n):
            for k in range(d):
                grown[s, k] = fast_exp(coupling[c, s, k]) - one
        for k in range(share.size):
            share[k] = sigmoid(own_input[c, k])
        for q in range(start[c], start[c + 1]):
            u, r = row[q], level[q]
            for k in range(d):
                p = on[u, k]
                freed[k] = p / (p + (one - p) * own[c, r, k]) if u < n_warm else p
            for s in range(n):
                scores[s] = rest[u, s] + bias[c, s] + log_of_product(freed, grown[s])
                scores[s] += log_of_product(share, growth[u, s])
            most = scores[0]
            for s in range(1, n):
                most = max(most, scores[s])
            weight = one * 0
            for s in range(n):
                weight += fast_exp(scores[s] - most)
            objective[c] += scores[r] - most - fast_log(weight)
            for s in range(n):
                residual = -fast_exp(scores[s] - most) / weight
                if s == r:
                    residual += one
                by_bias[c, s] += residual
                add_shares(residual, freed, grown[s], by_coupling[c, s])
                add_shares(residual, share, growth[u, s], by_input[c])
        # d log(1 + g (e^V - 1)) / dy is P(h = 1 | level) - g, and residuals add up to zero.
