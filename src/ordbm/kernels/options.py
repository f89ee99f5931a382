"""How kernels are compiled: without the interpreter, cached on disk, vector sums allowed.

Kernels that work inside loops (KERNEL) get all their room from the caller. Without allocation Numba
needs no reference counts, whose atomic updates would cost more than the loops and make threads wait
for each other. BUILDER is for one-off functions that return new arrays.
"""

from ordbm.kernels.numerics import VECTOR_MATH

BUILDER = {"nogil": True, "cache": True, "fastmath": VECTOR_MATH, "error_model": "numpy"}
KERNEL = {**BUILDER, "_nrt": False}
