"""The plan of a query: the data that every process of the query needs, fixed when the query starts."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sluice.api import class_loader
from sluice.checkpoint.checkpoint_folder import store_at
from sluice.checkpoint.checkpoint_identity import Identity, fingerprint_of, folder_of
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.kafka.topics import Topic
from sluice.model.spec import (  # fmt: skip
    Aggregate,
    Barrier,
    Custom,
    Dedup,
    Delay,
    Early,
    Join,
    Map,
    Operator,
    Pipeline,
    Stream,
    Union,
    Windowed,
)
from sluice.model.spreading import Keys, SharedTime, shared_times, spread_by


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds, in bytes, on what is in memory or written at once. The outputs do not depend on them.

    A batch may have many more bytes than these.

    piece      size of one packed row of outputs or dead letters, and of a list of dead letters that are encoded at once
    part       size of the rows that a bucket handles at once; decoding and encoding take several times as much memory
    held       packed rows for a bucket that a task keeps in memory; further rows are in files (spool.py)
    returned   packed rows that all tasks of a batch return together through the JVM, which makes about four copies of
               each; further rows are in files
    snapshot   snapshots of up to this size are written by the state server itself; larger ones by a fork of it, which
               would cost more for a small one
    """

    piece: int = 8 << 20
    part: int = 64 << 20
    held: int = 64 << 20
    returned: int = 32 << 20
    snapshot: int = 4 << 20


#: the bounds of all plans, except in tests
BOUNDS = Bounds()


@dataclass(frozen=True)
class Plan:
    """A pipeline, and what was read from its checkpoint and from Kafka when its query started."""

    pipeline: Pipeline
    #: id of the checkpoint, which the ledger has, too
    query: str
    #: id of this start of the service
    start: str
    #: path of the checkpoint's folder, for what is not an object of its store (checkpoint/checkpoint_store.py)
    checkpoint: str
    buckets: int
    #: number of topic partitions by stream: inputs, outputs and dead letters
    topic_partitions: Mapping[str, int]
    #: topic -> its `max.message.bytes`
    limits: tuple[tuple[str, int], ...] = ()
    bounds: Bounds = field(default_factory=lambda: BOUNDS)
    #: topics of inputs that Kafka compacts
    compacted: frozenset[str] = frozenset()
    #: topic of an input -> Kafka's id of it
    topic_ids: tuple[tuple[str, str], ...] = ()
    #: topics of inputs that were deleted and created again: no earlier batch can be read from them
    created_again: frozenset[str] = frozenset()
    #: the output streams whose records the buckets write, each to its own topic partitions (model/spreading.py)
    parted: frozenset[str] = frozenset()
    #: the batch that the buckets write before the query starts again with other settings of them; -1: none
    finishing: int = -1
    #: the modules of users' classes, with the digests of their files when the service loaded them
    modules: Mapping[str, str | None] = field(default_factory=class_loader.loaded)

    @property
    def server_name(self) -> str:
        """The name of this start of the query, by which its state servers are found."""
        return f"{self.query}/{self.start}"

    @property
    def returned(self) -> int:
        """The most bytes that one task may return in memory: an equal part of `Bounds.returned` for each bucket, one
        half for its outputs and one half for the rows that pass through unchanged.
        """
        return self.bounds.returned // 2 // self.buckets

    @classmethod
    def of(cls, pipeline: Pipeline, identity: Identity, topics: Mapping[str, Topic], start: str = "") -> Plan:
        """The plan of a query with this checkpoint. `topics` has the topics by name (kafka/topics.py)."""
        streams = [stream for stream in pipeline.streams.values() if stream.topic in topics]
        inputs = [stream.topic for stream in pipeline.inputs]
        return cls(
            pipeline, identity.query, start, str(folder_of(pipeline)), identity.buckets,
            topic_partitions={stream.name: topics[str(stream.topic)].partitions for stream in streams},
            limits=tuple((str(stream.topic), topics[str(stream.topic)].max_message_bytes) for stream in streams),
            compacted=frozenset(name for name in map(str, inputs) if name in topics and topics[name].compacted),
            topic_ids=tuple((name, topics[name].id) for name in map(str, inputs) if name in topics),
        )  # fmt: skip

    @cached_property
    def store(self) -> CheckpointStore:
        """The objects of the checkpoint."""
        return store_at(self.checkpoint, forced=self.forced)

    @property
    def forced(self) -> bool:
        """Whether the disk has everything that a batch needs before the batch is written to Kafka."""
        return self.pipeline.settings.survives_power_loss

    @cached_property
    def pickled(self) -> bytes:
        """The plan for another process of the service: each request to a state server or a reader has it."""
        return pickle.dumps(self)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the pipeline's definition, which the identity of the checkpoint has, too."""
        return fingerprint_of(self.pipeline)

    @cached_property
    def inputs(self) -> tuple[Stream, ...]:
        """The input streams, in order of their port numbers."""
        return self.pipeline.inputs

    @property
    def places(self) -> list[tuple[str, int]]:
        """Topic and number of each topic partition of the inputs, in order of their port numbers."""
        return [
            (str(stream.topic), number)
            for stream in self.inputs
            for number in range(self.topic_partitions[stream.name])
        ]

    @cached_property
    def spread(self) -> Mapping[str, Keys]:
        """The key by which each input stream is spread over buckets (`spread_by`); empty if there is one bucket."""
        return spread_by(self.pipeline) or {}

    @cached_property
    def shared_times(self) -> Mapping[str, SharedTime]:
        """The input streams of which all buckets need the event times (`spreading.shared_times`)."""
        return shared_times(self.pipeline) if self.buckets > 1 else {}

    @cached_property
    def keyed(self) -> frozenset[str]:
        """The input streams whose record keys are needed (`Pipeline.keyed`)."""
        return self.pipeline.keyed

    @cached_property
    def panes(self) -> bool:
        """Whether one watermark, or one instant of the clock, may cause several outputs. Their order is then that of
        their windows, or of event time.
        """
        return any(map(_ordered_by_time, self.pipeline.operators))

    @property
    def has_idle_clock(self) -> bool:
        """Whether the query needs the idle clock.

        True if time alone may cause an output, make a topic partition idle, or end a wait for records (`merging`).
        """
        event_times = [s.event_time for s in self.pipeline.streams.values() if s.event_time is not None]
        due = any(map(_falls_due, self.pipeline.operators)) or any(
            event_time.idle_after is not None for event_time in event_times
        )
        return self.pipeline.settings.clock == "processing" and (due or self.merging)

    @property
    def merging(self) -> bool:
        """Whether records wait for earlier records of other topic partitions (bucket_batch.py)."""
        return self.pipeline.settings.merge == "timestamp"


def _ordered_by_time(operator: Operator) -> bool:
    match operator:
        case Dedup():
            return operator.keep == "last"
        case Delay():
            return bool(operator.partition_by)
        case Join():
            return operator.fires_at_watermarks
        case Aggregate(early=Early(time=int())) if not operator.window.in_arrival_order:
            return True
        case _:
            window = operator.window if isinstance(operator, Windowed) else None
            return window is not None and (window.fires_at_watermarks or window.timed_by_topic_partition)


def _falls_due(operator: Operator) -> bool:
    """Whether the clock alone may cause an output: a window fires, or an unmatched tuple leaves an outer Join."""
    match operator:
        case Map() | Union():
            return False
        case Dedup():
            return operator.keep == "last" and operator.over == "clock"
        case Barrier():
            return operator.timeout is not None
        case Join():
            return operator.window is None and any(
                side.outer and side.window.eviction.by_clock for side in (operator.left, operator.right)
            )
        case Aggregate(early=Early(time=int())) | Delay():
            return True
        case _:
            return operator.window.falls_due(evictions=isinstance(operator, Custom))
