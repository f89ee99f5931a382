"""How kernels are compiled: without the interpreter, cached on disk, vector sums allowed.

Kernels that work inside loops (KERNEL) get all their room from the caller. Without allocation Numba
needs no reference counts, whose atomic updates would cost more than the loops and make threads wait
for each other. BUILDER is for one-off functions that return new arrays. What only other kernels
call (INNER) has neither a wrapper for Python, which takes longer to compile than the function, nor
an entry in the cache.
"""

from ordbm.kernels.numerics import VECTOR_MATH
from ordbm.runtime.kernel_cache import use_kernel_cache

use_kernel_cache()  # before any kernel is made

BUILDER = {
    "nogil": True,
    "cache": True,
    "fastmath": VECTOR_MATH,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
KERNEL = {**BUILDER, "_nrt": False}
INNER = {**KERNEL, "cache": False, "no_cpython_wrapper": True}
