"""The times `at` of events: seconds of the operator clock, or ISO 8601 texts, which stand for seconds since 1970."""

from __future__ import annotations

from decimal import Decimal

from sluice import time_units
from sluice.columns.json_columns import nanoseconds
from sluice.time_units import MAX_TIME
from sluice.wire.json import json_values
from sluice.wire.json.json_values import LAST_SECOND

#: what an `at` must be, for messages
EXPECTED = 'seconds, or an ISO 8601 time such as "2026-01-01T10:00:00Z"'
#: what is wrong with a time that no clock has, for messages
NO_TIME = "not a time between the years 1677 and 2262"


def clock_time(at: object) -> int:
    """The time in nanoseconds. A text has the form of a timestamp attribute, and is in UTC if it has no zone.

    Raises TypeError if it is neither a number nor such a text, and ArithmeticError or ValueError if it is out of the
    range of int64 nanoseconds, which are the years 1677 to 2262.
    """
    if isinstance(at, str):
        if not time_units.has_form(at):
            raise TypeError(at)
        now = json_values.nanoseconds(at)
    elif isinstance(at, bool) or not isinstance(at, int | float | Decimal):
        raise TypeError(at)
    else:
        now = nanoseconds(at)
    if abs(now) >= MAX_TIME:  # what is due at MAX_TIME is never due
        raise OverflowError(at)
    return now


def too_large(at: object) -> str:
    """The end of a message about a number that is out of range: it may be in a smaller unit; empty for others."""
    if isinstance(at, int | float) and LAST_SECOND < abs(at) <= LAST_SECOND * 1000:
        return ", as a number is seconds; perhaps it has milliseconds"
    return ""
