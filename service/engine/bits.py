"""Reading a word as the float64 whose bits it holds, and the other way round, without a detour through memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def as_real(typingctx: Any, word: Any) -> Any:  # noqa: ARG001
    """The float64 with the bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def as_word(typingctx: Any, real: Any) -> Any:  # noqa: ARG001
    """The int64 with the bits of a float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate
