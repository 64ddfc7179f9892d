"""A priority queue that gives the partition with the earliest due time: one tournament tree for each topic partition.

Each node has the earliest due time below it. A leaf is a partition, the root is node 1, and the children of node n are
2 n and 2 n + 1. If the due time of a partition changes, the nodes from its leaf to the root are computed again. This
costs O(log n) and follows no links. The trees can be computed from the partitions, so they are not saved.

Where many partitions are due at once, `due_before` finds all of them, `postpone` sets the due time of each, and
`replay` computes the nodes above them again: each node once, and not once for every partition below it.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import inlined, kernel
from sluice.engine.windows.event_time.event_records import ENDLESS

#: a node: the earliest due time below it, and the partition that has it
NODE = np.dtype([("due", np.int64), ("partition", np.int64)])
ROOT = 1


@inlined
def schedule(partitions: np.ndarray, matches: np.ndarray, start: int, p: int, due: int) -> None:
    """Sets the due time of partition `p`, whose tree begins at `start`. ENDLESS: nothing is due."""
    if due == partitions[p].due:
        return
    partitions[p].due = due
    winner, node = p, partitions[p].leaf
    _enter(matches, start + node, due, winner)
    while node > ROOT:
        other = matches[start + (node ^ 1)]
        its, partition = other.due, other.partition
        winner = partition if its < due else winner
        due = min(due, its)
        node >>= 1
        _enter(matches, start + node, due, winner)


@inlined
def due_before(tree: np.ndarray, time: int, nodes: np.ndarray) -> tuple[int, int]:
    """Finds what is due before a time. `tree` has the nodes of one tree; `nodes` has room for as many numbers.

    Writes the numbers of the nodes below which something is due, each behind its parent: first inner nodes, then the
    leaves from left to right. Returns the number of inner nodes, and that of all.
    """
    count, leaves = 0, 0
    if tree[ROOT].due < time:
        nodes[count] = ROOT
        count += 1
    while leaves < count and 2 * nodes[leaves] < len(tree):
        for child in range(2 * nodes[leaves], 2 * nodes[leaves] + 2):
            if tree[child].due < time:
                nodes[count] = child
                count += 1
        leaves += 1
    return leaves, count


@inlined
def postpone(partitions: np.ndarray, tree: np.ndarray, p: int, due: int) -> None:
    """Sets the due time of partition `p`, and leaves the nodes above its leaf to `replay`."""
    partitions[p].due = due
    tree[partitions[p].leaf].due = due


@inlined
def replay(tree: np.ndarray, nodes: np.ndarray, inner: int) -> None:
    """Computes the first `inner` nodes in `nodes` again, children before parents."""
    for k in range(inner - 1, -1, -1):
        _play_one(tree, 0, nodes[k])


@inlined
def _play_one(matches: np.ndarray, start: int, node: int) -> None:
    """Computes an inner node from its children."""
    left, right = matches[start + 2 * node], matches[start + 2 * node + 1]
    first = right if right.due < left.due else left
    _enter(matches, start + node, first.due, first.partition)


@inlined
def _enter(matches: np.ndarray, place: int, due: int, partition: int) -> None:
    matches[place].due = due
    matches[place].partition = partition


@kernel
def _play(matches: np.ndarray, start: int, leaves: int) -> None:
    """Computes all inner nodes of a tree."""
    for node in range(leaves - 1, 0, -1):
        _play_one(matches, start, node)


class TournamentTree:
    """The tournament trees. `matches` has the nodes of all trees, `starts` the index at which each tree begins; `found`
    is scratch memory of `due_before`.
    """

    def __init__(self, queues: int) -> None:
        """Creates `queues` trees without partitions."""
        self._entered = np.zeros(queues, np.int64)
        self._plant(np.ones(queues, np.int64))

    def enter(self, partitions: np.ndarray) -> None:
        """Adds the partitions that are in no tree yet: those behind the ones added before. `source` is the number of
        the tree. Amortized O(1) for each.
        """
        entered = int(self._entered.sum())
        if entered == len(partitions):
            return
        queues = len(self._entered)
        most = self._entered + np.bincount(partitions["source"][entered:], minlength=queues)
        if (most > self._leaves).any():
            entered = 0
            self._plant(2 ** np.ceil(np.log2(np.maximum(most, 1))).astype(np.int64))
            self._entered[:] = 0
        source = partitions["source"][entered:]
        leaf = self._leaves[source] + self._entered[source] + _rank(source)
        partitions["leaf"][entered:] = leaf
        places = self.starts[source] + leaf
        self.matches["partition"][places] = np.arange(entered, len(partitions))
        if entered == 0:
            self.matches["due"][places] = partitions["due"]
            for start, leaves in zip(self.starts.tolist(), self._leaves.tolist(), strict=True):
                _play(self.matches, start, leaves)
        self._entered = most

    def _plant(self, leaves: np.ndarray) -> None:
        """Creates empty trees. `leaves` has the number of leaves of each tree, a power of two."""
        self._leaves = leaves
        self.starts = np.cumsum(2 * leaves) - 2 * leaves
        self.matches = np.zeros(int(2 * leaves.sum()), NODE)
        self.found = np.empty(len(self.matches), np.int64)
        self.matches["due"] = ENDLESS


def _rank(source: np.ndarray) -> np.ndarray:
    """For each entry, the number of earlier entries with the same source."""
    order = np.argsort(source, kind="stable")
    counts = np.bincount(source)
    rank = np.empty(len(source), np.int64)
    rank[order] = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank
