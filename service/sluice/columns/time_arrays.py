"""Sums of arrays of times and durations that stay within int64, as due_times.py has them for kernels; without numba."""

from __future__ import annotations

import numpy as np

from sluice.time_units import MAX_TIME


def all_later(times: np.ndarray, duration: int) -> np.ndarray:
    """The times `duration` (from 0 on) after these; MAX_TIME where the sum is beyond it."""
    later_times: np.ndarray = np.minimum(times, MAX_TIME - duration) + duration
    return later_times
