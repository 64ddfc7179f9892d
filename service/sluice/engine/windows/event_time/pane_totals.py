"""Counts the tuples of all partitions in a pane when it fires: the result of CountAll (A18)."""

from __future__ import annotations

import numpy as np

from sluice.engine.windows.event_time.event_records import FIRE, INSERT


def totals(slice_totals: np.ndarray, events: np.ndarray, firings: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of tuples in the pane of each firing, over all partitions; and `slice_totals` after the events.

    `slice_totals` has two rows: the times of slices, ascending, and the number of tuples in each. `events` are window
    events.
    """
    inserted, fires = events["code"] == INSERT, events["code"] == FIRE
    begins, fired = events["begin"][inserted], events[fires]
    before = np.cumsum(inserted)[fires]
    counts, done = np.zeros(firings, np.int64), 0
    for count in np.unique(before).tolist():
        slice_totals, done = _merged(slice_totals, begins[done:count]), count
        now = fired[before == count]
        sums = np.append(0, np.cumsum(slice_totals[1]))
        after = sums[np.searchsorted(slice_totals[0], now["end"], "right")]
        counts[now["slot"]] = after - sums[np.searchsorted(slice_totals[0], now["begin"])]
    return counts, _merged(slice_totals, begins[done:])


def _merged(slice_totals: np.ndarray, times: np.ndarray) -> np.ndarray:
    if not len(times):
        return slice_totals
    all_times, place = np.unique(np.append(slice_totals[0], times), return_inverse=True)
    counts = np.zeros(len(all_times), np.int64)
    np.add.at(counts, place, np.append(slice_totals[1], np.ones(len(times), np.int64)))
    return np.stack([all_times, counts])
