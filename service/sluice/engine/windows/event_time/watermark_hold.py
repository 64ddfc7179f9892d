"""The watermark hold: the watermark that an operator passes on for each one that it gets (Q7).

None of an operator's outputs is older than a watermark that the operator has passed on before. So an operator that
emits tuples later than they came passes on the earliest event time that may still come out. That is a function of the
watermark alone, not of the tuples that are stored: it is the same however keys are spread over buckets and however the
input is cut into batches, and it never decreases.

    operator                                          passes on, for the watermark w
    sort, or a class of a user, over timeInterval     the start of the first pane that is not closed at w; at most w
    a class of a user over slidingTime                w - timeDifference - grace
    dedup with `keep: last` over event time           w - within
    interval and as-of join                           w - grace - the longer side of the interval (I7, U6)
    any other                                         w

The maximum watermark is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sluice.engine.stream.event_times import units
from sluice.engine.stream.items import MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.windows.event_time.calendar_ticks import ticks_of
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.invariants import violated
from sluice.model.lateness.late_results import Lateness, lateness
from sluice.model.spec import Custom, Dedup, Join, Operator, Pipeline, Sort, Stream

#: watermarks in nanoseconds since 1970 -> the watermarks that are passed on for them
Hold = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class HeldStream:
    """The watermarks of a stream that `operator` writes.

    inputs    the inputs of the operator that have an event time
    hold      None: each watermark is passed on as it is
    promises  whether no tuple of the stream is older than the watermark before it
    """

    operator: str
    stream: Stream
    inputs: tuple[str, ...]
    hold: Hold | None
    promises: bool

    def held(self, items: Items) -> Items:
        """The items with the watermarks that the operator passes on."""
        marks = items.kind == WATERMARK
        if self.hold is None or not marks.any():
            return items
        return replace(items, watermark=np.where(marks, _passed_on(self.hold, items.watermark), items.watermark))

    def check(self, items: Items, reached: Mapping[str, int]) -> None:
        """Q7: raises InvariantError if a tuple is older than the watermark before it, which is a defect of the engine.

        `reached` has the watermark of each stream before the batch, in nanoseconds; a stream without one is missing.
        """
        if not self.promises or not len(items.tuples):
            return
        event_time = self.stream.event_time
        assert event_time is not None  # noqa: S101 - `promises`
        before = min((reached.get(name, NEVER) for name in self.inputs), default=NEVER)
        passed = np.where(items.kind == WATERMARK, items.watermark, NEVER)
        passed = np.maximum(np.maximum.accumulate(passed), _passed_on(self.hold, np.array([before]))[0])
        limit = passed[items.kind == TUPLE]
        times, bad = units(items.tuples.column(event_time.attribute), dict(self.stream.schema)[event_time.attribute])
        most = MAX_TIME // event_time.tick
        behind = np.clip(times, -most, most) * event_time.tick < limit
        if bad is not None:
            behind &= ~bad
        if behind.any():
            first = int(np.flatnonzero(behind)[0])
            time = f"{event_time.attribute} ({int(times[first]) * event_time.tick} ns)"
            watermark = f"the watermark that it has passed on ({int(limit[first])} ns)"
            msg = f"{self.operator} emits a tuple to {self.stream.name} whose {time} is before {watermark}"
            raise violated("no output is late", msg)


def held_streams(pipeline: Pipeline) -> dict[str, HeldStream]:
    """By stream that an operator writes."""
    late_by_stream, streams = lateness(pipeline), pipeline.streams
    return {
        output.stream: HeldStream(
            operator.name, streams[output.stream],
            tuple(name for name in operator.inputs if streams[name].event_time is not None), _hold(operator, streams),
            _promises(operator, streams[output.stream], late_by_stream.get(output.stream)),
        )
        for operator in pipeline.operators
        for output in operator.outputs
    }  # fmt: skip


def _passed_on(hold: Hold | None, watermarks: np.ndarray) -> np.ndarray:
    """The maximum watermark stays, and so does NEVER, which stands for no watermark."""
    if hold is None:
        return watermarks
    moved = np.minimum(hold(watermarks), watermarks)
    return np.where((watermarks == MAX_TIME) | (watermarks == NEVER), watermarks, moved)


# ---- how far ---------------------------------------------------------------------------------------------------------


def _hold(operator: Operator, streams: Mapping[str, Stream]) -> Hold | None:
    """How the operator holds its watermark back (Q8, Z7, I7, U6); None if it does not."""
    if isinstance(operator, Sort | Custom) and operator.window.paned:
        return _first_open_pane(operator, streams[operator.input])
    return _earlier(operator.holds) if operator.holds else None


def _earlier(by: int) -> Hold:
    """The watermark less this many nanoseconds, above NEVER."""
    return lambda watermarks: np.maximum(watermarks, NEVER + 1 + by) - by


def _first_open_pane(operator: Sort | Custom, stream: Stream) -> Hold:
    """The start of the first pane that is not closed (Q8, E28): all later outputs are of this pane or of later ones."""
    window, event_time = operator.window, stream.event_time
    assert window.panes is not None  # noqa: S101 - the caller has checked
    assert event_time is not None  # noqa: S101 - the window needs an event time
    ticks = ticks_of(event_time, dict(stream.schema)[event_time.attribute], window)
    duration, period, _, offset = ticks.sizes(window)
    distance = window.panes.apart(duration, period)

    def hold(watermarks: np.ndarray) -> np.ndarray:
        now = ticks.of_watermarks(watermarks)
        closed = ticks.late_before(now) - offset
        behind = (closed - duration) // distance + 1  # the number of the pane, from the offset on
        starts = np.where(ticks.are_last(now), 0, offset + behind * distance)
        return np.where(ticks.are_last(now), watermarks, ticks.to_units(starts) * event_time.tick)

    return hold


# ---- what is promised ------------------------------------------------------------------------------------------------


def _promises(operator: Operator, stream: Stream, late: Lateness | None) -> bool:
    """Whether no tuple of an output is older than the watermarks before it: the operator rejects late tuples, and the
    event time of the output is behind the watermark in no case. A stream with `lag` makes its own watermarks (E3).
    """
    event_time = stream.event_time
    if event_time is None or event_time.lag is not None or late is None or late.behind > 0:
        return False
    return isinstance(operator, Sort | Dedup | Join) and operator.accepts is not None
