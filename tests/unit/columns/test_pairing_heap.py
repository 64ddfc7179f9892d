"""Tuples that leave by value, and the summary of the others: compared with a list that is gone through."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from sluice.columns import pairing_heap
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.contents import combine_plan
from sluice.engine.contents.summaries import LEAST, OLDEST, SUM_INT, YOUNGEST, Summary, layout
from sluice.engine.windows.policies import DELTA, KernelPolicy

BY_INTEGER, BY_REAL = KernelPolicy(DELTA, 0, column=1), KernelPolicy(DELTA, 0, floating=True, column=1)

#: the first, the last, the sum, and the oldest of the least with its number
LAYOUT, WIDTH = layout([Summary(OLDEST, 0), Summary(YOUNGEST, 0), Summary(SUM_INT, 1), Summary(LEAST, 1, 0)], arrival=0)


@inlined
def meld(top: int, below: int, sums: combine_plan.Summaries, melds: np.ndarray) -> None:
    melds[0] += 1
    combine_plan.append_step(sums, combine_plan.MERGE, top, NIL, below)


class Heap:
    """Tuples `number, value`, and the heap of those that are inside, by value."""

    def __init__(self, room: int, by: KernelPolicy = BY_INTEGER) -> None:
        self.by = by
        self.nodes, self.rows = np.zeros(room, pairing_heap.NODE), np.zeros((room, 2), np.int64)
        back, self.outputs, stack = (np.zeros((rows, WIDTH), np.int64) for rows in (0, 1, room))
        sums = combine_plan.summaries(LAYOUT, Interner().text, self.rows, back, stack)
        self.sums = sums._replace(steps=np.zeros(room + 2, combine_plan.STEP))  # a root has fewer than `room` children
        self.free, self.stored, self.root = list(range(room)), [], NIL
        self.melds = np.zeros(1, np.int64)
        self.kept = self.sums, self.melds

    def add(self, number: int, word: int) -> None:
        slot = self.free.pop(number % len(self.free))
        self.rows[slot] = number, word
        combine_plan.append_step(self.sums, combine_plan.FOLD, slot, slot, NIL)
        self.root = pairing_heap.add(self.nodes, self.rows, self.by, self.root, slot, meld, *self.kept)
        combine_plan.execute(self.sums, self.outputs)
        self.stored.append(slot)

    def take(self) -> int:
        """The word of the tuple that leaves."""
        slot = self.root
        self.stored.remove(slot)
        self.root = pairing_heap.remove_root(self.nodes, self.rows, self.by, slot, meld, *self.kept)
        combine_plan.execute(self.sums, self.outputs)
        self.free.append(slot)
        return int(self.rows[slot, 1])

    def summary(self) -> list[int]:
        combine_plan.append_step(self.sums, combine_plan.OUTPUT, 0, self.root, NIL)
        combine_plan.execute(self.sums, self.outputs)
        first, _, last, _, total, least, number, _ = self.outputs[0].tolist()
        return [first, last, total, least, number]

    def expected(self) -> list[int]:
        tuples = self.rows[self.stored].tolist()
        number, value = reduce(lambda one, other: other if other[1] < one[1] else one, tuples)
        return [tuples[0][0], tuples[-1][0], sum(value for _, value in tuples), value, number]


@pytest.mark.parametrize("most", [1, 2, 30, 300])
def test_the_least_leaves_and_the_summary_is_that_of_the_others_in_their_order(most: int):
    choose, heap = random.Random(most), Heap(most)
    for number in range(4000):
        while len(heap.stored) == most or (heap.stored and choose.random() < 0.4):
            least = min(heap.rows[heap.stored, 1])
            assert heap.take() == least
        heap.add(number, choose.randrange(50))
        if choose.random() < 0.5:
            assert heap.summary() == heap.expected()


def test_a_heap_that_ran_empty_begins_anew():
    heap = Heap(2)
    heap.add(1, 7)
    heap.take()
    assert heap.root == NIL
    heap.add(2, 5)
    assert heap.summary() == [2, 2, 5, 5, 2]


def test_nan_leaves_behind_all_others_and_minus_zero_is_zero():
    heap = Heap(6, BY_REAL)
    for number, value in enumerate([math.nan, 0.0, math.inf, math.nan, -0.0, -math.inf]):
        heap.add(number, int(np.float64(value).view(np.int64)))
    left = [float(np.int64(heap.take()).view(np.float64)) for _ in range(6)]
    assert left[:4] == [-math.inf, 0.0, 0.0, math.inf]
    assert all(map(math.isnan, left[4:]))


@pytest.mark.parametrize("values", [lambda number: number, lambda number: -number, lambda number: number * 7919 % 1009])
def test_a_tuple_that_comes_and_goes_costs_some_log_n_melds(values: Callable[[int], int]):
    heap, count = Heap(4001), 4000
    for number in range(count):
        heap.add(number, values(number))
    for number in range(count, 2 * count):
        heap.add(number, values(number))
        heap.take()
    assert heap.melds[0] < 3 * count * math.log2(count)
