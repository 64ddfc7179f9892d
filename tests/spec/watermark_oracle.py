"""The watermark that an operator passes on (Q7), by another way than the engine: slow and obvious. And the check that
each operator does so, and that no output is older than it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.engine.graph import Graph
from sluice.engine.stream.event_times import units
from sluice.engine.stream.items import MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.model.expressions import Attribute
from sluice.model.spec import Custom, Dedup, Join, Operator, SlidingTime, Sort, Stream, TimeInterval
from sluice.model.windows.join_windows import AsOf

#: larger batches are not checked tuple by tuple
FEW = 2_000


def passed_on(operator: Operator, stream: Stream, watermark: int) -> int | None:
    """The watermark that is passed on for this one, both in nanoseconds; None for panes of the calendar, whose cases
    are in tests/unit/engine/windows/event_time/test_watermark_hold.py.
    """
    if watermark in (NEVER, MAX_TIME):
        return watermark
    match operator:
        case Sort(window=TimeInterval() as window) | Custom(window=TimeInterval() as window):
            assert stream.event_time is not None
            return None if window.calendar else min(watermark, first_open(window, stream.event_time.tick, watermark))
        case Custom(window=SlidingTime() as window):
            return watermark - window.difference - window.grace
        case Dedup(keep="last", over="event_time"):
            return watermark - operator.within
        case Join(window=window) if window is not None:
            older = 0 if isinstance(window, AsOf) else max(window.before, window.after, 0)  # type: ignore[attr-defined]
            return watermark - window.grace - older
    return watermark


def first_open(window: TimeInterval, tick: int, watermark: int) -> int:
    """The start of the first pane whose end plus discardAge is after the watermark: goes through the panes. Of panes
    that begin together, the longest counts (CU1).
    """
    reached, apart = watermark // tick * tick, window.duration if window.cumulating else window.period
    start = window.offset + (reached - window.offset) // apart * apart
    while start + window.duration + window.discard_age > reached:
        start -= apart
    return start + apart


def watermarks(state: Any) -> dict[str, int]:
    return {name: progress.watermark for name, progress in state.progress.items()}


def check(graph: Graph, before: dict[str, int], after: dict[str, int], made: dict[str, Items]) -> None:
    """After a batch: each operator has passed on what it should, and no output is older than that."""
    for running in graph.operators:
        operator = running.spec
        timed = [graph.pipeline.streams[name] for name in operator.inputs]
        timed = [stream for stream in timed if stream.event_time is not None]
        for output in operator.outputs:
            stream = graph.pipeline.streams[output.stream]
            if stream.event_time is None or stream.event_time.lag is not None or not timed:
                continue
            reached, earlier = (min(of.get(one.name, NEVER) for one in timed) for of in (after, before))
            expected = passed_on(operator, timed[0], reached)
            old, new = before.get(stream.name, NEVER), after.get(stream.name, NEVER)
            if expected is not None and (new != old or reached > earlier):
                assert new in (MAX_TIME, max(old, expected)), f"{operator.name} passes on {new}"
            if promised(operator, stream, output) and stream.name in made and len(made[stream.name]) < FEW:
                check_order(made[stream.name], stream, old)


def promised(operator: Operator, stream: Stream, output: Any) -> bool:
    """Whether the outputs have event times of tuples that the operator has accepted as not late."""
    match operator:
        case Sort(window=TimeInterval()) | Dedup(over="event_time"):
            return True
        case Join(window=window) if window is not None and stream.event_time is not None:
            e = dict(output.attributes)[stream.event_time.attribute]
            sides = ("left",) if isinstance(window, AsOf) else ("left", "right")
            alone = [side for side in (operator.left, operator.right) if side.outer and side.unmatched is None]
            return isinstance(e, Attribute) and e.port in sides and not alone
    return False


def check_order(items: Items, stream: Stream, before: int) -> None:
    of = stream.event_time
    assert of is not None
    found, bad = units(items.tuples.column(of.attribute), dict(stream.schema)[of.attribute])
    times = iter(zip(found.tolist(), [False] * len(found) if bad is None else bad.tolist(), strict=True))
    watermark = before
    for kind, own in zip(items.kind.tolist(), np.asarray(items.watermark).tolist(), strict=True):
        if kind == WATERMARK:
            watermark = own
        elif kind == TUPLE:
            time, wrong = next(times)
            assert wrong or time * of.tick >= watermark, f"{time * of.tick} is older than {watermark}"
