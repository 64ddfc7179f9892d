"""Which operator comes before which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush


def upstream_first(reads: Sequence[Sequence[str]], writes: Mapping[str, int]) -> list[int]:
    """The operators 0 ... n-1 so that each stream is written before it is read; otherwise in the given order.

    `reads` has the inputs of each, `writes` says who writes a stream. Those in or behind a cycle are left out.
    """
    upstream = [writers(streams, writes) for streams in reads]
    downstream: dict[int, list[int]] = defaultdict(list)
    for operator, before in enumerate(upstream):
        for other in before:
            downstream[other].append(operator)
    ready = [operator for operator, before in enumerate(upstream) if not before]
    order: list[int] = []
    while ready:  # a heap: the first in the file comes first
        order.append(heappop(ready))
        for operator in downstream[order[-1]]:
            upstream[operator].discard(order[-1])
            if not upstream[operator]:
                heappush(ready, operator)
    return order


def cycle(reads: Sequence[Sequence[str]], writes: Mapping[str, int], stuck: Collection[int]) -> list[int]:
    """A cycle among those that `upstream_first` left out, upstream first."""
    path: list[int] = []
    operator = min(stuck)
    while operator not in path:
        path.append(operator)
        operator = min(writers(reads[operator], writes).intersection(stuck))
    return path[path.index(operator) :][::-1]


def writers(streams: Sequence[str], writes: Mapping[str, int]) -> set[int]:
    return {writes[stream] for stream in streams if stream in writes}
