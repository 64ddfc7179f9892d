"""Counts the tuples of all partitions in a pane when it fires: the result of CountAll (A18)."""

from __future__ import annotations

import numpy as np

from sluice.engine.windows.event_time.event_records import FIRE, INSERT


def totals(known: np.ndarray, events: np.ndarray, firings: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each firing the number of tuples in its pane, over all partitions; and `known` after the events.

    `known` has two rows: the times of slices, ascending, and the number of tuples in each. `events` are window events.
    """
    came, fires = events["code"] == INSERT, events["code"] == FIRE
    begins, fired = events["begin"][came], events[fires]
    before = np.cumsum(came)[fires]
    counts, done = np.zeros(firings, np.int64), 0
    for count in np.unique(before).tolist():
        known, done = _merged(known, begins[done:count]), count
        now = fired[before == count]
        sums = np.append(0, np.cumsum(known[1]))
        after = sums[np.searchsorted(known[0], now["end"], "right")]
        counts[now["slot"]] = after - sums[np.searchsorted(known[0], now["begin"])]
    return counts, _merged(known, begins[done:])


def _merged(known: np.ndarray, times: np.ndarray) -> np.ndarray:
    if not len(times):
        return known
    whole, place = np.unique(np.append(known[0], times), return_inverse=True)
    counts = np.zeros(len(whole), np.int64)
    np.add.at(counts, place, np.append(known[1], np.ones(len(times), np.int64)))
    return np.stack([whole, counts])
