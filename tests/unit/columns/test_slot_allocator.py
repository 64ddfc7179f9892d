from __future__ import annotations

import numpy as np

from sluice.columns.slot_allocator import Free


def free(*slots):
    one = Free(np.int32)
    one.give(np.array(slots))
    return one


def test_slots_that_are_free_are_taken_first_the_last_one_before_others():
    one = free(3, 5, 8)
    slots, top = one.take(2, top=10)
    assert (slots.tolist(), top) == ([8, 5], 10)
    assert one.slots.tolist() == [3]


def test_where_these_do_not_suffice_new_ones_are_taken():
    one = free(3, 5)
    slots, top = one.take(4, top=10)
    assert (slots.tolist(), top) == ([5, 3, 10, 11], 12)
    assert len(one) == 0


def test_what_was_taken_does_not_change():
    one = free(3, 5)
    taken, _ = one.take(2, top=10)
    one.give(np.array([7, 9]))
    assert taken.tolist() == [5, 3]
    assert one.slots.tolist() == [7, 9]


def test_what_would_be_taken_can_be_seen_before_it_is_known_how_many_are():
    one = free(3, 5, 8)
    assert one.next(5, top=10).tolist() == [8, 5, 3, 10, 11]
    assert [one.take(n, top=10)[0].tolist() for n in (2, 2)] == [[8, 5], [3, 10]]
