"""Which output streams the buckets write, each bucket to topic partitions of its own, and why not the others.

A topic partition that only one bucket writes needs no merge of buckets: its records are in the order in which the
bucket makes them. Bucket b of B owns the topic partitions whose number is b modulo B. A record gets there if its bucket
and its topic partition follow from the same number: the hash of one key, or the topic partition from which it was read.
The number of topic partitions must then be a multiple of B (docs/exactly-once.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sluice.model.spec import Aggregate, Custom, Dedup, Join, Map, Pipeline, Sort, Stream, Union
from sluice.model.spreading import Keys, spread_by
from sluice.model.unparse import expressions


def own_outputs(pipeline: Pipeline, buckets: int, topic_partitions: Mapping[str, int]) -> frozenset[str]:
    """The names of the output streams that the buckets write. `topic_partitions`: by stream."""
    return frozenset(
        stream.name
        for stream in pipeline.outputs
        if not why_driver(pipeline, stream, buckets, topic_partitions.get(stream.name))
    )


def why_driver(pipeline: Pipeline, stream: Stream, buckets: int | None, topic_partitions: int | None) -> str:
    """Why the driver writes this output stream, in words, with what to change; empty if the buckets write it.

    `buckets`, `topic_partitions`: None: the number is not known yet, and fits.
    """
    keys = spread_by(pipeline)
    if keys is None or buckets == 1:
        return ""
    why = next(_whys(pipeline, stream.name, keys), "")
    if why or topic_partitions is None or buckets is None or topic_partitions % buckets == 0:
        return why
    return (
        f"{topic_partitions} topic partitions are no multiple of {buckets} buckets: give the topic {buckets}, or a "
        "multiple of that, or set `buckets` to a divisor of their number"
    )


def _whys(pipeline: Pipeline, stream: str, keys: Mapping[str, Keys]) -> Iterator[str]:
    """The reasons that do not depend on numbers."""
    marks = pipeline.streams[stream].marks == "record"
    for source in _sources(pipeline, stream):
        if isinstance(source, str):
            if keys[source]:
                yield (
                    f"its records go to the topic partitions of {source}, and its tuples are in buckets by "
                    f"{expressions(keys[source])}: write it in a pipeline of its own"
                )
        elif isinstance(source, Dedup):
            yield f"its records go to the topic partitions from which {source.name} reads, and not by its key"
        elif isinstance(source, Custom):
            yield f"the class of {source.name} may emit tuples without a window partition"
        else:
            own = source.left.equality if isinstance(source, Join) else source.partition_by
            if any(len(keys[name]) != len(own) for name in _read(pipeline, source.inputs)):
                yield f"its records are in topic partitions by {expressions(own)}, and its tuples in buckets by less"
            elif marks and _fires_empty(source):
                yield (
                    f"the mark of a firing of {source.name} without tuples depends on all buckets: write `marks: "
                    "header`, or `none`"
                )


def _sources(pipeline: Pipeline, stream: str) -> Iterator[str | Aggregate | Custom | Dedup | Join | Sort]:
    """What decides the topic partitions of a stream's records: the names of inputs, or operators with windows."""
    writer = pipeline.writer_of(stream)
    if writer is None:
        yield stream
    elif isinstance(writer, Map | Union):
        for name in writer.inputs:
            yield from _sources(pipeline, name)
    else:
        yield writer


def _read(pipeline: Pipeline, streams: tuple[str, ...]) -> Iterator[str]:
    """The inputs of the pipeline from which these streams come."""
    for stream in streams:
        writer = pipeline.writer_of(stream)
        if writer is None:
            yield stream
        else:
            yield from _read(pipeline, writer.inputs)


def _fires_empty(operator: Aggregate | Join | Sort) -> bool:
    """Whether the operator may emit the mark of a firing that found no tuples, which all buckets must have (B9)."""
    if isinstance(operator, Join):
        return False
    window = operator.window
    return not window.fires_at_watermarks and (window.falls_due(evictions=False) or window.flushed_by_marks)
