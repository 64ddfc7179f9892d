"""Blocks of tuples (service/sluice/engine/contents/blocks.py), as the state of a sliding window shows them."""

from __future__ import annotations

import pytest

from sluice.engine.contents.blocks import IDLE, PARTS
from sluice.engine.operators import compaction
from sluice.engine.operators.aggregate import aggregate_program
from sluice.time_units import SECOND
from tests.spec.numbers import Numbers


@pytest.fixture(autouse=True)
def four_tuples_in_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, tuples in (("MIN_BLOCK", 1), ("MAX_BLOCK", 4), ("BLOCK", 4)):
        monkeypatch.setattr(aggregate_program, name, tuples)


def test_what_is_inside_is_told_from_the_oldest_to_the_youngest_whatever_block_it_is_in():
    numbers = Numbers("count(6)")
    for count in (1, 3, 1, 2, 4, 10):
        numbers.come(count)
        assert numbers.stored == list(range(max(numbers.came - 6, 0), numbers.came))


def test_blocks_that_were_left_are_used_again():
    numbers = Numbers("count(6)")
    for _ in range(100):
        numbers.come(3)
    assert numbers.tables.top == 3  # so many begin and end with six tuples
    assert numbers.graph.sizes(numbers.state) == {"sum": (1, 6)}


def test_after_a_large_batch_they_are_moved_together(monkeypatch):
    monkeypatch.setattr(compaction, "SMALL", 4)
    numbers = Numbers("count(6)")
    assert numbers.come(400)[-1] == sum(range(394, 400))
    assert numbers.tables.top == 2
    assert numbers.come(1) == [sum(range(395, 401))]
    assert numbers.stored == list(range(395, 401))


def test_a_window_that_runs_empty_gives_back_all_it_had():
    numbers = Numbers("time(1)")
    numbers.come(6)
    numbers.come(2, at=SECOND)
    assert numbers.come(1, at=SECOND + 1) == [6 + 7 + 8]
    assert numbers.tables.used[[PARTS, IDLE]].tolist() == [1, 0]
    assert numbers.come(2, at=3 * SECOND) == [9, 9 + 10]
    assert numbers.tables.used[[PARTS, IDLE]].tolist() == [1, 1]
    assert numbers.tables.top - len(numbers.tables.free) == 1


def test_state_that_was_loaded_goes_on_in_the_middle_of_a_block():
    numbers = Numbers("count(6)")
    numbers.come(9)
    numbers.state = numbers.graph.load(numbers.graph.save(numbers.state))
    assert len(numbers.tables.spread) == len(numbers.tables.idle) == 1  # a part may be given back at any time
    assert numbers.come(2) == [sum(range(4, 10)), sum(range(5, 11))]
