"""The kernels of the scalar functions in service/sluice/model/functions.py.

A kernel takes columns; a constant is a scalar. The result is null where an argument is null or the function has no
value. No kernel raises an exception. A function without a kernel here uses the function of pyarrow.compute with its
name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.encoding import in_seconds
from sluice.time_units import MILLISECOND, SECOND

Column: TypeAlias = pa.Array | pa.Scalar
Kernel: TypeAlias = Callable[..., Column]

INT64, FLOAT64, STRING, INSTANT, NAIVE = (
    pa.int64(), pa.float64(), pa.string(), pa.timestamp("ns", "UTC"), pa.timestamp("ns"),
)  # fmt: skip
#: int64 holds -EDGE to EDGE - 1, both inclusive; a float64 from -EDGE to below EDGE fits
EDGE = 2**63
#: the directives of a time format that show the zone
ZONED = re.compile("%[zZ]")


def kernel(name: str) -> Kernel:
    found: Kernel = KERNELS.get(name) or getattr(pc, name)
    return found


def same(value: Column) -> Column:
    return value


def none(like: Column) -> pa.Scalar:
    return pa.scalar(None, like.type)


# ---- numbers --------------------------------------------------------------------------------------------------------


def remainder(left: Column, right: Column) -> Column:
    return int_remainder(left, right) if pa.types.is_integer(left.type) else float_remainder(left, right)


def int_remainder(left: Column, right: Column) -> Column:
    """The remainder, with the sign of `left`; null for a divisor of 0. A divisor of -1 is replaced by 1, which gives
    the same remainder 0 and whose quotient always fits.
    """
    zero = pc.equal(right, 0)
    divisor = pc.if_else(pc.or_(zero, pc.equal(right, -1)), 1, right)
    rest = pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))
    return pc.if_else(zero, none(left), rest)


def float_remainder(left: Column, right: Column) -> Column:
    """The remainder by numpy, which is exact for quotients of any size. pyarrow has no remainder."""
    return by_numpy(np.fmod, left, right)


def by_numpy(function: np.ufunc, *columns: Column) -> Column:
    with np.errstate(all="ignore"):
        values = function(*map(numbers, columns))
    result = pa.array(values) if np.ndim(values) else pa.scalar(float(values))
    for column in columns:
        if is_scalar(column) or column.null_count:
            result = pc.if_else(pc.is_valid(column), result, none(result))
    return result


def numbers(column: Column) -> float | np.ndarray:
    """The values for numpy, which has no nulls: 0 takes their place."""
    filled = pc.coalesce(column, pa.scalar(0.0))
    values: float | np.ndarray = filled.as_py() if is_scalar(filled) else filled.to_numpy(zero_copy_only=False)
    return values


def smaller(left: Column, right: Column) -> Column:
    return pc.if_else(pc.less(right, left), right, left)


def larger(left: Column, right: Column) -> Column:
    return pc.if_else(pc.greater(right, left), right, left)


def round_half_away(value: Column, decimals: Column | None = None) -> Column:
    """Rounds halves away from zero. A value too large to have so many decimals stays as it is, because pyarrow would
    fail.
    """
    places = max(-300, min(300, decimals.as_py())) if decimals is not None else 0
    coarse = pc.less(pc.abs(value), 2.0**53 / 10.0**places)
    rounded = pc.round(pc.if_else(coarse, value, 0.0), ndigits=places, round_mode="half_towards_infinity")
    return pc.if_else(coarse, rounded, value)


def sign(value: Column) -> Column:
    return pc.cast(pc.sign(value), value.type)


def nonzero(value: Column) -> Column:
    return pc.not_equal(value, pa.scalar(0, value.type))


# ---- texts ----------------------------------------------------------------------------------------------------------


def concatenate(left: Column, right: Column) -> Column:
    return pc.binary_join_element_wise(left, right, "")


def characters(text: Column) -> Column:
    return pc.cast(pc.utf8_length(text), INT64)


def substring(text: Column, start: Column, length: Column | None = None) -> Column:
    if constants(start, length):
        first = max(start.as_py(), 0)
        stop = None if length is None else min(first + max(length.as_py(), 0), EDGE - 1)
        return pc.utf8_slice_codeunits(text, first, stop)
    return by_row(cut, STRING, text, start, *([] if length is None else [length]))


def cut(text: str, start: int, length: int = EDGE) -> str:
    return text[max(start, 0) : max(start, 0) + max(length, 0)]


def contains(text: Column, part: Column) -> Column:
    if constants(part):
        return pc.match_substring(text, pattern=part.as_py())
    return by_row(lambda t, p: p in t, pa.bool_(), text, part)


def starts_with(text: Column, part: Column) -> Column:
    if constants(part):
        return pc.starts_with(text, pattern=part.as_py())
    return by_row(str.startswith, pa.bool_(), text, part)


def ends_with(text: Column, part: Column) -> Column:
    if constants(part):
        return pc.ends_with(text, pattern=part.as_py())
    return by_row(str.endswith, pa.bool_(), text, part)


def index_of(text: Column, part: Column) -> Column:
    return by_row(str.find, INT64, text, part)


def replace(text: Column, old: Column, new: Column) -> Column:
    if constants(old, new) and old.as_py():  # pyarrow loops without end on an empty pattern
        return pc.replace_substring(text, pattern=old.as_py(), replacement=new.as_py())
    return by_row(lambda t, o, n: t.replace(o, n) if o else t, STRING, text, old, new)


def pad_start(text: Column, width: Column, fill: Column | None = None) -> Column:
    return pc.utf8_lpad(text, width=width.as_py(), padding=" " if fill is None else fill.as_py())


def pad_end(text: Column, width: Column, fill: Column | None = None) -> Column:
    return pc.utf8_rpad(text, width=width.as_py(), padding=" " if fill is None else fill.as_py())


def split(text: Column, separator: Column) -> Column:
    return pc.split_pattern(text, pattern=separator.as_py())


def join(texts: Column, separator: Column) -> Column:
    return pc.binary_join(texts, separator)


def regex_contains(text: Column, pattern: Column) -> Column:
    return pc.match_substring_regex(text, pattern=pattern.as_py())


def regex_replace(text: Column, pattern: Column, new: Column) -> Column:
    return pc.replace_substring_regex(text, pattern=pattern.as_py(), replacement=new.as_py())


def regex_extract(text: Column, pattern: Column) -> Column:
    """The first match of the pattern, null if there is none. The whole text is replaced by the match, because pyarrow's
    own extraction requires a name for every group.
    """
    found = regex_contains(text, pattern)
    whole = rf"(?s)^.*?((?-s){pattern.as_py()})(?s).*$"
    extracted = pc.replace_substring_regex(text, pattern=whole, replacement=r"\1")
    return pc.if_else(found, extracted, none(text))


def constants(*columns: Column | None) -> bool:
    return all(column is None or (is_scalar(column) and column.is_valid) for column in columns)


def is_scalar(column: Column) -> bool:
    return isinstance(column, pa.Scalar)


def by_row(function: Callable[..., Any], type_: pa.DataType, *columns: Column) -> Column:
    """Applies a Python function to each row, for what pyarrow computes only with constants."""
    if all(map(is_scalar, columns)):
        return pa.scalar(row_value(function, [column.as_py() for column in columns]), type_)
    values = [repeat(column.as_py()) if is_scalar(column) else column.to_pylist() for column in columns]
    return pa.array([row_value(function, row) for row in zip(*values, strict=False)], type_)


def row_value(function: Callable[..., Any], row: Any) -> Any:  # noqa: ANN401 - values of any type
    return None if None in row else function(*row)


# ---- conversions ----------------------------------------------------------------------------------------------------


def to_int64(value: Column) -> Column:
    if pa.types.is_floating(value.type):
        whole = pc.trunc(value)
        fits = pc.and_(pc.greater_equal(whole, float(-EDGE)), pc.less(whole, float(EDGE)))
        return pc.cast(pc.if_else(fits, whole, none(whole)), INT64)
    return parsed(value, r"^-?[0-9]+$", INT64) if pa.types.is_string(value.type) else pc.cast(value, INT64)


def to_float64(value: Column) -> Column:
    if pa.types.is_string(value.type):
        return parsed(value, r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^(-?Infinity|NaN)$", FLOAT64)
    return pc.cast(pc.cast(value, INT64), FLOAT64, safe=False)


def to_boolean(text: Column) -> Column:
    known = pc.or_(pc.equal(text, "true"), pc.equal(text, "false"))
    return pc.if_else(known, pc.equal(text, "true"), pa.scalar(None, pa.bool_()))


def to_timestamp(text: Column) -> Column:
    """Parses ISO 8601. A text without zone is in UTC, one without time is midnight."""
    padded = pc.replace_substring_regex(text, pattern=r"^(\d{4}-\d\d-\d\d)$", replacement=r"\1T00:00Z")
    zoned = pc.replace_substring_regex(padded, pattern=r"^(\S+[T ]\d\d:\d\d(:\d\d(\.\d+)?)?)$", replacement=r"\1Z")
    pattern = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[-+]\d\d:?\d\d)$"
    return parsed(zoned, pattern, INSTANT)


def parsed(text: Column, pattern: str, type_: pa.DataType) -> Column:
    """The values of the texts that match the pattern; null for other texts and for values out of the type's range."""
    if is_scalar(text):
        return parsed(pa.array([text.as_py()], STRING), pattern, type_)[0]
    return cast_each(pc.if_else(pc.match_substring_regex(text, pattern=pattern), text, none(text)), type_)


def cast_each(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Casts each text, null if it does not fit. pyarrow casts all values or fails, so the texts are halved until those
    that do not fit are alone.
    """
    try:
        return pc.cast(texts, type_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, type_)
        middle = len(texts) // 2
        return pa.concat_arrays([cast_each(texts[:middle], type_), cast_each(texts[middle:], type_)])


def to_string(value: Column) -> Column:
    if pa.types.is_floating(value.type):
        return float_text(value)
    return instant_text(value) if pa.types.is_timestamp(value.type) else pc.cast(value, STRING)


def instant_text(value: Column) -> Column:
    """Formats a time with the shortest fraction: 2013-01-01T05:00:00.5Z. Zeros are removed before the decimal point is,
    so the zeros of whole seconds stay.
    """
    text = pc.replace_substring(pc.cast(naive(value), STRING), pattern=" ", replacement="T")
    return concatenate(pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), "."), pa.scalar("Z"))


def float_text(value: Column) -> Column:
    if is_scalar(value):
        return float_text(pa.array([value.as_py()], FLOAT64))[0]
    texts = orjson.dumps(value.to_pylist())[1:-1].split(b",") if len(value) else []
    infinite = pc.if_else(pc.greater(value, 0.0), "Infinity", "-Infinity")
    special = pc.if_else(pc.is_nan(value), "NaN", infinite)
    return pc.if_else(pc.is_finite(value), pa.array(texts, pa.binary()).view(STRING), special)


# ---- times ----------------------------------------------------------------------------------------------------------


def later(time: Column, seconds: Column) -> Column:
    return shifted(time, seconds, pc.add)


def earlier(time: Column, seconds: Column) -> Column:
    return shifted(time, seconds, pc.subtract)


def shifted(time: Column, seconds: Column, operation: Kernel) -> Column:
    """The time plus or minus the seconds; null if int64 nanoseconds overflow, which puts the result on the wrong side
    of `time`.
    """
    start, by = ticks(time), ticks(from_seconds(seconds))
    end = operation(start, by)
    forward = pc.greater_equal(by, 0) if operation is pc.add else pc.less_equal(by, 0)
    fits = pc.if_else(forward, pc.greater_equal(end, start), pc.less(end, start))
    return instant(pc.if_else(fits, end, none(end)))


def seconds_between(later_: Column, earlier_: Column) -> Column:
    """The difference in seconds, computed from exact nanoseconds if they fit int64 (up to 292 years), else from
    float64.
    """
    end, start = ticks(later_), ticks(earlier_)
    between = pc.subtract(end, start)
    fits = pc.equal(pc.greater_equal(end, start), pc.greater_equal(between, 0))
    far = pc.subtract(to_float64(end), to_float64(start))
    return pc.if_else(fits, in_seconds(between), pc.divide(far, float(SECOND)))


def from_seconds(seconds: Column) -> Column:
    if pa.types.is_integer(seconds.type):
        return instant(times(seconds, SECOND))
    whole = pc.floor(seconds)
    nanoseconds = pc.round(pc.multiply(pc.subtract(seconds, whole), float(SECOND)))
    return instant(pc.add(times(to_int64(whole), SECOND), to_int64(nanoseconds)))


def from_milliseconds(milliseconds: Column) -> Column:
    return instant(times(milliseconds, MILLISECOND))


def times(count: Column, unit: int) -> Column:
    """`count` units as nanoseconds; null if int64 cannot hold them."""
    most = (EDGE - 1) // unit - 1
    fits = pc.and_(pc.greater_equal(count, -most), pc.less_equal(count, most))
    return pc.multiply(pc.if_else(fits, count, none(count)), unit)


def to_seconds(time: Column) -> Column:
    return in_seconds(ticks(time))


def to_milliseconds(time: Column) -> Column:
    """Milliseconds since 1970, rounded down, also before 1970."""
    nanoseconds = ticks(time)
    cut_ = pc.divide(nanoseconds, MILLISECOND)
    below = pc.less(nanoseconds, pc.multiply(cut_, MILLISECOND))
    return pc.if_else(below, pc.subtract(cut_, 1), cut_)


def ticks(time: Column) -> Column:
    return pc.cast(time, INT64)


def instant(nanoseconds: Column) -> Column:
    return pc.cast(nanoseconds, INSTANT)


def naive(time: Column) -> Column:
    """The time in UTC without its zone. The calendar functions then need no time zone database."""
    return pc.cast(pc.cast(time, INT64), NAIVE)


def local(time: Column, zone: Column | None) -> Column:
    """The time on the calendar of the zone, or of UTC without one."""
    return naive(time) if zone is None else pc.cast(time, pa.timestamp("ns", zone.as_py()))


def calendar(part: Kernel) -> Kernel:
    return lambda time, zone=None: part(local(time, zone))


def day_of_week(time: Column, zone: Column | None = None) -> Column:
    return pc.day_of_week(local(time, zone), count_from_zero=False, week_start=1)


def start_of_day(time: Column, zone: Column | None = None) -> Column:
    """The first instant of the local date. If midnight is skipped, this is the instant behind the gap; if midnight
    occurs twice, the first one.

    Null if the result is before 1677.
    """
    wall = naive(time) if zone is None else pc.local_timestamp(local(time, zone))
    midnight = pc.floor_temporal(wall, unit="day")
    if zone is not None:
        midnight = pc.assume_timezone(midnight, zone.as_py(), ambiguous="earliest", nonexistent="latest")
    return not_after(ticks(time), ticks(midnight))


def floor_time(time: Column, seconds: Column) -> Column:
    """The time rounded down to a multiple of `seconds` since 1970, also before 1970; null if the result is
    before 1677.
    """
    nanoseconds, size_ = ticks(time), round(seconds.as_py() * SECOND)
    past = pc.if_else(pc.less(int_remainder(nanoseconds, pa.scalar(size_)), 0), size_, 0)
    start = pc.subtract(pc.subtract(nanoseconds, int_remainder(nanoseconds, pa.scalar(size_))), past)
    return not_after(nanoseconds, start)


def not_after(end: Column, start: Column) -> Column:
    """`start` as a time; null if it overflowed because it is before 1677."""
    return instant(pc.if_else(pc.less_equal(start, end), start, none(start)))


def format_time(time: Column, form: Column, zone: Column | None = None) -> Column:
    """Formats a time. Without `zone` the zone UTC is set only if the format shows a zone."""
    if zone is None and ZONED.search(form.as_py()):
        zone = pa.scalar("UTC")
    return pc.strftime(local(time, zone), format=form.as_py())


def parse_time(text: Column, form: Column) -> Column:
    """Parses a time in seconds, because pyarrow overflows silently if nanoseconds do not fit."""
    if is_scalar(text):
        return parse_time(pa.array([text.as_py()], STRING), form)[0]
    seconds = pc.strptime(text, format=form.as_py(), unit="s", error_is_null=True)
    known = pc.invert(rolled_over(text, seconds, form.as_py()))
    return instant(times(pc.cast(pc.if_else(known, seconds, none(seconds)), INT64), SECOND))


def rolled_over(texts: pa.Array, seconds: pa.Array, form: str) -> pa.Array:
    """Whether pyarrow read an impossible time as another one, as 30 February as 1 March.

    Such a result is among the first days of a month or at second 0, and formatting it does not give the text back.
    Python's calendar decides for the few texts of this kind.
    """
    if ZONED.search(form):
        return pa.array([value is not None and impossible(value, form) for value in texts.to_pylist()], pa.bool_())
    differs = pc.not_equal(pc.strftime(seconds, format=form), texts)
    first = pc.or_(pc.less_equal(pc.day(seconds), 3), pc.equal(pc.second(seconds), 0))
    found = pc.fill_null(pc.and_(differs, first), False).to_numpy(zero_copy_only=False).copy()  # noqa: FBT003
    places = np.flatnonzero(found)
    found[places] = [impossible(value, form) for value in texts.take(pa.array(places)).to_pylist()]
    return pa.array(found)


def impossible(text: str, form: str) -> bool:
    """Whether Python rejects the text because its month has no such day or its minute no such second."""
    try:
        datetime.strptime(text, form)  # noqa: DTZ007 - the zone does not matter
    except ValueError as error:
        return "out of range" in str(error) or "must be in" in str(error)
    return False


# ---- lists ----------------------------------------------------------------------------------------------------------


def over_rows(function: Kernel) -> Kernel:
    """Wraps a function that needs columns: constants become columns."""

    def computed(*columns: Column) -> Column:
        length = next((len(column) for column in columns if not is_scalar(column)), None)
        found = function(*(pa.repeat(c, 1 if length is None else length) if is_scalar(c) else c for c in columns))
        return found[0] if length is None else found

    return computed


def size(values: Column) -> Column:
    return pc.cast(pc.list_value_length(values), INT64)


def bounds(values: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """The index of each list's first element among all elements, and the length of each list; the length of a null is
    0.
    """
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return values.offsets.to_numpy()[:-1].astype(np.int64), lengths


def element_at(values: pa.ListArray, position: pa.Array) -> pa.Array:
    starts, lengths = bounds(values)
    at = pc.fill_null(position, EDGE - 1).to_numpy(zero_copy_only=False)
    at = np.where(at < 0, at + lengths, at)
    inside = (at >= 0) & (at < lengths)
    return values.values.take(pa.array(np.where(inside, starts + at, 0), mask=~inside))


def sublist(values: pa.ListArray, start: pa.Array, length: pa.Array | None = None) -> pa.Array:
    """As `substring`: a negative start counts as 0, and so does a negative length."""
    starts, lengths = bounds(values)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False) | pc.is_null(start).to_numpy(zero_copy_only=False)
    first = np.minimum(np.maximum(pc.fill_null(start, 0).to_numpy(zero_copy_only=False), 0), lengths)
    sizes = lengths - first
    if length is not None:
        missing |= pc.is_null(length).to_numpy(zero_copy_only=False)
        sizes = np.minimum(sizes, np.maximum(pc.fill_null(length, 0).to_numpy(zero_copy_only=False), 0))
    sizes[missing] = 0
    ends = np.cumsum(sizes)
    places = np.repeat(starts + first - ends + sizes, sizes) + np.arange(int(sizes.sum()))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.values.take(pa.array(places)), mask=pa.array(missing))


def list_index(values: pa.ListArray, wanted: pa.Array) -> pa.Array:
    """The first position whose element equals the value, -1 if none does; NaN equals nothing."""
    starts, lengths = bounds(values)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    elements = values.values.take(pa.array(starts[row] + place))
    alike = pc.fill_null(pc.equal(elements, wanted.take(pa.array(row))), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    found = np.full(len(lengths), EDGE - 1)
    np.minimum.at(found, row[alike], place[alike])
    missing = pc.or_(pc.is_null(values), pc.is_null(wanted)).to_numpy(zero_copy_only=False)
    return pa.array(np.where(found == EDGE - 1, -1, found), mask=missing)


def list_contains(values: pa.ListArray, wanted: pa.Array) -> pa.Array:
    return pc.greater_equal(list_index(values, wanted), 0)


KERNELS: dict[str, Kernel] = {
    **{f.__name__: f for f in (
        same, remainder, sign, smaller, larger, round_half_away, nonzero,
        concatenate, characters, substring, contains, starts_with, ends_with, index_of, replace,
        to_int64, to_float64, to_boolean, to_timestamp, to_string,
        later, earlier, seconds_between, from_seconds, from_milliseconds, to_seconds, to_milliseconds,
        day_of_week, start_of_day, floor_time, format_time, parse_time, size,
        pad_start, pad_end, split, join, regex_contains, regex_extract, regex_replace,
    )},
    **{f.__name__: over_rows(f) for f in (element_at, sublist, list_index, list_contains)},
    **{part.__name__: calendar(part) for part in (pc.year, pc.month, pc.day, pc.hour, pc.minute, pc.second)},
    "day_of_year": calendar(pc.day_of_year),
    "iso_week": calendar(pc.iso_week),
    "from_nanoseconds": instant,
    "to_nanoseconds": ticks,
}  # fmt: skip
