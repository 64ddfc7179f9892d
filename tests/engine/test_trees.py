"""Tuples that leave from anywhere, and the summary of the others: compared with a list that is gone through."""

from __future__ import annotations

import random
from functools import reduce

import numpy as np
import pytest

from service.engine import combining, trees
from service.engine.linked import NOBODY
from service.engine.strings import Strings
from service.engine.summaries import LEAST, OLDEST, SUM_INT, YOUNGEST, Summary, layout

#: the first, the last, the sum, and the oldest of the least with its number
LAYOUT, WIDTH = layout([Summary(OLDEST, 0), Summary(YOUNGEST, 0), Summary(SUM_INT, 1), Summary(LEAST, 1, 0)])


class Tree:
    """Tuples `number, value`, and the tree of those that are inside, oldest first."""

    def __init__(self, room: int) -> None:
        self.nodes, self.rows = np.zeros(room, trees.NODE), np.zeros((room, 2), np.int64)
        back, self.told, stack = (np.zeros((rows, WIDTH), np.int64) for rows in (0, 1, room))
        self.sums = combining.summaries(LAYOUT, Strings().text, self.rows, back, stack)
        self.free, self.inside, self.root = list(range(room)), [], NOBODY

    def append(self, number: int, value: int) -> None:
        slot = self.free.pop(number % len(self.free))
        self.rows[slot] = number, value
        self.root = trees.append(self.nodes, self.root, self.inside[-1] if self.inside else NOBODY, slot)
        self.inside.append(slot)

    def remove(self, place: int) -> None:
        slot = self.inside.pop(place)
        self.root = trees.remove(self.nodes, self.root, slot)
        self.free.append(slot)

    def summary(self) -> list[int]:
        trees.sum_up(self.nodes, self.root, self.sums, self.told)
        combining.note(self.sums, self.told, combining.TELL, 0, self.root, NOBODY)
        combining.do(self.sums, self.told)
        return self.told[0].tolist()

    def expected(self) -> list[int]:
        tuples = self.rows[self.inside].tolist()
        number, value = reduce(lambda one, other: other if other[1] < one[1] else one, tuples)
        return [tuples[0][0], tuples[-1][0], sum(value for _, value in tuples), value, number]

    def depth(self) -> int:
        deep, reached = 0, [self.root]
        while reached := [int(node) for node in reached if node != NOBODY]:
            deep += 1
            reached = [node for side in ("older", "younger") for node in self.nodes[side][reached]]
        return deep


@pytest.mark.parametrize("most", [1, 2, 30, 300])
def test_the_summary_is_that_of_the_tuples_inside_in_their_order_whoever_left(most: int):
    choose, tree = random.Random(most), Tree(most)
    for number in range(4000):
        while len(tree.inside) == most or (tree.inside and choose.random() < 0.4):
            tree.remove(choose.randrange(len(tree.inside)))
        tree.append(number, choose.randrange(50))
        if choose.random() < 0.5:
            assert tree.summary() == tree.expected()


def test_a_tree_that_ran_empty_begins_anew():
    tree = Tree(2)
    tree.append(1, 7)
    tree.remove(0)
    assert tree.root == NOBODY
    tree.append(2, 5)
    assert tree.summary() == [2, 2, 5, 5, 2]


def test_a_tree_stays_shallow_where_tuples_come_in_order_and_leave_at_random():
    choose, tree = random.Random(5), Tree(10_000)
    for number in range(40_000):
        if len(tree.inside) == 10_000:
            tree.remove(choose.randrange(10_000))
        tree.append(number, 0)
    assert tree.depth() < 45  # 2 ln(10,000) is 18 on average, the deepest some 30
