"""The imitation of smaller processors: what they lack is not used, by NumPy or by kernels."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ON_IT = """
import numpy as np
from numba import njit
from numpy._core import _multiarray_umath as built

@njit(fastmath=True)
def total(values):
    found = np.float32(0)
    for value in values:
        found += value * value
    return found

total(np.ones(1000, np.float32))
code = "".join(total.inspect_asm().values())
wide = [name for name in built.__cpu_dispatch__ if built.__cpu_features__.get(name)]
print("zmm" in code, "ymm" in code, any(name.startswith(("AVX512", "X86_V4")) for name in wide))
"""


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="for x86 processors")
@pytest.mark.parametrize(("level", "ymm"), [("x86-64-v3", "True"), ("x86-64-v2", "False")])
def test_an_imitated_processor_does_without(level, ymm):
    tool = [sys.executable, Path(__file__).parents[1] / "tools" / "as_processor.py", level]
    command = [*tool, sys.executable, "-W", "error", "-c", ON_IT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", ymm, "False"]
