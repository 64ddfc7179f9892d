"""Sums, means and percentiles of decimals, which are exact (reference/decimal.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from sluice.columns import number_columns
from sluice.columns.column_forms import form
from sluice.columns.encoding import from_words
from sluice.engine.aggregates.aggregate_function import Function, Kept, share_of
from sluice.engine.contents import summaries
from sluice.engine.contents.fired_contents import FiredContents
from sluice.model.expressions import AggregateCall, Call, Expression
from sluice.model.types import INT64, Type
from sluice.model.types.decimal_type import half_even


def sum_of(call: AggregateCall) -> Function:
    """The exact sum (DE13); null if it has more than 38 digits, which only a sum of wide decimals can have."""
    arrow = form(call.type).arrow

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        if len(at) == 1:
            return number_columns.of_halves(contents.summary[:, [at[0] + 1, at[0]]], arrow)
        return number_columns.of_unscaled(_exact_sums(contents, at), arrow)

    return Function(finish, _kept(call.arguments[0]))


def mean_of(call: AggregateCall) -> Function:
    """The exact sum divided by the number of tuples, rounded half to even to the scale of the result (DE14)."""
    arrow, (value, *_) = form(call.type).arrow, call.arguments
    shift = arrow.scale - form(value.type).arrow.scale
    sum_factor, size_factor = 10 ** max(shift, 0), 10 ** max(-shift, 0)

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        means = _means(contents, at, (sum_factor, size_factor), arrow)
        if means is not None:
            return means
        sums = zip(_exact_sums(contents, at), contents.size.tolist(), strict=True)
        exact = [half_even(total * sum_factor, size * size_factor) for total, size in sums]
        return number_columns.of_unscaled(exact, arrow)

    return Function(finish, _kept(value))


def _means(contents: FiredContents, at: Sequence[int], factors: tuple[int, int], arrow: pa.DataType) -> pa.Array | None:
    """The means, if all numbers fit int64; else None. `factors` are those of the sums and of the sizes."""
    high, low = (np.ascontiguousarray(contents.summary[:, at[0] + word]).view(np.int64) for word in (0, 1))
    if len(at) > 1 or not np.array_equal(high, low >> 63):
        return None
    sums = number_columns.times_factor(low, factors[0])
    sizes = number_columns.times_factor(np.asarray(contents.size, np.int64), factors[1])
    if sums is None or sizes is None:
        return None
    return number_columns.of_results(number_columns.quotients(sums, sizes), np.zeros(len(sums), np.bool_), arrow)


def _kept(value: Expression) -> tuple[Kept, ...]:
    """Sums of 128 bits: of the words of decimals that fit one, else of the low and the high halves."""
    if not form(value.type).interned:
        return (Kept(summaries.SUM_WIDE, value),)
    return tuple(Kept(summaries.SUM_WIDE, Call(half, (value,), INT64)) for half in ("low half", "high half"))


def _exact_sums(contents: FiredContents, at: Sequence[int]) -> list[int]:
    """The unscaled sums, which may have any number of digits."""
    parts = [_integers(contents.summary[:, word : word + 2]) for word in at]
    return [sum(part << (64 * place) for place, part in enumerate(sums)) for sums in zip(*parts, strict=True)]


def _integers(wide: np.ndarray) -> list[int]:
    """The numbers of 128 bits that a SUM_WIDE summary has."""
    high, low = wide[:, 0].tolist(), np.ascontiguousarray(wide[:, 1]).view(np.uint64).tolist()
    return [(h << 64) | part for h, part in zip(high, low, strict=True)]


def percentile_of(call: AggregateCall) -> Function:
    """The percentile, interpolated exactly and rounded half to even to the scale of the result (DE15)."""
    (value, *_), share = call.arguments, share_of(call)
    return Function(lambda contents, at: _percentile(contents, at[0], value.type, call.type, share), lists=(value,))


def _percentile(
    contents: FiredContents, column: int, type_: Type, result: Type, share: float
) -> pa.Array:  # fmt: skip
    words, value_form, to = np.ascontiguousarray(contents.listed[:, column]), form(type_), form(result).arrow
    order = np.lexsort((value_form.ranks(words, contents.strings, descending=False), contents.row()))
    sorted_ = number_columns.unscaled(from_words(words[order], type_, contents.strings))
    part, up = Fraction(repr(share)), 10 ** (to.scale - value_form.arrow.scale)
    firsts = (np.cumsum(contents.size) - contents.size).tolist()
    percentiles = []
    for first, size in zip(firsts, contents.size.tolist(), strict=True):
        below, rest = divmod(part * (size - 1), 1)
        low, high = sorted_[first + below] or 0, sorted_[first + below + (rest > 0)] or 0
        percentiles.append(round((low + (high - low) * rest) * up))
    return number_columns.of_unscaled(percentiles, to)
