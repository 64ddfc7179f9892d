"""Room that is kept from batch to batch."""

from __future__ import annotations

import numpy as np

from sluice.columns.scratch_buffers import SMALL, Scratch, grown

KIND, OTHER = np.dtype([("a", np.int64)]), np.dtype([("b", np.int32)])


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.shares_memory(one, other)


def test_the_next_batch_has_the_room_of_the_one_before():
    scratch = Scratch()
    room = scratch.room(100_000, KIND)
    assert same(room, again := scratch.room(90_000, KIND))
    assert (len(room), len(again)) == (100_000, 90_000)


def test_a_larger_batch_has_more_room():
    scratch = Scratch()
    scratch.room(10, KIND)
    assert len(scratch.room(1000, KIND)) == 1000


def test_the_room_of_one_very_large_batch_is_given_back():
    scratch = Scratch()
    large = scratch.room(10 * SMALL, KIND)
    assert not same(large, scratch.room(SMALL, KIND))


def test_records_of_two_kinds_have_room_of_their_own():
    scratch = Scratch()
    assert not same(scratch.room(10, KIND), scratch.room(10, OTHER))


def test_longer_records_have_what_is_in_use():
    records = np.array([(1,), (2,), (3,)], KIND)
    made = grown(records, 2, 5)
    assert (len(made), made[:2].tolist()) == (5, [(1,), (2,)])


def test_longer_records_have_room_for_twice_as_many_as_are_in_use():
    assert len(grown(np.zeros(8, KIND), 8, 9)) == 16


def test_records_that_are_long_enough_stay():
    records = np.zeros(8, KIND)
    assert grown(records, 2, 8) is records
