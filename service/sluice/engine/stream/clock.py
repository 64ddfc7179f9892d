"""The operator clock during one batch, and times after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sluice.time_units import MAX_TIME


@dataclass(frozen=True, slots=True)
class Clock:
    """The interval of operator-clock time that a batch covers, in nanoseconds.

    start   the time from which periodic timers count if they do not count yet (C2)
    end     the operator clock at the end of the batch

    A timer that is due at time d fires before events at d or later, and within this batch if d <= `end`.
    """

    start: int
    end: int


def all_later(times: np.ndarray, duration: int) -> np.ndarray:
    """The times `duration` (from 0 on) after these; MAX_TIME where the sum is beyond it. Kernels have due_times.py."""
    later_times: np.ndarray = np.minimum(times, MAX_TIME - duration) + duration
    return later_times
