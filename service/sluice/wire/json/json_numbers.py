"""Integers and moments from their texts, as compiled functions over bytes: each gives a value and whether it is sure.

What is not sure is left to the exact way (`json_values.py`), which has the rules.
"""
# ruff: noqa: PLR2004 - the numbers are those of the calendar and of what 64 bits hold

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import kernel
from sluice.time_units import SECOND
from sluice.wire.json.json_grammar import COLON, MINUS, NO, PLUS, POINT, SPACE, ZERO, digits

BIG_T, BIG_Z = (ord(c) for c in "TZ")


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
    """Nanoseconds of a number of seconds. Of 15 digits each decimal number has a float64 of its own."""
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
def moment(data: np.ndarray, i: int, stop: int) -> tuple[int, bool]:
    """Nanoseconds of an ISO 8601 text."""
    days, sure = _days(data, i, stop)
    if stop - i == 10 or not sure:
        return days * 86400 * SECOND, sure
    time, at = _time(data, i + 10, stop)
    ahead, sure = _zone(data, at, stop)
    return days * 86400 * SECOND + time - ahead, sure and at != NO


@kernel
def _days(data: np.ndarray, i: int, stop: int) -> tuple[int, bool]:
    """Days since 1970-01-01 of the date that begins here; the first and last years of int64 are not sure."""
    if stop - i < 10 or data[i + 4] != MINUS or data[i + 7] != MINUS:
        return 0, False
    century, year, month, day = _pair(data, i), _pair(data, i + 2), _pair(data, i + 5), _pair(data, i + 8)
    if century < 0 or year < 0:
        return 0, False
    year += century * 100
    if not (1678 <= year < 2262 and 1 <= month <= 12 and 1 <= day <= _length(year, month)):
        return 0, False
    year -= month < 3  # a year that begins in March has its leap day at the end
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
    """Nanoseconds of the time of day that begins here, and where it ends, or NO."""
    if stop - i < 6 or not (data[i] == BIG_T or data[i] == SPACE) or data[i + 3] != COLON:
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
    """Nanoseconds ahead of UTC; nothing is UTC."""
    if i == stop or (i + 1 == stop and data[i] == BIG_Z):
        return 0, True
    if stop - i != 6 or not (data[i] == PLUS or data[i] == MINUS) or data[i + 3] != COLON:
        return 0, False
    hours, minutes = _pair(data, i + 1), _pair(data, i + 4)
    ahead = (hours * 60 + minutes) * 60 * SECOND
    return (-ahead if data[i] == MINUS else ahead), 0 <= hours < 24 and 0 <= minutes < 60


@kernel
def _natural(data: np.ndarray, i: int, stop: int) -> int:
    """The number that at most 19 digits make; negative where it is more than 63 bits hold."""
    value = 0
    for j in range(i, stop):
        value = value * 10 + (data[j] - ZERO)
    return value


@kernel
def _fraction(data: np.ndarray, i: int, stop: int) -> int:
    """Nanoseconds of one to nine digits behind the point of seconds."""
    value = _natural(data, i, stop)
    for _ in range(9 - (stop - i)):
        value *= 10
    return value


@kernel
def _pair(data: np.ndarray, i: int) -> int:
    """The number that two digits make, or NO."""
    tens, ones = data[i] - ZERO, data[i + 1] - ZERO
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else NO
