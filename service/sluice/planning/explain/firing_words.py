"""Describes in words when a window fires, and how long a tuple waits for the firing."""

from __future__ import annotations

from sluice.model.spec import Aggregate, Count, Custom, Join, Map, Operator, Pipeline, Sliding, Sort
from sluice.model.windows.window_kind import WITHIN_BATCH


def firing(operator: Operator, pipeline: Pipeline) -> tuple[str, str]:
    """When the operator emits outputs, and how long a tuple waits until then, as two texts."""
    match operator:
        case Map():
            return "with each tuple", WITHIN_BATCH
        case Join():
            return "with each tuple that finds partners in the other window", WITHIN_BATCH + _outer(operator)
        case Sort(window=Sliding(eviction=Count(size))):
            return (
                f"with each tuple after the first {size:,}: the first stored tuple in the order is emitted",
                f"{size:,} tuples long",
            )
        case Aggregate() | Sort() | Custom():
            event_time = pipeline.streams[operator.input].event_time
            incomplete = isinstance(operator, Custom) or getattr(operator, "aggregate_incomplete_windows", False)
            return operator.window.fires(event_time.lag if event_time else None, incomplete=incomplete)
    raise AssertionError(operator)


def _outer(join: Join) -> str:
    sides = [side for side in (join.left, join.right) if side.outer]
    return "; a tuple without a partner: when it leaves its window" if sides else ""
