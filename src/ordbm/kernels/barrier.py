"""A barrier between threads inside compiled code.

A training pass is one compiled call per thread that releases the interpreter; the threads meet here
between the phases of a block. Waiting threads give their time slice away, so a machine with fewer
free cores than threads only gets slower.
"""

import sys

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_give_way = types.ExternalFunction(_YIELD, types.int32())
_SPINS = 400
_GENERATION = 16  # in words, so that the counter and the generation have cache lines of their own


@intrinsic
def _fetch_add(typingctx, array, index, amount):
    """array[index] += amount, atomically; the value before."""

    def codegen(context, builder, signature, args):
        values = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], values, [args[1]], wraparound=False
        )
        return builder.atomic_rmw("add", pointer, args[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), codegen


@intrinsic
def _read(typingctx, array, index):
    """array[index], atomically."""

    def codegen(context, builder, signature, args):
        values = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], values, [args[1]], wraparound=False
        )
        return builder.load_atomic(pointer, "seq_cst", 8, typ=ir.IntType(64))

    return types.int64(array, types.intp), codegen


def new_barrier() -> np.ndarray:
    """The shared words of one barrier: how many have arrived, and which meeting this is."""
    return np.zeros(2 * _GENERATION, np.int64)


@njit
def meet(barrier, threads):
    """Wait until `threads` threads have called this."""
    if threads == 1:
        return
    generation = _read(barrier, _GENERATION)
    if _fetch_add(barrier, 0, 1) == threads - 1:
        _fetch_add(barrier, 0, -threads)
        _fetch_add(barrier, _GENERATION, 1)
        return
    spins = 0
    while _read(barrier, _GENERATION) == generation:
        spins += 1
        if spins > _SPINS:
            _give_way()
