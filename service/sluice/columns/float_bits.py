"""Casts between a 64-bit word and the float64 with the same bits, for kernels. A cast does not go through memory."""

# numba passes its own objects to these functions and has no type hints for them.
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:

    def as_real(word: int) -> float:
        """The float64 with the bits of an int64."""

    def as_word(real: float) -> int:
        """The int64 with the bits of a float64."""

else:

    def _same_bits(source: Any, target: Any, llvm: ir.Type) -> Callable[..., Any]:
        @intrinsic
        def cast(typing: Any, value: Any) -> Any:  # noqa: ARG001
            return target(source), lambda context, builder, signature, arguments: builder.bitcast(arguments[0], llvm)  # noqa: ARG005

        return cast

    as_real = _same_bits(types.int64, types.float64, ir.DoubleType())
    as_word = _same_bits(types.float64, types.int64, ir.IntType(64))
