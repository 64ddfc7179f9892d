"""The window marks of streams: which streams must say to which tuples a mark applies (`marks_in`), and how marks are
written to a topic if the file does not say it (`marks`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sluice.model.errors import SluiceError
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Passing, Pipeline, Stream, Windowed

#: word of `marks_in` -> to which tuples a window mark applies
SCOPES = {
    "topic_partition": "a mark closes what came from its own topic partition",
    "any": "each mark closes the whole stream, whichever topic partition it is in",
    "aligned": "the whole stream is closed once every topic partition has sent a mark",
}
CHOICES = "; ".join(f"`{word}`: {meaning}" for word, meaning in SCOPES.items())

#: expressions over a stream; None if there are none that have the same values
Key = tuple[Expression, ...] | None


class Source(NamedTuple):
    """A stream from Kafka whose window marks reach another stream."""

    stream: str
    #: the operator that reads it; None if it is the other stream itself
    reader: str | None
    #: expressions over the other stream, as expressions over this one
    key: Key


class MarkScopeError(SluiceError):
    """A `punct()` window reads a topic with several topic partitions, and the file does not say what a mark closes."""


def without_scope(pipeline: Pipeline) -> Mapping[str, list[str]]:
    """The streams from Kafka without `marks_in` whose marks close `punct()` windows, with the names of these operators.

    An exchange is none of them: its marks are those of the firings of the operator that writes it. Nor is a stream
    whose marks are for one key.
    """
    closers: dict[str, list[str]] = defaultdict(list)
    inputs = {s.name for s in pipeline.inputs if not (s.marks_in_given or s.exchange or s.mark_of)}
    for operator in _closed(pipeline):
        for stream in dict.fromkeys(source.stream for source in _sources(pipeline, operator.input)):
            if stream in inputs:
                closers[stream].append(operator.name)
    return closers


def closed_keys(pipeline: Pipeline) -> Iterator[tuple[str, Windowed, tuple[Expression, ...] | None]]:
    """For each operator with a `punct()` window and each input stream whose marks it gets: the name of the stream, the
    operator, and its `partition_by` as expressions over the stream; None if they cannot be traced to its attributes.
    """
    for operator in _closed(pipeline):
        for source in _sources(pipeline, operator.input, operator.partition_by):
            yield source.stream, operator, source.key


def require_scope(pipeline: Pipeline, topic_partitions: Mapping[str, int]) -> None:
    """Raises MarkScopeError (B6) if one of the streams `without_scope` has several topic partitions."""
    for stream, operators in without_scope(pipeline).items():
        if topic_partitions.get(stream, 1) > 1:
            message = (
                f"streams.{stream}: expected marks_in, as {stream} has {topic_partitions[stream]} topic partitions and "
                f"its window marks close {' and '.join(operators)} ({CHOICES})"
            )
            raise MarkScopeError(message)


def why_records(pipeline: Pipeline) -> Mapping[str, str]:
    """The streams whose window marks are written as records unless the file says otherwise, each with the reason (B12).

    The marks of all other streams are written as a header of the last tuple of the firing.
    """
    needed = "its readers need the marks of firings without tuples"
    reasons = {s.name: needed if s.exchange else passing(pipeline, s.name) for s in pipeline.outputs}
    return {name: why for name, why in reasons.items() if why is not None}


def written_marks(pipeline: Pipeline, stream: Stream) -> str:
    """How the window marks of an output stream are written and, if the plan needs records, why, in words."""
    why = why_records(pipeline).get(stream.name) if stream.marks == "record" else None
    return f"marks: {stream.marks}" + (f", as {why}" if why else "")


def passing(pipeline: Pipeline, stream: str) -> str | None:
    """The reason why no header can carry the marks of a stream; None if a header can.

    The marks of these streams come from Kafka and pass through operators.
    """
    source = next(_sources(pipeline, stream), None)
    if source is None or source.reader is None:
        return None
    marks = f"window marks of {source.stream} pass through {source.reader}"
    return f"{marks}, and the tuple before a mark may be in an earlier batch"


def _closed(pipeline: Pipeline) -> Iterator[Windowed]:
    """The operators with a `punct()` window."""
    for operator in pipeline.operators:
        if isinstance(operator, Windowed) and operator.window.flushed_by_marks:
            yield operator


def _sources(pipeline: Pipeline, stream: str, key: Key = ()) -> Iterator[Source]:
    """The streams from Kafka whose marks a stream has: the stream itself if no operator writes it, or those before the
    operators that pass marks on. `key` are expressions over the stream.
    """
    writer = pipeline.writer_of(stream)
    if writer is None:
        yield Source(stream, None, key)
    elif isinstance(writer, Passing):
        before = _before(pipeline, writer, stream, key)
        for read in writer.inputs:
            for source in _sources(pipeline, read, before):
                yield source._replace(reader=source.reader or writer.name)
            if pipeline.streams[read].exchange:
                yield Source(read, writer.name, before)


def _before(pipeline: Pipeline, writer: Passing, stream: str, key: Key) -> Key:
    """Expressions over an output of an operator as expressions over its inputs; None if there are none."""
    if not key:
        return key
    (attributes,) = (dict(output.attributes) for output in writer.outputs if output.stream == stream)
    names = [expression.name for expression in key if isinstance(expression, Attribute)]
    # marks for one key do not pass a topic
    if pipeline.streams[stream].exchange or len(names) < len(key) or not all(name in attributes for name in names):
        return None
    return tuple(attributes[name] for name in names)
