"""The aggregation functions (reference 7.3): what each keeps per window, and how its result is made from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.engine import summaries
from service.engine.kernel import kernel
from service.engine.strings import Strings
from service.engine.words import from_words
from service.pipeline.expressions import AggregateCall, Expression
from service.pipeline.types import FLOAT64, INT64, STRING, Kind, Type


@dataclass(frozen=True, slots=True)
class Found:
    """What the windows that fired hold, one row per tuple to emit."""

    #: tuples of the cell
    size: np.ndarray
    #: words of the summaries
    summary: np.ndarray
    #: words of the tuples of every cell, cell after cell; empty where no function lists them
    listed: np.ndarray
    strings: Strings


#: makes the column of results; gets the first word of the summary, or the column of the listed words
Finish = Callable[[Found, int], pa.Array]


@dataclass(frozen=True, slots=True)
class Function:
    """How a call is computed: from a summary (`code`) of value and companion, or from the list of values."""

    code: int | None
    value: Expression | None
    companion: Expression | None
    finish: Finish

    @property
    def listing(self) -> bool:
        return self.code is None and self.value is not None


def function(call: AggregateCall) -> Function:
    """The function of a typed call."""
    return FUNCTIONS[call.function](call)


def _count(_: AggregateCall) -> Function:
    return Function(None, None, None, lambda found, _: pa.array(found.size.astype(np.int64)))


def _sum(call: AggregateCall) -> Function:
    (value,) = call.arguments
    if value.type == STRING:
        return Function(None, value, None, _concatenation)
    if value.type == INT64:
        return Function(summaries.SUM_INT, value, None, _word(INT64))
    return Function(summaries.SUM_FLOAT, value, None, lambda found, word: pa.array(_total(found, word)))


def _average(call: AggregateCall) -> Function:
    (value,) = call.arguments
    if value.type == INT64:
        return Function(summaries.SUM_WIDE, value, None, _truncated_mean)
    return Function(summaries.SUM_FLOAT, value, None, lambda found, word: pa.array(_total(found, word) / found.size))


def _extreme(least: bool) -> Callable[[AggregateCall], Function]:  # noqa: FBT001
    """Min and Max are ArgMin and ArgMax of the value itself."""

    def make(call: AggregateCall) -> Function:
        value, companion = call.arguments[0], call.arguments[-1]
        if value.type == FLOAT64:
            code = summaries.LEAST_FLOAT if least else summaries.GREATEST_FLOAT
            return Function(code, value, companion, _companion_of_reals(companion.type))
        if value.type == STRING:
            code = summaries.LEAST_TEXT if least else summaries.GREATEST_TEXT
        else:
            code = summaries.LEAST if least else summaries.GREATEST
        return Function(code, value, companion, _word(companion.type, 1))

    return make


def _end(code: int) -> Callable[[AggregateCall], Function]:
    return lambda call: Function(code, call.arguments[0], None, _word(call.type))


def _collect(call: AggregateCall) -> Function:
    (value,) = call.arguments

    def finish(found: Found, column: int) -> pa.Array:
        return _lists(found, from_words(found.listed[:, column], value.type, found.strings))

    return Function(None, value, None, finish)


FUNCTIONS: dict[str, Callable[[AggregateCall], Function]] = {
    "Count": _count,
    "Sum": _sum,
    "Average": _average,
    "Min": _extreme(least=True),
    "Max": _extreme(least=False),
    "ArgMin": _extreme(least=True),
    "ArgMax": _extreme(least=False),
    "First": _end(summaries.OLDEST),
    "Last": _end(summaries.YOUNGEST),
    "Any": _end(summaries.YOUNGEST),
    "Collect": _collect,
}


def _word(type_: Type, offset: int = 0) -> Finish:
    return lambda found, word: from_words(found.summary[:, word + offset], type_, found.strings)


def _companion_of_reals(type_: Type) -> Finish:
    """A NaN that came first stays; else the companion of the best (A16)."""

    def finish(found: Found, word: int) -> pa.Array:
        rows = found.summary[:, word : word + 4]
        first_is_nan = np.isnan(np.ascontiguousarray(rows[:, 0]).view(np.float64))
        return from_words(np.where(first_is_nan, rows[:, 1], rows[:, 3]), type_, found.strings)

    return finish


def _total(found: Found, word: int) -> np.ndarray:
    """The compensated sum; what is not finite needs no compensation."""
    pair = np.ascontiguousarray(found.summary[:, word : word + 2]).view(np.float64)
    return pair[:, 0] + np.where(np.isfinite(pair[:, 0]), pair[:, 1], 0.0)


def _truncated_mean(found: Found, word: int) -> pa.Array:
    means = np.empty(len(found.size), np.int64)
    _divide(found.summary, word, found.size, means)
    return pa.array(means)


@kernel
def _divide(sums: np.ndarray, word: int, sizes: np.ndarray, into: np.ndarray) -> None:
    """Divides 128-bit sums by counts below 2**31, toward zero (A20): long division, in digits of 32 bits."""
    for row in range(len(sizes)):
        high, low = np.uint64(sums[row, word]), np.uint64(sums[row, word + 1])
        negative = sums[row, word] < 0
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(1 if low == np.uint64(0) else 0)
        size, mask, half = np.uint64(sizes[row]), np.uint64(0xFFFFFFFF), np.uint64(32)
        rest = high % size
        rest = (rest << half) | (low >> half)
        upper = rest // size
        rest = ((rest % size) << half) | (low & mask)
        magnitude = (upper << half) | (rest // size)
        into[row] = np.int64(~magnitude + np.uint64(1)) if negative else np.int64(magnitude)


def _lists(found: Found, values: pa.Array) -> pa.ListArray:
    starts = np.zeros(len(found.size) + 1, np.int64)
    np.cumsum(found.size, out=starts[1:])
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values)


def _concatenation(found: Found, column: int) -> pa.Array:
    return pc.binary_join(_lists(found, from_words(found.listed[:, column], Type(Kind.STRING), found.strings)), "")
