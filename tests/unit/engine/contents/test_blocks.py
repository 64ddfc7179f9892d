"""Blocks of tuples (service/sluice/engine/contents/blocks.py), as the state of a sliding window shows them."""

from __future__ import annotations

from dataclasses import replace

from sluice.engine.contents.blocks import IDLE, PARTS
from sluice.model.engine_limits import EngineLimits
from sluice.time_units import SECOND
from tests.spec.window_of_numbers import Numbers

#: four tuples in a block
LIMITS = EngineLimits(min_block=1, max_block=4, block=4)


def test_what_is_inside_is_told_from_the_oldest_to_the_youngest_whatever_block_it_is_in():
    numbers = Numbers("count(6)", LIMITS)
    for count in (1, 3, 1, 2, 4, 10):
        numbers.come(count)
        assert numbers.stored == list(range(max(numbers.came - 6, 0), numbers.came))


def test_blocks_that_were_left_are_used_again():
    numbers = Numbers("count(6)", LIMITS)
    for _ in range(100):
        numbers.come(3)
    assert numbers.tables.top == 3  # so many begin and end with six tuples
    assert numbers.graph.sizes(numbers.state) == {"sum": (1, 6)}


def test_after_a_large_batch_they_are_moved_together():
    numbers = Numbers("count(6)", replace(LIMITS, uncompacted=4))
    assert numbers.come(400)[-1] == sum(range(394, 400))
    assert numbers.tables.top == 2
    assert numbers.come(1) == [sum(range(395, 401))]
    assert numbers.stored == list(range(395, 401))


def test_a_window_that_runs_empty_gives_back_all_it_had():
    numbers = Numbers("time(1)", LIMITS)
    numbers.come(6)
    numbers.come(2, at=SECOND)
    assert numbers.come(1, at=SECOND + 1) == [6 + 7 + 8]
    assert numbers.tables.used[[PARTS, IDLE]].tolist() == [1, 0]
    assert numbers.come(2, at=3 * SECOND) == [9, 9 + 10]
    assert numbers.tables.used[[PARTS, IDLE]].tolist() == [1, 1]
    assert numbers.tables.top - len(numbers.tables.free) == 1


def test_state_that_was_loaded_goes_on_in_the_middle_of_a_block():
    numbers = Numbers("count(6)", LIMITS)
    numbers.come(9)
    numbers.state = numbers.graph.load(numbers.graph.save(numbers.state))
    assert len(numbers.tables.spread) == len(numbers.tables.idle) == 1  # a part may be given back at any time
    assert numbers.come(2) == [sum(range(4, 10)), sum(range(5, 11))]
