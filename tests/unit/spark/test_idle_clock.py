from __future__ import annotations

import pytest

from sluice.checkpoint.offset_log import NO_IDLE_CLOCK
from sluice.engine.stream.items import MAX_TIME
from sluice.kafka.batch_report import Report
from sluice.spark.idle_clock import IdleClock, NextDueTime

STEP = 10


class World:
    """A log of one topic partition that grows, a query that reads it, and a clock."""

    def __init__(self):
        self.now, self.end, self.read, self.due = 1000, 0, 0, 0
        ends, read = lambda: {("t", 0): self.end}, lambda: {("t", 0): self.read}
        self.clock = IdleClock(STEP, lambda: self.now, ends, read, lambda: self.due)

    def after(self, nanoseconds, last):
        self.now += nanoseconds
        return self.clock.released(last)


def test_time_passes_at_once_when_everything_was_read():
    world = World()
    assert world.after(0, last=0) == 1000


def test_time_stands_still_within_a_step():
    world = World()
    assert world.after(0, last=0) == 1000
    assert world.after(STEP - 1, last=1000) == 1000
    assert world.after(1, last=1000) == 1000 + STEP


def test_time_waits_until_the_records_before_it_were_read():
    world = World()
    world.end = 5
    assert world.after(0, last=0) == 0
    world.read = 4
    assert world.after(1, last=0) == 0
    world.read = 5
    assert world.after(1, last=0) == 1000


def test_records_that_come_later_do_not_hold_a_time_back():
    world = World()
    world.end = 5
    world.after(0, last=0)
    world.end, world.read = 9, 5
    assert world.after(1, last=0) == 1000
    assert world.after(STEP, last=1000) == 1000


def test_of_several_times_the_newest_is_released():
    world = World()
    world.end = 1
    for _ in range(5):
        assert world.after(STEP, last=0) == 0
    world.read = 1
    assert world.after(1, last=0) == 1000 + 5 * STEP


def test_time_stands_still_while_nothing_is_due():
    world = World()
    world.due = 1000 + 3 * STEP
    assert [world.after(STEP, last=0) for _ in range(4)] == [0, 0, 1000 + 3 * STEP, 1000 + 4 * STEP]


def test_an_unknown_topic_partition_was_not_read():
    clock = IdleClock(STEP, lambda: 1000, lambda: {("t", 0): 1, ("t", 1): 1}, lambda: {("t", 0): 1}, lambda: 0)
    assert clock.released(0) == 0


@pytest.mark.parametrize(
    ("report", "due"),
    [
        (Report(due=5), 5),
        (Report(), MAX_TIME),  # nothing is due
        (None, NO_IDLE_CLOCK),  # an earlier run has written the batch
    ],
)
def test_the_next_due_time_is_that_of_the_last_report(report, due):
    next_due = NextDueTime()
    delivered = next_due.of_batches(lambda *_: report)(None, 7, [], None)
    assert (next_due(), delivered) == (due, report)


def test_the_next_due_time_is_unknown_before_the_first_batch():
    assert NextDueTime()() == NO_IDLE_CLOCK


def test_the_next_due_time_is_unknown_after_a_batch_that_an_earlier_run_has_written():
    next_due = NextDueTime()
    next_due.batch_written(Report(due=5))
    next_due.batch_written(None)
    assert next_due() == NO_IDLE_CLOCK
