"""The times `at` of events: seconds of the operator clock, or ISO 8601 texts, which stand for seconds since 1970."""

from __future__ import annotations

from decimal import Decimal

from sluice import iso_times
from sluice.columns.json_columns import nanoseconds
from sluice.time_units import MAX_TIME
from sluice.wire.json import json_values
from sluice.wire.json.json_values import LAST_SECOND

#: what an `at` must be, for messages
EXPECTED = 'seconds, or an ISO 8601 time such as "2026-01-01T10:00:00Z"'
#: what is wrong with a time that no clock has, for messages
NO_TIME = "not a time between the years 1677 and 2262"
#: unit of an event time -> its number in a second
PARTS_OF_A_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def clock_time(at: object) -> int:
    """The time in nanoseconds. A text has the form of a timestamp attribute, and is in UTC if it has no zone.

    Raises TypeError if it is neither a number nor such a text, and ArithmeticError or ValueError if it is out of the
    range of int64 nanoseconds, which are the years 1677 to 2262.
    """
    if isinstance(at, str):
        if not iso_times.has_form(at):
            raise TypeError(at)
        now = json_values.nanoseconds(at)
    elif isinstance(at, bool) or not isinstance(at, int | float | Decimal):
        raise TypeError(at)
    else:
        now = nanoseconds(at)
    if abs(now) >= MAX_TIME:  # what is due at MAX_TIME is never due
        raise OverflowError(at)
    return now


def unit_of(at: object) -> str:
    """The smaller unit in which a number that is too large for seconds may be; empty if there is none."""
    if not isinstance(at, int | float) or abs(at) <= LAST_SECOND:
        return ""
    return next((unit for unit, parts in PARTS_OF_A_SECOND.items() if abs(at) <= LAST_SECOND * parts), "")


def too_large(at: object) -> str:
    """The end of a message about a number that is out of range: it may be in a smaller unit; empty for others."""
    unit = unit_of(at)
    return f", as a number is seconds; perhaps it has {unit}" if unit else ""
