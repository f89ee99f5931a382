"""Scores and their slopes while what is known of a pair is let in, from none (t = 0) to all (1).

The hidden units of a side have the input x(t) = b + t pull; at each of P points of the rating they
are summed out,

    softplus(x + W[p]) - softplus(x) = log(P(not h) + P(h) e^W[p]),

with `grown` = e^W of the pair's column, (P, d). Float64.
"""

import numpy as np
from numba import njit

from ordbm.kernels.hidden import softplus
from ordbm.kernels.numerics import sigmoid
from ordbm.kernels.options import KERNEL

_IN_RANGE = 600.0  # a product of factors whose logarithms add up to less is a float64


@njit(**KERNEL)
def add_hidden_scores(times, hidden_bias, pull, coupling, grown, reach, room, out):
    """out[q, p] += sum_k log(P(not h_k) + P(h_k) e^W[p, k]) at times[q]; reach is sum_k max |W|."""
    on, off = room
    for q in range(times.size):
        for k in range(on.size):
            z = hidden_bias[k] + times[q] * pull[k]
            on[k] = sigmoid(z)
            off[k] = sigmoid(-z)
        for p in range(coupling.shape[0]):
            if reach < _IN_RANGE:
                product = 1.0
                for k in range(on.size):
                    product *= off[k] + on[k] * grown[p, k]
                out[q, p] += np.log(product)
            else:
                for k in range(on.size):
                    z = hidden_bias[k] + times[q] * pull[k]
                    out[q, p] += softplus(z + coupling[p, k]) - softplus(z)


@njit(**KERNEL)
def add_hidden_slopes(times, slope, hidden_bias, pull, coupling, grown, reach, room, out):
    """out[k] += sum over times and points of slope[q, p] P(h_k = 1 | point p)."""
    on, off = room
    for q in range(times.size):
        for k in range(on.size):
            z = hidden_bias[k] + times[q] * pull[k]
            on[k] = sigmoid(z)
            off[k] = sigmoid(-z)
        for p in range(coupling.shape[0]):
            amount = slope[q, p]
            if reach < _IN_RANGE:
                for k in range(on.size):
                    raised = on[k] * grown[p, k]
                    out[k] += amount * raised / (off[k] + raised)
            else:
                for k in range(on.size):
                    z = hidden_bias[k] + times[q] * pull[k]
                    out[k] += amount * sigmoid(z + coupling[p, k])


@njit(**KERNEL)
def row_dots(column, level, value, coupling, vector, out):
    """out[j] = value_j W[column_j, level_j] . vector; without values, these are one."""
    for j in range(column.size):
        total = 0.0
        weights = coupling[column[j], level[j]]
        for k in range(vector.size):
            total += weights[k] * vector[k]
        out[j] = total * value[j] if value.size else total
