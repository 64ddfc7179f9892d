"""Which sizes of windows may change without emptying the windows."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from sluice.model.spec import Aggregate, Count, Join, Operator, Sliding, Sort, Time


class Resizing(Enum):
    """How the size of a window has changed. NONE: its tuples cannot be moved to the changed window."""

    SMALLER = "smaller"
    LARGER = "larger"
    NONE = "none"


def resizing(operator: Operator, part: str, before: object, now: object) -> Resizing:
    """How a part of an operator has changed (`operator_data.parts_of`): sliding windows that differ in nothing but the
    count or the time after which they evict.

    A Sort emits the tuples that it evicts, one with each arrival, and so does not become smaller. A window of a Join
    that evicts by count does not become smaller, because it evicts one tuple with each arrival.
    """
    named = isinstance(operator, Aggregate | Sort) and part == "window"
    of_side = isinstance(operator, Join) and part in ("window_left", "window_right")
    if not (named or of_side) or not (isinstance(before, Sliding) and isinstance(now, Sliding)):
        return Resizing.NONE
    if replace(before, eviction=now.eviction) != now:
        return Resizing.NONE
    match before.eviction, now.eviction:
        case Count(old), Count(new) if 0 < old < new:
            return Resizing.LARGER
        case Count(old), Count(new) if 0 < new < old and isinstance(operator, Aggregate):
            return Resizing.SMALLER
        case Time(old), Time(new):
            return Resizing.LARGER if old < new else Resizing.SMALLER
    return Resizing.NONE


def counts_tuples(operator: Operator) -> bool:
    """Whether it is an Aggregate over a sliding window that evicts by count: its tables depend on the count."""
    return (
        isinstance(operator, Aggregate)
        and isinstance(operator.window, Sliding)
        and isinstance(operator.window.eviction, Count)
    )
