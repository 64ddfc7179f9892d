"""Describes in words when a window fires, and how long a tuple waits for the firing."""

from __future__ import annotations

from sluice.model.spec import (  # fmt: skip
    Aggregate,
    Custom,
    Dedup,
    EventTime,
    InWords,
    Join,
    Map,
    Operator,
    Pipeline,
    Sort,
    Stream,
    Union,
    Window,
    Windowed,
)
from sluice.model.topology import follows_clock
from sluice.model.unparse import seconds
from sluice.model.windows.empty_panes import MOST
from sluice.model.windows.policies.policy import WITHIN_BATCH
from sluice.model.windows.window_kind import with_watermarks

DEAD = "a dead letter"


def firing(operator: Operator, pipeline: Pipeline) -> tuple[str, str]:
    """When the operator emits outputs, and how long a tuple waits until then, as two texts."""
    match operator:
        case InWords():
            return operator.fires
        case Map() | Union():
            return "with each tuple", WITHIN_BATCH
        case Dedup():
            return _dedup(operator, pipeline.streams[operator.input].event_time)
        case Join(window=window) if window is not None:
            lags = [
                times.lag
                for times in (pipeline.streams[name].event_time for name in operator.inputs)
                if times is not None
            ]
            set_lags = [lag for lag in lags if lag is not None]
            lag = max(set_lags) if len(set_lags) == len(lags) else None
            return window.fires(lag, incomplete=operator.left.outer or operator.right.outer)
        case Join():
            return _join_by_arrival(operator)
        case Aggregate() | Sort() | Custom():
            return _of_windows(operator, pipeline)
    raise AssertionError(operator)


def _of_windows(operator: Windowed, pipeline: Pipeline) -> tuple[str, str]:
    if isinstance(operator, Sort) and operator.window.sliding:
        size = operator.window.tuples_when_full or 0
        return (
            f"with each tuple after the first {size:,}: the first stored tuple in the order is emitted",
            f"{size:,} tuples long",
        )
    event_time = pipeline.streams[operator.input].event_time
    incomplete = isinstance(operator, Custom) or getattr(operator, "aggregate_incomplete_windows", False)
    fires, waits = operator.window.fires(_lag(event_time), incomplete=incomplete)
    more = (_limited(operator), _early(operator), _empty(operator), _of_key(event_time))
    return "".join((fires, *more)), waits + _quiet(operator, pipeline)


def lateness(operator: Operator, pipeline: Pipeline) -> str:
    """From which age on a tuple is late or can be late (E18, G7, I4, U4, Z4); empty where no tuple is late."""
    if operator.accepts is None:
        return ""
    window: Window | None = getattr(operator, "window", None)
    ages = dict.fromkeys(_age(pipeline.streams[name], operator.accepts, window) for name in operator.inputs)
    verb, unless = ("can be", f", {window.late_if}") if window is not None and window.late_if else ("is", "")
    return f"a tuple more than {' and '.join(ages)} {verb} late: {DEAD}{unless}"


def _age(stream: Stream, accepted: int, window: Window | None) -> str:
    lag, of_key = _lag(stream.event_time), " of its key" if stream.event_time and stream.event_time.per_key else ""
    if window is not None and window.timed_by_topic_partition:
        lag = 0
    if lag is None:
        return f"{seconds(accepted)} s before the watermark of {stream.name}"
    return f"{seconds(lag + accepted)} s before the newest one{of_key} of {stream.name}"


def _join_by_arrival(join: Join) -> tuple[str, str]:
    if not join.table:
        return "with each tuple that finds partners in the other window", WITHIN_BATCH + _outer(join)
    trigger = "with each tuple of" if join.left.outer else "with each tuple that finds a row, of"
    return f"{trigger} {join.left.stream}", WITHIN_BATCH


def _dedup(operator: Dedup, event_time: EventTime | None) -> tuple[str, str]:
    if operator.keep == "first":
        renewed = ", which a duplicate begins anew" if operator.reset_on_duplicate else ""
        flushed = "; a window mark forgets all keys" if operator.flush_on_mark else ""
        return f"with the first tuple of each key and period{renewed}{flushed}", WITHIN_BATCH
    waits, fires = f"{seconds(operator.within)} s", "with the last tuple of each key and period, when that is over"
    if operator.over == "clock" or event_time is None:
        return fires, waits
    return fires, with_watermarks(waits, event_time.lag)


def _limited(operator: Operator) -> str:
    if not isinstance(operator, Sort) or operator.limit is None:
        return ""
    ties = ", and those equal to the last of them" if operator.with_ties else ""
    return f"; the first {operator.limit:,} tuples in the order come out{ties}"


def _early(operator: Operator) -> str:
    """When an open window emits early results."""
    policy = operator.early if isinstance(operator, Aggregate) else None
    if policy is None:
        return ""
    count = [f"after every {policy.count:,} tuples" if policy.count != 1 else "with each tuple"] if policy.count else []
    time = [f"{seconds(policy.time)} s after a tuple that no result has had"] if policy.time else []
    return f"; early results without a mark {' or '.join(count + time)}"


def _lag(event_time: EventTime | None) -> int | None:
    """How far watermarks, of the stream or of a key, are behind the newest tuple; None if they come with the stream."""
    if event_time is None:
        return None
    return event_time.lag if event_time.per_key is None else event_time.per_key.lag


def _of_key(event_time: EventTime | None) -> str:
    """When the windows of a key close, and when it is forgotten (KT1 to KT4)."""
    if event_time is None or event_time.per_key is None:
        return ""
    idle = event_time.per_key.idle_after
    closes = f", or as the key has no tuple for {seconds(idle)} s" if idle else ""
    forgotten = seconds(event_time.per_key.forget_after)
    return (
        f"; each key has a watermark of its own, by its tuples{closes}; forgotten after {forgotten} s without a tuple"
    )


def _empty(operator: Operator) -> str:
    """Which empty panes come out, and how many at most (EP2, EP6)."""
    empty = operator.empty_panes if isinstance(operator, Aggregate) else None
    if empty is None:
        return ""
    lives = f"until {seconds(empty.forget_after)} s behind its latest pane with tuples"
    return f"; also for panes without tuples of each key, {lives}, at most {MOST:,} in a row at one watermark"


def _quiet(operator: Windowed, pipeline: Pipeline) -> str:
    """How windows over the event time of a stream behave while the stream has no tuples."""
    if operator.window.policies or not follows_clock(pipeline, operator.input):
        return ""
    event_time = pipeline.streams[operator.input].event_time
    silent = event_time is not None and event_time.idle_after
    when = f"no tuple comes for {seconds(silent)} s" if silent else "the inputs are quiet"
    return f"; where {when}, watermarks follow the clock"


def _outer(join: Join) -> str:
    sides = [side for side in (join.left, join.right) if side.outer]
    return "; a tuple without a partner: when it leaves its window" if sides else ""
