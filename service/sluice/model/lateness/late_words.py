"""Results that come behind the watermark and are late for a reader, in words, with what to write instead (Q7)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.model.expressions import AggregateCall, Attribute, Call, Expression
from sluice.model.lateness.emissions import own_tuples
from sluice.model.lateness.late_results import Lateness, emitted, lateness
from sluice.model.lateness.time_bounds import Bound
from sluice.model.spec import Aggregate, Dedup, Join, Map, Operator, Output, Pipeline, Sort, Stream, Union, Windowed
from sluice.model.topology import follows_clock
from sluice.model.types import INT64, Type
from sluice.model.unparse import expression, number, seconds
from sluice.model.windows.session_window import MAX_GAP
from sluice.time_units import MILLISECOND

#: a lateness from here on follows from a gap that is an expression, whose values are not known (G4)
UNBOUNDED = MAX_GAP // 2


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
    """A finding for each output that is late for one reader or several (Q9)."""
    late_by_stream = lateness(pipeline)
    late: dict[tuple[str, str], list[tuple[Lateness, str]]] = defaultdict(list)
    for reader, stream, accepted in _readers(pipeline):
        worst = late_by_stream.get(stream)
        if worst is not None and worst.behind > accepted and worst.operator is not None:
            late[worst.operator.name, worst.stream].append((worst, reader))
    for pairs in late.values():
        worst = max((candidate for candidate, _ in pairs), key=lambda candidate: candidate.behind)
        yield _finding(pipeline, worst, list(dict.fromkeys(reader for _, reader in pairs)), late_by_stream)
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
    """None if no tuple is late for the operator. A stream time that follows the tuples alone is no watermark."""
    by_tuples = isinstance(operator, Windowed) and operator.window.timed_by_topic_partition
    return None if by_tuples and not follows_clock(pipeline, stream) else operator.accepts


# ---- texts -----------------------------------------------------------------------------------------------------------


def _finding(pipeline: Pipeline, late: Lateness, readers: list[str], late_by_stream: Mapping[str, Lateness]) -> Finding:
    operator = late.operator
    assert operator is not None  # noqa: S101 - the caller has checked
    if isinstance(operator, Union):
        return _of_union(pipeline, operator, late.stream, readers)
    stream = pipeline.streams[late.stream]
    how_far = "" if late.behind >= UNBOUNDED else f"up to {_seconds(late.behind)} s "
    time = _name(operator, late.expression, _attribute(stream))
    text = f"{time} is {how_far}behind the watermark {_when(operator, late)}, so the result is late for {_all(readers)}"
    instead = list(_instead(pipeline, operator, late, stream, late_by_stream))
    advice = "; or ".join([*instead, *_lags(pipeline, operator, late, stream, alone=not instead)])
    return Finding(operator, late.stream, _attribute(stream), f"{text}; {advice} (Q9)")


def _of_union(pipeline: Pipeline, union: Union, untimed: str, readers: list[str]) -> Finding:
    """A stream without event time among several."""
    attribute = _attribute(pipeline.streams[union.name])
    text = (
        f"{untimed} has no event_time, so its tuples do not hold the watermark back and may be late for "
        f"{_all(readers)}; write `event_time: {{attribute: {attribute}, lag: ...}}` for it, as for the others (R3, Q9)"
    )
    return Finding(union, untimed, attribute, text)


def _all(readers: list[str]) -> str:
    *before, last = readers
    return f"{', '.join(before)} and {last}" if before else last


def _name(operator: Operator, e: Expression | None, attribute: str) -> str:
    return attribute if e is None or isinstance(operator, Sort | Dedup) else expression(e)


def _when(operator: Operator, late: Lateness) -> str:
    if late.stale:
        return f"as {late.stale}"
    return operator.window.emitted if isinstance(operator, Aggregate) else "when it comes out"


# ---- what to write instead -------------------------------------------------------------------------------------------


def _instead(
    pipeline: Pipeline, operator: Operator, late: Lateness, stream: Stream, late_by_stream: Mapping[str, Lateness]
) -> Iterator[str]:
    """Another event time that is not late, or another operator."""
    match operator:
        case Aggregate(window=window) if text := window.late_instead(_attribute(stream), stream.name, late.expression):
            yield text
        case Aggregate() | Join():
            output = next(output for output in operator.outputs if output.stream == stream.name)
            right = next(_right(pipeline, operator, output, stream, late_by_stream), None)
            if right is not None:
                yield f"write `{_attribute(stream)}: {_quoted(right)}`"
        case Map() | Sort(accepts=int()):
            yield f"keep {_attribute(stream)} as it is, and write the other time to an attribute of its own"
        case Sort():
            yield "write `window: timeInterval, intervalDuration(...)`, which holds the watermark back"
        case Dedup(within=within):
            yield f"write `within: eventTime({seconds(within)})`, which holds the watermark back"


def _quoted(text: str) -> str:
    """An expression as it can stand in a file, also inside of {...}."""
    return f'"{text}"' if "," in text else text


def _right(
    pipeline: Pipeline,
    operator: Aggregate | Join,
    output: Output,
    stream: Stream,
    late_by_stream: Mapping[str, Lateness],
) -> Iterator[str]:
    """The expressions that are not late, the usual ones first."""
    event_time = stream.event_time
    assert event_time is not None  # noqa: S101 - it has a lateness
    for candidate in _candidates(pipeline, operator, dict(stream.schema)[event_time.attribute]):
        late = emitted(pipeline, operator, output, candidate, late_by_stream)
        if late is not None and late.behind <= 0:
            yield expression(candidate)
        elif late is not None and _can_be_moved(operator) and not math.isinf(late.behind):
            yield f"{expression(candidate)} + {_units(late.behind, stream)}"


def _can_be_moved(operator: Aggregate | Join) -> bool:
    return isinstance(operator, Aggregate) and operator.window.latest_can_be_moved


def _candidates(pipeline: Pipeline, operator: Aggregate | Join, type_: Type) -> Iterator[Expression]:
    """Event times of an output, of the type that it has."""
    if isinstance(operator, Join):
        sides = {"left": operator.left, "right": operator.right}
        timed = {port: pipeline.streams[side.stream].event_time for port, side in sides.items()}
        times = [
            Attribute(event_time.attribute, type_, port) for port, event_time in timed.items() if event_time is not None
        ]
        yield from times
        if len(times) == len(sides):
            yield Call("max", tuple(times), type_)
        return
    if operator.window.latest:
        yield AggregateCall(operator.window.latest, (), type_)
    event_time = pipeline.streams[operator.input].event_time
    for word in ("Last", "Max") if event_time is not None else ():
        yield AggregateCall(word, (Attribute(event_time.attribute, type_),), type_)  # type: ignore[union-attr]


def _lags(pipeline: Pipeline, operator: Operator, late: Lateness, stream: Stream, *, alone: bool) -> Iterator[str]:
    """A lag of the output, with which its own tuples make the watermark (E3). A lag without a limit is advised only if
    there is no other advice.
    """
    lag, more = late.lag, ""
    if math.isinf(lag):
        lag, more = _held_by_clock(operator) + _newest(pipeline, operator), " or more"
    if not math.isinf(lag):
        yield f"write {_declared(stream, f'{_seconds(lag)}s')}{more} for {stream.name}"
    elif alone:
        yield f"write {_declared(stream, '...')} for {stream.name}, with the longest time for which a tuple is held"


def _declared(stream: Stream, lag: str) -> str:
    return f"`event_time: {{attribute: {_attribute(stream)}, lag: {lag}}}`"


def _newest(pipeline: Pipeline, operator: Operator) -> int:
    """By how much the newest event time of the inputs is ahead of the watermark, as far as their lags say."""
    lags = (own_tuples(pipeline, name) for name in operator.inputs)
    return max((bounds.lag for bounds in lags if bounds is not None), default=0)


def _held_by_clock(operator: Operator) -> Bound:
    """How long the operator holds a tuple by the clock; infinity if that is not limited."""
    match operator:
        case Dedup(within=within):
            return within
        case Aggregate(window=window) | Sort(window=window) if window.tumbling and window.timer is not None:
            return window.timer.nanoseconds
    return math.inf


def _attribute(stream: Stream) -> str:
    assert stream.event_time is not None  # noqa: S101 - it has a lateness
    return stream.event_time.attribute


def _units(nanoseconds: Bound, stream: Stream) -> str:
    """A length of time in the unit of the event time, as expressions have it."""
    assert stream.event_time is not None  # noqa: S101 - it has a lateness
    is_int64 = dict(stream.schema)[_attribute(stream)] == INT64
    return str(math.ceil(nanoseconds / stream.event_time.tick)) if is_int64 else number(math.ceil(nanoseconds))


def _seconds(nanoseconds: Bound) -> str:
    """A length of time for people, in whole milliseconds, not less than it is."""
    return seconds(math.ceil(nanoseconds / MILLISECOND) * MILLISECOND)


# ---- in the next pane ------------------------------------------------------------------------------------------------


def _in_the_next_pane(pipeline: Pipeline, late: set[tuple[str, str]]) -> Iterator[Finding]:
    """Results that have the end of their pane as event time, which is not late but may be in the next pane (E39)."""
    for operator in pipeline.operators:
        if not isinstance(operator, Aggregate) or not operator.window.paned:
            continue
        for output in operator.outputs:
            event_time = pipeline.streams[output.stream].event_time
            if event_time is None:
                continue
            e = dict(output.attributes).get(event_time.attribute)
            if e != AggregateCall("intervalEnd", (), e.type if e is not None else INT64):
                continue
            if (operator.name, output.stream) not in late and _in_panes(pipeline, output.stream):
                instead = f"write `{event_time.attribute}: intervalLast()`"
                text = f"intervalEnd() may be in the next pane, where a window reads {output.stream}; {instead} (E39)"
                yield Finding(operator, output.stream, event_time.attribute, text)


def _in_panes(pipeline: Pipeline, stream: str) -> bool:
    """Whether a window over event time reads the stream, by itself or among others."""
    unions = (
        operator.name for operator in pipeline.operators if isinstance(operator, Union) and stream in operator.inputs
    )
    names = {stream, *unions}
    readers = (
        operator for operator in pipeline.operators if isinstance(operator, Windowed) and operator.input in names
    )
    return any(reader.accepts is not None for reader in readers)
