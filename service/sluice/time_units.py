"""Times in nanoseconds, the unit of all times and durations in the code, and times as texts.

The texts are the forms of ISO 8601 that are read wherever a text stands for a time (docs/formats.md has them): the
forms of RFC 3339, also with a zone of ISO 8601's shorter forms, without a zone, without seconds, or a date alone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
MICROSECOND = 1_000

#: the largest time. A time that is due then is never due: the operator clock stays below it
MAX_TIME = 2**63 - 1
#: the value of a time that is not set yet; smaller than every time
UNSET = -(2**63)


FORM = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](?P<time>(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?)"
    r"(?:(?<=:\d\d:\d\d)[.,](?P<fraction>\d{1,9}))?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>[01]\d|2[0-3])(?::?(?P<minutes>[0-5]\d))?)?)?",
    re.ASCII,
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def later(time: int, duration: int) -> int:
    """The time `duration` (from 0 on) after `time`; MAX_TIME if the sum is beyond it. For kernels:
    columns/due_times.py.
    """
    return min(time + duration, MAX_TIME)


def has_form(text: str) -> bool:
    """Whether the text has the form of a time; its date may not exist, or be out of range."""
    return FORM.fullmatch(text) is not None


def nanoseconds(text: str) -> int:
    """The nanoseconds since 1970. A text without a zone is in UTC, a date alone is its midnight.

    Raises ValueError for other texts, for a date that does not exist, and for times beyond the years 1 to 9999.
    """
    match = FORM.fullmatch(text)
    if match is None:
        msg = f"no time in ISO 8601: {text}"
        raise ValueError(msg)
    local = datetime.fromisoformat(f"{match['date']}T{match['time'] or '00:00'}Z") - EPOCH
    ahead = timedelta(hours=int(match["hours"] or 0), minutes=int(match["minutes"] or 0))
    past = local + ahead if match["sign"] == "-" else local - ahead
    return past // timedelta(seconds=1) * SECOND + int((match["fraction"] or "").ljust(9, "0"))
