"""Sums of times and durations that stay within int64: the due time of everything that waits for a clock.

A clock may be near the end of the range of times, and a duration may be as long as 292 years. A sum that wraps around
would be a time long ago, so a timer would fire at once, or forever. These functions stop at the ends of the range: what
is due at MAX_TIME is never due, because the operator clock stays below it.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import inlined
from sluice.time_units import MAX_TIME, UNSET


@inlined
def later(time: int, duration: int) -> int:
    """The time `duration` (from 0 on) after `time`; MAX_TIME if the sum is beyond it."""
    return MAX_TIME if time > MAX_TIME - duration else time + duration


@inlined
def earlier(time: int, duration: int) -> int:
    """The time `duration` (from 0 on) before `time`; UNSET, which is before every time, if it is out of range."""
    return UNSET if time < UNSET + duration else time - duration


@inlined
def distance(start: int, end: int) -> np.uint64:
    """The nanoseconds from `start` to `end`, which is not before it. They may be more than int64 holds."""
    return np.uint64(end) - np.uint64(start)
