"""Scalar functions of times: arithmetic, the calendar of a zone, and formats."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.encoding import in_seconds
from sluice.engine.stream.functions.column_arguments import (
    EDGE,
    INT64,
    NAIVE,
    STRING,
    Column,
    Kernel,
    by_name,
    is_scalar,
    none,
)
from sluice.engine.stream.functions.conversions import instant, naive, ticks, to_float64, to_int64
from sluice.engine.stream.functions.list_functions import over_rows
from sluice.engine.stream.functions.number_functions import int_remainder
from sluice.time_units import MICROSECOND, MILLISECOND, SECOND

#: unit -> its seconds, for units of one length; its days; its months
SECONDS = {"second": 1, "minute": 60, "hour": 3_600}
DAYS = {"day": 1, "week": 7}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
#: the most days from 1970 that nanoseconds of int64 hold
MOST_DAYS = 106_750
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


def from_microseconds(microseconds: Column) -> Column:
    return instant(times(microseconds, MICROSECOND))


def times(count: Column, unit: int) -> Column:
    """`count` units as nanoseconds; null if int64 cannot hold them."""
    most = (EDGE - 1) // unit - 1
    fits = pc.and_(pc.greater_equal(count, -most), pc.less_equal(count, most))
    return pc.multiply(pc.if_else(fits, count, none(count)), unit)


def to_seconds(time: Column) -> Column:
    return in_seconds(ticks(time))


def to_milliseconds(time: Column) -> Column:
    return _whole(time, MILLISECOND)


def to_microseconds(time: Column) -> Column:
    return _whole(time, MICROSECOND)


def _whole(time: Column, unit: int) -> Column:
    """Units since 1970, rounded down, also before 1970."""
    nanoseconds = ticks(time)
    cut_ = pc.divide(nanoseconds, unit)
    below = pc.less(nanoseconds, pc.multiply(cut_, unit))
    return pc.if_else(below, pc.subtract(cut_, 1), cut_)


def local(time: Column, zone: Column | None) -> Column:
    """The time on the calendar of the zone, or of UTC without one."""
    return naive(time) if zone is None else pc.cast(time, pa.timestamp("ns", zone.as_py()))


def calendar(part: Kernel) -> Kernel:
    return lambda time, zone=None: part(local(time, zone))


def day_of_week(time: Column, zone: Column | None = None) -> Column:
    return pc.day_of_week(local(time, zone), count_from_zero=False, week_start=1)


def start_of_day(time: Column, zone: Column | None = None) -> Column:
    return start_of(time, pa.scalar("day"), zone)


def start_of(time: Column, unit: Column, zone: Column | None = None) -> Column:
    """The first instant of the local date, month and so on. If it is skipped, this is the instant behind the gap; if it
    occurs twice, the first one. An hour that occurs twice is two hours, and so are its minutes and seconds.

    Null if the result is before 1677.
    """
    wall = wall_of(time, zone)
    floor = pc.floor_temporal(wall, unit=unit.as_py())
    if unit.as_py() in SECONDS:
        return not_after(ticks(time), pc.subtract(ticks(time), pc.subtract(ticks(wall), ticks(floor))))
    return not_after(ticks(time), ticks(at_wall(floor, zone)))


def wall_of(time: Column, zone: Column | None) -> Column:
    """The local time, without its zone."""
    return naive(time) if zone is None else pc.local_timestamp(local(time, zone))


def at_wall(wall: Column, zone: Column | None) -> Column:
    """The instant at which the clock on the wall shows this; behind a gap, and the first of two."""
    if zone is None:
        return wall
    return pc.assume_timezone(wall, zone.as_py(), ambiguous="earliest", nonexistent="latest")


def at_read_wall(wall: Column, zone: Column) -> Column:
    """As `at_wall`; a time that the clock skips is read with the offset before the change (PA13)."""
    instant_ = at_wall(wall, zone)
    before = pc.subtract(ticks(instant_), 1)
    offset = pc.subtract(ticks(wall_of(instant(before), zone)), before)
    skipped = pc.not_equal(ticks(wall_of(instant_, zone)), ticks(wall))
    return instant(pc.if_else(skipped, pc.subtract(ticks(wall), offset), ticks(instant_)))


def add_time(time: Column, count: Column, unit: Column, zone: Column | None = None) -> Column:
    """The time `count` units later. Days and longer units count on the calendar of the zone: the clock on the wall
    stays, and a day that the month lacks is its last one. Null outside of 1677 to 2262.
    """
    if unit.as_py() in SECONDS:
        most = EDGE // SECOND // SECONDS[unit.as_py()]
        fits = pc.and_(pc.greater_equal(count, -most), pc.less_equal(count, most))
        return later(time, pc.multiply(pc.if_else(fits, count, none(count)), SECONDS[unit.as_py()]))
    wall = over_rows(partial(_moved, unit=unit.as_py()))(pc.cast(wall_of(time, zone), INT64), count)
    return instant(ticks(at_wall(pc.cast(wall, NAIVE), zone)))


def _moved(wall: pa.Array, count: pa.Array, unit: str) -> pa.Array:
    """`wall` in nanoseconds, moved by `count` days, weeks, months, quarters or years."""
    missing = pc.or_(wall.is_null(), count.is_null()).to_numpy(zero_copy_only=False)
    by = np.clip(pc.fill_null(count, 0).to_numpy(zero_copy_only=False), -MOST_DAYS * 2, MOST_DAYS * 2)
    start = pc.fill_null(wall, 0).to_numpy(zero_copy_only=False).view("M8[ns]")
    day = start.astype("M8[D]")
    if unit in DAYS:
        target = day.astype(np.int64) + by * DAYS[unit]
    else:
        month = start.astype("M8[M]")
        month_moved = month + by * MONTHS[unit]
        first = month_moved.astype("M8[D]").astype(np.int64)
        last = (month_moved + 1).astype("M8[D]").astype(np.int64) - 1
        target = np.minimum(first + (day - month.astype("M8[D]")).astype(np.int64), last)
    missing |= np.abs(target) > MOST_DAYS
    moved = np.where(missing, 0, target) * (86_400 * SECOND) + (start - day).astype(np.int64)
    return pa.array(moved, mask=missing)


def time_between(start: Column, end: Column, unit: Column, zone: Column | None = None) -> Column:
    """How many whole units there are from `start` to `end`; negative if `end` is earlier. Days and longer units are
    those of the calendar of the zone.
    """
    whole = over_rows(partial(_between, unit=unit.as_py()))
    if unit.as_py() in SECONDS:
        return whole(ticks(start), ticks(end))
    return whole(pc.cast(wall_of(start, zone), INT64), pc.cast(wall_of(end, zone), INT64))


def _between(start: pa.Array, end: pa.Array, unit: str) -> pa.Array:
    missing = pc.or_(start.is_null(), end.is_null()).to_numpy(zero_copy_only=False)
    a, b = (pc.fill_null(column, 0).to_numpy(zero_copy_only=False) for column in (start, end))
    if unit in MONTHS:
        months, inside = zip(*(_in_month(column.view("M8[ns]")) for column in (a, b)), strict=True)
        count, rest, size = months[1] - months[0], inside[1] - inside[0], MONTHS[unit]
    else:
        nanoseconds = SECONDS.get(unit, DAYS.get(unit, 0) * 86_400) * SECOND
        count, rest, size = b // nanoseconds - a // nanoseconds, b % nanoseconds - a % nanoseconds, 1
    count = count - ((count > 0) & (rest < 0)) + ((count < 0) & (rest > 0))
    return pa.array(np.sign(count) * (np.abs(count) // size), mask=missing)


def _in_month(wall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of the month, and the nanoseconds since it began."""
    month = wall.astype("M8[M]")
    return month.astype(np.int64), (wall - month.astype("M8[ns]")).astype(np.int64)


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


def parse_time(text: Column, form: Column, zone: Column | None = None) -> Column:
    """Parses a time in seconds, because pyarrow overflows silently if nanoseconds do not fit."""
    if is_scalar(text):
        return parse_time(pa.array([text.as_py()], STRING), form, zone)[0]
    seconds = pc.strptime(text, format=form.as_py(), unit="s", error_is_null=True)
    is_date = pc.invert(rolled_over(text, seconds, form.as_py()))
    parsed = instant(times(pc.cast(pc.if_else(is_date, seconds, none(seconds)), INT64), SECOND))
    return parsed if zone is None else at_read_wall(naive(parsed), zone)


def rolled_over(texts: pa.Array, seconds: pa.Array, form: str) -> pa.Array:
    """Whether pyarrow read an impossible time as another one, as 30 February as 1 March.

    Such a result is among the first days of a month or at second 0, and formatting it does not give the text back.
    Python's calendar decides for the few texts of this kind.
    """
    if ZONED.search(form):
        return pa.array([value is not None and impossible(value, form) for value in texts.to_pylist()], pa.bool_())
    differs = pc.not_equal(pc.strftime(seconds, format=form), texts)
    first = pc.or_(pc.less_equal(pc.day(seconds), 3), pc.equal(pc.second(seconds), 0))
    rolled = pc.fill_null(pc.and_(differs, first), False).to_numpy(zero_copy_only=False).copy()  # noqa: FBT003
    places = np.flatnonzero(rolled)
    rolled[places] = [impossible(value, form) for value in texts.take(pa.array(places)).to_pylist()]
    return pa.array(rolled)


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
        start_of_day, start_of, add_time, time_between, from_microseconds, to_microseconds, floor_time, format_time,
        parse_time,
    ),
    **{part.__name__: calendar(part) for part in (pc.year, pc.month, pc.day, pc.hour, pc.minute, pc.second)},
    "quarter": calendar(pc.quarter),
    "day_of_year": calendar(pc.day_of_year),
    "iso_week": calendar(pc.iso_week),
}  # fmt: skip
