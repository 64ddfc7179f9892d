"""The pipeline as immutable values: streams, operators, settings. Times are in nanoseconds; expressions have types."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sluice.model.engine_limits import LIMITS, EngineLimits
from sluice.model.envelopes.change_events import Envelope
from sluice.model.expressions import Call, Expression, previous_calls, steps_back
from sluice.model.members import Member
from sluice.model.secrets import is_secret
from sluice.model.types import BOOLEAN, INT64, MapType, Schema, StructType, Type, Value
from sluice.model.unparse import expression, expressions, seconds
from sluice.model.windows.empty_panes import EmptyPanes
from sluice.model.windows.join_windows import JoinWindow
from sluice.model.windows.policies.count_policy import Count
from sluice.model.windows.policies.delta_policy import Delta
from sluice.model.windows.policies.early_policy import Early
from sluice.model.windows.policies.partition_policies import PartitionAge, PartitionCount, PartitionEviction, TupleCount
from sluice.model.windows.policies.policy import WITHIN_BATCH, Aligned
from sluice.model.windows.policies.punct_policy import Punct
from sluice.model.windows.policies.time_policy import Time
from sluice.model.windows.sliding_time_window import SlidingTime
from sluice.model.windows.sliding_window import Sliding
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.model.windows.tumbling_window import Tumbling
from sluice.model.windows.window_kind import WindowKind as Window
from sluice.time_units import MAX_TIME

#: the windows of model/windows: they are values of a pipeline, too
__all__ = [
    "Aligned", "Count", "Delta", "Early", "EmptyPanes", "PartitionAge", "PartitionCount", "PartitionEviction", "Punct",
    "Sliding", "SlidingTime", "Time", "TimeInterval", "Tumbling", "TupleCount", "Window",
]  # fmt: skip

#: the attribute of each tuple of a table that says whether the tuple deletes the row of its key; no attribute of a file
#: has this name
DELETES = "-deletes"


# ---- operators -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Output:
    """The output of an operator to one stream: the names and expressions of the attributes, in order."""

    stream: str
    attributes: tuple[tuple[str, Expression], ...]


class Timed:
    """How an operator treats event time. The defaults are those of an operator that compares no times."""

    __slots__ = ()

    @property
    def accepts(self) -> int | None:
        """How many nanoseconds before the watermark a tuple may be: an older one is or can be late. None: no tuple is
        late for the operator.
        """
        return None

    @property
    def holds(self) -> int:
        """By how many nanoseconds at most the operator holds its watermark back (Q8), and so how far its outputs are
        behind the watermarks that it gets.
        """
        return 0


class InWords(ABC):
    """An operator that describes itself, for `sluice explain`, `sluice replay` and the page."""

    __slots__ = ()

    @property
    @abstractmethod
    def word(self) -> str:
        """The key of the pipeline file that gives the operator its kind."""

    @property
    @abstractmethod
    def clauses(self) -> tuple[str, ...]:
        """What it stores, and by which key."""

    @property
    @abstractmethod
    def fires(self) -> tuple[str, str]:
        """When it emits outputs, and how long a tuple waits until then."""

    @property
    @abstractmethod
    def without_output(self) -> str:
        """Why it emits nothing though tuples come in: the end of a sentence."""


class OneInput(Timed):
    """An operator with one input."""

    __slots__ = ()

    input: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


class OneWindow(OneInput):
    """An operator whose only window decides which tuples are late."""

    __slots__ = ()

    window: Window

    @property
    def accepts(self) -> int | None:
        return self.window.accepts


class PassesOn(OneWindow):
    """An operator that may emit the tuples of its window as they came, when the window fires."""

    __slots__ = ()

    @property
    def holds(self) -> int:
        return self.window.holds


@dataclass(frozen=True, slots=True)
class Aggregate(OneWindow):
    """SPL's Aggregate (A1): computes aggregation functions over windows. `partition_by` and `group_by` are expressions
    over the attributes of the input.
    """

    name: str
    input: str
    window: Window
    outputs: tuple[Output, ...]
    partition_by: tuple[Expression, ...] = ()
    group_by: tuple[Expression, ...] = ()
    aggregate_incomplete_windows: bool = False
    aggregate_evicted_partitions: bool = False
    early: Early | None = None
    limits: EngineLimits = LIMITS
    #: whether the final mark flushes a tumbling window (H6)
    emit_rest: bool = False
    #: the results of panes without tuples (EP1); None: there are none
    empty_panes: EmptyPanes | None = None


@dataclass(frozen=True, slots=True)
class Each:
    """The list or map of each tuple whose elements become tuples (ST13).

    item       the name of the element in expressions
    position   the name of its position in the list, from 0; None: it has none
    """

    values: Expression
    item: str
    position: str | None = None

    @property
    def attributes(self) -> Schema:
        """The attributes that the tuples have in addition to those of the input."""
        item = entry_of(self.values.type.present)
        return ((self.item, item), *(((self.position, INT64),) if self.position else ()))

    @property
    def clause(self) -> str:
        """The clause as the file has it."""
        return f"{expression(self.values)} as {self.item}{f' at {self.position}' if self.position else ''}"


def entry_of(type_: Type) -> Type:
    """The type of the elements of a list, and of the entries of a map, which are structs of key and value."""
    if isinstance(type_, MapType):
        return StructType((("key", type_.key), ("value", type_.value)))
    assert type_.element is not None  # noqa: S101 - checked where the file is read
    return type_.element


def by_keys(keys: tuple[Expression, ...]) -> str:
    """The words behind a clause that name its key."""
    return f" by {expressions(keys)}" if keys else ""


@dataclass(frozen=True, slots=True)
class Map(OneInput):
    """SPL's Functor and Filter: makes a tuple for each element of a list if there is `each`, drops the tuples for which
    `where` is not true, computes the outputs, forwards marks (P4).
    """

    name: str
    input: str
    outputs: tuple[Output, ...]
    where: Expression | None = None
    each: Each | None = None


@dataclass(frozen=True, slots=True)
class KeyedMap(Map, InWords):
    """A Map whose outputs read earlier tuples of the same key (PV1). `partition_by` is over the tuples that `where`
    lets through.

    forget_after   after so many nanoseconds without a tuple a key begins anew (PV9); None: it never does
    """

    partition_by: tuple[Expression, ...] = ()
    forget_after: int | None = None
    limits: EngineLimits = LIMITS

    @property
    def calls(self) -> tuple[Call, ...]:
        """The distinct calls of `previous` in the outputs."""
        return previous_calls(e for output in self.outputs for _, e in output.attributes)

    @property
    def values(self) -> tuple[Expression, ...]:
        """The distinct expressions of which earlier values are read."""
        return tuple(dict.fromkeys(call.arguments[0] for call in self.calls))

    @property
    def longest(self) -> int:
        """The number of earlier tuples of a key that are stored."""
        return max(map(steps_back, self.calls), default=1)

    @property
    def word(self) -> str:
        return "map"

    @property
    def clauses(self) -> tuple[str, ...]:
        count = "the tuple before" if self.longest == 1 else f"the {self.longest:,} tuples before"
        until = f", forgotten {seconds(self.forget_after)} s after the last one" if self.forget_after else ""
        return (f"{count}{by_keys(self.partition_by)}: {expressions(self.values)}{until}",)

    @property
    def fires(self) -> tuple[str, str]:
        return "with each tuple", WITHIN_BATCH

    @property
    def without_output(self) -> str:
        return "its condition held for no tuple"


@dataclass(frozen=True, slots=True)
class Split(Map):
    """SPL's Split: passes each tuple unchanged to the output whose condition holds, forwards marks to all of them.

    conditions   by output; None: the output of the tuples for which no other condition holds, the last one
    several      whether a tuple goes to all outputs whose conditions hold; else to the first of them (SW2)
    """

    conditions: tuple[Expression | None, ...] = ()
    several: bool = False


#: the window of each side of a join that has a window of its own
STORES_NOTHING = Sliding(Count(0))


@dataclass(frozen=True, slots=True)
class Union(Timed):
    """Several streams with the same attributes as one stream: the input of an operator that names a list of streams.

    No file has such an operator by itself. Its output is a stream inside the service.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two ports of a Join.

    equality    expressions over this side; each must be equal to the other side's expression at the same position
    outer       whether a tuple is also emitted if it leaves the window and never had a partner
    unmatched   the output for such tuples (J14); None: the outputs of the join, with the other side's `default` (J13)
    default     the tuple that replaces a missing partner of this side, a value for each attribute of the stream; times
                are nanoseconds since 1970
    window      the window of this side; not used if the join itself has a window
    """

    stream: str
    window: Sliding = STORES_NOTHING
    partition_by: tuple[Expression, ...] = ()
    equality: tuple[Expression, ...] = ()
    outer: bool = False
    unmatched: Output | None = None
    default: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Join(Timed):
    """SPL's Join (reference section 8). The attributes of its expressions have the port `left` or `right`.

    window   a window over the event times of both sides; None: each side has a window of its own
    table    whether the right side is a table: each left tuple meets the row of its key (M1)
    """

    name: str
    left: Side
    right: Side
    matched: tuple[Output, ...]
    match: Expression | None = None
    window: JoinWindow | None = None
    table: bool = False
    limits: EngineLimits = LIMITS

    @property
    def fires_at_watermarks(self) -> bool:
        """Whether one watermark may cause the outputs of several keys, which come in the order of event time."""
        return self.window is not None and self.window.fires_at_watermark(outer=self.left.outer or self.right.outer)

    @property
    def accepts(self) -> int | None:
        return None if self.window is None else self.window.accepts

    @property
    def holds(self) -> int:
        return 0 if self.window is None else self.window.holds

    @property
    def inputs(self) -> tuple[str, ...]:
        """By port. Both may be the same stream: each tuple then arrives on the left, and after that on the right."""
        return (self.left.stream, self.right.stream)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (*self.matched, *(side.unmatched for side in (self.left, self.right) if side.unmatched))


@dataclass(frozen=True, slots=True)
class Port:
    """An input of a Barrier. `key` are expressions over it; those of all inputs have the same types."""

    stream: str
    #: its name in expressions
    name: str
    key: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Barrier(Timed, InWords):
    """SPL's Barrier and Pair: the n-th tuples of all inputs with equal keys are a set (BA1). The attributes of its
    expressions have the port of their input.

    apart     whether the tuples of a set come out one after the other, with a mark (Pair); else as one tuple
    buffer    how many tuples of one input and key wait at most (BA4)
    timeout   after so many nanoseconds a tuple does not wait any more (BA5); None: it waits for ever
    """

    name: str
    ports: tuple[Port, ...]
    outputs: tuple[Output, ...]
    apart: bool = False
    buffer: int = 1000
    timeout: int | None = None
    limits: EngineLimits = LIMITS

    @property
    def inputs(self) -> tuple[str, ...]:
        """By port."""
        return tuple(port.stream for port in self.ports)

    @property
    def partition_by(self) -> tuple[Expression, ...]:
        """The key of the first input."""
        return self.ports[0].key

    @property
    def word(self) -> str:
        return "pair" if self.apart else "barrier"

    @property
    def clauses(self) -> tuple[str, ...]:
        return tuple(f"{port.name}{by_keys(port.key)}" for port in self.ports)

    @property
    def fires(self) -> tuple[str, str]:
        scope = "equal keys" if self.partition_by else "each input"
        fires = f"when the last of the next tuples of {scope} comes; at most {self.buffer:,} tuples of an input wait"
        until = f", at most {seconds(self.timeout)} s" if self.timeout else ""
        return fires, f"until the other inputs have theirs{until}"

    @property
    def without_output(self) -> str:
        return "no key had a tuple of each input"


@dataclass(frozen=True, slots=True)
class Sort(PassesOn):
    """SPL's Sort (reference section 9): emits the tuples sorted by `order_by`, most significant first. Each is
    unchanged, or has the attributes of the output, which may be ranks (RK1).
    """

    name: str
    input: str
    window: Window
    outputs: tuple[Output, ...]
    order_by: tuple[Order, ...]
    partition_by: tuple[Expression, ...] = ()
    #: how many tuples of a window come out at most, the first in the order; None: all
    limit: int | None = None
    limits: EngineLimits = LIMITS
    #: whether the final mark flushes a tumbling window (H6)
    emit_rest: bool = False
    #: whether the tuples that are equal to the last of `limit` in the order come out, too (RK3)
    with_ties: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A sort key. `nulls_first`: null is before all values; else it is behind them, in both directions (NU28)."""

    key: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Dedup(OneInput):
    """Emits one tuple of each key and period of time, unchanged (Z1). `by` is the key, over the attributes of the
    input.
    """

    #: the unit in which the period counts event time: that of the attribute
    tick: ClassVar[int | None] = None

    name: str
    input: str
    by: tuple[Expression, ...]
    #: the length of a period, and what it counts: nanoseconds of the "clock" or of "event_time", tuples of all keys
    #: ("count"), or units of the `attribute` ("delta")
    within: int
    over: str
    outputs: tuple[Output, ...]
    #: which tuple of a period is emitted: the "first", at once, or the "last", when the period is over
    keep: str = "first"
    limits: EngineLimits = LIMITS
    #: with "delta" as `over`: the attribute whose values count
    attribute: str = ""
    #: whether a duplicate begins the period anew (Z11), and whether a window mark forgets all keys (Z12)
    reset_on_duplicate: bool = False
    flush_on_mark: bool = False

    @property
    def by_tuples(self) -> bool:
        """Whether the tuples of all keys decide how long a key is remembered (Z9, Z10)."""
        return self.over in ("count", "delta")

    @property
    def accepts(self) -> int | None:
        return 0 if self.over == "event_time" else None

    @property
    def holds(self) -> int:
        """The clock has no bound for the event times of the tuples that it holds."""
        return self.within if self.keep == "last" and self.over == "event_time" else 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The length of a period in nanoseconds."""
        return (self.within,)

    @property
    def clause(self) -> str:
        """The period as the file has it."""
        if self.over == "count":
            return f"count({self.within})"
        if self.over == "delta":
            return f"delta({self.attribute}, {self.within})"
        return f"{'time' if self.over == 'clock' else 'eventTime'}({seconds(self.within)})"


@dataclass(frozen=True, slots=True)
class Delay(OneInput, InWords):
    """SPL's Delay and Throttle: passes tuples and marks on later by the operator clock, in their order (DL1, DL2).

    by            how much later, nanoseconds
    gap           at least so many nanoseconds are between two tuples
    buffer        how many tuples wait at most (DL5), of a key if there is one
    partition_by  the key, whose tuples wait in a line of their own (DL8)
    """

    name: str
    input: str
    outputs: tuple[Output, ...]
    by: int = 0
    gap: int = 0
    buffer: int = 1_000_000
    partition_by: tuple[Expression, ...] = ()

    @property
    def word(self) -> str:
        return "throttle" if self.gap else "delay"

    @property
    def clauses(self) -> tuple[str, ...]:
        delay = f"at least {seconds(self.gap)} s between two tuples" if self.gap else f"{seconds(self.by)} s later"
        return (f"{delay}{by_keys(self.partition_by)}; at most {self.buffer:,} tuples wait",)

    @property
    def fires(self) -> tuple[str, str]:
        if self.gap:
            return f"{seconds(self.gap)} s after the tuple before, or at once", "while more tuples come than go"
        return f"{seconds(self.by)} s after each tuple", f"{seconds(self.by)} s"

    @property
    def without_output(self) -> str:
        return "all its tuples wait"


@dataclass(frozen=True, slots=True)
class Custom(PassesOn):
    """A windowed operator that a user writes: `handler` names the Python class whose methods get the window's events.

    The expressions of the outputs are the attributes of the tuples that the class sends.
    """

    name: str
    input: str
    handler: str
    window: Window
    outputs: tuple[Output, ...]
    partition_by: tuple[Expression, ...] = ()
    limits: EngineLimits = LIMITS


#: the operators with one window
Windowed = Aggregate | Sort | Custom
Operator = Aggregate | Map | Join | Sort | Dedup | Custom | Union | Barrier | Delay
#: the operators that pass window marks on between their tuples
Passing = Map | Dedup | Union | Delay

# ---- event time ----------------------------------------------------------------------------------------------------


#: EventTime.max_future if no tuple is too far ahead, and how far ahead a tuple may be if the file has none: an hour, as
#: for the timestamps of records (Settings.max_future)
UNLIMITED, MAX_AHEAD = MAX_TIME, 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class KeyTime:
    """How the time of each key is computed (KT1 to KT8). Times are in nanoseconds.

    lag            how far the watermark of a key is behind its newest tuple
    minimum_gap    the minimum distance between two watermarks of a key (E3)
    forget_after   after this time of the clock without tuples a key is forgotten (KT4)
    idle_after     after this time of the clock without tuples the windows of a key close (KT3); None: they wait
    """

    lag: int
    minimum_gap: int
    forget_after: int
    idle_after: int | None = None


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of a stream, and how its watermarks are computed (E1 to E7). Times are in nanoseconds."""

    attribute: str
    #: nanoseconds of one unit of the attribute as the engine counts it; 1 for timestamp and float64
    tick: int = 1
    #: how far computed watermarks are behind the newest tuple (E3); None: watermarks come as marks or from an operator
    lag: int | None = None
    #: the minimum distance between two computed watermarks (E3)
    minimum_gap: int = 100_000_000
    #: after this time without items, a topic partition no longer holds the watermark back; None: it always does
    idle_after: int | None = None
    #: a tuple further ahead of the clock becomes a dead letter; UNLIMITED: none does; None: with a `lag`, a service
    #: rejects a tuple that is further than MAX_AHEAD ahead of the time of the batch
    max_future: int | None = None
    #: whether the watermark follows the clock, `lag` behind it, while all topic partitions are idle
    advance: bool = False
    #: None: one watermark for all keys; else each key has its own, and the stream has none
    per_key: KeyTime | None = None


# ---- streams and the service ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The settings of a format. A format with settings has a subclass in its module (wire/formats/)."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How the attributes of a record's value, or of its key, are encoded as bytes."""

    #: a word of the table of formats (wire/formats/format_table.py)
    format: str = "json"
    options: FormatOptions = FormatOptions()


@dataclass(frozen=True, slots=True)
class Key:
    """The attributes in a record's key, which are not in its value, and their encoding."""

    attributes: tuple[str, ...]
    coding: Coding


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream. Without a topic it exists only inside the service."""

    name: str
    schema: Schema
    topic: str | None = None
    value: Coding = Coding()
    key: Key | None = None
    #: attributes that are in headers: (attribute, name of the header)
    headers: tuple[tuple[str, str], ...] = ()
    #: the attribute that is the timestamp of the record; None: no attribute is
    record_timestamp: str | None = None
    #: (attribute, its value for records without one); a timestamp is in nanoseconds
    defaults: tuple[tuple[str, Any], ...] = ()
    #: (attribute, its member of the record), if that is not the strict one of the attribute's name
    members: tuple[tuple[str, Member], ...] = ()
    #: how window marks are written: as a "header" of the last tuple of the firing (marks of firings without tuples are
    #: left out), as a "record" of their own, or "none". Of a stream that no operator writes to Kafka always "record"
    marks: str = "record"
    #: whether watermarks are written
    watermarks: bool = False
    #: number of topic partitions with which a missing output topic is created; None: the topic must exist
    partitions: int | None = 1
    event_time: EventTime | None = None
    #: whether the stream passes through its topic, so that its readers are in another stage (stages.py)
    exchange: bool = False
    #: conditions on input tuples: a window mark is inserted before, or after, a tuple for which the condition is true
    mark_before: Expression | None = None
    mark_after: Expression | None = None
    #: the key of the only window partition that such a mark closes; (): the mark applies as `marks_in` says
    mark_of: tuple[Expression, ...] = ()
    #: to which tuples a window mark applies: those of its "topic_partition", all ("any"), or all once every topic
    #: partition has sent one ("aligned")
    marks_in: str = "topic_partition"
    #: whether the file has `marks_in`
    marks_in_given: bool = False
    #: whether records that cannot be decoded become dead letters of this stage; false if another stage reports them
    reported: bool = True
    #: whether the newest record of each key is a row of a table, and a record without a value deletes the row (M1)
    table: bool = False
    #: what surrounds the row in the value of a record; None: the value is the row
    envelope: Envelope | None = None

    @property
    def row_schema(self) -> Schema:
        """The attributes of the stream's tuples inside the service: those of `schema`, and DELETES in a table."""
        return (*self.schema, (DELETES, BOOLEAN)) if self.table else self.schema

    @property
    def key_schema(self) -> Schema:
        """The attributes in the key, in its order."""
        schema = dict(self.schema)
        return tuple((name, schema[name]) for name in self.key.attributes) if self.key else ()

    @property
    def value_schema(self) -> Schema:
        """The attributes that are neither in the key, in headers nor beside the row of a change event, nor the
        timestamp of the record.
        """
        beside = dict(self.envelope.members) if self.envelope else {}
        elsewhere = {*(self.key.attributes if self.key else ()), *dict(self.headers), self.record_timestamp, *beside}
        return tuple((name, type_) for name, type_ in self.schema if name not in elsewhere)


class Properties(dict[str, str]):
    """Properties of librdkafka or of the registry's client. Secrets among them are masked wherever they are shown."""

    def masked(self) -> dict[str, str]:
        return {name: "***" if is_secret(name) else value for name, value in self.items()}

    @property
    def secrets(self) -> list[str]:
        """The values that are masked."""
        return [value for name, value in self.items() if is_secret(name)]

    def __repr__(self) -> str:
        return repr(self.masked())


#: word of `Settings.latency` -> the share of one processor that the fixed work of batches may take
LATENCIES = {"low": math.inf, "balanced": 0.5, "cheap": 0.1}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the service.

    Only `clock`, `clock_origin`, `merge`, `merge_wait`, `max_future` and `start` affect the content of outputs.
    """

    kafka: Properties
    #: properties of the schema registry's client; empty without a registry
    registry: Properties = field(default_factory=Properties)
    #: "processing": the clock follows records and the machine; "records": records alone
    clock: str = "processing"
    #: nanoseconds since 1970 from which periodic timers count; None: the first record's timestamp
    clock_origin: int | None = None
    #: the order of records of several topic partitions: "arrival" (within a batch) or "timestamp" (over all batches)
    merge: str = "arrival"
    #: for "timestamp" with the processing clock: the maximum wait for a topic partition, in nanoseconds
    merge_wait: int = 5_000_000_000
    #: a record whose timestamp is further ahead of its batch's time becomes a dead letter; nanoseconds
    max_future: int = 3_600_000_000_000
    #: nanoseconds from the start of one batch to the start of the next; 0: without a pause
    trigger_interval: int = 0
    #: decides the interval without `trigger_interval`: a word of LATENCIES, or nanoseconds that a record may wait
    latency: str | int = "balanced"
    max_records_per_batch: int = 250_000
    #: a limit by the record sizes that are measured when the service starts
    max_bytes_per_batch: int = 256 << 20
    #: a batch of at most so many records is read by the service's own process; 0: each batch is a job of Spark
    direct_records: int = 10_000
    buckets: int | None = None
    #: the checkpoint's folder
    checkpoint: str | None = None
    #: the store for snapshots that outlive the checkpoint's folder: the URL of an object store, or another folder
    state: str | None = None
    #: settings of the object store's client
    state_options: Properties = field(default_factory=Properties)
    #: a snapshot goes to that store after this time, in nanoseconds, or after this many records
    snapshot_interval: int = 300_000_000_000
    snapshot_records: int = 10_000_000
    #: what the checkpoint's folder survives: the death of any "process", or of the "machine", by a loss of power
    durability: str = "process"
    #: "exactly_once" or "at_least_once"
    delivery: str = "exactly_once"
    #: which processes write the outputs: "one", or the state servers of the "buckets"; None: the latter on a cluster
    writers: str | None = None
    #: what to do if records were deleted before they were read: "fail" or "continue"
    on_data_loss: str = "fail"
    #: where an input topic without stored offsets is read from: "earliest" or "latest"
    start: str = "earliest"
    #: when a service starts the pipeline again after it has ended: "always", "on-failure" or "never"; None: the default
    #: of the service
    restart: str | None = None
    #: the most nanoseconds that a call of a user's class may take; 0: there is no limit
    class_timeout: int = 60_000_000_000

    @property
    def survives_power_loss(self) -> bool:
        """Whether the disk has the files of a batch before the batch is written to Kafka."""
        return self.durability == "machine"


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
        """The folder of the checkpoint, with its default."""
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

    def writer_of(self, stream: str) -> Operator | None:
        """The operator that writes the stream; None for an input stream."""
        return next(
            (operator for operator in self.operators if any(output.stream == stream for output in operator.outputs)),
            None,
        )

    @property
    def keyed(self) -> frozenset[str]:
        """The input streams whose record keys are needed: those of which an output keeps the key, because only
        operators that keep it are between: Map, Union, and Dedup with `keep: first`.
        """
        written = {stream.name for stream in self.outputs}
        keyed: set[str] = set()
        for operator in reversed(self.operators):
            targets = {output.stream for output in operator.outputs}
            if isinstance(operator, Passing) and targets & (written | keyed):
                keyed.update(operator.inputs)
        return frozenset(keyed)
