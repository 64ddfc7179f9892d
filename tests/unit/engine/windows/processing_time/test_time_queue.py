"""The queue of tuples under time eviction, as its rows lie in a ring."""

from __future__ import annotations

import numpy as np

from sluice.engine.windows.processing_time import scalars, time_queue
from sluice.engine.windows.processing_time.window_records import HEAD, QUEUE, TAIL


def numbered(head: int, tail: int):
    """A queue of these numbers, each with itself as its slot, and the scalars of a window."""
    ends, entries = scalars(), np.zeros(tail - head, QUEUE)
    ends[[HEAD, TAIL]] = head, tail
    entries["slot"] = np.arange(head, tail)
    return time_queue.restored(entries, ends), ends


def test_a_queue_begins_anywhere_in_its_table():
    rows, ends = numbered(6, 10)
    assert rows["slot"].tolist() == [8, 9, 6, 7]
    assert time_queue.in_order(rows, ends)["slot"].tolist() == [6, 7, 8, 9]


def test_where_there_is_room_nothing_moves():
    rows, ends = numbered(6, 9)
    assert time_queue.roomy(rows, ends, 1) is rows


def test_for_more_it_moves_to_a_table_of_the_next_power_of_two():
    rows, ends = numbered(6, 10)
    roomy = time_queue.roomy(rows, ends, 1)
    assert len(roomy) == 8
    assert roomy["slot"].tolist() == [8, 9, 0, 0, 0, 0, 6, 7]


def test_a_table_that_was_needed_once_is_given_up():
    rows, ends = numbered(0, 10_000)
    ends[HEAD] = 9_998
    assert len(time_queue.roomy(rows, ends, 2)) == 4


def test_nothing_is_in_a_new_one():
    rows, ends = numbered(0, 0)
    assert len(time_queue.in_order(rows, ends)) == 0
    assert len(time_queue.roomy(rows, ends, 3)) == 4
