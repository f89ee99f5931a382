"""Where threads meet between the phases of a block, inside compiled code.

Waking a thread that sleeps, or handing the interpreter over, takes longer than many a phase: those
who wait look again and again. They give their time away in between, so that a machine with fewer
free cores than threads only gets slower. A kernel that ends a phase is given a `team` and meets as
the last thing it does; it is false if the meeting was broken off.
"""

import sys

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ordbm.kernels.options import INNER, KERNEL

_give_way = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32()
)
_LOOKS = 400  # without giving way
_ARRIVED, _MEETING, _BROKEN = 0, 16, 32  # words, on cache lines of their own


@intrinsic
def _add(typingctx, words, place, amount):
    """words[place] += amount, which no thread sees half done; what it was."""

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        at = builder.gep(array.data, [args[1]])
        return builder.atomic_rmw("add", at, args[2], "seq_cst")

    return types.int64(words, types.intp, types.int64), codegen


@intrinsic
def _read(typingctx, words, place):
    """words[place] as it is now."""

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        at = builder.gep(array.data, [args[1]])
        return builder.load_atomic(at, "seq_cst", 8, typ=ir.IntType(64))

    return types.int64(words, types.intp), codegen


def new_barrier() -> np.ndarray:
    """The words by which threads know of each other."""
    return np.zeros(48, np.int64)


def break_barrier(barrier: np.ndarray) -> None:
    """Let nobody wait for those who will not come."""
    barrier[_BROKEN] = 1


@njit(**INNER)
def meet(barrier, threads):
    """Wait until `threads` threads have called this; whether they have, and nobody broke it."""
    if threads == 1:
        return True
    meeting = _read(barrier, _MEETING)
    if _add(barrier, _ARRIVED, 1) == threads - 1:
        _add(barrier, _ARRIVED, -threads)
        _add(barrier, _MEETING, 1)
        return True
    looks = 0
    while _read(barrier, _MEETING) == meeting:
        if _read(barrier, _BROKEN):
            return False
        looks += 1
        if looks > _LOOKS:
            _give_way()
    return True


@njit(**KERNEL)
def wait_for(team):
    """A meeting by itself, after kernels that end without one."""
    return meet(team.barrier, team.threads)
