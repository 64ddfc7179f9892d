"""Which streams must say to which tuples a window mark applies (`marks_in`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from sluice.model.errors import SluiceError
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Passing, Pipeline, Windowed
from sluice.model.windows.window_policies import Punct

#: word of `marks_in` -> to which tuples a window mark applies
SCOPES = {
    "topic_partition": "a mark closes what came from its own topic partition",
    "any": "each mark closes the whole stream, whichever topic partition it is in",
    "aligned": "the whole stream is closed once every topic partition has sent a mark",
}
CHOICES = "; ".join(f"`{word}`: {meaning}" for word, meaning in SCOPES.items())


class MarkScopeError(SluiceError):
    """A `punct()` window reads a topic with several topic partitions, and the file does not say what a mark closes."""


def without_scope(pipeline: Pipeline) -> Mapping[str, list[str]]:
    """The streams from Kafka without `marks_in` whose marks close `punct()` windows, with the names of these operators.

    An exchange is none of them: its marks are those of the firings of the operator that writes it. Nor is a stream
    whose marks are for one key.
    """
    found: dict[str, list[str]] = defaultdict(list)
    inputs = {s.name for s in pipeline.inputs if not (s.marks_in_given or s.exchange or s.mark_of)}
    for operator in pipeline.operators:
        if isinstance(operator, Windowed) and any(isinstance(policy, Punct) for policy in operator.window.policies):
            for stream in dict.fromkeys(_sources(pipeline, operator.input)):
                if stream in inputs:
                    found[stream].append(operator.name)
    return found


def closed_keys(pipeline: Pipeline) -> Iterator[tuple[str, Windowed, tuple[Expression, ...] | None]]:
    """For each operator with a `punct()` window and each input stream whose marks it gets: the name of the stream, the
    operator, and its `partition_by` as expressions over the stream; None if they cannot be traced to its attributes.
    """
    for operator in pipeline.operators:
        if isinstance(operator, Windowed) and any(isinstance(policy, Punct) for policy in operator.window.policies):
            for stream, key in _traced(pipeline, operator.input, operator.partition_by):
                yield stream, operator, key


def _traced(
    pipeline: Pipeline, stream: str, key: tuple[Expression, ...] | None
) -> Iterator[tuple[str, tuple[Expression, ...] | None]]:
    """The streams whose marks a stream has, as `_sources`, each with `key` as expressions over it."""
    writer = next((o for o in pipeline.operators if any(output.stream == stream for output in o.outputs)), None)
    if writer is None:
        yield stream, key
    elif isinstance(writer, Passing):
        (attributes,) = (dict(output.attributes) for output in writer.outputs if output.stream == stream)
        # marks for one key do not pass a topic
        inside = not pipeline.streams[stream].exchange
        known = inside and key is not None and all(isinstance(e, Attribute) and e.name in attributes for e in key)
        before = tuple(attributes[e.name] for e in key if isinstance(e, Attribute)) if known and key else None
        for source in writer.inputs:
            yield from _traced(pipeline, source, () if key == () else before)


def require_scope(pipeline: Pipeline, topic_partitions: Mapping[str, int]) -> None:
    """Raises MarkScopeError (B6) if one of the streams `without_scope` has several topic partitions."""
    for stream, operators in without_scope(pipeline).items():
        if topic_partitions.get(stream, 1) > 1:
            message = (
                f"streams.{stream}: expected marks_in, as {stream} has {topic_partitions[stream]} topic partitions and "
                f"its window marks close {' and '.join(operators)} ({CHOICES})"
            )
            raise MarkScopeError(message)


def _sources(pipeline: Pipeline, stream: str) -> Iterator[str]:
    """The streams whose marks a stream has: the stream itself, or those before the operators that pass marks on."""
    writer = next((o for o in pipeline.operators if any(output.stream == stream for output in o.outputs)), None)
    if writer is None:
        yield stream
    elif isinstance(writer, Passing):
        for source in writer.inputs:
            yield from _sources(pipeline, source)
