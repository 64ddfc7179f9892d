"""Window clauses as the numbers that the kernels read, in one form for every policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sluice.columns.float_bits import as_real
from sluice.columns.kernel import inlined
from sluice.engine.windows.early_results import EarlyPolicy
from sluice.model.expressions import Expression
from sluice.model.spec import (  # fmt: skip
    Count,
    Delta,
    Early,
    PartitionAge,
    PartitionCount,
    PartitionEviction,
    Punct,
    Sliding,
    Time,
    Tumbling,
    TupleCount,
    Window,
)
from sluice.model.types import FLOAT64, TIMESTAMP, Type

COUNT, TIME, DELTA, PUNCT, NONE = range(5)
#: why a tumbling window emits a partition: one of the kinds of policies above, its eviction as a whole (V16), or early
PARTITION, EARLY_RESULT = 5, 6
#: kinds of partition eviction; ALL: all partitions stay
PARTITION_AGE, PARTITION_COUNT, TUPLE_COUNT, ALL = range(4)


#: of an attribute or an expression: the index of its word in a tuple, and its type
Columns = Mapping[str | Expression, tuple[int, Type]]


class Policy(NamedTuple):
    """A policy: its kind, and its size as a word, which counts tuples, partitions, nanoseconds or units of a delta's
    attribute.

    `column` is the index of a delta's attribute among the words of a tuple; `floating`: the attribute is a float64.
    `sized` is the index of the word of the newest tuple that has the delta's size, or -1 if `size` has it. `seconds`:
    that word is a float64 of seconds, while the attribute is a timestamp.
    """

    kind: int
    size: int
    floating: bool = False
    column: int = 0
    sized: int = -1
    seconds: bool = False


class KernelClause(NamedTuple):
    """A window clause as the kernels read it."""

    sliding: bool
    #: whether tuples leave by time
    expiring: bool
    #: whether the tuples of a partition are linked by their slots. An operator needs no such chain if only the
    #: oldest tuple leaves and its slot is not used
    chained: bool
    partitioned: bool
    eviction: Policy
    trigger: Policy
    #: the policy of partition eviction; an age is in seconds
    leaving: Policy
    #: whether the window fires before it was full once (S17)
    incomplete: bool
    #: whether an evicted partition fires (V16)
    evicted: bool
    #: nanoseconds between two ticks of the timer, 0 without a timer
    period: int
    #: how many tuples of a partition flush it, if the window tumbles by count; -1 if it does not
    most: int
    #: whether window marks flush
    marked: bool
    #: when the open window emits early results
    early: EarlyPolicy


def clause(
    window: Window, columns: Columns, *, incomplete: bool = False, evicted: bool = False, early: Early | None = None
) -> KernelClause:
    """The clause of a window. `columns` has the attributes of deltas, and the sizes that are expressions.

    A window with sized parts has no policies: its kernels read these sizes instead.
    """
    none = Policy(NONE, 0)
    if not window.policies:
        stay = partition_policy(None)
        return KernelClause(
            False, False, False, False, none, none, stay, incomplete, evicted, 0, -1, False, early_policy(early)  # noqa: FBT003
        )  # fmt: skip
    assert isinstance(window, Tumbling | Sliding)  # noqa: S101 - these are the kinds with policies
    eviction = policy(_compared(window), columns)
    trigger = policy(window.trigger, columns) if isinstance(window, Sliding) else none
    period = window.timer.nanoseconds if window.timer else 0
    leaving = partition_policy(window.partition_eviction)
    sliding = isinstance(window, Sliding)
    expiring = sliding and eviction.kind == TIME
    conditions = () if sliding else window.policies
    most = next((one.size for one in conditions if isinstance(one, Count)), -1)
    marked = any(isinstance(one, Punct) for one in conditions)
    return KernelClause(
        sliding, expiring, sliding, window.partitioned, eviction, trigger, leaving, incomplete, evicted, period,
        most, marked, early_policy(early),
    )  # fmt: skip


def _compared(window: Tumbling | Sliding) -> Count | Time | Delta | Punct:
    """The eviction policy; of several conditions of a tumbling window the delta, which a tuple is compared by."""
    deltas = (one for one in window.policies if isinstance(one, Delta))
    return next(deltas, window.eviction) if isinstance(window, Tumbling) else window.eviction


def policy(of: Count | Time | Delta | Punct, columns: Columns) -> Policy:
    match of:
        case Count(size):
            return Policy(COUNT, size)
        case Time(nanoseconds):
            return Policy(TIME, nanoseconds)
        case Delta():
            return delta(of, columns)
        case Punct():
            return Policy(PUNCT, 0)


def early_policy(of: Early | None) -> EarlyPolicy:
    """The policy of early results; None: there are none."""
    return EarlyPolicy(of is not None, (of and of.count) or 0, (of and of.time) or 0)


def delta(of: Delta, columns: Columns) -> Policy:
    column, kind = columns[of.attribute]
    if isinstance(of.size, float):
        return Policy(DELTA, int(np.float64(of.size).view(np.int64)), floating=True, column=column)
    if isinstance(of.size, int):
        return Policy(DELTA, of.size, column=column)
    return Policy(DELTA, 0, kind == FLOAT64, column, columns[of.size][0], seconds=kind == TIMESTAMP)


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
    """The attributes that the window's delta policies compare."""
    return [part.attribute for part in window.policies if isinstance(part, Delta)]


def sizes(window: Window) -> list[Expression]:
    """The sizes that are expressions of the newest tuple: of delta policies, and of the window's own parts."""
    deltas = [p.size for p in window.policies if isinstance(p, Delta) and not isinstance(p.size, int | float)]
    return [*deltas, *window.expressions]


@inlined
def size_of(policy: Policy, words: np.ndarray, slot: int) -> int:
    """The size of a delta, as a word, if the tuple in `slot` is the newest."""
    return policy.size if policy.sized < 0 else words[slot, policy.sized]


@inlined
def exceeds(policy: Policy, new: int, reference: int, size: int) -> bool:
    """Whether the word `new` is above `reference` by strictly more than the delta's size (T11, S8, S11).

    A smaller value never exceeds, however far below it is (T12, T13). NaN neither exceeds nor is exceeded (T14), and
    nothing exceeds by a size that is NaN. Timestamps are compared to the nanosecond (T15). With a negative size, a
    value exceeds every value that is not greater (W25).
    """
    if policy.floating:
        return as_real(new) >= as_real(reference) and as_real(new) - as_real(reference) > as_real(size)
    if new < reference:
        return False
    gap = np.uint64(new) - np.uint64(reference)
    if policy.seconds:
        return bool(np.float64(gap) > as_real(size) * 1e9)
    return size < 0 or bool(gap > np.uint64(size))
