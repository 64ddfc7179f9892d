"""Which operator comes before which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def upstream_first(reads: Sequence[str], writes: Mapping[str, int]) -> list[int]:
    """The operators 0 ... n-1 so that each stream is written before it is read; otherwise in the given order.

    `reads` is the input of each, `writes` says who writes a stream. Those in or behind a cycle are left out.
    """
    order: list[int] = []
    waiting = list(range(len(reads)))
    while ready := [operator for operator in waiting if writes.get(reads[operator]) in (None, *order)]:
        order.append(ready[0])
        waiting.remove(ready[0])
    return order


def cycle(reads: Sequence[str], writes: Mapping[str, int], start: int) -> list[int]:
    """The cycle that `start` is in or behind, upstream first."""
    path: list[int] = []
    operator = start
    while operator not in path:
        path.append(operator)
        operator = writes[reads[operator]]
    return path[path.index(operator) :][::-1]
