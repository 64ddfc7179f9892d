"""What the state of an operator depends on, part by part.

Two operators with equal parts can go on with the same state, whatever else of them has changed: names of outputs and of
their attributes, expressions over results, or the way in which outputs are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sluice.model.expressions import AggregateCall, Attribute, walk
from sluice.model.spec import (
    Aggregate,
    Custom,
    Dedup,
    Delta,
    EventTime,
    Join,
    Map,
    Operator,
    Pipeline,
    Punct,
    Side,
    Sort,
    Union,
    Windowed,
)
from sluice.model.types import Type

#: name of a part, as a message has it -> its value
Parts = Mapping[str, object]
#: a stream that an operator writes -> the name that it had in an earlier file
Names = Mapping[str, str]


class EventTimeData(NamedTuple):
    """The part of a stream's event time on which the states of its readers depend.

    resolution   the unit of an int64 time, in nanoseconds
    """

    attribute: str
    type: Type
    resolution: int
    advance: bool


def parts_of(operator: Operator, pipeline: Pipeline, earlier: Names = MappingProxyType({})) -> Parts:
    """The parts of the operator that its state depends on. An operator without parts has no state to lose.

    earlier   the streams that have been renamed
    """
    match operator:
        case Map() | Union():
            return {}
        case Join():
            return dict(_of_join(operator, pipeline, earlier))
        case Dedup():
            return dict(_of_dedup(operator, pipeline, earlier))
        case Aggregate() | Sort() | Custom():
            return dict(_of_window(operator, pipeline, earlier))


def has_state(operator: Operator) -> bool:
    """Whether the operator has a state that could be lost."""
    return not isinstance(operator, Map | Union)


def _of_window(operator: Windowed, pipeline: Pipeline, earlier: Names) -> Iterator[tuple[str, object]]:
    yield "input", provenance_of(pipeline, operator.input, earlier)
    yield "window", operator.window
    yield "partition_by", operator.partition_by
    if operator.window.needs_event_time or getattr(operator.window, "clock", True) is False:
        yield "event_time of its input", event_time_of(pipeline, operator.input)
    types = dict(pipeline.streams[operator.input].schema)
    deltas = [one.attribute for one in operator.window.policies if isinstance(one, Delta)]
    yield "type of a delta's attribute", tuple(types[name] for name in deltas)
    if any(isinstance(one, Punct) for one in operator.window.policies):
        yield (
            "marks_in of its input",
            tuple(pipeline.streams[one].marks_in for one in _topics(pipeline, operator.input)),
        )
    match operator:
        case Aggregate():
            yield "group_by", operator.group_by
            yield "early", operator.early
            yield "functions", calls_of(operator)
        case Sort():
            yield "order_by", operator.order_by
            yield "limit", operator.limit
            yield "attributes of its input", pipeline.streams[operator.input].schema
        case Custom():
            yield "handler", operator.handler
            yield "attributes of its input", pipeline.streams[operator.input].schema


def calls_of(operator: Aggregate) -> tuple[AggregateCall, ...]:
    """The distinct calls of aggregation functions, in the order of the outputs."""
    written = (e for output in operator.outputs for _, e in output.attributes)
    found = (one for whole in written for one in walk(whole) if isinstance(one, AggregateCall))
    return tuple(dict.fromkeys(found))


def _of_dedup(operator: Dedup, pipeline: Pipeline, earlier: Names) -> Iterator[tuple[str, object]]:
    yield "input", provenance_of(pipeline, operator.input, earlier)
    yield "by", operator.by
    yield "within", (operator.within, operator.over)
    yield "keep", operator.keep
    if operator.over == "event_time":
        yield "event_time of its input", event_time_of(pipeline, operator.input)
    if operator.keep == "last":
        yield "attributes of its input", pipeline.streams[operator.input].schema


def _of_join(operator: Join, pipeline: Pipeline, earlier: Names) -> Iterator[tuple[str, object]]:
    yield "window", operator.window
    yield "match", operator.match
    yield "whether its right side is a table", operator.table
    for word, side, other in (("left", operator.left, operator.right), ("right", operator.right, operator.left)):
        yield f"{word} input", provenance_of(pipeline, side.stream, earlier)
        yield f"{word} attributes in outputs", _read(operator, word, pipeline)
        yield f"equality_{word}", side.equality
        yield f"outer {word} side", side.outer
        if other.outer:
            yield f"default_{word}", _defaults(side, _read(operator, word, pipeline), pipeline)
        if operator.window is None:
            yield f"window_{word}", side.window
            yield f"partition_by_{word}", side.partition_by
        else:
            yield f"event_time of its {word} input", event_time_of(pipeline, side.stream)


def _read(operator: Join, port: str, pipeline: Pipeline) -> tuple[tuple[str, Type], ...]:
    """The attributes of a side that are stored: outputs, the condition, or a delta of the window read them."""
    side: Side = operator.left if port == "left" else operator.right
    over = [e for output in operator.outputs for _, e in output.attributes]
    over += [] if operator.match is None else [operator.match]
    named = {one.name for e in over for one in walk(e) if isinstance(one, Attribute) and one.port == port}
    named |= {one.attribute for one in side.window.policies if isinstance(one, Delta)}
    return tuple((name, kind) for name, kind in pipeline.streams[side.stream].schema if name in named)


def _defaults(side: Side, stored: tuple[tuple[str, Type], ...], pipeline: Pipeline) -> tuple[object, ...]:
    """The values that replace the stored attributes of a missing partner."""
    names = [name for name, _ in pipeline.streams[side.stream].schema]
    values = dict(zip(names, side.default, strict=False))
    return tuple(values.get(name) for name, _ in stored)


def provenance_of(pipeline: Pipeline, stream: str, earlier: Names = MappingProxyType({})) -> object:
    """Where the tuples of a stream come from: the topic of an input, else the earlier name of the stream. A union of
    streams is the list of where they come from.
    """
    writer = pipeline.writer_of(stream)
    if isinstance(writer, Union):
        return tuple(provenance_of(pipeline, name, earlier) for name in writer.inputs)
    return f"stream {earlier.get(stream, stream)}" if writer else f"topic {pipeline.streams[stream].topic}"


def renamed_streams(old: Pipeline, new: Pipeline) -> dict[str, str]:
    """The streams that operators of `new` write and that had another name in `old`, with the earlier name: an operator
    of the same name had as many streams that the other file does not name.
    """
    before = {one.name: [output.stream for output in one.outputs] for one in old.operators}
    found = dict[str, str]()
    for operator in new.operators:
        written = [output.stream for output in operator.outputs]
        gone = [name for name in before.get(operator.name, ()) if name not in new.streams]
        come = [name for name in written if name not in old.streams]
        found |= dict(zip(come, gone, strict=True)) if len(come) == len(gone) else {}
    return found


def input_topics(pipeline: Pipeline, operator: Operator) -> set[str]:
    """The topics from which tuples come to the operator, directly or through other operators."""
    found = set[str]()
    for stream in operator.inputs:
        writer = pipeline.writer_of(stream)
        found |= input_topics(pipeline, writer) if writer else {str(pipeline.streams[stream].topic)}
    return found


def _topics(pipeline: Pipeline, stream: str) -> list[str]:
    """The input streams that a stream consists of, if only unions are between."""
    writer = pipeline.writer_of(stream)
    if isinstance(writer, Union):
        return [name for one in writer.inputs for name in _topics(pipeline, one)]
    return [] if writer else [stream]


def event_time_of(pipeline: Pipeline, stream: str) -> EventTimeData | None:
    """What the readers' states depend on; None for a stream without event time."""
    of: EventTime | None = pipeline.streams[stream].event_time
    if of is None:
        return None
    return EventTimeData(of.attribute, dict(pipeline.streams[stream].schema)[of.attribute], of.tick, of.advance)
