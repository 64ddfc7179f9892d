"""Assigns buckets to executors: each executor gets a share by its number of cores, and as few buckets move as possible.

A bucket that moves has its state read from the checkpoint by its new executor. So an assignment keeps each bucket where
it is, unless its executor is gone or another executor has too few buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Executor(NamedTuple):
    """An executor of a Spark application: its id, its host as Spark names it, and the number of its cores."""

    id: str
    host: str
    cores: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the executor. The number of its cores may become known later."""
        return self.id, self.host


def assign(
    buckets: int, executors: Sequence[Executor], before: Mapping[int, Executor], first: int = 0
) -> dict[int, Executor]:
    """The executor of each bucket; no bucket has one if there are no executors.

    `before` is the previous assignment. It may lack buckets, and may contain executors that no longer exist. `first` is
    the position of the executor that gets the first bucket if all have equally many: with another value for each query,
    the single buckets of several queries are on different executors.

    The loads (buckets per core) are balanced: no move of a bucket to another executor would lower the largest load of
    the two. An executor that has a bucket keeps at least one.
    """
    if not executors:
        return {}
    order = sorted(executors)
    shift = first % len(order)
    order = order[shift:] + order[:shift]
    present = {executor.key: executor for executor in order}
    found = {bucket: present[owner.key] for bucket, owner in before.items() if owner.key in present}
    counts = Counter(found.values())

    def load_with(executor: Executor, more: int) -> float:
        return (counts[executor] + more) / executor.cores

    for bucket in range(buckets):
        if bucket not in found:
            found[bucket] = min(order, key=lambda executor: load_with(executor, 1))
            counts[found[bucket]] += 1
    while True:
        giver = max(order, key=lambda executor: load_with(executor, 0))
        taker = min(order, key=lambda executor: load_with(executor, 1))
        if load_with(taker, 1) >= load_with(giver, 0):
            return dict(sorted(found.items()))
        bucket = max(bucket for bucket, owner in found.items() if owner == giver)
        found[bucket] = taker
        counts[giver] -= 1
        counts[taker] += 1
