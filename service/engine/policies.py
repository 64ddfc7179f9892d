"""Window clauses as the numbers that the kernels read: one shape for every policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.engine.bits import as_real
from service.engine.kernel import inlined
from service.pipeline.spec import Count, Delta, EventWindow, Punct, Sliding, Time, Tumbling, Window, policies

COUNT, TIME, DELTA, PUNCT, NONE = range(5)


class Policy(NamedTuple):
    """An eviction or trigger policy: `kind`, and its size in tuples, nanoseconds or units of the attribute.

    A delta over float64 has its size in `real`; `column` is where a delta finds its attribute among the row's words.
    """

    kind: int
    size: int
    real: float = 0.0
    floating: bool = False
    column: int = 0


class Clause(NamedTuple):
    """A window clause."""

    sliding: bool
    partitioned: bool
    eviction: Policy
    trigger: Policy
    #: whether a trigger counts before the window was full once (S17)
    incomplete: bool
    #: nanoseconds from tick to tick, 0 without one
    period: int


def clause(window: Window, columns: dict[str, int], *, incomplete: bool) -> Clause:
    """The clause of a window; `columns` says in which column of the rows an attribute of a delta is.

    A window over event time has no policies; what it is stands elsewhere (eventtime/).
    """
    if isinstance(window, EventWindow):
        return Clause(False, False, Policy(NONE, 0), Policy(NONE, 0), incomplete, 0)  # noqa: FBT003
    if isinstance(window, Tumbling):
        eviction, trigger = policy(window.eviction, columns), Policy(NONE, 0)
        ticking = window.eviction
    else:
        eviction, trigger = policy(window.eviction, columns), policy(window.trigger, columns)
        ticking = window.trigger
    period = ticking.nanoseconds if isinstance(ticking, Time) else 0
    return Clause(isinstance(window, Sliding), window.partitioned, eviction, trigger, incomplete, period)


def policy(of: Count | Time | Delta | Punct, columns: dict[str, int]) -> Policy:
    match of:
        case Count(size):
            return Policy(COUNT, size)
        case Time(nanoseconds):
            return Policy(TIME, nanoseconds)
        case Delta(attribute, size) if isinstance(size, float):
            return Policy(DELTA, 0, size, floating=True, column=columns[attribute])
        case Delta(attribute, size):
            return Policy(DELTA, int(size), column=columns[attribute])
        case Punct():
            return Policy(PUNCT, 0)


def deltas(window: Window) -> list[str]:
    """The attributes that the window's delta policies read."""
    return [part.attribute for part in policies(window) if isinstance(part, Delta)]


@inlined
def exceeds(policy: Policy, new: int, reference: int) -> bool:
    """Whether the word `new` lies strictly more than the delta's size above `reference` (T11 to T15, S8, S11).

    NaN never exceeds and is never exceeded.
    """
    if policy.floating:
        return as_real(new) >= as_real(reference) and as_real(new) - as_real(reference) > policy.real
    return new > reference and bool(np.uint64(new) - np.uint64(reference) > np.uint64(policy.size))
