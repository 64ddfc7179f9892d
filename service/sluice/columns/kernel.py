"""Decorators that compile kernels with numba: once per machine, without Python's global lock, and without allocation.

A kernel is a plain loop over arrays. numba's memory management is switched off (`_nrt`), so numba refuses to compile a
kernel that allocates, and counts no references to arrays. Reference counts would cost ten times as much as the loops
themselves. Functions that only kernels call are inlined into them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numba import config, njit, types
from numba.core.itanium_mangler import mangle_identifier
from numba.core.registry import CPUDispatcher
from numba.np import arrayobj

from sluice.compiler.kernel_cache import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


def kernel(function: Function) -> Function:
    """Compiles a kernel: a function that Python code and other kernels can call."""
    return compiled(function, **OPTIONS)


def inlined(function: Function) -> Function:
    """Compiles a function that kernels call, and inlines it into each caller.

    The function gets no machine code apart from its callers, and Python cannot call it without a further compilation.
    """
    return compiled(function, **OPTIONS, forceinline=True, no_cpython_wrapper=True)


def compiled(function: Function, **options: Any) -> Function:  # noqa: ANN401 - numba's options
    """Compiles the function with numba, caches the result on disk, and makes its indices follow `_index`."""
    dispatcher = njit(**options)(function)
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        inlined = "no_cpython_wrapper" in options
        dispatcher._cache = KernelCache(function, machine_code=not inlined)  # noqa: SLF001 - as cache=True does
        dispatcher.__class__ = Inlined if inlined else Kernel
    _own.add(mangle_identifier(f"{function.__module__}.{function.__qualname__}").removesuffix("E"))  # type: ignore[no-untyped-call]
    return dispatcher  # type: ignore[no-any-return]


class Kernel(CPUDispatcher):
    """A compiled function that has one version for all signed integers.

    numba compiles a function once per combination of argument types. In a call inside a kernel, each constant and each
    width of an integer is a type of its own. The values are the same, and a function that is inlined gets the constants
    anyway.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:  # noqa: ANN401 - numba's types
        """The version of this kernel that numba compiles into another kernel, for arguments of these types."""
        named = {name: _widened(kind) for name, kind in kws.items()}
        return super().get_call_template([_widened(kind) for kind in args], named)


def _widened(kind: Any) -> Any:  # noqa: ANN401
    kind = kind.literal_type if isinstance(kind, types.IntegerLiteral | types.BooleanLiteral) else kind
    return types.int64 if kind in types.signed_domain else kind


class Inlined(Kernel):
    """A function that is inlined into kernels. If Python code calls it, it is compiled as a kernel, too."""

    def __call__(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        return self._kernel(*args, **named)

    @cached_property
    def _kernel(self) -> Any:  # noqa: ANN401
        return kernel(self.py_func)


def read_only(values: np.ndarray) -> np.ndarray:
    """The values as a contiguous, read-only array; copied only if they have gaps.

    numba compiles a kernel once per kind of array. Some Arrow buffers are read-only, so all arrays become read-only.
    """
    values = np.ascontiguousarray(values)[:]
    values.flags.writeable = False
    return values


#: mangled names of the kernels that `compiled` made
_own: set[str] = set()
#: matches a mangled function name up to numba's version and type tags
_MANGLED = re.compile(r"_Z(.*?)B\d+v\d+(?:B|E)")
_any_index = arrayobj.fix_integer_index


def _index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:  # noqa: ANN401
    """Replaces numba's code for an array index: in kernels of this package a negative index gets no special treatment.

    These kernels never index from the end of an array, so the test for a negative index is left out. numba has no
    option for this. All other functions keep numba's rule, by which -1 is the last element.
    """
    match = _MANGLED.match(builder.function.name)
    if match is None or match[1] not in _own:
        return _any_index(context, builder, kind, index, size)  # type: ignore[no-untyped-call]
    return context.cast(builder, index, kind, types.intp)


arrayobj.fix_integer_index = _index
