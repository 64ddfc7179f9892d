"""Which partition is the next to do something: a tournament of the partitions, of which each topic partition has one.

Every node has the earliest time that something is due below it; a leaf is a partition, the root is 1, and the nodes
below n are 2 n and 2 n + 1. A partition that is due at another time plays its matches up to the root again: O(log n),
with neither links nor branches to follow. The trees follow from the partitions, so no state holds them.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import inlined, kernel
from sluice.engine.windows.event_time.event_records import ENDLESS

#: a node: the earliest time, and whose it is
NODE = np.dtype([("due", np.int64), ("partition", np.int64)])
ROOT = 1


@inlined
def schedule(partitions: np.ndarray, matches: np.ndarray, start: int, p: int, due: int) -> None:
    """Partition `p`, of the tree that begins at `start`, is due at `due`; ENDLESS: nothing is."""
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
def _enter(matches: np.ndarray, place: int, due: int, partition: int) -> None:
    matches[place].due = due
    matches[place].partition = partition


@kernel
def _play(matches: np.ndarray, start: int, leaves: int) -> None:
    """All matches of a tree."""
    for node in range(leaves - 1, 0, -1):
        one, other = matches[start + 2 * node], matches[start + 2 * node + 1]
        first = other if other.due < one.due else one
        _enter(matches, start + node, first.due, first.partition)


class TournamentTree:
    """The trees: `matches` are the nodes of all, `starts` where each begins."""

    def __init__(self, queues: int) -> None:
        """Trees without partitions, `queues` of them."""
        self._entered = np.zeros(queues, np.int64)
        self._plant(np.ones(queues, np.int64))

    def enter(self, partitions: np.ndarray) -> None:
        """Those that are not in a tree yet, behind all that are; `source` is the tree. O(1) for each, amortised."""
        known = int(self._entered.sum())
        if known == len(partitions):
            return
        queues = len(self._entered)
        most = self._entered + np.bincount(partitions["source"][known:], minlength=queues)
        if (most > self._leaves).any():
            known = 0
            self._plant(2 ** np.ceil(np.log2(np.maximum(most, 1))).astype(np.int64))
            self._entered[:] = 0
        source = partitions["source"][known:]
        leaf = self._leaves[source] + self._entered[source] + _rank(source)
        partitions["leaf"][known:] = leaf
        places = self.starts[source] + leaf
        self.matches["partition"][places] = np.arange(known, len(partitions))
        if known == 0:
            self.matches["due"][places] = partitions["due"]
            for start, leaves in zip(self.starts.tolist(), self._leaves.tolist(), strict=True):
                _play(self.matches, start, leaves)
        self._entered = most

    def _plant(self, leaves: np.ndarray) -> None:
        """Trees with so many leaves each, which are powers of two."""
        self._leaves = leaves
        self.starts = np.cumsum(2 * leaves) - 2 * leaves
        self.matches = np.zeros(int(2 * leaves.sum()), NODE)
        self.matches["due"] = ENDLESS


def _rank(source: np.ndarray) -> np.ndarray:
    """How many before each one have the same source."""
    order = np.argsort(source, kind="stable")
    counts = np.bincount(source)
    rank = np.empty(len(source), np.int64)
    rank[order] = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank
