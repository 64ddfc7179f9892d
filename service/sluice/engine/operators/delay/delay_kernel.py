"""The kernel of a Delay: the times at which items leave (DL1, DL2, DL5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.due_times import later
from sluice.columns.kernel import kernel
from sluice.time_units import UNSET

#: the indices of `last`: the time at which the last tuple leaves, and that of the last item
LAST_TUPLE, LAST_ITEM = range(2)


class DelaySettings(NamedTuple):
    """The parameters of the operator: see `Delay` of model/spec.py."""

    by: int
    gap: int
    buffer: int


@kernel
def times(
    r: DelaySettings, at: np.ndarray, is_tuple: np.ndarray, waiting: np.ndarray, waiting_count: int, last: np.ndarray,
    due: np.ndarray, refused: np.ndarray,
) -> None:  # fmt: skip
    """Writes to `due` when each item leaves (DL1 to DL3), and to `refused` which tuples there is no room for.

    `waiting` has the times of the `waiting_count` tuples that wait, and room for as many as there are items.
    """
    first, count = 0, waiting_count
    for i in range(len(at)):
        while first < count and waiting[first] <= at[i]:
            first += 1
        if is_tuple[i] and count - first >= r.buffer:
            refused[i] = True
            continue
        time = max(later(at[i], r.by), last[LAST_ITEM])
        if is_tuple[i]:
            if last[LAST_TUPLE] != UNSET:
                time = max(time, later(last[LAST_TUPLE], r.gap))
            last[LAST_TUPLE] = time
            waiting[count] = time
            count += 1
        last[LAST_ITEM] = time
        due[i] = time


@kernel
def times_by_key(r: DelaySettings, at: np.ndarray, key: np.ndarray, last: np.ndarray, due: np.ndarray) -> None:
    """Writes to `due` when each tuple leaves (DL8). `last` has the time at which the last tuple of each key leaves."""
    for i in range(len(at)):
        time, before = later(at[i], r.by), last[key[i]]
        if before != UNSET:
            time = max(time, later(before, r.gap))
        last[key[i]] = due[i] = time
