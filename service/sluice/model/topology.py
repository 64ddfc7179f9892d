"""The order of operators, in which each stream is written before it is read; the cycles that prevent it; and feedback:
streams that close a cycle of operators, and whose tuples return through a topic (rules M11 to M16); and properties that
a stream has from the inputs upstream of it.

A stream that closes a cycle is an exchange: its writer writes it to the topic, and its readers read it from there in a
later batch. In the model these are two streams with one topic. The stream itself is an output, and the stream with
RETURNING behind its name is an input. So the operators of a pipeline never form a cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from sluice.model.spec import Barrier, Dedup, Delay, Join, Map, Operator, Passing, Pipeline, Stream, Union

#: end of the name of the input whose tuples return
RETURNING = ".returning"


def upstream_first(reads: Sequence[Sequence[str]], writes: Mapping[str, int]) -> list[int]:
    """The operators 0 to n-1, sorted so that each stream is written before it is read, else by number.

    `reads` has the input streams of each operator, `writes` the operator that writes each stream. Operators in or after
    a cycle are left out.
    """
    upstream = [writers(streams, writes) for streams in reads]
    downstream: dict[int, list[int]] = defaultdict(list)
    for operator, before in enumerate(upstream):
        for other in before:
            downstream[other].append(operator)
    ready = [operator for operator, before in enumerate(upstream) if not before]
    order: list[int] = []
    while ready:  # `ready` is a heap, so the operator with the smallest number comes first
        order.append(heappop(ready))
        for operator in downstream[order[-1]]:
            upstream[operator].discard(order[-1])
            if not upstream[operator]:
                heappush(ready, operator)
    return order


def cycle(reads: Sequence[Sequence[str]], writes: Mapping[str, int], stuck: Collection[int]) -> list[int]:
    """A cycle among the operators that `upstream_first` left out (`stuck`), upstream first."""
    path: list[int] = []
    operator = min(stuck)
    while operator not in path:
        path.append(operator)
        operator = min(writers(reads[operator], writes).intersection(stuck))
    return path[path.index(operator) :][::-1]


def writers(streams: Sequence[str], writes: Mapping[str, int]) -> set[int]:
    return {writes[stream] for stream in streams if stream in writes}


# ---- feedback --------------------------------------------------------------------------------------------------------


def closing(reads: Sequence[Sequence[str]], writes: Mapping[str, int], exchanges: Sequence[str]) -> list[str]:
    """The exchanges that close a cycle of operators (M11), in the order given: each closes one that is left without
    those before it. So of several exchanges in one cycle the first one closes it.

    `reads` has the input streams of each operator, `writes` the operator that writes each stream.
    """
    closing_streams: list[str] = []
    for stream in exchanges:
        left = {name: operator for name, operator in writes.items() if name not in (*closing_streams, stream)}
        readers = [operator for operator, streams in enumerate(reads) if stream in streams]
        if stream in writes and any(_leads_to(reader, writes[stream], reads, left) for reader in readers):
            closing_streams.append(stream)
    return closing_streams


def _leads_to(start: int, end: int, reads: Sequence[Sequence[str]], writes: Mapping[str, int]) -> bool:
    """Whether tuples of an operator reach another one, which may be the same."""
    reached, waiting = {end}, [end]
    while waiting:
        for before in writers(reads[waiting.pop()], writes) - reached:
            reached.add(before)
            waiting.append(before)
    return start in reached


def separated(pipeline: Pipeline, closed: Collection[str]) -> Pipeline:
    """The pipeline in which the readers of these streams read inputs of their own, from the topics of the streams.

    Only tuples return: marks would close windows that wrote them, and a watermark would wait for itself (M13). So an
    operator that reads such an input is never final (M14). As it is an input, its tuples are spread by the keys of its
    readers, and the position in its topic is part of each transaction (M15).
    """
    if not closed:
        return pipeline
    streams = {
        name: replace(stream, marks="none", watermarks=False, event_time=None) if name in closed else stream
        for name, stream in pipeline.streams.items()
    }
    streams |= {f"{name}{RETURNING}": _input(streams[name]) for name in closed if name in streams}
    return replace(
        pipeline, streams=streams, operators=tuple(_reading(operator, closed) for operator in pipeline.operators)
    )


def _input(stream: Stream) -> Stream:
    return replace(stream, name=f"{stream.name}{RETURNING}", marks_in="any", marks_in_given=True)


def _reading(operator: Operator, closed: Collection[str]) -> Operator:
    """The operator with the inputs that return in the place of the streams."""
    names = {name: f"{name}{RETURNING}" for name in closed}
    if not names.keys() & set(operator.inputs):
        return operator
    match operator:
        case Join():
            left, right = (replace(s, stream=names.get(s.stream, s.stream)) for s in (operator.left, operator.right))
            return replace(operator, left=left, right=right)
        case Barrier():
            ports = tuple(replace(port, stream=names.get(port.stream, port.stream)) for port in operator.ports)
            return replace(operator, ports=ports)
        case Union():
            return replace(operator, inputs=tuple(names.get(name, name) for name in operator.inputs))
        case _:
            return replace(operator, input=names[operator.input])


def returning(pipeline: Pipeline) -> dict[str, str]:
    """By stream that an operator writes: the name of the input in which its tuples return."""
    inputs = {stream.name for stream in pipeline.inputs}
    return {name: f"{name}{RETURNING}" for name in pipeline.streams if f"{name}{RETURNING}" in inputs}


def external_inputs(pipeline: Pipeline) -> list[Stream]:
    """The input streams whose records this pipeline does not write itself: all inputs in which no tuples return."""
    returned = returning(pipeline).values()
    return [stream for stream in pipeline.inputs if stream.name not in returned]


# ---- what comes from the inputs --------------------------------------------------------------------------------------


def partitioning_stream(pipeline: Pipeline, stream: str) -> str:
    """The stream whose topic partitions the tuples of a stream are in: maps and dedups keep them, as the tasks of Kafka
    Streams do (KIP T2).
    """
    writer = pipeline.writer_of(stream)
    return partitioning_stream(pipeline, writer.input) if isinstance(writer, Map | Dedup | Delay) else stream


def follows_clock(pipeline: Pipeline, stream: str) -> bool:
    """Whether the watermark of a stream follows the clock while the stream is quiet (Q1): with an `advance` of its own,
    or behind maps, dedups and unions with that of all their streams. Results of windows may be behind the watermark,
    so that it is not the stream time of a slidingTime window that reads them (Q5).
    """
    event_time, writer = pipeline.streams[stream].event_time, pipeline.writer_of(stream)
    if event_time is None or event_time.lag is not None or not isinstance(writer, Passing):
        return event_time is not None and event_time.advance
    sources = [name for name in writer.inputs if pipeline.streams[name].event_time is not None]
    return bool(sources) and all(follows_clock(pipeline, name) for name in sources)
