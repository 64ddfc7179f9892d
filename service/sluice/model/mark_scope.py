"""Which streams must say to which tuples a window mark applies (`marks_in`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from sluice.model.errors import SluiceError
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

    An exchange is none of them: its marks are those of the firings of the operator that writes it.
    """
    found: dict[str, list[str]] = defaultdict(list)
    inputs = {stream.name for stream in pipeline.inputs if not (stream.marks_in_given or stream.exchange)}
    for operator in pipeline.operators:
        if isinstance(operator, Windowed) and any(isinstance(policy, Punct) for policy in operator.window.policies):
            for stream in dict.fromkeys(_sources(pipeline, operator.input)):
                if stream in inputs:
                    found[stream].append(operator.name)
    return found


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
