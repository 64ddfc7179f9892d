"""Window clauses as the numbers that the kernels read: one row for each policy.

A policy that compares an attribute of a tuple with a reference is a row here and a branch in `departs`; it then flushes
tumbling windows and triggers sliding ones. A policy that evicts in a way of its own has a branch in
`processing_time/sliding.py`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
    Time,
    TupleCount,
    Window,
)
from sluice.model.types import Type
from sluice.model.windows.policies.policy import Policy
from sluice.model.windows.policies.since_policy import SinceFirst

#: kinds of policies, which are also reasons why a tumbling window emits a partition; and the reasons beside them: no
#: policy, eviction of the partition as a whole (V16), an early result, or the end of the stream (H6)
NONE, PARTITION, EARLY_RESULT, COUNT, TIME, DELTA, PUNCT, SINCE_FIRST, END = range(9)
#: kinds of partition eviction; ALL: all partitions stay
PARTITION_AGE, PARTITION_COUNT, TUPLE_COUNT, ALL = range(4)


#: of an attribute or an expression: the index of its word in a tuple, and its type
Columns = Mapping[str | Expression, tuple[int, Type]]


class KernelPolicy(NamedTuple):
    """A policy: its kind, and its size as a word, which counts tuples, partitions, nanoseconds or units of the
    attribute that it compares.

    `column` is the index of that attribute among the words of a tuple, or -1 if it compares none; `floating`: the
    attribute is a float64. `sized` is the index of the word of the newest tuple that has the size, or -1 if `size` has
    it. `seconds`: that word is a float64 of seconds, while the attribute is a timestamp.
    """

    kind: int
    size: int
    floating: bool = False
    column: int = -1
    sized: int = -1
    seconds: bool = False


#: no policy: nothing leaves, nothing fires
NOTHING = KernelPolicy(NONE, 0)
#: no partition eviction
STAY = KernelPolicy(ALL, 0)
NEVER_EARLY = EarlyPolicy(wanted=False, every=0, wait=0)


class KernelRow(NamedTuple):
    """A policy of the model for the kernels.

    kind       its kind
    of         the policy as the kernels read it
    expiring   whether it evicts by time: the tuples of all partitions are in one queue
    several    whether an arriving tuple may evict several tuples
    by_value   whether it evicts by value: the tuples of a partition are in a heap
    waiting    whether a partition waits for it from its first tuple on
    """

    kind: int
    of: Callable[[Any, Columns], KernelPolicy]
    expiring: bool = False
    several: bool = False
    by_value: bool = False
    waiting: bool = False


class KernelClause(NamedTuple):
    """A window clause as the kernels read it."""

    sliding: bool = False
    #: whether tuples leave by time
    expiring: bool = False
    #: whether the tuples of a partition are linked by their slots. An operator needs no such chain if only the
    #: oldest tuple leaves and its slot is not used
    chained: bool = False
    partitioned: bool = False
    eviction: KernelPolicy = NOTHING
    trigger: KernelPolicy = NOTHING
    #: the policy of partition eviction; an age is in seconds
    leaving: KernelPolicy = STAY
    #: whether the window fires before it was full once (S17)
    incomplete: bool = False
    #: whether an evicted partition fires (V16)
    evicted: bool = False
    #: nanoseconds between two ticks of the timer, 0 without a timer
    period: int = 0
    #: how many tuples of a partition flush it, if the window tumbles by count; -1 if it does not
    most: int = -1
    #: whether window marks flush
    marked: bool = False
    #: when the open window emits early results
    early: EarlyPolicy = NEVER_EARLY
    #: how long a partition of a tumbling window waits from its first tuple on, until it is flushed
    wait: EarlyPolicy = NEVER_EARLY
    #: whether an arriving tuple may evict several tuples from a sliding window
    several: bool = False
    #: whether tuples leave a sliding window by value
    by_value: bool = False
    #: the number of tuples in a full partition of a sliding window that evicts by count; 0 of other windows
    full: int = 0


def clause(
    window: Window, columns: Columns, *, incomplete: bool = False, evicted: bool = False, early: Early | None = None
) -> KernelClause:
    """The clause of a window. `columns` has the attributes that policies compare, and the sizes that are expressions.

    A window with sized parts has no policies: its kernels read its sizes, and the early results of the clause. Of
    several policies of a tumbling window the one that compares tuples is `eviction`.
    """
    roles, timer = window.roles, window.timer
    shared = KernelClause(
        partitioned=roles.partitioned, leaving=partition_policy(roles.leave), incomplete=incomplete, evicted=evicted,
        period=timer.nanoseconds if timer else 0, early=early_policy(early),
    )  # fmt: skip
    if roles.evict is None:
        most = next((flushing.tuples for flushing in roles.flush if flushing.tuples is not None), -1)
        compared = [flushing for flushing in roles.flush if flushing.attributes]
        assert len(compared) <= 1  # noqa: S101 - of one kind, as the kinds of policies differ
        eviction = policy(compared[0] if compared else None, columns)
        waits = (policy(flushing, columns).size for flushing in roles.flush if ROWS[type(flushing)].waiting)
        wait = next((EarlyPolicy(wanted=True, every=0, wait=size) for size in waits), NEVER_EARLY)
        return shared._replace(eviction=eviction, most=most, marked=window.flushed_by_marks, wait=wait)
    row = ROWS[type(roles.evict)]
    return shared._replace(
        sliding=True, chained=True, expiring=row.expiring, several=row.several, by_value=row.by_value,
        eviction=policy(roles.evict, columns), trigger=policy(roles.trigger, columns), full=roles.evict.tuples or 0,
    )  # fmt: skip


def policy(spec: Policy | None, columns: Columns) -> KernelPolicy:
    return NOTHING if spec is None else ROWS[type(spec)].of(spec, columns)


def early_policy(early: Early | None) -> EarlyPolicy:
    """The policy of early results; None: there are none."""
    return EarlyPolicy(early is not None, (early and early.count) or 0, (early and early.time) or 0)


def delta(spec: Delta, columns: Columns) -> KernelPolicy:
    column, kind = columns[spec.attribute]
    if isinstance(spec.size, float):
        return KernelPolicy(DELTA, int(np.float64(spec.size).view(np.int64)), floating=True, column=column)
    if isinstance(spec.size, int):
        return KernelPolicy(DELTA, spec.size, column=column)
    distance = kind.distance
    assert distance is not None  # noqa: S101 - `check` refuses other attributes
    return KernelPolicy(DELTA, 0, distance.unit is None, column, columns[spec.size][0], seconds=distance.in_seconds)


#: the policies of windows
ROWS: Mapping[type[Policy], KernelRow] = {
    Count: KernelRow(COUNT, lambda spec, _: KernelPolicy(COUNT, spec.size)),
    Time: KernelRow(TIME, lambda spec, _: KernelPolicy(TIME, spec.nanoseconds), expiring=True),
    SinceFirst: KernelRow(SINCE_FIRST, lambda spec, _: KernelPolicy(SINCE_FIRST, spec.nanoseconds), waiting=True),
    Delta: KernelRow(DELTA, delta, several=True, by_value=True),
    Punct: KernelRow(PUNCT, lambda *_: KernelPolicy(PUNCT, 0)),
}
#: the policies by which whole partitions leave
LEAVING: Mapping[type[PartitionEviction], Callable[[Any], KernelPolicy]] = {
    PartitionAge: lambda spec: KernelPolicy(PARTITION_AGE, spec.seconds),
    PartitionCount: lambda spec: KernelPolicy(PARTITION_COUNT, spec.most),
    TupleCount: lambda spec: KernelPolicy(TUPLE_COUNT, spec.most),
}
#: why a tumbling window emitted a partition, in words; no policy is behind the content that a snapshot shows
REASONS: Mapping[int, str] = {NONE: "", PARTITION: "partition", EARLY_RESULT: "early", END: "end"} | {
    row.kind: policy.word for policy, row in ROWS.items()
}


def partition_policy(spec: PartitionEviction | None) -> KernelPolicy:
    return STAY if spec is None else LEAVING[type(spec)](spec)


@inlined
def departs(policy: KernelPolicy, words: np.ndarray, slot: int, reference: int) -> bool:
    """Whether the tuple in `slot` satisfies a policy that compares its attribute with the word `reference`."""
    return exceeds(policy, words[slot, policy.column], reference, size_of(policy, words, slot))


@inlined
def size_of(policy: KernelPolicy, words: np.ndarray, slot: int) -> int:
    """The size of a delta, as a word, if the tuple in `slot` is the newest."""
    return policy.size if policy.sized < 0 else words[slot, policy.sized]


@inlined
def exceeds(policy: KernelPolicy, new: int, reference: int, size: int) -> bool:
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
