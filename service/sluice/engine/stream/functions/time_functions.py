"""Scalar functions of times: arithmetic, the calendar of a zone, and formats."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.encoding import in_seconds
from sluice.engine.stream.functions.column_arguments import (
    EDGE,
    INT64,
    STRING,
    Column,
    Kernel,
    by_name,
    is_scalar,
    none,
)
from sluice.engine.stream.functions.conversions import instant, naive, ticks, to_float64, to_int64
from sluice.engine.stream.functions.number_functions import int_remainder
from sluice.time_units import MILLISECOND, SECOND

#: the directives of a time format that show the zone
ZONED = re.compile("%[zZ]")


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


KERNELS = {
    **by_name(
        later, earlier, seconds_between, from_seconds, from_milliseconds, to_seconds, to_milliseconds, day_of_week,
        start_of_day, floor_time, format_time, parse_time,
    ),
    **{part.__name__: calendar(part) for part in (pc.year, pc.month, pc.day, pc.hour, pc.minute, pc.second)},
    "day_of_year": calendar(pc.day_of_year),
    "iso_week": calendar(pc.iso_week),
}  # fmt: skip
