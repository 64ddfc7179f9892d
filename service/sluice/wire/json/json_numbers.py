"""Parses integers and points in time from bytes, in compiled functions.

Each function returns the value and whether it is certain. Texts for which it is not certain are left to the exact
decoder (`json_values.py`), which defines the rules.
"""
# ruff: noqa: PLR2004 - the numbers are those of the calendar and of what 64 bits hold

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import kernel
from sluice.time_units import SECOND
from sluice.wire.json.json_grammar import COLON, MINUS, NO, PLUS, POINT, SPACE, ZERO, digits

LARGEST = 2**63 - 1
BIG_T, SMALL_T, BIG_Z, SMALL_Z = (ord(c) for c in "TtZz")


@kernel
def integer(data: np.ndarray, i: int, stop: int) -> tuple[int, bool]:
    negative = data[i] == MINUS
    i += negative
    magnitude = _natural(data, i, stop)
    if stop - i > 19 or magnitude < 0:
        return 0, False
    return (-magnitude if negative else magnitude), True


@kernel
def seconds(data: np.ndarray, i: int, stop: int, point: int) -> tuple[int, bool]:
    """The nanoseconds of a decimal number of seconds; `point` is the position of its decimal point, or NO.

    Only numbers of at most 15 digits are certain: they convert to float64 and back without a change.
    """
    negative = data[i] == MINUS
    i += negative
    end = stop if point == NO else point
    if end - i > 10 or stop - i > 16 or stop - end > 10:
        return 0, False
    whole = _natural(data, i, end)
    if whole > 9_000_000_000:
        return 0, False
    value = whole * SECOND + (0 if point == NO else _fraction(data, point + 1, stop))
    return (-value if negative else value), True


@kernel
def units(data: np.ndarray, i: int, stop: int, point: int, tick: int) -> tuple[int, bool]:
    """The nanoseconds of a number of units of `tick` nanoseconds. One with a decimal point is not certain."""
    value, sure = integer(data, i, stop)
    within = -(LARGEST // tick) <= value <= LARGEST // tick
    return (value * tick if within else 0), sure and within and point == NO


@kernel
def moment(data: np.ndarray, i: int, stop: int) -> tuple[int, bool]:
    """The nanoseconds since 1970 of an ISO 8601 text, and whether they are right: only for years 1678 to 2261."""
    days, sure = _days(data, i, stop)
    if stop - i == 10 or not sure:
        return days * 86400 * SECOND, sure
    time, at = _time(data, i + 10, stop)
    ahead, sure = _zone(data, at, stop)
    return days * 86400 * SECOND + time - ahead, sure and at != NO


@kernel
def _days(data: np.ndarray, i: int, stop: int) -> tuple[int, bool]:
    """The days from 1970-01-01 to the date that starts here. Years outside 1678 to 2261 are not certain."""
    if stop - i < 10 or data[i + 4] != MINUS or data[i + 7] != MINUS:
        return 0, False
    century, year, month, day = _pair(data, i), _pair(data, i + 2), _pair(data, i + 5), _pair(data, i + 8)
    if century < 0 or year < 0:
        return 0, False
    year += century * 100
    if not (1678 <= year < 2262 and 1 <= month <= 12 and 1 <= day <= _length(year, month)):
        return 0, False
    year -= month < 3  # count years from March, so that the leap day is the last day
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468, True


@kernel
def _length(year: int, month: int) -> int:
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month in (4, 6, 9, 11) else 31


@kernel
def _time(data: np.ndarray, i: int, stop: int) -> tuple[int, int]:
    """The nanoseconds of the time of day that starts here, and the position behind it, or NO."""
    if stop - i < 6 or not (data[i] == BIG_T or data[i] == SMALL_T or data[i] == SPACE) or data[i + 3] != COLON:
        return 0, NO
    hour, minute, second, fraction = _pair(data, i + 1), _pair(data, i + 4), 0, 0
    i += 6
    if stop - i >= 3 and data[i] == COLON:
        second, i = _pair(data, i + 1), i + 3
        if i < stop and data[i] == POINT:
            end = digits(data, i + 1, stop)
            if not 1 < end - i <= 10:
                return 0, NO
            fraction, i = _fraction(data, i + 1, end), end
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return 0, NO
    return ((hour * 60 + minute) * 60 + second) * SECOND + fraction, i


@kernel
def _zone(data: np.ndarray, i: int, stop: int) -> tuple[int, bool]:
    """The offset of a zone from UTC in nanoseconds, positive to the east. An empty text is UTC."""
    size = stop - i
    if size == 0 or (size == 1 and (data[i] == BIG_Z or data[i] == SMALL_Z)):
        return 0, True
    if not (data[i] == PLUS or data[i] == MINUS) or not _has_zone_form(data, i, size):
        return 0, False
    hours, minutes = _pair(data, i + 1), 0 if size == 3 else _pair(data, stop - 2)
    ahead = (hours * 60 + minutes) * 60 * SECOND
    return (-ahead if data[i] == MINUS else ahead), 0 <= hours < 24 and 0 <= minutes < 60


@kernel
def _has_zone_form(data: np.ndarray, i: int, size: int) -> bool:
    """Whether the text has the length of `+02`, `+0200` or `+02:00`, and the colon of the last one."""
    return size in (3, 5) or (size == 6 and data[i + 3] == COLON)


@kernel
def _natural(data: np.ndarray, i: int, stop: int) -> int:
    """The value of at most 19 digits; negative if it does not fit into 63 bits."""
    value = 0
    for j in range(i, stop):
        value = value * 10 + (data[j] - ZERO)
    return value


@kernel
def _fraction(data: np.ndarray, i: int, stop: int) -> int:
    """The nanoseconds of one to nine digits behind the decimal point of a number of seconds."""
    value = _natural(data, i, stop)
    for _ in range(9 - (stop - i)):
        value *= 10
    return value


@kernel
def _pair(data: np.ndarray, i: int) -> int:
    """The value of the two digits that start here, or NO."""
    tens, ones = data[i] - ZERO, data[i + 1] - ZERO
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else NO
