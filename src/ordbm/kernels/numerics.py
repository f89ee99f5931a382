"""Exponentials and logarithms that vectorise, and counter-based random numbers.

Every function here is inlined into the loops of the other kernels. In single precision exp and log
are polynomials that LLVM turns into vector instructions (errors below 4e-6); in double precision
they are the C library's, so that tests can compare with enumeration.
"""

import math

import numpy as np
from numba import njit, types
from numba.extending import overload

# Reassociation lets sums and products over hidden units use vector registers. No flag that assumes
# NaN or infinity away is set.
VECTOR_MATH = {"reassoc", "contract", "nsz"}

_LOG2_E = np.float32(1.4426950408889634)
_LN_2 = np.float32(0.6931471805599453)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_LOWEST = np.float32(-87.0)
_HIGHEST = np.float32(88.0)
_SHIFT = np.float32(127.5)
_SQRT_2 = np.float32(1.4142135623730951)
_MANTISSA = np.int32(0x007FFFFF)
_ONE_BITS = np.int32(0x3F800000)


def _exp_single(x):
    x = min(max(x, _LOWEST), _HIGHEST)
    power = np.int32(np.int32(x * _LOG2_E + _SHIFT) - np.int32(127))
    f = x - np.float32(power) * _LN_2
    series = np.float32(0.0083)
    series = np.float32(0.041668) + f * series
    series = np.float32(0.16666764) + f * series
    series = np.float32(0.49999994) + f * series
    series = _ONE + f * (_ONE + f * series)
    return series * np.int32((power + np.int32(127)) << np.int32(23)).view(np.float32)


def _log_single(x):
    bits = np.float32(x).view(np.int32)
    power = np.float32((bits >> np.int32(23)) - np.int32(127))
    m = np.int32((bits & _MANTISSA) | _ONE_BITS).view(np.float32)
    above = m > _SQRT_2
    m = m * _HALF if above else m
    power = power + _ONE if above else power
    f = m - _ONE
    series = np.float32(7.0376836292e-2)
    series = np.float32(-1.1514610310e-1) + f * series
    series = np.float32(1.1676998740e-1) + f * series
    series = np.float32(-1.2420140846e-1) + f * series
    series = np.float32(1.4249322787e-1) + f * series
    series = np.float32(-1.6668057665e-1) + f * series
    series = np.float32(2.0000714765e-1) + f * series
    series = np.float32(-2.4999993993e-1) + f * series
    series = np.float32(3.3333331174e-1) + f * series
    return power * _LN_2 + f - _HALF * f * f + f * f * f * series


def fast_exp(x):
    """e^x in the precision of x; in single precision x is kept within -87..88."""
    return math.exp(x)


def fast_log(x):
    """log x for normal x > 0, in the precision of x."""
    return math.log(x)


@overload(fast_exp)
def _fast_exp(x):
    if x == types.float32:
        return _exp_single
    return lambda x: math.exp(x)


@overload(fast_log)
def _fast_log(x):
    if x == types.float32:
        return _log_single
    return lambda x: math.log(x)


@njit(inline="always")
def sigmoid(z):
    """1 / (1 + e^-z) without overflow."""
    e = fast_exp(-abs(z))
    one = e * 0 + 1
    return (one if z >= 0 else e) / (one + e)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(inline="always")
def _mixed(x):
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


@njit
def stream(seed, epoch, row):
    """State of the random stream of one row in one epoch: the same on any thread."""
    state = _mixed(np.uint64(seed) + _GOLDEN)
    state = _mixed(state ^ (np.uint64(epoch) + _GOLDEN))
    return _mixed(state ^ (np.uint64(row) * _GOLDEN + np.uint64(1)))


@njit(inline="always")
def uniform(state):
    """(next state, a number in [0, 1)) of the splitmix64 generator."""
    state = state + _GOLDEN
    return state, np.float64(_mixed(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit
def normal(state):
    """(next state, a standard normal number), by Box and Muller."""
    state, first = uniform(state)
    state, second = uniform(state)
    return state, math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second)
