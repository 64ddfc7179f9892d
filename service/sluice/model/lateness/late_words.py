"""Results that come behind the watermark and are late for a reader, in words, with what to write instead (E40)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.model.expressions import AggregateCall, Expression
from sluice.model.lateness.emissions import own_tuples
from sluice.model.lateness.late_results import Lateness, lateness
from sluice.model.lateness.time_bounds import Bound
from sluice.model.spec import (  # fmt: skip
    Aggregate,
    Custom,
    Dedup,
    Join,
    Map,
    Operator,
    Pipeline,
    SlidingTime,
    Sort,
    Stream,
    TimeInterval,
    Union,
    Windowed,
)
from sluice.model.topology import follows_clock
from sluice.model.types import INT64
from sluice.model.unparse import expression, number, seconds
from sluice.model.windows.session_window import Session


@dataclass(frozen=True, slots=True)
class Finding:
    """An output whose event time is late, or wrong, for a reader.

    operator   the operator that writes the stream
    attribute  the event time of the stream; None if the operator names no expression for it
    """

    operator: Operator
    stream: str
    attribute: str
    text: str


def findings(pipeline: Pipeline) -> Iterator[Finding]:
    """One for each output that is late for one reader or several."""
    known = lateness(pipeline)
    late: dict[tuple[str, str], list[tuple[Lateness, str]]] = defaultdict(list)
    for reader, stream, accepted in _readers(pipeline):
        found = known.get(stream)
        if found is not None and found.behind > accepted and found.operator is not None:
            late[found.operator.name, found.stream].append((found, reader))
    for of in late.values():
        found = max((one for one, _ in of), key=lambda one: one.behind)
        yield _finding(pipeline, found, list(dict.fromkeys(reader for _, reader in of)))
    yield from _in_the_next_pane(pipeline, set(late))


# ---- readers ---------------------------------------------------------------------------------------------------------


def _readers(pipeline: Pipeline) -> Iterator[tuple[str, str, int]]:
    """Each reader that compares event times of a stream with its watermark, the stream, and by how many nanoseconds a
    tuple may be behind.
    """
    for operator in pipeline.operators:
        for stream in dict.fromkeys(operator.inputs):
            accepted = _accepts(operator, stream, pipeline)
            if accepted is not None and pipeline.streams[stream].event_time is not None:
                yield operator.name, stream, accepted
    for output in pipeline.outputs:
        if output.watermarks and not output.exchange and output.event_time is not None:
            yield f"the readers of topic {output.topic}", output.name, 0


def _accepts(operator: Operator, stream: str, pipeline: Pipeline) -> int | None:
    """None if no tuple is late for the operator."""
    match operator:
        case Join(window=window) if window is not None:
            return window.grace
        case Dedup(over="event_time"):
            return 0
        case Aggregate() | Sort() | Custom():
            return _accepted(operator, stream, pipeline)
    return None


def _accepted(operator: Windowed, stream: str, pipeline: Pipeline) -> int | None:
    match operator.window:
        case TimeInterval(discard_age=age):
            return age
        case Session(clock=False, gap=gap, grace=grace):
            return grace + (gap if isinstance(gap, int) else 0)
        case SlidingTime(grace=grace) if follows_clock(pipeline, stream):
            return grace
    return None


# ---- texts -----------------------------------------------------------------------------------------------------------


def _finding(pipeline: Pipeline, found: Lateness, readers: list[str]) -> Finding:
    operator = found.operator
    assert operator is not None  # noqa: S101 - the caller has checked
    if isinstance(operator, Union):
        return _of_union(pipeline, operator, found.stream, readers)
    stream = pipeline.streams[found.stream]
    of = stream.event_time
    assert of is not None  # noqa: S101 - it has a lateness
    how_far = "" if math.isinf(found.behind) else f"up to {seconds(_whole(found.behind))} s "
    which = _name(operator, found.expression, of.attribute)
    text = f"{which} is {how_far}behind the watermark {_when(operator, found)}, so the result is late for {_all(readers)}"
    advice = "; or ".join(_advice(pipeline, operator, found, stream))
    return Finding(operator, found.stream, of.attribute, f"{text}; {advice} (E40)")


def _of_union(pipeline: Pipeline, union: Union, untimed: str, readers: list[str]) -> Finding:
    """A stream without event time among several."""
    of = pipeline.streams[union.name].event_time
    assert of is not None  # noqa: S101 - it has a lateness
    text = (
        f"{untimed} has no event_time, so its tuples do not hold the watermark back and may be late for {_all(readers)}; "
        f"give it `event_time: {{attribute: {of.attribute}, lag: ...}}` like the other streams (R3, E40)"
    )
    return Finding(union, untimed, of.attribute, text)


def _all(readers: list[str]) -> str:
    *before, last = readers
    return f"{', '.join(before)} and {last}" if before else last


def _name(operator: Operator, e: Expression | None, attribute: str) -> str:
    return attribute if e is None or isinstance(operator, Sort | Dedup) else expression(e)


def _when(operator: Operator, found: Lateness) -> str:
    if found.stale:
        return f"as {found.stale}"
    match operator:
        case Aggregate(window=TimeInterval(discard_age=0)):
            return "when the pane fires"
        case Aggregate(window=TimeInterval()):
            return "when the pane fires, or fires again for late tuples"
        case Aggregate(window=Session()):
            return "when the session is over"
        case Aggregate():
            return "when the window fires"
    return "when it comes out"


def _advice(pipeline: Pipeline, operator: Operator, found: Lateness, stream: Stream) -> Iterator[str]:
    """What is right: another expression, or a lag."""
    match operator:
        case Aggregate(window=TimeInterval() as window):
            yield from _of_panes(window, found, stream)
        case Aggregate(window=Session() as window):
            longest = window.gap + window.grace if isinstance(window.gap, int) else None
            more = "the longest gap and the grace" if longest is None else _units(longest, stream)
            yield f"`{_attribute(stream)}: sessionEnd() {'plus' if longest is None else '+'} {more}` is not (G6)"
        case Aggregate(window=SlidingTime() as window):
            if (own := own_tuples(pipeline, operator.input)) is not None:
                needed = window.grace - (0 if own.advances else own.lag)
                yield f"`{_attribute(stream)}: intervalEnd() + {_units(needed, stream)}` is not"
        case Map():
            yield f"keep {_attribute(stream)} as it is, and write the other time to an attribute of its own"
    yield from _lags(pipeline, operator, found, stream)


def _of_panes(window: TimeInterval, found: Lateness, stream: Stream) -> Iterator[str]:
    again = f", and `discardAge({number(window.discard_age)})` in what reads {stream.name}" * bool(window.discard_age)
    last = isinstance(found.expression, AggregateCall) and found.expression.function == "intervalLast"
    yield f"`{_attribute(stream)}: intervalLast()`{again} is not" if not last else again.removeprefix(", and ") + " is right"


def _lags(pipeline: Pipeline, operator: Operator, found: Lateness, stream: Stream) -> Iterator[str]:
    """A lag of the output, where the event times of the outputs say one, or the clock does."""
    lag, word = found.lag, ""
    own = max((own.lag for name in operator.inputs if (own := own_tuples(pipeline, name))), default=0)
    if math.isinf(lag) and isinstance(operator, Windowed) and operator.window.timer is not None:
        lag, word = operator.window.timer.nanoseconds + own, " or more"
    if math.isinf(lag) and isinstance(operator, Dedup):
        lag, word = operator.within + own, " or more"
    if not math.isinf(lag):
        yield f"write `event_time: {{attribute: {_attribute(stream)}, lag: {seconds(_whole(lag))}s}}`{word} for {stream.name}"
    elif not isinstance(operator, Aggregate) or operator.window.policies:
        yield (
            f"write `event_time: {{attribute: {_attribute(stream)}, lag: ...}}` for {stream.name}, with the longest time for "
            "which a tuple is held"
        )


def _attribute(stream: Stream) -> str:
    assert stream.event_time is not None  # noqa: S101 - it has a lateness
    return stream.event_time.attribute


def _units(nanoseconds: Bound, stream: Stream) -> str:
    """A length of time in the unit of the event time, as expressions have it."""
    assert stream.event_time is not None  # noqa: S101 - it has a lateness
    whole = dict(stream.schema)[_attribute(stream)] == INT64
    return str(_whole(nanoseconds) // stream.event_time.tick) if whole else number(_whole(nanoseconds))


def _whole(nanoseconds: Bound) -> int:
    return math.ceil(nanoseconds)


# ---- in the next pane ------------------------------------------------------------------------------------------------


def _in_the_next_pane(pipeline: Pipeline, late: set[tuple[str, str]]) -> Iterator[Finding]:
    """Results that have the end of their pane as event time, which is not late but may be in the next pane (E39)."""
    for operator in pipeline.operators:
        if not isinstance(operator, Aggregate) or not isinstance(operator.window, TimeInterval):
            continue
        for output in operator.outputs:
            of = pipeline.streams[output.stream].event_time
            e = dict(output.attributes).get(of.attribute) if of is not None else None
            at_end = isinstance(e, AggregateCall) and e.function == "intervalEnd"
            if of is not None and at_end and (operator.name, output.stream) not in late and _in_panes(pipeline, output.stream):
                text = (
                    f"intervalEnd may be in the next pane, where a window reads {output.stream}; intervalLast() is right (E39)"
                )
                yield Finding(operator, output.stream, of.attribute, text)


def _in_panes(pipeline: Pipeline, stream: str) -> bool:
    """Whether a window over event time reads the stream, by itself or among others."""
    unions = (one.name for one in pipeline.operators if isinstance(one, Union) and stream in one.inputs)
    names = {stream, *unions}
    readers = (one for one in pipeline.operators if isinstance(one, Windowed) and one.input in names)
    return any(reader.window.needs_event_time or not reader.window.policies for reader in readers)
