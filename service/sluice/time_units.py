"""Units of time in nanoseconds, the unit of all times and durations in the code."""

from __future__ import annotations

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

#: the largest time. A time that is due then is never due: the operator clock stays below it
MAX_TIME = 2**63 - 1
#: the value of a time that is not set yet; smaller than every time
UNSET = -(2**63)


def later(time: int, duration: int) -> int:
    """The time `duration` (from 0 on) after `time`; MAX_TIME if the sum is beyond it. For kernels:
    columns/due_times.py.
    """
    return min(time + duration, MAX_TIME)
