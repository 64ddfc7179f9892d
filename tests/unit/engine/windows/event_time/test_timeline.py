"""Times in order, of which late ones are found through leaps: compared with a sorted list."""

from __future__ import annotations

import random
from bisect import bisect_right, insort

import numpy as np
import pytest

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.engine.windows.event_time import timeline_blocks
from sluice.engine.windows.event_time.event_records import PARTITION, TIME
from sluice.engine.windows.event_time.timeline import add, drop_oldest, not_after
from sluice.engine.windows.event_time.timeline_blocks import LONG, SIZE, TOP, NodeAllocation


class Timeline:
    """Several lists in one table, so that what one drops becomes another's."""

    def __init__(self, room: int, lists: int = 2) -> None:
        self.lists, self.nodes = np.zeros(lists, PARTITION), np.zeros(room, TIME)
        self.room = NodeAllocation(np.zeros(room // SIZE + 1, np.int8), timeline_blocks.scalars())
        for p in range(lists):
            intrusive_list.make_empty(self.lists, p)

    def insert(self, p: int, time: int) -> None:
        older = not_after(self.lists, self.nodes, p, time)
        if older == NIL or self.nodes["time"][older] != time:
            add(self.lists, self.nodes, self.room, p, older, time)

    def drop(self, p: int) -> None:
        drop_oldest(self.lists, self.nodes, self.room, p)

    def found(self, p: int, time: int) -> int | None:
        node = not_after(self.lists, self.nodes, p, time)
        return None if node == NIL else int(self.nodes["time"][node])

    def steps(self, p: int, time: int) -> int:
        """How many nodes are looked at on the way to `time`."""
        nodes, count, node = self.nodes, 0, self.lists["youngest"][p]
        oldest = nodes["time"][self.lists["oldest"][p]]
        while node != NIL and nodes["time"][node] > time:
            leaps = nodes["landing"][node] > time and nodes["landing"][node] >= oldest
            node, count = nodes["leap" if leaps else "older"][node], count + 1
        return count


@pytest.mark.parametrize("late", [0.0, 0.05, 0.5, 1.0])
def test_every_time_is_found_whatever_came_late_and_was_dropped(late: float):
    choose, timeline, known = random.Random(3), Timeline(4000), ([], [])
    last, dropped = [0, 0], [-1, -1]
    for _ in range(6000):
        p = choose.randrange(2)
        last[p] += choose.randrange(3)
        time = choose.randint(dropped[p] + 1, last[p]) if choose.random() < late and dropped[p] < last[p] else last[p]
        if time not in known[p]:
            insort(known[p], time)
        timeline.insert(p, time)
        while len(known[p]) > 300 or (known[p] and choose.random() < 0.3):
            dropped[p] = known[p].pop(0)
            timeline.drop(p)
        asked = choose.randint(dropped[p], last[p] + 2)
        place = bisect_right(known[p], asked)
        assert timeline.found(p, asked) == (known[p][place - 1] if place else None)


def test_a_late_time_is_a_few_steps_away_however_many_are_later():
    timeline = Timeline(40_000)
    for time in range(30_000):
        timeline.insert(0, 2 * time)
        if time >= 10_000:
            timeline.drop(0)
    assert max(timeline.steps(0, time) for time in range(40_000, 60_000, 97)) < 60


def test_the_nodes_of_a_long_one_stand_side_by_side_and_short_ones_share_theirs():
    timeline = Timeline(1000)
    for time in range(LONG):
        timeline.insert(0, time)
        timeline.insert(1, time)
    for time in range(LONG, LONG + SIZE):
        timeline.insert(0, time)
        timeline.insert(1, time)
    times = timeline.nodes["time"][: timeline.room.scalars[TOP]]
    of_each = [np.flatnonzero(times == time).tolist() for time in range(LONG + SIZE)]
    assert of_each[:LONG] == [[2 * time, 2 * time + 1] for time in range(LONG)]
    assert of_each[LONG:] == [[2 * LONG + n, 2 * LONG + SIZE + n] for n in range(SIZE)]


@pytest.mark.parametrize("most", [1, LONG - 1, 3 * LONG])
def test_blocks_that_were_left_are_used_again(most: int):
    choose, timeline = random.Random(most), Timeline(20 * 4 * LONG, lists=20)
    for time in range(20_000):
        p = choose.randrange(20)
        timeline.insert(p, time)
        while timeline.lists["size"][p] > most or (time % 5000 > 4900 and timeline.lists["size"][p]):
            timeline.drop(p)
    live = int(timeline.lists["size"].sum())
    assert int(timeline.room.blocks.sum()) - live <= SIZE * (1 + live // LONG)
    for p in range(20):
        while timeline.lists["size"][p]:
            timeline.drop(p)
    assert int(timeline.room.blocks.sum()) < SIZE  # what is left of the block that is shared
    assert int(timeline.room.scalars[TOP]) <= 20 * (most + 1) + SIZE * (1 + 20 * (most + 1) // LONG) + 20 * SIZE


def test_room_for_what_may_come_is_enough():
    choose, lists = random.Random(1), 50
    timeline = Timeline(timeline_blocks.needed(0, 10_000), lists)
    for time in range(10_000):
        timeline.insert(choose.randrange(lists), time)
    assert int(timeline.room.scalars[TOP]) <= timeline_blocks.needed(0, 10_000)
