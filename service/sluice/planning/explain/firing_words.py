"""When a window fires, and how long a tuple waits for it, in words."""

from __future__ import annotations

from sluice.model.spec import (
    Aggregate,
    Count,
    Custom,
    Delta,
    EventTime,
    Join,
    Map,
    Operator,
    Pipeline,
    Punct,
    Sliding,
    SlidingTime,
    Sort,
    Time,
    TimeInterval,
    Tumbling,
    Window,
    Windowed,
)
from sluice.model.unparse import expression as text_of
from sluice.model.unparse import seconds
from sluice.time_units import SECOND

AT_ONCE = "nothing waits: it comes out with the batch that read the tuple"


def firing(operator: Operator, pipeline: Pipeline) -> tuple[str, str]:
    """When the operator makes something, and what a tuple waits for until then."""
    match operator:
        case Map():
            return "with each tuple", AT_ONCE
        case Join():
            return "with each tuple that finds partners in the other window", AT_ONCE + _outer(operator)
        case Sort(window=Sliding(eviction=Count(size))):
            return f"with each tuple after the first {size:,}: the least of them leaves", f"{size:,} tuples long"
        case Aggregate() | Sort() | Custom():
            return _of_window(operator, operator.window, pipeline.streams[operator.input].event_time)
    raise AssertionError(operator)


def _outer(join: Join) -> str:
    sides = [side for side in (join.left, join.right) if side.outer]
    return "; a tuple that never meets any, as it leaves its window" if sides else ""


def _of_window(operator: Windowed, window: Window, event_time: EventTime | None) -> tuple[str, str]:
    match window:
        case Tumbling():
            return _tumbling(window.eviction)
        case Sliding():
            return _sliding(window.trigger), _until_full(operator, window)
        case TimeInterval():
            return _panes(window), _behind(event_time, f"up to {seconds(window.duration)} s, the length of its pane")
        case SlidingTime():
            return _sliding_time(window)


def _tumbling(eviction: Count | Time | Delta | Punct) -> tuple[str, str]:
    match eviction:
        case Count():
            return f"with each {eviction.size:,} tuples", f"for up to {max(0, eviction.size - 1):,} more tuples"
        case Time():
            return _every(eviction), f"up to {seconds(eviction.nanoseconds)} s"
        case Delta():
            return f"with the first tuple beyond {_delta(eviction)}", "until a tuple is so far away"
        case Punct():
            return "with each window mark", "until a mark comes"


def _sliding(trigger: Count | Time | Delta | Punct) -> str:
    match trigger:
        case Count(1):
            return "with each tuple"
        case Count():
            return f"with every {trigger.size:,}th tuple"
        case Time():
            return _every(trigger)
        case Delta():
            return f"with each tuple beyond {_delta(trigger)} since the last firing"
    raise AssertionError(trigger)


def _every(timer: Time) -> str:
    length = seconds(timer.nanoseconds)
    if timer.aligned is None:
        return f"every {length} s of the clock"
    hours, rest = divmod(timer.aligned.at // SECOND, 3600)
    return (
        f"every {length} s by the wall clock of {timer.aligned.zone}, as at {hours:02}:{rest // 60:02}:{rest % 60:02}"
    )


def _until_full(operator: Windowed, window: Sliding) -> str:
    wait = {Count: "for the next firing", Time: f"up to {_period(window)} s", Delta: "for the next firing"}
    words = AT_ONCE if window.trigger == Count(1) else wait[type(window.trigger)]
    speaks = isinstance(operator, Custom) or getattr(operator, "aggregate_incomplete_windows", False)
    waits = not isinstance(window.eviction, Time) and not speaks
    return words + ("; nothing comes before the window was full once" if waits else "")


def _period(window: Sliding) -> str:
    return seconds(window.trigger.nanoseconds) if isinstance(window.trigger, Time) else ""


def _delta(policy: Delta) -> str:
    size = policy.size
    return f"{policy.attribute} + {size if isinstance(size, int | float) else text_of(size)}"


def _panes(window: TimeInterval) -> str:
    late = f", and again for late tuples until {seconds(window.discard_age)} s later" if window.discard_age else ""
    return f"as the watermark reaches the end of a pane{late}; panes start every {seconds(window.period)} s"


def _sliding_time(window: SlidingTime) -> tuple[str, str]:
    if window.emit == "updates":
        return "with each tuple, for each window that it changes", AT_ONCE
    return (
        f"as the stream time passes the end of a window by {seconds(window.grace)} s",
        f"up to {seconds(window.difference)} s, the length of a window, and the grace of {seconds(window.grace)} s",
    )


def _behind(event_time: EventTime | None, wait: str) -> str:
    if event_time is None or event_time.lag is None:
        return f"{wait}, and for the watermark that comes with the stream"
    return f"{wait}, and {seconds(event_time.lag)} s, by which watermarks lag"
