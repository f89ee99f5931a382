"""The loops of `kernels` that spell out LLVM, in plain Python: what `emitted` compares with."""

from numba import njit

from ordbm.kernels.numerics import fast_exp, fast_log
from ordbm.kernels.options import INNER
from ordbm.kernels.structures import LEVELS


@njit(**INNER)
def level_terms(row, level, on, rest, down, up, mean, product):
    n, d = up.shape
    for t in range(row.size):
        own = level[t]
        for s in range(n):
            for lane in range(LEVELS):
                product[t, s, lane] = 1
        for j in range(n - 1):
            s = j + (j >= own)
            whole = up.dtype.type(1)
            for k in range(d):
                part = on[row[t], k] * down[own, k] * up[s, k]
                denominator = part + rest[row[t], k]
                mean[t, j, k] = part / denominator
                whole *= denominator
            product[t, s, 0] = whole


@njit(**INNER)
def log_products(product, out, safe):
    all_safe = True
    for t in range(out.shape[0]):
        for group in range(safe.shape[1]):
            safe[t, group] = 0
        for s in range(out.shape[1]):
            whole = product[t, s, 0]
            for lane in range(1, LEVELS):
                whole *= product[t, s, lane]
            inside = (whole > 1e-30) & (whole < 1e30)
            safe[t, s // LEVELS] |= inside << (s % LEVELS)
            all_safe &= inside
            out[t, s] = fast_log(whole)
    return all_safe


@njit(**INNER)
def level_residual(rows, bias, level, sums):
    gap = rows.dtype.type(0)
    product = rows.dtype.type(1)
    lowest = rows.dtype.type(-60)
    for t in range(level.size):
        highest = rows[t, 0] + bias[0]
        for s in range(rows.shape[1]):
            rows[t, s] += bias[s]
            highest = max(highest, rows[t, s])
        gap += rows[t, level[t]] - highest
        total = rows.dtype.type(0)
        for s in range(rows.shape[1]):
            rows[t, s] = fast_exp(max(rows[t, s] - highest, lowest))
            total += rows[t, s]
        product *= total
        for s in range(rows.shape[1]):
            rows[t, s] *= -1 / total
        rows[t, level[t]] += 1
        for s in range(rows.shape[1]):
            sums[s] += rows[t, s]
    return gap, product


@njit(**INNER)
def spread_residual(residual, mean, row, level, on, gradient, context_rows):
    n, d = gradient.shape
    for t in range(row.size):
        own = level[t]
        context = context_rows[row[t]]
        for k in range(d):
            context[k] += residual[t, own] * on[row[t], k]
        for j in range(n - 1):
            s = j + (j >= own)
            for k in range(d):
                part = residual[t, s] * mean[t, j, k]
                gradient[s, k] += part
                gradient[own, k] -= part
                context[k] += part


@njit(**INNER)
def add_levels(index, table, rows):
    for t in range(index.size):
        for s in range(table.shape[1]):
            rows[t, s] += table[index[t], s]


@njit(**INNER)
def store_levels(rows, index, table):
    for t in range(index.size):
        for s in range(table.shape[1]):
            table[index[t], s] = rows[t, s]


@njit(**INNER)
def exchange_levels(rows, index, table):
    for t in range(index.size):
        for s in range(table.shape[1]):
            own = rows[t, s]
            rows[t, s] += table[index[t], s]
            table[index[t], s] = own


@njit(**INNER)
def add_coupling_rows(row, group, coupling, total):
    for q in range(row.size):
        for k in range(total.shape[1]):
            total[row[q], k] += coupling[group[q], k]


@njit(**INNER)
def add_context_rows(row, group, context_rows, gradient):
    for q in range(row.size):
        for k in range(context_rows.shape[1]):
            gradient[group[q], k] += context_rows[row[q], k]


@njit(**INNER)
def move_coupling(w, v, gradient, mean, smoothing, pull, momentum, rate):
    n, d = w.shape
    for s in range(n):
        for k in range(d):
            v[s, k] = momentum * v[s, k] - pull * (w[s, k] - mean[s, k])
        for other in range(n):
            for k in range(d):
                v[s, k] += smoothing[s, other] * gradient[other, k]
        for k in range(d):
            w[s, k] += rate * v[s, k]
