"""Decorators that compile kernels with numba: once per machine, without Python's global lock, and without allocation.

A kernel is a plain loop over arrays. numba's memory management is switched off (`_nrt`), so numba refuses to compile a
kernel that allocates, and counts no references to arrays. Reference counts would cost ten times as much as the loops
themselves. Functions that only kernels call are inlined into them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.columns.kernel_cache import Function, compiled

OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}


def kernel(function: Function) -> Function:
    """Compiles a kernel: a function that Python code and other kernels can call."""
    return compiled(function, **OPTIONS)


def read_only(values: np.ndarray) -> np.ndarray:
    """The values as a contiguous, read-only array; copied only if they have gaps.

    numba compiles a kernel once per kind of array. Some Arrow buffers are read-only, so all arrays become read-only.
    """
    values = np.ascontiguousarray(values)[:]
    values.flags.writeable = False
    return values


def inlined(function: Function) -> Function:
    """Compiles a function that only kernels call, and inlines it into each caller."""
    return compiled(function, **OPTIONS, forceinline=True)
