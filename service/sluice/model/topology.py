"""The order of operators, in which each stream is written before it is read; and the cycles that prevent it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush


def upstream_first(reads: Sequence[Sequence[str]], writes: Mapping[str, int]) -> list[int]:
    """The operators 0 to n-1, sorted so that each stream is written before it is read, else by number.

    `reads` has the input streams of each operator, `writes` the operator that writes each stream. Operators in or after
    a cycle are left out.
    """
    upstream = [writers(streams, writes) for streams in reads]
    downstream: dict[int, list[int]] = defaultdict(list)
    for operator, before in enumerate(upstream):
        for other in before:
            downstream[other].append(operator)
    ready = [operator for operator, before in enumerate(upstream) if not before]
    order: list[int] = []
    while ready:  # `ready` is a heap, so the operator with the smallest number comes first
        order.append(heappop(ready))
        for operator in downstream[order[-1]]:
            upstream[operator].discard(order[-1])
            if not upstream[operator]:
                heappush(ready, operator)
    return order


def cycle(reads: Sequence[Sequence[str]], writes: Mapping[str, int], stuck: Collection[int]) -> list[int]:
    """A cycle among the operators that `upstream_first` left out (`stuck`), upstream first."""
    path: list[int] = []
    operator = min(stuck)
    while operator not in path:
        path.append(operator)
        operator = min(writers(reads[operator], writes).intersection(stuck))
    return path[path.index(operator) :][::-1]


def writers(streams: Sequence[str], writes: Mapping[str, int]) -> set[int]:
    return {writes[stream] for stream in streams if stream in writes}
