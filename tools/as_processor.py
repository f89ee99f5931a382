"""Runs a command as a smaller processor of this family would: `as_processor.py LEVEL COMMAND...`.

LEVEL is x86-64-v3 (AVX2, no AVX-512: most laptops and desktops) or x86-64-v2 (neither). Compiled
kernels, NumPy, the linear algebra and the C library then use the instructions of that level only,
so results differ from this processor's as far as those of a real one do. Numba caches kernels by
processor, so those of this one stay as they are.
"""

import os
import platform
import sys
from importlib import import_module

# LEVEL: (what OpenBLAS calls such a processor, NumPy's names of what it lacks begin with these,
# what the C library is told to leave alone)
LEVELS = {
    "x86-64-v3": ("Haswell", ("AVX512", "X86_V4"), ("AVX512F", "AVX512VL")),
    "x86-64-v2": (
        "Nehalem",
        ("AVX", "X86_V3", "X86_V4", "FMA", "F16C"),
        ("AVX512F", "AVX512VL", "AVX2", "AVX", "FMA", "FMA4"),
    ),
}


def environment_of(level: str) -> dict[str, str]:
    """The variables that make a process use the instructions of `level` only."""
    core, lacking, hardware = LEVELS[level]
    already = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").replace(",", " ").split()
    lacked = [*already, *(name for name in switchable_features() if name.startswith(lacking))]
    return {
        "NUMBA_CPU_NAME": level,
        "NUMBA_CPU_FEATURES": "",  # those of that name; Numba would add the host's, AVX-512 with it
        "OPENBLAS_CORETYPE": core,
        "NPY_DISABLE_CPU_FEATURES": " ".join(lacked),
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={','.join('-' + name for name in hardware)}",
    }


def switchable_features() -> list[str]:
    """What NumPy was built to choose at run time and this processor has; it knows no other."""
    built = import_module("numpy._core._multiarray_umath")
    return [name for name in built.__cpu_dispatch__ if built.__cpu_features__.get(name)]


def main(level: str, *command: str) -> None:
    """Become `command`, on a processor of `level`."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        print(f"{platform.machine()} has no level {level}: nothing is run")
        return
    os.execvpe(command[0], command, {**os.environ, **environment_of(level)})  # noqa: S606


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in LEVELS:
        sys.exit(f"usage: as_processor.py {'|'.join(LEVELS)} COMMAND...")
    main(*sys.argv[1:])
