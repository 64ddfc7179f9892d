"""What every process that works for a query has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sluice.checkpoint.checkpoint_identity import Identity, folder_of
from sluice.kafka.topics import Topic
from sluice.model.spec import Custom, Join, Map, Operator, Pipeline, Stream, Time, Windowed


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes of rows that are in memory at once; a batch may have many more. None changes what comes out.

    piece      that are packed together: a row on its way through Spark, dead letters on their way to Kafka
    part       that a bucket handles at once: decoded, made and encoded they take several times as much memory
    held       of packed rows in the memory of a task, on their way to its bucket; others are in files (spool.py)
    returned   of packed rows that all tasks of a batch return through the JVM, where each is about four times; others
               are in files
    """

    piece: int = 8 << 20
    part: int = 64 << 20
    held: int = 64 << 20
    returned: int = 32 << 20


#: of the plans that are made
BOUNDS = Bounds()


@dataclass(frozen=True)
class Plan:
    """A pipeline, with what was found out when its query started."""

    pipeline: Pipeline
    #: id of the checkpoint, which the ledger holds too
    query: str
    #: of the service, with this plan
    start: str
    #: the checkpoint's folder
    checkpoint: str
    buckets: int
    #: topic partitions by stream: of those that are read, of those that are written, and of the dead letters
    topic_partitions: Mapping[str, int]
    #: `max.message.bytes` of the topics that are written
    limits: tuple[tuple[str, int], ...] = ()
    bounds: Bounds = field(default_factory=lambda: BOUNDS)

    @property
    def returned(self) -> int:
        """Bytes that each of the two sources of a task's rows may return: its bucket, and rows that pass the bucket."""
        return self.bounds.returned // 2 // self.buckets

    @classmethod
    def of(cls, pipeline: Pipeline, identity: Identity, found: Mapping[str, Topic], start: str = "") -> Plan:
        """`found` are the topics, by name."""
        streams = [stream for stream in pipeline.streams.values() if stream.topic in found]
        return cls(
            pipeline, identity.query, start, str(folder_of(pipeline)), identity.buckets,
            topic_partitions={stream.name: found[str(stream.topic)].partitions for stream in streams},
            limits=tuple((str(stream.topic), found[str(stream.topic)].max_message_bytes) for stream in streams),
        )  # fmt: skip

    @cached_property
    def inputs(self) -> tuple[Stream, ...]:
        """The streams that are read, in the order of their port numbers."""
        return self.pipeline.inputs

    @cached_property
    def keyed(self) -> frozenset[str]:
        """The streams whose records' own keys come out again: those with nothing but maps to an output."""
        written = {stream.name for stream in self.pipeline.outputs}
        keyed: set[str] = set()
        for operator in reversed(self.pipeline.operators):
            targets = {output.stream for output in operator.outputs}
            if isinstance(operator, Map) and targets & (written | keyed):
                keyed.add(operator.input)
        return frozenset(keyed)

    @cached_property
    def panes(self) -> bool:
        """Whether one watermark may fire several windows of a partition, which then come in the order of these."""
        return any(isinstance(o, Windowed) and o.window.fires_at_watermarks for o in self.pipeline.operators)

    @property
    def pulsing(self) -> bool:
        """Whether something may fall due while no record comes: in an operator, or a topic partition becomes idle."""
        event_times = [s.event_time for s in self.pipeline.streams.values() if s.event_time is not None]
        due = any(map(_falls_due, self.pipeline.operators)) or any(of.idle_after is not None for of in event_times)
        return self.pipeline.settings.clock == "processing" and (due or self.merging)

    @property
    def merging(self) -> bool:
        """Whether records wait for those of other topic partitions."""
        return self.pipeline.settings.merge == "timestamp"


def _falls_due(operator: Operator) -> bool:
    """Whether the clock alone may bring something out: windows fire, or tuples leave a join that have met nobody."""
    match operator:
        case Map():
            return False
        case Join():
            return any(
                side.outer and isinstance(side.window.eviction, Time) for side in (operator.left, operator.right)
            )
        case _:
            return operator.window.falls_due(evictions=isinstance(operator, Custom))
