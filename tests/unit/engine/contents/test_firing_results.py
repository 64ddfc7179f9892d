"""The room for the results of windows that fire."""

from __future__ import annotations

import numpy as np

from sluice.engine.contents.firing_results import KINDS, Results, enlarged, room
from sluice.engine.contents.multisets import PAIR


def results(rows: int, tuples: int, pairs: int) -> Results:
    numbers, counted = np.zeros(rows, np.int64), np.zeros(KINDS, np.int64)
    return Results(
        numbers, numbers, np.zeros((rows, 1), np.int64), np.zeros(tuples, np.int64), numbers, counted, counted.copy(),
        np.zeros((rows, 2), np.int64), np.zeros(pairs, PAIR),
    )  # fmt: skip


def test_what_fits_exactly_has_room():
    assert room(results(4, 6, 8), 4, 6, 8)


def test_only_what_lacked_room_grows():
    """Else windows that list much would have as much room for rows that never come."""
    short = results(4, 6, 8)
    assert not room(short, 3, 20, 8)
    longer = enlarged(short)
    assert (len(longer.firing), len(longer.summary), len(longer.tuples), len(longer.pairs)) == (4, 4, 20, 8)


def test_what_grows_is_twice_as_long_at_least():
    short = results(4, 6, 8)
    assert not room(short, 5, 6, 9)
    longer = enlarged(short)
    assert (len(longer.firing), len(longer.counts), len(longer.tuples), len(longer.pairs)) == (8, 8, 6, 16)
