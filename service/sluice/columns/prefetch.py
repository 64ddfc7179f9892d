"""Asks for memory ahead of its use: with many keys nothing else of what a window event needs is near."""

# numba hands its own objects to these functions, for which it has no types.
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

#: events ahead: about as many as memory answers at once
AHEAD = 12

if TYPE_CHECKING:

    def prefetch(array: np.ndarray, row: int) -> None:
        """Starts to load the two ends of an array's row. It must exist; nothing else happens."""

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
    for place in (first_byte(row), last):  # of a row that lies across two lines of the cache
        builder.call(load, [place, number(0), number(3), number(1)])  # to read, near, data
    return context.get_dummy_value()  # type: ignore[no-any-return]
