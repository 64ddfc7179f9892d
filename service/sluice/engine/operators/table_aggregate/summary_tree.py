"""A tree of rows for each group, so that a row that changes costs O(log n) and a firing O(1).

The rows of a group are the nodes of a binary tree. Its levels are full, the last one from the left, as in a heap in an
array; but nodes are linked, so that a tree needs no memory of its own. Each node has the summary of itself and of all
nodes below it. A new row becomes the last node. The last node takes the place of a row that leaves.

                 row 4                 position 1         The path to position 5 (binary 101) is behind the first 1:
           row 9       row 2           2, 3               0 is left, 1 is right.
        row 7   row 1                  4, 5

The summaries combine in any order, because they carry the numbers of their rows (contents/summaries.py). Nothing is
subtracted, so no sum drifts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.interner import InternedText
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.contents.summaries import Layout, combine, lift

#: a node: the neighbours of a row in the tree of its group
NODE = np.dtype([("parent", np.int32), ("left", np.int32), ("right", np.int32)])
#: a group: the number of its rows, the root of its tree, and its neighbours in the list of the partition's groups that
#: have rows; `place` is scratch memory of a firing
GROUP_RECORD = np.dtype([
    ("size", np.int64), ("place", np.int64), ("root", np.int32), ("younger", np.int32), ("older", np.int32),
])  # fmt: skip


class Trees(NamedTuple):
    """The tables of the trees.

    words   by row: its words
    sums    by row: the summary of the row and of all nodes below it
    """

    layout: Layout
    text: InternedText
    words: np.ndarray
    sums: np.ndarray
    nodes: np.ndarray
    groups: np.ndarray


@inlined
def add(t: Trees, group: int, row: int) -> None:
    """Adds a row as the last node."""
    t.groups[group].size += 1
    size = t.groups[group].size
    t.nodes[row].left = t.nodes[row].right = NIL
    if size == 1:
        t.groups[group].root = row
        t.nodes[row].parent = NIL
    else:
        parent = _at(t, group, size >> 1)
        t.nodes[row].parent = parent
        if size & 1:
            t.nodes[parent].right = row
        else:
            t.nodes[parent].left = row
    renew(t, row)


@inlined
def remove(t: Trees, group: int, row: int) -> None:
    """Removes a row. The last node takes its place."""
    last = _at(t, group, t.groups[group].size)
    t.groups[group].size -= 1
    parent = t.nodes[last].parent
    if parent == NIL:
        t.groups[group].root = NIL
        return
    if t.nodes[parent].left == last:
        t.nodes[parent].left = NIL
    else:
        t.nodes[parent].right = NIL
    if last != row:
        replace(t, group, row, last)
        parent = last if parent == row else parent
    renew(t, parent)


@inlined
def replace(t: Trees, group: int, row: int, by: int) -> None:
    """Puts another row, which is in no tree, into the place of a row."""
    parent, left, right = t.nodes[row].parent, t.nodes[row].left, t.nodes[row].right
    t.nodes[by].parent, t.nodes[by].left, t.nodes[by].right = parent, left, right
    if parent == NIL:
        t.groups[group].root = by
    elif t.nodes[parent].left == row:
        t.nodes[parent].left = by
    else:
        t.nodes[parent].right = by
    if left != NIL:
        t.nodes[left].parent = by
    if right != NIL:
        t.nodes[right].parent = by
    renew(t, by)


@kernel
def renew(t: Trees, row: int) -> None:
    """Computes the summaries of a row and of all nodes above it anew."""
    while row != NIL:
        lift(t.layout, t.words, row, t.sums, row)
        left, right = t.nodes[row].left, t.nodes[row].right
        if left != NIL:
            combine(t.layout, t.text, t.sums, row, t.sums, left, t.sums, row)
        if right != NIL:
            combine(t.layout, t.text, t.sums, row, t.sums, right, t.sums, row)
        row = t.nodes[row].parent


@inlined
def _at(t: Trees, group: int, position: int) -> int:
    """The row at a position of the tree, from 1."""
    depth = 0
    while position >> depth > 1:
        depth += 1
    row = t.groups[group].root
    while depth:
        depth -= 1
        row = t.nodes[row].right if position >> depth & 1 else t.nodes[row].left
    return row  # type: ignore[no-any-return]
