"""The table of the aggregation functions (reference 7.3): which data each keeps, and how its result is computed.

functions      data that they need                                          cost
Count, ...     the numbers of tuples                                        none
most           summaries (contents/summaries.py)                            O(1) per tuple
COUNTED        in processing-time windows, counts of values (multisets.py)  O(1) per tuple
the rest       all tuples of the window, listed at each firing              O(tuples in the window) per firing
               (from_lists.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sluice.api.custom import combines, lifts, load
from sluice.columns.column_forms import form
from sluice.columns.encoding import from_units, from_words
from sluice.columns.float_bits import as_real
from sluice.columns.forms.form_contract import Order
from sluice.columns.kernel import kernel
from sluice.engine.aggregates import custom_functions, decimal_aggregates, from_lists
from sluice.engine.aggregates.aggregate_function import (
    Counting,
    Finish,
    Function,
    Kept,
    Results,
    presence_of,
    results,
    share_of,
    words_of,
)
from sluice.engine.aggregates.present_values import function_of
from sluice.engine.contents import multisets, summaries
from sluice.engine.contents.fired_contents import FiredContents, FiringDetails
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, Literal
from sluice.model.types import FLOAT64, INT64, Float64Type, Int64Type, StringType, TimeForm, Type
from sluice.model.types.decimal_type import DecimalType
from sluice.model.windows.kinds import WINDOW_FUNCTIONS


def function(call: AggregateCall, *, counting: bool = False) -> Function:
    """The function of a typed call. `counting`: the window's contents can count values, so use COUNTED if possible."""
    return function_of(call, (FUNCTIONS | COUNTED if counting else FUNCTIONS)[call.function])


# ---- how many -------------------------------------------------------------------------------------------------------


def _count(call: AggregateCall) -> Function:
    """The number of tuples; with an argument, of the tuples in which it is not null (NU19)."""
    if any(e.type.optional for e in call.arguments):
        return Function(_word(INT64), (Kept(summaries.SUM_INT, presence_of(call.arguments[0])),))
    return Function(lambda contents, _: pa.array(contents.size.astype(np.int64)))


def _counting(count: Callable[[FiredContents], pa.Array]) -> Callable[[AggregateCall], Function]:
    return lambda _: Function(lambda contents, _: count(contents))


def _count_by_group(contents: FiredContents) -> pa.Array:
    """The sizes of all groups of the firing in the order of output; without `group_by` that of CountAll (A18)."""
    if not contents.grouped:
        return from_lists.lists(np.ones(len(contents.size), np.int64), pa.array(contents.everything))
    groups = contents.per_firing(np.ones(len(contents.size), np.int64))
    first = np.arange(len(groups)) - contents.position_in_firing()
    places = np.repeat(first - np.cumsum(groups) + groups, groups) + np.arange(int(groups.sum()))
    return from_lists.lists(groups, pa.array(contents.size[places].astype(np.int64)))


# ---- sums -----------------------------------------------------------------------------------------------------------


#: class of a type -> the function of a call whose argument has the type
ByType: TypeAlias = Mapping[type[Type], Callable[[AggregateCall], Function]]


def _by_type(rows: ByType) -> Callable[[AggregateCall], Function]:
    """The function that has another row for each type of its argument."""
    return lambda call: rows[type(call.arguments[0].type)](call)


def _of_value(make: Callable[[Expression], Function]) -> Callable[[AggregateCall], Function]:
    return lambda call: make(call.arguments[0])


def _sum_of_words(value: Expression) -> Function:
    return Function(_word(value.type), (Kept(summaries.SUM_INT, value),))


def _sum_of_reals(value: Expression) -> Function:
    return Function(
        lambda contents, at: pa.array(_total(contents, at[0], mean=False)), (Kept(summaries.SUM_REAL, value),)
    )


def _joined_texts(value: Expression) -> Function:
    return Function(lambda contents, at: from_lists.joined(contents, at[0]), lists=(value,))


def _mean_of_words(value: Expression) -> Function:
    return Function(_truncated_mean(value.type), (Kept(summaries.SUM_WIDE, value),))


def _mean_of_reals(value: Expression) -> Function:
    return Function(
        lambda contents, at: pa.array(_total(contents, at[0], mean=True)), (Kept(summaries.SUM_REAL, value),)
    )


#: the sum and the mean
SUMS: ByType = {
    Int64Type: _of_value(_sum_of_words), Float64Type: _of_value(_sum_of_reals), StringType: _of_value(_joined_texts),
    DecimalType: decimal_aggregates.sum_of,
}  # fmt: skip
MEANS: ByType = {
    Int64Type: _of_value(_mean_of_words), Float64Type: _of_value(_mean_of_reals),
    DecimalType: decimal_aggregates.mean_of,
}  # fmt: skip


def _total(contents: FiredContents, word: int, *, mean: bool) -> np.ndarray:
    """The compensated sums of a SUM_REAL summary, divided by the number of tuples if `mean`."""
    totals = np.empty(len(contents.size))
    _add_up(contents.summary, word, contents.size, mean, totals)
    return totals


@kernel
def _add_up(sums: np.ndarray, word: int, sizes: np.ndarray, mean: bool, into: np.ndarray) -> None:  # noqa: FBT001
    """Adds the rounding error to each sum.

    Sums that are not finite need no such correction. Sums beyond the range of float64 are divided (see `_large_sum` in
    summaries.py); with the error added, such a sum may be the largest float64.
    """
    for row in range(len(into)):
        total, lost = as_real(sums[row, word]), as_real(sums[row, word + 1])
        size = sizes[row] if mean else 1
        if not np.isfinite(total):
            into[row] = total / size
        elif np.isnan(lost):
            into[row] = (total + summaries.divided_error(sums[row, word + 1])) / size * summaries.LARGE
        else:
            into[row] = (total + lost) / size


def _truncated_mean(type_: Type) -> Finish:
    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        means = np.empty(len(contents.size), np.int64)
        _divide(contents.summary, at[0], contents.size, means)
        return from_words(means, type_, contents.strings)

    return finish


@kernel
def _divide(sums: np.ndarray, word: int, sizes: np.ndarray, into: np.ndarray) -> None:
    """Divides 128-bit sums by counts below 2**31, rounding toward zero (A20): long division with 32-bit digits."""
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


def _deviation(fewer: int) -> Callable[[AggregateCall], Function]:
    """The square root of (sum of squared deviations) / (n - fewer), 0 if n <= fewer (A21)."""

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        divisor = np.maximum(contents.size - fewer, 1)
        return pa.array(np.where(contents.size > fewer, np.sqrt(contents.real(at[0] + 2) / divisor), 0.0))

    return lambda call: Function(finish, (Kept(summaries.MOMENTS, _as_real(call.arguments[0])),))


def _as_real(value: Expression) -> Expression:
    """The value as float64: deviations and approximate percentiles of exact numbers are computed of the nearest one."""
    return value if value.type == FLOAT64 else Call("float64", (value,), FLOAT64)


# ---- picks ----------------------------------------------------------------------------------------------------------


def _end(code: int) -> Callable[[AggregateCall], Function]:
    def make(call: AggregateCall) -> Function:
        if len(call.arguments) > 1:
            return Function(
                _collected(call.type, last=code == summaries.YOUNGEST, most=_cap(call)), lists=_values(call)
            )
        return Function(_word(call.type), (Kept(code, call.arguments[0]),))

    return make


def _extreme(least: bool, *, last: bool = False) -> Callable[[AggregateCall], Function]:  # noqa: FBT001
    """Min and Max with one argument; ArgMin and ArgMax with a second one, the companion. `last`: it is that of the
    last tuple with the extreme value (FN9).
    """

    def make(call: AggregateCall) -> Function:
        value, companion = call.arguments[0], call.arguments[1] if len(call.arguments) > 1 else summaries.NONE
        extreme = Kept(code_of(value.type, least=least) + (summaries.LAST if last else 0), value, companion)
        if form(value.type).order is not Order.REAL:
            return Function(_word(call.type, len(call.arguments) - 1), (extreme,))
        first = Kept(summaries.OLDEST, call.arguments[-1])
        return Function(_unless_nan_came_first(call.type, len(call.arguments) - 1), (extreme, _first(value), first))

    return make


def _times(least: bool) -> Callable[[AggregateCall], Function]:  # noqa: FBT001
    """MinCount and MaxCount with their documented meaning (A19): how many tuples have the extreme value.

    If the first value is NaN, it is the extreme (A16), and the count is 1.
    """

    def make(call: AggregateCall) -> Function:
        (value,) = call.arguments
        extreme = Kept(code_of(value.type, least=least), value, summaries.TIMES)
        if form(value.type).order is not Order.REAL:
            return Function(_word(INT64, 1), (extreme,))
        return Function(
            lambda contents, at: pa.array(np.where(np.isnan(contents.real(at[1])), 1, contents.summary[:, at[0] + 1])),
            (extreme, _first(value)),
        )

    return make


#: order of words -> the codes of the summaries of the least and of the greatest value
EXTREMES = {
    Order.WHOLE: (summaries.LEAST, summaries.GREATEST),
    Order.REAL: (summaries.LEAST_REAL, summaries.GREATEST_REAL),
    Order.TEXT: (summaries.LEAST_TEXT, summaries.GREATEST_TEXT),
}


def code_of(type_: Type, *, least: bool) -> int:
    return EXTREMES[form(type_).order][not least]


def _first(value: Expression) -> Kept:
    return Kept(summaries.OLDEST, value)


def _word(type_: Type, offset: int = 0) -> Finish:
    return lambda contents, at: from_words(contents.summary[:, at[0] + offset], type_, contents.strings)


def _unless_nan_came_first(type_: Type, offset: int) -> Finish:
    """The extreme or its companion. If the first value is NaN, the result is this NaN or its companion (A16)."""

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        extreme, value, first = at
        words = np.where(
            np.isnan(contents.real(value)), contents.summary[:, first], contents.summary[:, extreme + offset]
        )
        return from_words(words, type_, contents.strings)

    return finish


# ---- from lists -----------------------------------------------------------------------------------------------------


def _cap(call: AggregateCall) -> int | None:
    """The maximum size of the result: the constant last argument, None if there is none."""
    constant = call.arguments[-1]
    return int(constant.value) if len(call.arguments) > 1 and isinstance(constant, Literal) else None


def _values(call: AggregateCall) -> tuple[Expression, ...]:
    return call.arguments[:1]


def _collected(type_: Type, *, most: int | None, last: bool = False) -> Finish:
    """The values in order of arrival: all, or at most the first `most` (the last `most` if `last`)."""

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        size, words = contents.size, contents.listed[:, at[0]]
        if most is not None:
            place = contents.position_in_row()
            words = words[place >= np.repeat(size, size) - most if last else place < most]
            size = np.minimum(size, most)
        return from_lists.lists(size, from_words(words, element(type_), contents.strings))

    return finish


def element(type_: Type) -> Type:
    assert type_.element is not None  # noqa: S101 - called for lists only
    return type_.element


def _collect(call: AggregateCall) -> Function:
    return Function(_collected(call.type, most=_cap(call)), lists=_values(call))


def _collect_distinct(call: AggregateCall) -> Function:
    most = _cap(call)

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        distinct = from_lists.distinct(contents, at[0], call.arguments[0].type).first(most)
        return from_lists.lists(distinct.size, from_words(distinct.words, call.arguments[0].type, contents.strings))

    return Function(finish, lists=_values(call))


def _count_by_distinct(call: AggregateCall) -> Function:
    """How often each distinct value occurs, in the order of CollectDistinct: the order of first arrival."""
    most = _cap(call)

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        distinct = from_lists.distinct(contents, at[0], call.arguments[0].type).first(most)
        return from_lists.lists(distinct.size, pa.array(distinct.times))

    return Function(finish, lists=_values(call))


def _collect_top(*, least: bool, by_other: bool) -> Callable[[AggregateCall], Function]:
    """MinN, MaxN: the least or greatest values. CollectMinN, CollectMaxN: the values of the tuples in which the second
    argument is least or greatest (L3). At most `n` of them, in the order of a Sort (L2).
    """

    def make(call: AggregateCall) -> Function:
        value, most = call.arguments[0], _cap(call)
        key = call.arguments[1] if by_other else value

        def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
            top = from_lists.top(contents, at[-1], key.type, most, descending=not least)
            return from_lists.lists(top.size, from_words(top.listed[:, at[0]], value.type, contents.strings))

        return Function(finish, lists=(value, key) if by_other else (value,))

    return make


def _count_distinct(call: AggregateCall) -> Function:
    type_ = call.arguments[0].type
    return Function(
        lambda contents, at: pa.array(from_lists.distinct(contents, at[0], type_).size), lists=call.arguments
    )


def _counted_distinct(call: AggregateCall) -> Function:
    value = call.arguments[0]
    if value.type.parts and from_lists.has_floats(value.type):  # equal values may have different words
        return _count_distinct(call)

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        assert contents.counted is not None  # noqa: S101 - called for windows that count values
        return pa.array(contents.counted.distinct(at[0]))

    return Function(finish, counted=(Counting(value),))


def _collect_extreme(least: bool) -> Callable[[AggregateCall], Function]:  # noqa: FBT001
    """CollectArgMin, CollectArgMax: the distinct companions of the tuples with the extreme value, by first arrival."""

    def make(call: AggregateCall) -> Function:
        value, companion = call.arguments
        extreme = function(AggregateCall("Min" if least else "Max", (value,), value.type))

        def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
            count = len(extreme.kept)
            value_column, companion_column, *presence = at[count:]
            best = results(extreme.finish(contents, at[:count])).values
            chosen = from_lists.having(contents, value_column, value.type, best)
            for column in presence:  # the list has no null (NU19)
                chosen &= contents.listed[:, column] != 0
            distinct = from_lists.distinct(contents.only(chosen), companion_column, companion.type.present)
            return from_lists.lists(distinct.size, from_words(distinct.words, companion.type.present, contents.strings))

        return Function(finish, extreme.kept, (value, *words_of(companion)))

    return make


def _custom(call: AggregateCall) -> Function:
    name, *arguments = call.arguments
    assert isinstance(name, Literal)  # noqa: S101 - calls are typed where they are made
    custom_class = load(str(name.value))
    type_ = call.type if custom_class.signature.strip().endswith("?") else call.type.present
    if lifts(custom_class):
        return _lifted(custom_class, str(name.value), tuple(arguments), type_)
    finish = custom_functions.results(custom_class, [e.type for e in arguments], type_)
    return Function(finish, lists=tuple(word for e in arguments for word in words_of(e)))


#: word of `combine` -> the summary of float64 numbers
COMBINED = {
    "sum": summaries.SUM_REAL, "min": summaries.LEAST_REAL, "max": summaries.GREATEST_REAL,
    "first": summaries.OLDEST, "last": summaries.YOUNGEST,
}  # fmt: skip


def _lifted(custom_class: type[Any], name: str, arguments: tuple[Expression, ...], type_: Type) -> Function:
    """The function of a class that lifts the tuples: with words, computed as they come (FN11), or with a function of
    its own, which combines the listed numbers (FN13).
    """
    columns = custom_functions.lifts_of(custom_class, name, arguments)
    if combines(custom_class):
        return Function(custom_functions.combining(custom_class, type_), lists=tuple(columns))
    words = custom_class.combine

    def finish(contents: FiredContents, at: Sequence[int]) -> Results:
        numbers = [
            _total(contents, word, mean=False) if operation == "sum" else contents.real(word)
            for operation, word in zip(words, at, strict=True)
        ]
        return custom_functions.of_numbers(custom_class, numbers, type_)

    return Function(finish, tuple(Kept(COMBINED[how], column) for how, column in zip(words, columns, strict=True)))


def _percentile(call: AggregateCall) -> Function:
    quantile = share_of(call)
    return Function(
        lambda contents, at: pa.array(from_lists.percentile(contents, at[0], quantile)), lists=_values(call)
    )


PERCENTILES: ByType = {Float64Type: _percentile, DecimalType: decimal_aggregates.percentile_of}


def _approximate(call: AggregateCall) -> Function:
    """ApproxPercentile from listed tuples, for windows whose contents cannot count values."""

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        words = contents.listed[:, at[0]]
        sound = ~np.isnan(np.ascontiguousarray(words).view(np.float64))
        size = np.bincount(contents.row()[sound], minlength=len(contents.size))
        return _between(share_of(call), size, multisets.rounded(words[sound]), None, contents.size > size)

    return Function(finish, lists=(_as_real(call.arguments[0]),))


def _counted_approximate(call: AggregateCall) -> Function:
    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
        assert contents.counted is not None  # noqa: S101 - called for windows that count values
        nans = contents.counted.counts[:, 2 * at[0] + 1]
        return _between(share_of(call), *contents.counted.values(at[0]), nans > 0)

    return Function(finish, counted=(Counting(_as_real(call.arguments[0]), rounded=True),))


def _between(share: float, size: np.ndarray, words: np.ndarray, times: np.ndarray | None, nans: np.ndarray) -> pa.Array:
    """The number at position floor(share * (n - 1)) of the n sorted numbers of each row.

    `words` are rounded words (see multisets.py), `size` is how many of them each row has, `times` is how often each
    occurs (None: once), and `nans` says which rows contain NaN. The result of such a row is NaN.
    """
    row = np.repeat(np.arange(len(size)), size)
    order = np.lexsort((words, row))
    until = np.cumsum(np.ones(len(words), np.int64) if times is None else times[order])
    ends = np.append(0, until)[np.cumsum(size)]
    starts = np.append(0, ends[:-1])
    place = starts + np.floor(share * np.maximum(ends - starts - 1, 0)).astype(np.int64)
    position = np.minimum(np.searchsorted(until, place, "right"), max(0, len(words) - 1))
    numbers = multisets.middles(words[order])[position] if len(words) else np.zeros(len(size))
    return pa.array(np.where(nans, np.nan, numbers))


def _each_element(plain: Callable[[AggregateCall], Function]) -> Callable[[AggregateCall], Function]:
    """The function for lists, applied element by element. The result is null if lists differ in size (A22)."""

    def make(call: AggregateCall) -> Function:
        value = call.arguments[0]
        element_type = value.type.element
        if element_type is None:
            return plain(call)
        inner = plain(AggregateCall(call.function, (Attribute("", element_type),), element(call.type)))
        layout, width = summaries.layout([summaries.Summary(kept.code, 0) for kept in inner.kept])

        def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array:
            return from_lists.by_element(
                contents, at[0], value.type, layout, width,
                lambda columns: results(inner.finish(columns, layout["word"].tolist())).values,
            )  # fmt: skip

        return Function(finish, lists=(value,))

    return make


#: the results of paneTiming: for an early result, for the first firing of a pane, and for every later one
TIMINGS = np.array(["paneEarly", "paneOnComplete", "paneLate"], object)


def _description_of_window(describe: Callable[[FiringDetails, Type], pa.Array]) -> Callable[[AggregateCall], Function]:
    """Functions of the pane that fires: its bounds, index and timing (E29)."""

    def make(call: AggregateCall) -> Function:
        def finish(contents: FiredContents, _: Sequence[int]) -> pa.Array:
            assert contents.details is not None  # noqa: S101 - checked with the file (E32)
            return describe(contents.details, call.type)

        return Function(finish)

    return make


FUNCTIONS: dict[str, Callable[[AggregateCall], Function]] = {
    "Count": _count,
    "CountAll": _counting(lambda contents: pa.array(contents.everything)),
    "CountGroups": _counting(lambda contents: pa.array(contents.per_firing((contents.size > 0).astype(np.int64)))),
    "CountByGroup": _counting(_count_by_group),
    "Sum": _each_element(_by_type(SUMS)),
    "Average": _each_element(_by_type(MEANS)),
    "PopulationStdDev": _deviation(0),
    "SampleStdDev": _deviation(1),
    "Min": _each_element(_extreme(least=True)),
    "Max": _each_element(_extreme(least=False)),
    "ArgMin": _extreme(least=True),
    "ArgMax": _extreme(least=False),
    "ArgMinLast": _extreme(least=True, last=True),
    "ArgMaxLast": _extreme(least=False, last=True),
    "MinCount": _times(least=True),
    "MaxCount": _times(least=False),
    "CollectArgMin": _collect_extreme(least=True),
    "CollectArgMax": _collect_extreme(least=False),
    "MinN": _collect_top(least=True, by_other=False),
    "MaxN": _collect_top(least=False, by_other=False),
    "CollectMinN": _collect_top(least=True, by_other=True),
    "CollectMaxN": _collect_top(least=False, by_other=True),
    "First": _end(summaries.OLDEST),
    "Last": _end(summaries.YOUNGEST),
    "Any": _end(summaries.YOUNGEST),
    "FirstPresent": _end(summaries.OLDEST),
    "LastPresent": _end(summaries.YOUNGEST),
    "Collect": _collect,
    "CollectDistinct": _collect_distinct,
    "CountByDistinct": _count_by_distinct,
    "CountDistinct": _count_distinct,
    "Percentile": _by_type(PERCENTILES),
    "ApproxPercentile": _approximate,
    "Median": _by_type(PERCENTILES),
    "Custom": _custom,
}


def _timings(details: FiringDetails) -> np.ndarray:
    return TIMINGS.take(np.where(details.early, 0, 1 + np.minimum(details.index, 1)))


def _last_time(details: FiringDetails, type_: Type) -> pa.Array:
    """The last time inside of a pane, whose end is outside: one tick before the end (E39).

    Float64 seconds of this century do not distinguish nanoseconds: then the greatest float64 below the end.
    """
    last = from_units(details.end - 1, type_)
    if type_.time is not TimeForm.SECONDS:
        return last
    end = from_units(details.end, type_).to_numpy()
    return pa.array(np.minimum(last.to_numpy(), np.nextafter(end, -np.inf)))


#: field of the firing -> the function that computes it for the window that fires (E29)
DESCRIBED: dict[str, Callable[[FiringDetails, Type], pa.Array]] = {
    "start": lambda details, type_: from_units(details.start, type_),
    "end": lambda details, type_: from_units(details.end, type_),
    "last": _last_time,
    "index": lambda details, _: pa.array(details.index),
    "timing": lambda details, _: pa.array(_timings(details), pa.string()),
    "early": lambda details, _: pa.array(details.early),
    "empty": lambda details, _: pa.array(details.empty),
    "reason": lambda details, _: pa.array(details.reason, pa.string()),
}
FUNCTIONS |= {
    name: _description_of_window(DESCRIBED[function.describes]) for name, function in WINDOW_FUNCTIONS.items()
}

#: where tuples come and leave one by one
COUNTED: dict[str, Callable[[AggregateCall], Function]] = {
    "CountDistinct": _counted_distinct,
    "ApproxPercentile": _counted_approximate,
}
