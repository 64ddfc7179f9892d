"""Which sizes of windows may change without emptying the windows."""

from __future__ import annotations

from sluice.model.spec import Aggregate, Join, Operator, Sort, Window
from sluice.model.windows.policies.policy import Resizing


def resizing(operator: Operator, part: str, before: object, now: object) -> Resizing:
    """How a part of an operator has changed (`operator_data.parts_of`): sliding windows that differ in nothing but the
    count or the time after which they evict.

    A Sort emits the tuples that it evicts, one with each arrival, and so does not become smaller. A window of a Join
    that evicts by count does not become smaller, because it evicts one tuple with each arrival.
    """
    named = isinstance(operator, Aggregate | Sort) and part == "window"
    of_side = isinstance(operator, Join) and part in ("window_left", "window_right")
    if not (named or of_side) or not isinstance(before, Window):
        return Resizing.NONE
    return before.resized(now, one_by_one=not isinstance(operator, Aggregate))


def counts_tuples(operator: Operator) -> bool:
    """Whether it is an Aggregate over a sliding window that evicts by count: its tables depend on the count."""
    evict = operator.window.roles.evict if isinstance(operator, Aggregate) else None
    return evict is not None and evict.tuples is not None
