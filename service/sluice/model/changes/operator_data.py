"""The parts of an operator on which its state depends.

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
    Barrier,
    Custom,
    Dedup,
    Delay,
    EventTime,
    Join,
    KeyedMap,
    Map,
    Operator,
    Passing,
    Pipeline,
    Side,
    Sort,
    Union,
    Windowed,
)
from sluice.model.topology import follows_clock, partitioning_stream
from sluice.model.types import Type

#: name of a part, as a message has it -> its value
Parts = Mapping[str, object]


class EarlierNames(NamedTuple):
    """New name -> name in the earlier file, of streams that operators write and of operators with another name."""

    streams: Mapping[str, str] = MappingProxyType({})
    operators: Mapping[str, str] = MappingProxyType({})


#: no name has changed
UNCHANGED = EarlierNames()


class EventTimeData(NamedTuple):
    """The part of a stream's event time on which the states of its readers depend.

    resolution   the unit of an int64 time, in nanoseconds
    advance      whether the watermark follows the clock: `advance` of the stream, or of a stream before it
    of_keys      if each key has a time of its own: after which times, in nanoseconds, a key is idle, and forgotten
    sources      if watermarks come from the operator that writes the stream: the event times of its inputs
    """

    attribute: str
    type: Type
    resolution: int
    advance: bool
    sources: tuple[EventTimeData | None, ...] = ()
    of_keys: tuple[int | None, int] | None = None


def parts_of(operator: Operator, pipeline: Pipeline, earlier: EarlierNames = UNCHANGED) -> Parts:
    """The parts of the operator that its state depends on. An operator without parts has no state to lose.

    earlier   the streams and the operators that have been renamed
    """
    return dict(_parts(operator, pipeline, earlier)) if has_state(operator) else {}


def _parts(operator: Operator, pipeline: Pipeline, earlier: EarlierNames) -> Iterator[tuple[str, object]]:
    """The parts of an operator with state. The sizes of a Delay are none: what waits keeps its times (DL7)."""
    match operator:
        case KeyedMap():
            yield from _of_keyed_map(operator, pipeline, earlier)
        case Join():
            yield from _of_join(operator, pipeline, earlier)
        case Barrier():
            yield from _of_barrier(operator, pipeline, earlier)
        case Dedup():
            yield from _of_dedup(operator, pipeline, earlier)
        case Delay():
            yield "input", provenance_of(pipeline, operator.input, earlier)
            yield "partition_by", operator.partition_by
            yield "attributes of its input", pipeline.streams[operator.input].schema
        case Aggregate() | Sort() | Custom():
            yield from _of_window(operator, pipeline, earlier)


def has_state(operator: Operator) -> bool:
    """Whether the operator has a state that could be lost."""
    return isinstance(operator, KeyedMap) or not isinstance(operator, Map | Union)


def _of_window(operator: Windowed, pipeline: Pipeline, earlier: EarlierNames) -> Iterator[tuple[str, object]]:
    yield "input", provenance_of(pipeline, operator.input, earlier)
    yield "window", operator.window
    yield "partition_by", operator.partition_by
    if operator.window.needs_event_time or getattr(operator.window, "clock", True) is False:
        yield "event_time of its input", event_time_of(pipeline, operator.input)
    types = dict(pipeline.streams[operator.input].schema)
    yield "type of a delta's attribute", tuple(types[name] for name in operator.window.attributes)
    if operator.window.flushed_by_marks:
        inputs = [pipeline.streams[name] for name in _marking(pipeline, operator.input)]
        yield "marks_in of its input", tuple(stream.marks_in for stream in inputs)
        yield "topics of its marks", tuple(str(stream.topic) for stream in inputs)
    if operator.window.timed_by_topic_partition:
        partitioned = partitioning_stream(pipeline, operator.input)
        yield "topic partitions of its input", provenance_of(pipeline, partitioned, earlier)
    match operator:
        case Aggregate():
            yield "group_by", operator.group_by
            yield "early", operator.early
            yield "empty_panes", operator.empty_panes
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
    calls = (part for expression in written for part in walk(expression) if isinstance(part, AggregateCall))
    return tuple(dict.fromkeys(calls))


def _of_keyed_map(operator: KeyedMap, pipeline: Pipeline, earlier: EarlierNames) -> Iterator[tuple[str, object]]:
    yield "input", provenance_of(pipeline, operator.input, earlier)
    yield "each", operator.each
    yield "where", operator.where
    yield "partition_by", operator.partition_by
    yield "previous()", operator.values
    yield "number of earlier tuples", operator.longest


def _of_barrier(operator: Barrier, pipeline: Pipeline, earlier: EarlierNames) -> Iterator[tuple[str, object]]:
    for number, port in enumerate(operator.ports, 1):
        yield f"input {number}", provenance_of(pipeline, port.stream, earlier)
        yield f"partition_by of input {number}", port.key
        yield f"attributes of input {number}", pipeline.streams[port.stream].schema


def _of_dedup(operator: Dedup, pipeline: Pipeline, earlier: EarlierNames) -> Iterator[tuple[str, object]]:
    yield "input", provenance_of(pipeline, operator.input, earlier)
    yield "by", operator.by
    yield "within", (operator.within, operator.over)
    yield "delta", operator.attribute
    yield "keep", operator.keep
    if operator.over == "event_time":
        yield "event_time of its input", event_time_of(pipeline, operator.input)
    if operator.keep == "last":
        yield "attributes of its input", pipeline.streams[operator.input].schema


def _of_join(operator: Join, pipeline: Pipeline, earlier: EarlierNames) -> Iterator[tuple[str, object]]:
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
    """The attributes of a side that are stored: outputs, the condition, or a policy of the window read them."""
    side: Side = operator.left if port == "left" else operator.right
    expressions = [e for output in operator.outputs for _, e in output.attributes]
    expressions += [] if operator.match is None else [operator.match]
    named = {part.name for e in expressions for part in walk(e) if isinstance(part, Attribute) and part.port == port}
    named |= {*side.window.attributes}
    return tuple((name, kind) for name, kind in pipeline.streams[side.stream].schema if name in named)


def _defaults(side: Side, stored: tuple[tuple[str, Type], ...], pipeline: Pipeline) -> tuple[object, ...]:
    """The values that replace the stored attributes of a missing partner."""
    names = [name for name, _ in pipeline.streams[side.stream].schema]
    values = dict(zip(names, side.default, strict=False))
    return tuple(values.get(name) for name, _ in stored)


def provenance_of(pipeline: Pipeline, stream: str, earlier: EarlierNames = UNCHANGED) -> object:
    """Where the tuples of a stream come from: the topic of an input, else the operator that writes the stream, and the
    stream, with their earlier names. A union of streams is the list of where they come from.
    """
    writer = pipeline.writer_of(stream)
    if isinstance(writer, Union):
        return tuple(provenance_of(pipeline, name, earlier) for name in writer.inputs)
    if writer is None:
        return f"topic {pipeline.streams[stream].topic}"
    return f"stream {earlier.streams.get(stream, stream)} of {earlier.operators.get(writer.name, writer.name)}"


def earlier_names(old: Pipeline, new: Pipeline) -> EarlierNames:
    """The streams and the operators of `new` that had another name in `old`."""
    return EarlierNames(renamed_streams(old, new), renamed_operators(old, new))


def renamed_streams(old: Pipeline, new: Pipeline) -> dict[str, str]:
    """The streams that operators of `new` write and that had another name in `old`, with the earlier name: an operator
    of the same name had as many streams that the other file does not name.
    """
    before = {operator.name: [output.stream for output in operator.outputs] for operator in old.operators}
    renamed = dict[str, str]()
    for operator in new.operators:
        written = [output.stream for output in operator.outputs]
        removed = [name for name in before.get(operator.name, ()) if name not in new.streams]
        come = [name for name in written if name not in old.streams]
        renamed |= dict(zip(come, removed, strict=True)) if len(come) == len(removed) else {}
    return renamed


def renamed_operators(old: Pipeline, new: Pipeline) -> dict[str, str]:
    """The operators of `new` that are in `old` under another name, with that name: the other file does not name them,
    and they have the same parts, read the same and write the same streams. Their own states are not kept, but those of
    their readers are.
    """
    names_before, names_now = ({operator.name for operator in pipeline.operators} for pipeline in (old, new))
    removed = [operator for operator in old.operators if operator.name not in names_now]
    renamed = dict[str, str]()
    for operator in new.operators:
        if operator.name in names_before:
            continue
        earlier = EarlierNames(operators=renamed)
        match = next((candidate.name for candidate in removed if _alike(candidate, old, operator, new, earlier)), None)
        if match is not None:
            renamed[operator.name] = match
    return renamed


def _alike(before: Operator, old: Pipeline, now: Operator, new: Pipeline, earlier: EarlierNames) -> bool:
    return (
        type(before) is type(now)
        and {output.stream for output in before.outputs} == {output.stream for output in now.outputs}
        and [provenance_of(old, name) for name in before.inputs]
        == [provenance_of(new, name, earlier) for name in now.inputs]
        and parts_of(before, old) == parts_of(now, new, earlier)
    )


def input_topics(pipeline: Pipeline, operator: Operator) -> set[str]:
    """The topics from which tuples come to the operator, directly or through other operators."""
    topics = set[str]()
    for stream in operator.inputs:
        writer = pipeline.writer_of(stream)
        topics |= input_topics(pipeline, writer) if writer else {str(pipeline.streams[stream].topic)}
    return topics


def _marking(pipeline: Pipeline, stream: str) -> list[str]:
    """The input streams whose marks reach the readers of a stream, each with its topic partition: the inputs from which
    only maps, dedups and unions lead to the stream.
    """
    writer = pipeline.writer_of(stream)
    if isinstance(writer, Passing):
        return [name for source in writer.inputs for name in _marking(pipeline, source)]
    return [] if writer else [stream]


def event_time_of(pipeline: Pipeline, stream: str) -> EventTimeData | None:
    """What the readers' states depend on; None for a stream without event time."""
    event_time: EventTime | None = pipeline.streams[stream].event_time
    if event_time is None:
        return None
    writer = pipeline.writer_of(stream)
    before = writer.inputs if writer is not None and event_time.lag is None else ()
    return EventTimeData(
        event_time.attribute, dict(pipeline.streams[stream].schema)[event_time.attribute], event_time.tick,
        follows_clock(pipeline, stream),
        tuple(event_time_of(pipeline, name) for name in dict.fromkeys(before)),
        None if event_time.per_key is None else (event_time.per_key.idle_after, event_time.per_key.forget_after),
    )  # fmt: skip
