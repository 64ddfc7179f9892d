"""What a pipeline file says, as immutable values. Times are nanoseconds, names are checked, expressions typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.model.expressions import Expression
from sluice.model.secrets import is_secret
from sluice.model.types import Schema
from sluice.model.windows.sliding_time_window import SlidingTime
from sluice.model.windows.sliding_window import Sliding
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.model.windows.tumbling_window import Tumbling
from sluice.model.windows.window_kind import WindowKind as Window
from sluice.model.windows.window_policies import (
    Aligned,
    Count,
    Delta,
    PartitionAge,
    PartitionCount,
    PartitionEviction,
    Punct,
    Time,
    TupleCount,
)

#: the windows of model/windows: they are values of a pipeline, too
__all__ = [
    "Aligned", "Count", "Delta", "PartitionAge", "PartitionCount", "PartitionEviction", "Punct", "Sliding",
    "SlidingTime", "Time", "TimeInterval", "Tumbling", "TupleCount", "Window",
]  # fmt: skip

#: of an attribute; a list's are a tuple
Value = bool | int | float | str | tuple["Value", ...]

# ---- operators -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Output:
    """What an operator writes to one stream: attribute name and expression, in order."""

    stream: str
    attributes: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """SPL's Aggregate (A1). `partition_by` and `group_by` are over the attributes of the input."""

    name: str
    input: str
    window: Window
    outputs: tuple[Output, ...]
    partition_by: tuple[Expression, ...] = ()
    group_by: tuple[Expression, ...] = ()
    aggregate_incomplete_windows: bool = False
    aggregate_evicted_partitions: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class Map:
    """SPL's Functor and Filter: keeps the tuples for which `where` holds and computes the outputs; marks pass (P4)."""

    name: str
    input: str
    outputs: tuple[Output, ...]
    where: Expression | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two ports of a Join.

    equality    over the attributes of this side, pair by pair with those of the other one
    outer       whether a tuple that leaves the window without ever having found a partner comes out
    unmatched   where it goes, the bare tuple (J14); None: to the outputs, beside the other side's `default` (J13)
    default     the tuple that stands for a missing one of this side, a value for each attribute of the stream; times
                are nanoseconds since 1970
    """

    stream: str
    window: Sliding
    partition_by: tuple[Expression, ...] = ()
    equality: tuple[Expression, ...] = ()
    outer: bool = False
    unmatched: Output | None = None
    default: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """SPL's Join (reference section 8). The attributes of its expressions have the port `left` or `right`."""

    name: str
    left: Side
    right: Side
    matched: tuple[Output, ...]
    match: Expression | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """By port. Both may be the same stream: each tuple then arrives on the left, and after that on the right."""
        return (self.left.stream, self.right.stream)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (*self.matched, *(side.unmatched for side in (self.left, self.right) if side.unmatched))


@dataclass(frozen=True, slots=True)
class Sort:
    """SPL's Sort (reference section 9): the tuples as they are, by `order_by`, the most significant first."""

    name: str
    input: str
    window: Window
    outputs: tuple[Output, ...]
    order_by: tuple[Order, ...]
    partition_by: tuple[Expression, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class Order:
    key: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Custom:
    """A windowed operator of a user's own: `handler` names the Python class that hears of the window's events.

    The expressions of the outputs are the attributes of what it sends.
    """

    name: str
    input: str
    handler: str
    window: Window
    outputs: tuple[Output, ...]
    partition_by: tuple[Expression, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


#: those with one window
Windowed = Aggregate | Sort | Custom
Operator = Aggregate | Map | Join | Sort | Custom

# ---- event time ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventTime:
    """Which attribute of a stream is its event time, and how watermarks come about (E1 to E7). Times: nanoseconds."""

    attribute: str
    #: nanoseconds of one unit of the attribute as the engine counts it; 1 for timestamp and float64
    tick: int = 1
    #: how far watermarks stay behind the newest tuple (E3); None: they come as marks, or from the operator upstream
    lag: int | None = None
    #: a watermark is this much above the one before (E3)
    minimum_gap: int = 100_000_000
    #: a topic partition that sends nothing for so long holds no watermark back; None: it does
    idle_after: int | None = None
    #: a tuple further ahead of the clock is a dead letter; None: none is
    max_future: int | None = None


# ---- streams and the service ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Coding:
    """How attributes are written as bytes, those of a record's value or those of its key."""

    #: "json", "avro", "avro-confluent", "csv", "text" or "raw"
    format: str = "json"
    #: Avro schemas as JSON text: the stream's own, and the one that its records were written with, if that is another
    avro_schema: str | None = None
    avro_writer_schema: str | None = None
    #: between the fields of csv
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Key:
    """What a record's key holds: these attributes, which its value does not."""

    attributes: tuple[str, ...]
    coding: Coding


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream; one without a topic lives inside the service only."""

    name: str
    schema: Schema
    topic: str | None = None
    value: Coding = Coding()
    key: Key | None = None
    #: attribute and the header that holds it
    headers: tuple[tuple[str, str], ...] = ()
    #: attribute and the value that it has where the record has none; a timestamp in nanoseconds
    defaults: tuple[tuple[str, Any], ...] = ()
    #: how window marks leave: "record", "header" (on the last tuple of the run) or "none"
    marks: str = "record"
    #: whether its watermarks leave, too
    watermarks: bool = False
    #: topic partitions to create an output topic with, when it is missing; None: it must exist
    partitions: int | None = 1
    event_time: EventTime | None = None
    #: whether operators hand it on through its topic, so that those that read it are a stage of their own (stages.py)
    exchange: bool = False
    #: conditions over a tuple that came in: a window mark stands before it, behind it
    mark_before: Expression | None = None
    mark_after: Expression | None = None
    #: which window mark closes a window: that of a "topic_partition", or the "aligned" marks of all
    marks_in: str = "topic_partition"

    @property
    def key_schema(self) -> Schema:
        """The attributes in the key, in its order."""
        schema = dict(self.schema)
        return tuple((name, schema[name]) for name in self.key.attributes) if self.key else ()

    @property
    def value_schema(self) -> Schema:
        """The attributes that are neither in the key nor in headers."""
        elsewhere = {*(self.key.attributes if self.key else ()), *dict(self.headers)}
        return tuple((name, type_) for name, type_ in self.schema if name not in elsewhere)


class Properties(dict[str, str]):
    """Properties of librdkafka or of the registry's client. Secrets among them are masked wherever they are shown."""

    def masked(self) -> dict[str, str]:
        return {name: "***" if is_secret(name) else value for name, value in self.items()}

    @property
    def secrets(self) -> list[str]:
        """What is masked."""
        return [value for name, value in self.items() if is_secret(name)]

    def __repr__(self) -> str:
        return repr(self.masked())


@dataclass(frozen=True, slots=True)
class Settings:
    """How the service runs; nothing here changes what comes out, apart from the clock's three."""

    kafka: Properties
    #: of the schema registry's client; empty where there is none
    registry: Properties = field(default_factory=Properties)
    #: "processing": the clock follows records and the machine; "records": records alone
    clock: str = "processing"
    #: nanoseconds since 1970 from which periodic timers count; None: the first record's timestamp
    clock_origin: int | None = None
    #: the order of records of several topic partitions: "arrival": that of their batch; "timestamp": they wait
    merge: str = "arrival"
    #: under "timestamp" and the processing clock: how long a topic partition is waited for; nanoseconds
    merge_wait: int = 5_000_000_000
    #: a record whose timestamp is further ahead of its batch's time is a dead letter; nanoseconds
    max_future: int = 3_600_000_000_000
    #: nanoseconds from the start of one batch to the next; 0: as soon as the last is done
    trigger_interval: int = 0
    max_records_per_batch: int = 500_000
    #: by the sizes of the records that a start measures
    max_bytes_per_batch: int = 256 << 20
    buckets: int | None = None
    #: the checkpoint's folder
    checkpoint: str | None = None
    #: "exactly_once" or "at_least_once"
    delivery: str = "exactly_once"
    #: where records are gone that were not read yet: "fail" or "continue"
    on_data_loss: str = "fail"
    #: where an input topic that this service has not read yet is read from: "earliest" or "latest"
    start: str = "earliest"


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    streams: Mapping[str, Stream]
    #: upstream before downstream
    operators: tuple[Operator, ...]
    settings: Settings
    #: the stream of the dead letters
    dead_letters: str | None = None

    @property
    def checkpoint(self) -> str:
        """The folder of the checkpoint, also where the file names none."""
        return self.settings.checkpoint or f"checkpoints/{self.name}"

    @property
    def inputs(self) -> tuple[Stream, ...]:
        """The streams that are read from Kafka: those with a topic that no operator writes."""
        written = {output.stream for operator in self.operators for output in operator.outputs}
        read = {stream for operator in self.operators for stream in operator.inputs}
        return tuple(s for s in self.streams.values() if s.name in read - written)

    @property
    def outputs(self) -> tuple[Stream, ...]:
        """The streams that are written to Kafka by operators: those with a topic."""
        written = {output.stream for operator in self.operators for output in operator.outputs}
        return tuple(s for s in self.streams.values() if s.name in written and s.topic)
