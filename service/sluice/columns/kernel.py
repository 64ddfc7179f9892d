"""How kernels are compiled: once per machine, without the interpreter's lock, and without any allocation.

A kernel that allocates does not compile, and none of its arrays is counted: counting references cost ten times what the
loops themselves do. Small functions become part of the kernel that calls them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.columns.kernel_cache import Function, compiled

OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}


def kernel(function: Function) -> Function:
    """Compiles a function that Python calls."""
    return compiled(function, **OPTIONS)


def read_only(values: np.ndarray) -> np.ndarray:
    """As some of Arrow's buffers are anyway, and without gaps: a kernel is compiled for each kind of array."""
    values = np.ascontiguousarray(values)[:]
    values.flags.writeable = False
    return values


def inlined(function: Function) -> Function:
    """Compiles a function that only kernels call, into them."""
    return compiled(function, **OPTIONS, forceinline=True)
