"""Units of time in nanoseconds, the unit of all times and durations in the code."""

from __future__ import annotations

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

#: the value of a time that is not set yet; smaller than every time
UNSET = -(2**63)
