"""Which operator comes before which."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def upstream_first(reads: Sequence[Sequence[str]], writes: Mapping[str, int]) -> list[int]:
    """The operators 0 ... n-1 so that each stream is written before it is read; otherwise in the given order.

    `reads` has the inputs of each, `writes` says who writes a stream. Those in or behind a cycle are left out.
    """
    order: list[int] = []
    waiting = list(range(len(reads)))
    while ready := [operator for operator in waiting if writers(reads[operator], writes) <= set(order)]:
        order.append(ready[0])
        waiting.remove(ready[0])
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
