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
def fill_units(times, hidden_bias, pull, on, off):
    """on[q, k] = P(h_k = 1) and off[q, k] = P(h_k = 0) at times[q]."""
    for q in range(times.size):
        for k in range(pull.size):
            z = hidden_bias[k] + times[q] * pull[k]
            e = np.exp(-abs(z))  # the one exponential of both
            on[q, k] = (1.0 if z >= 0 else e) / (1.0 + e)
            off[q, k] = (e if z >= 0 else 1.0) / (1.0 + e)


@njit(**KERNEL)
def add_hidden_scores(times, on, off, hidden_bias, pull, coupling, grown, reach, out):
    """out[q, p] += sum_k log(P(not h_k) + P(h_k) e^W[p, k]) at times[q]; reach is sum_k max |W|."""
    for q in range(times.size):
        for p in range(coupling.shape[0]):
            if reach < _IN_RANGE:
                product = 1.0
                for k in range(pull.size):
                    product *= off[q, k] + on[q, k] * grown[p, k]
                out[q, p] += np.log(product)
            else:
                for k in range(pull.size):
                    z = hidden_bias[k] + times[q] * pull[k]
                    out[q, p] += softplus(z + coupling[p, k]) - softplus(z)


@njit(**KERNEL)
def add_hidden_slopes(times, on, off, slope, hidden_bias, pull, coupling, grown, reach, out):
    """out[k] += sum over times and points of slope[q, p] P(h_k = 1 | point p)."""
    for q in range(times.size):
        for p in range(coupling.shape[0]):
            amount = slope[q, p]
            if reach < _IN_RANGE:
                for k in range(pull.size):
                    raised = on[q, k] * grown[p, k]
                    out[k] += amount * raised / (off[q, k] + raised)
            else:
                for k in range(pull.size):
                    z = hidden_bias[k] + times[q] * pull[k]
                    out[k] += amount * sigmoid(z + coupling[p, k])


@njit(**KERNEL)
def fill_log_odds(scores, target, log_odds, slope):
    """log_odds[q] = log sum of e^scores[q, p] where target[p], less that where not; its gradient.

    The gradient by a score is its share of the sum that it is in, negative in the second.
    """
    for q in range(scores.shape[0]):
        log_odds[q] = 0.0
        for kept in (True, False):
            top = -np.inf
            for p in range(target.size):
                if target[p] == kept:
                    top = max(top, scores[q, p])
            total = 0.0
            for p in range(target.size):
                if target[p] == kept:
                    slope[q, p] = np.exp(scores[q, p] - top)
                    total += slope[q, p]
            sign = 1.0 if kept else -1.0
            log_odds[q] += sign * (np.log(total) + top)
            for p in range(target.size):
                if target[p] == kept:
                    slope[q, p] *= sign / total


@njit(**KERNEL)
def fill_means(scores, target, mean, slope):
    """mean[q] of target[p] with weights e^scores[q, p], and its gradient by the scores."""
    for q in range(scores.shape[0]):
        top = -np.inf
        for p in range(target.size):
            top = max(top, scores[q, p])
        total, moment = 0.0, 0.0
        for p in range(target.size):
            slope[q, p] = np.exp(scores[q, p] - top)
            total += slope[q, p]
            moment += slope[q, p] * target[p]
        mean[q] = moment / total
        for p in range(target.size):
            slope[q, p] *= (target[p] - mean[q]) / total


@njit(**KERNEL)
def row_dots(column, level, value, coupling, vector, out):
    """out[j] = value_j W[column_j, level_j] . vector; without values, these are one."""
    for j in range(column.size):
        total = 0.0
        weights = coupling[column[j], level[j]]
        for k in range(vector.size):
            total += weights[k] * vector[k]
        out[j] = total * value[j] if value.size else total
