"""Which partition is due next: compared with a look at all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluice.engine.windows.event_time.event_records import ENDLESS, PARTITION
from sluice.engine.windows.event_time.timer_queue import ROOT, TournamentTree, due_before, postpone, replay, schedule


class Partitions:
    """Partitions of several topic partitions, and their agenda."""

    def __init__(self, queues: int) -> None:
        self.queues, self.table, self.agenda = queues, np.zeros(0, PARTITION), TournamentTree(queues)

    def come(self, sources: list[int]) -> None:
        fresh = np.zeros(len(sources), PARTITION)
        fresh["due"], fresh["source"] = ENDLESS, sources
        self.table = np.append(self.table, fresh)
        self.agenda.enter(self.table)

    def schedule(self, p: int, due: int) -> None:
        agenda = self.agenda
        schedule(self.table, agenda.matches, agenda.starts[self.table["source"][p]], p, due)

    def next(self, queue: int) -> tuple[int, int]:
        first = self.agenda.matches[self.agenda.starts[queue] + ROOT]
        return int(first["due"]), int(first["partition"])

    def check(self) -> None:
        for queue in range(self.queues):
            dues = self.table["due"][self.table["source"] == queue]
            due, p = self.next(queue)
            assert due == dues.min(initial=ENDLESS)
            if due != ENDLESS:
                assert (self.table["due"][p], self.table["source"][p]) == (due, queue)


@pytest.mark.parametrize("queues", [1, 3])
def test_the_first_is_known_whatever_is_scheduled_and_whoever_comes(queues: int):
    choose, partitions = random.Random(7), Partitions(queues)
    for _ in range(40):
        partitions.come([choose.randrange(queues) for _ in range(choose.choice([0, 1, 1, 5]))])
        partitions.check()
        for _ in range(20 if len(partitions.table) else 0):
            partitions.schedule(choose.randrange(len(partitions.table)), choose.choice([-5, 0, 3, 9, 2**40, ENDLESS]))
            partitions.check()


def test_all_that_is_due_is_found_and_due_again_later():
    choose, partitions = random.Random(7), Partitions(1)
    for now in range(0, 400, 5):
        partitions.come([0] * choose.choice([0, 1, 5]))
        for p in range(len(partitions.table)):
            if partitions.table["due"][p] == ENDLESS:
                partitions.schedule(p, now + choose.randrange(20))
        tree, found = partitions.agenda.matches, partitions.agenda.found
        first, end = due_before(tree, now, found)
        due = tree["partition"][found[first:end]].tolist()
        assert due == np.flatnonzero(partitions.table["due"] < now).tolist()
        for p in due:
            postpone(partitions.table, tree, p, choose.choice([now, now + 3, now + 50, ENDLESS]))
        replay(tree, found, first)
        partitions.check()


def test_what_is_scheduled_survives_that_the_agenda_is_made_anew():
    partitions = Partitions(2)
    partitions.come([0, 1, 0])
    for p, due in enumerate([30, 20, 10]):
        partitions.schedule(p, due)
    partitions.agenda = TournamentTree(2)
    partitions.agenda.enter(partitions.table)
    assert [partitions.next(queue) for queue in (0, 1)] == [(10, 2), (20, 1)]


def test_nothing_is_due_where_no_partition_is():
    assert Partitions(2).next(1)[0] == ENDLESS
