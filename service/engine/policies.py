"""Window clauses as the numbers that the kernels read: one shape for every policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.engine.bits import as_real
from service.engine.kernel import inlined
from service.pipeline.spec import (
    Count,
    Delta,
    EventWindow,
    PartitionAge,
    PartitionCount,
    PartitionEviction,
    Punct,
    Sliding,
    Time,
    Tumbling,
    TupleCount,
    Window,
    policies,
)  # fmt: skip

COUNT, TIME, DELTA, PUNCT, NONE = range(5)
#: which partitions leave as a whole: ALL stay
PARTITION_AGE, PARTITION_COUNT, TUPLE_COUNT, ALL = range(4)


class Policy(NamedTuple):
    """A policy: `kind`, and its size as a word: tuples, partitions, nanoseconds, or units of a delta's attribute.

    `column` is where a delta finds its attribute among the words of a tuple, `floating`: it is a float64. `sized` is
    where the newest tuple has the size, or -1.
    """

    kind: int
    size: int
    floating: bool = False
    column: int = 0
    sized: int = -1


class Clause(NamedTuple):
    """A window clause."""

    sliding: bool
    #: whether tuples leave by time
    expiring: bool
    partitioned: bool
    eviction: Policy
    trigger: Policy
    #: the partition eviction; its age is in seconds
    leaving: Policy
    #: whether a trigger counts before the window was full once (S17)
    incomplete: bool
    #: whether an evicted partition fires (V16)
    evicted: bool
    #: nanoseconds from tick to tick, 0 without one
    period: int


def clause(window: Window, columns: dict[str, int], *, incomplete: bool = False, evicted: bool = False) -> Clause:
    """The clause of a window; `columns` says in which column of the rows an attribute of a delta is.

    A window over event time has no policies; what it is stands elsewhere (eventtime/).
    """
    none = Policy(NONE, 0)
    if isinstance(window, EventWindow):
        stay = partition_policy(None)
        return Clause(False, False, False, none, none, stay, incomplete, evicted, 0)  # noqa: FBT003
    if isinstance(window, Tumbling):
        eviction, trigger = policy(window.eviction, columns), none
        ticking = window.eviction
    else:
        eviction, trigger = policy(window.eviction, columns), policy(window.trigger, columns)
        ticking = window.trigger
    period = ticking.nanoseconds if isinstance(ticking, Time) else 0
    leaving = partition_policy(window.partition_eviction)
    sliding = isinstance(window, Sliding)
    expiring = sliding and eviction.kind == TIME
    return Clause(sliding, expiring, window.partitioned, eviction, trigger, leaving, incomplete, evicted, period)


def policy(of: Count | Time | Delta | Punct, columns: dict[str, int]) -> Policy:
    match of:
        case Count(size):
            return Policy(COUNT, size)
        case Time(nanoseconds):
            return Policy(TIME, nanoseconds)
        case Delta(attribute, size) if isinstance(size, float):
            return Policy(DELTA, int(np.float64(size).view(np.int64)), floating=True, column=columns[attribute])
        case Delta(attribute, size):
            return Policy(DELTA, int(size), column=columns[attribute])
        case Punct():
            return Policy(PUNCT, 0)


def partition_policy(of: PartitionEviction | None) -> Policy:
    match of:
        case PartitionAge(seconds):
            return Policy(PARTITION_AGE, seconds)
        case PartitionCount(most):
            return Policy(PARTITION_COUNT, most)
        case TupleCount(most):
            return Policy(TUPLE_COUNT, most)
        case None:
            return Policy(ALL, 0)


def deltas(window: Window) -> list[str]:
    """The attributes that the window's delta policies read."""
    return [part.attribute for part in policies(window) if isinstance(part, Delta)]


@inlined
def size_of(policy: Policy, words: np.ndarray, slot: int) -> int:
    """The word of a delta's size when the tuple in `slot` is the newest."""
    return policy.size if policy.sized < 0 else words[slot, policy.sized]


@inlined
def exceeds(policy: Policy, new: int, reference: int, size: int) -> bool:
    """Whether the word `new` lies strictly more than the delta's size above `reference` (T11 to T15, S8, S11).

    NaN never exceeds and is never exceeded.
    """
    if policy.floating:
        return as_real(new) >= as_real(reference) and as_real(new) - as_real(reference) > as_real(size)
    return new > reference and bool(np.uint64(new) - np.uint64(reference) > np.uint64(size))
