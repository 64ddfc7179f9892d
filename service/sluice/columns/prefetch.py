"""Prefetch instructions for kernels: load memory into the CPU cache before it is used.

With many keys, the records that a window event needs are rarely in the cache. A kernel therefore prefetches the records
of the events that come `AHEAD` events later.
"""

# numba passes its own objects to these functions and has no type hints for them.
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

#: the distance in events: about the number of memory accesses that a CPU core has in flight at once
AHEAD = 12

if TYPE_CHECKING:

    def prefetch(array: np.ndarray, row: int) -> None:
        """Starts to load the first and the last byte of an array's row. The row must exist. Has no other effect."""

else:

    @intrinsic
    def prefetch(typing: Any, array: Any, row: Any) -> Any:  # noqa: ARG001
        return types.void(array, row), _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Callable[..., Any]:
    kind, index = signature.args
    array = make_array(kind)(context, builder, arguments[0])  # type: ignore[no-untyped-call]
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    load = builder.module.declare_intrinsic("llvm.prefetch", (byte,), shape)
    row = context.cast(builder, arguments[1], index, types.intp)
    columns = [context.get_constant(types.intp, 0)] * (kind.ndim - 1)

    def first_byte(row: Any) -> Any:
        place = cgutils.get_item_pointer(context, builder, kind, array, [row, *columns])  # type: ignore[no-untyped-call]
        return builder.bitcast(place, byte)

    following = builder.add(row, context.get_constant(types.intp, 1))
    last = builder.gep(first_byte(following), [context.get_constant(types.intp, -1)])
    for place in (first_byte(row), last):  # a row may lie across two cache lines
        builder.call(load, [place, number(0), number(3), number(1)])  # for reading, keep in all caches, data
    return context.get_dummy_value()  # type: ignore[no-any-return]
