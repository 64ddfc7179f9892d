"""The models of the pipeline file: which keys it may have, and which kinds of values.

Whether the values fit together is checked in checks/build.py. The JSON Schema for editors is generated from these
models, with their docstrings as descriptions:
`python -m sluice.config.syntax.file_models > schemas/pipeline.schema.json`.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError

from sluice.config.syntax.durations import EXAMPLES, WITH_UNIT, seconds
from sluice.model.errors import one_of
from sluice.model.types import SCALARS
from sluice.model.windows.kinds import SIZED, kinds_reading

NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
TYPE = rf"^\s*(list<\s*)*({'|'.join(SCALARS)})\s*(>\s*)*$"
#: what every window clause has: a policy, or a part that its kind needs
NEEDED = (
    "count",
    "time",
    "delta",
    "punct",
    *(part for of in SIZED.values() for part in of.parts if of.parts[part].needed),
)
WINDOW = rf"\b({'|'.join(NEEDED)})\s*\("


def written(value: object) -> object:
    """The text of a number or a boolean, which YAML reads as a value, while it is an expression here."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


#: text of a property or of a time, which a later check reads
Text = Annotated[str, BeforeValidator(written), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Name = Annotated[str, WithJsonSchema({"type": "string", "pattern": NAME})]
TypeName = Annotated[
    str,
    Field(max_length=200),
    WithJsonSchema({"type": "string", "pattern": TYPE, "examples": ["float64", "list<string>"]}),
]
ExpressionText = Annotated[
    str,
    Field(max_length=20_000),
    BeforeValidator(written),
    WithJsonSchema({"type": ["string", "number", "boolean"], "examples": ["Sum(price * size) / Sum(size)", "symbol"]}),
]
#: limited because parsing takes time that grows with the square of the length
WindowText = Annotated[str, Field(max_length=4_000)]
Attributes = dict[str, ExpressionText]

# A discriminator returns the tag of a union's member. pydantic also inserts this tag into the path of an error.
MAPPING, LIST, AGGREGATE, MAP, JOIN, SORT = "<mapping>", "<list>", "<aggregate>", "<map>", "<join>", "<sort>"
NAMED, CUSTOM = "<named>", "<custom>"
Outputs = Annotated[
    Annotated[dict[str, Attributes], Tag(MAPPING)] | Annotated[list[str], Tag(LIST)],
    Discriminator(lambda value: LIST if isinstance(value, list) else MAPPING),
    Field(
        description="Per stream the attributes that are written to it, each an expression. "
        "A list of streams writes the attributes of the input as they are.",
        examples=[{"averages": {"symbol": "symbol", "price": "Average(price)"}}, ["large"]],
    ),
]


class FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# An Avro schema is the path of a file, or the schema itself. A tag distinguishes the two, too.
FILE, INLINE = "<file>", "<inline>"
AvroSchema = Annotated[
    Annotated[str, Tag(FILE)] | Annotated[dict[str, Any], Tag(INLINE)],
    Discriminator(lambda value: INLINE if isinstance(value, dict) else FILE),
]


class KeyShape(FileModel):
    """What the keys of records hold."""

    attributes: list[str] = Field(description="The attributes that the key holds, and not the value.", min_length=1)
    format: Literal["text", "json", "avro", "avro-confluent"] = Field(
        "text", description="How they are written: text for one attribute, the others for any number."
    )
    avro_schema: AvroSchema | None = Field(None, description="As of a stream, for the key.")
    avro_writer_schema: AvroSchema | None = Field(None, description="As of a stream, for the key.")


def read_duration(value: object) -> object:
    """The seconds of a text such as `30s`. Other values are returned as they are."""
    if not isinstance(value, str):
        return value
    found = seconds(value.strip())
    if found is None:
        kind, message = "duration", "seconds or a duration, such as {examples}"
        raise PydanticCustomError(kind, message, {"examples": EXAMPLES})
    return float(found)


#: seconds; the file may also have a number with a unit
Duration = Annotated[
    float,
    BeforeValidator(read_duration),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": rf"^\s*{WITH_UNIT}\s*$"}]}
    ),
]
Seconds = Annotated[Duration, Field(le=2**33)]


class EventTimeShape(FileModel):
    """When the things happened that the tuples tell of, and how watermarks follow (SPL's @eventTime)."""

    attribute: str = Field(description="The attribute: a timestamp, an int64, or a float64 with seconds since 1970.")
    resolution: Literal["milliseconds", "microseconds", "nanoseconds"] | None = Field(
        None,
        description="What an int64 counts since 1970; milliseconds unless it is given.",
    )
    lag: Seconds | None = Field(
        None,
        description="Watermarks are made from the tuples: so many seconds behind the newest. Without it they come as "
        "marks, or from the operator that writes the stream.",
    )
    minimum_gap: Seconds = Field(
        0.1,
        description="Seconds of event time from one watermark that is made to the next.",
    )
    idle_after: Seconds | None = Field(
        None,
        description="A topic partition that sends nothing for so many seconds holds no watermark back.",
    )
    max_future: Seconds | None = Field(
        None,
        description="A tuple whose event time is so many seconds ahead of the clock is a dead letter.",
    )


class MarkWhenShape(FileModel):
    """Which tuples tell of a window mark, for producers that cannot send any."""

    before: ExpressionText | None = Field(
        None,
        description="A condition: a window mark stands before each tuple for which it holds.",
        examples=["kind == 'start'"],
    )
    after: ExpressionText | None = Field(
        None,
        description="A condition: a window mark stands behind each tuple for which it holds.",
        examples=["last"],
    )


class StreamShape(FileModel):
    """A stream: a Kafka topic, or without `topic` one that lives inside the service."""

    topic: str | None = Field(None, description="The Kafka topic. Without it the stream lives inside the service.")
    format: Literal["json", "avro", "avro-confluent", "csv", "text", "raw"] = Field(
        "json", description="How a tuple is written as the value of a record."
    )
    attributes: dict[str, TypeName] | None = Field(
        None,
        alias="schema",
        description="The attributes and their types. Needed where the stream is read from Kafka; elsewhere it follows "
        "from the operator that writes the stream, and is checked against it if it is given.",
        examples=[{"symbol": "string", "price": "float64", "time": "timestamp"}],
    )
    avro_schema: AvroSchema | None = Field(
        None,
        description="For avro and avro-confluent: a file with the Avro schema, its path seen from this file, or the "
        "schema itself.",
        examples=["trade.avsc"],
    )
    avro_writer_schema: AvroSchema | None = Field(
        None,
        description="For avro: what the records were written with, where that is another schema than `avro_schema`.",
    )
    delimiter: str = Field(
        ",", min_length=1, max_length=1, description="For csv: the character between two fields.", examples=[";"]
    )
    key: KeyShape | None = Field(
        None,
        description="Attributes that are in the key of a record. Without it the key is bytes that nobody reads, and is "
        "written as docs/formats.md says.",
        examples=[{"attributes": ["symbol"]}],
    )
    headers: dict[str, str] = Field(
        {},
        description="Attributes that are in headers of a record, as text: attribute and name of the header.",
        examples=[{"trace": "trace-id"}],
    )
    defaults: dict[str, Any] = Field(
        {},
        description="Values that attributes have where a record has none or null, as JSON has them.",
        examples=[{"size": 0}],
    )
    event_time: (
        Annotated[
            Annotated[str, Tag(NAMED)] | Annotated[EventTimeShape, Tag(MAPPING)],
            Discriminator(lambda value: NAMED if isinstance(value, str) else MAPPING),
        ]
        | None
    ) = Field(
        None,
        description="The attribute with the event time, or a mapping with more about it. Streams behind inherit it "
        "where they have the attribute.",
        examples=["time", {"attribute": "time", "lag": 5.0}],
    )
    marks: Literal["record", "header", "none"] = Field(
        "record",
        description="How window marks are written: as a record of their own, as a header of the last tuple before "
        "them, or not at all.",
    )
    mark_when: MarkWhenShape | None = Field(
        None,
        description="Of a stream that is read: which tuples tell of a window mark, beside the marks that come in.",
        examples=[{"after": "last"}],
    )
    marks_in: Literal["topic_partition", "aligned"] = Field(
        "topic_partition",
        description="Of a stream that is read, what a window mark is for: what came from its topic partition, or "
        "(aligned) the whole stream, once every topic partition has sent one; what a quicker one sent behind its mark "
        "waits.",
    )
    watermarks: bool = Field(
        default=False,
        description="Whether watermarks are written, as records of their own in every topic partition, for whoever "
        "reads the topic. Needs an event time.",
    )
    partitions: int | None = Field(
        1,
        ge=1,
        description="Topic partitions to create a missing output topic with; null: it must exist.",
    )
    exchange: bool = Field(
        default=False,
        description="For a stream that one operator writes and another reads: whether it goes through its topic, so "
        "that the two run apart, each spread over buckets by its own keys.",
    )


class AlignShape(FileModel):
    """Where the ticks of a timer stand on the wall clock."""

    at: str = Field("00:00", description="The local time of one of the ticks: hours and minutes, perhaps seconds.")
    zone: str = Field(
        "UTC",
        description="The time zone, by its name in the time zone database.",
        examples=["Europe/Berlin"],
    )
    on: Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] | None = Field(
        None, description="With a period of a week: the day that it begins on."
    )


def aligned() -> Any:  # noqa: ANN401 - pydantic's fields have no type of their own
    return Field(
        None,
        description="For tumbling time(...) and a time(...) trigger: the timer goes by the wall clock of a zone, "
        "daylight saving included, not by the clock's origin. The seconds divide a day, or are a week.",
        examples=[{"at": "23:59", "zone": "Europe/Berlin"}],
    )


class AggregateShape(FileModel):
    """Aggregation functions over the windows of a stream (SPL's Aggregate)."""

    name: Name = Field(description="The operator's name, which its state is kept under.")
    aggregate: str = Field(description="The input stream.")
    window: WindowText = Field(
        description="The window clause, in SPL's words: tumbling or sliding, an eviction policy, for sliding a trigger "
        "policy, partitioned, and with it perhaps which partitions leave. Policies: count(n), time(seconds), "
        "delta(attribute, size), punct(); of partitions partitionAge(seconds), partitionCount(n), tupleCount(n). "
        f"Or a kind with sizes: {one_of(list(SIZED))}.",
        examples=[
            "sliding, time(300.0), count(1), partitioned",
            "tumbling, punct()",
            "tumbling, delta(time, 60.0)",
            *(kind.example for kind in SIZED.values()),
        ],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = Field(
        [],
        description="The key: each value has windows of its own. Goes with `partitioned` in the window clause.",
    )
    group_by: list[ExpressionText] = Field(
        [],
        description="Splits the content of a window that fires: an output tuple for each value.",
    )
    aggregate_incomplete_windows: bool = Field(
        default=False,
        description="Whether a sliding window gives results before it was full for the first time.",
    )
    aggregate_evicted_partitions: bool = Field(
        default=False,
        description="Whether a tumbling window gives results for a partition that partitionAge, partitionCount or "
        "tupleCount throws away.",
    )
    align: AlignShape | None = aligned()
    emit: Literal["final", "updates"] = Field(
        "final",
        description=f"When a {kinds_reading('emit')} window comes out: once, as it closes, or whenever it changes.",
    )
    window_set: Literal["distinct", "perTimestampForward", "perTimestampBackward"] = Field(
        "distinct",
        description="Which windows slidingTime has: one for each distinct set of tuples, or one for each event time, "
        "starting or ending there.",
    )
    output: Outputs


class MapShape(FileModel):
    """One tuple in, one or none out; marks pass (SPL's Functor and Filter)."""

    name: Name = Field(description="The operator's name.")
    map: str = Field(description="The input stream.")
    where: ExpressionText | None = Field(
        None,
        description="A condition; tuples for which it does not hold are left out.",
        examples=["price > 0 and symbol != ''"],
    )
    output: Outputs


def side_window(side: str) -> Any:  # noqa: ANN401 - pydantic's fields have no type of their own
    return Field(
        description=f"The window of the {side} side: `sliding`, an eviction policy, and `partitioned`. `count(0)` "
        "keeps nothing: its tuples only look for partners.",
        examples=["sliding, time(60.0)", "sliding, count(1), partitioned"],
        json_schema_extra={"pattern": WINDOW},
    )


def side_partition_by(side: str) -> Any:  # noqa: ANN401
    return Field(
        [],
        description=f"The key of the {side} side's window. It shapes that window and limits no matches: "
        "`equality_left` and `equality_right` do.",
    )


def side_default(side: str, algorithm: str) -> Any:  # noqa: ANN401
    return Field(
        None,
        description=f"With {algorithm} or outer: the attributes of the {side} side where a tuple comes out alone. What "
        'is not given is 0, false, "" or an empty list.',
        examples=[{"price": 0.0, "note": "none"}],
    )


def side_unmatched(side: str) -> Any:  # noqa: ANN401
    return Field(
        None,
        description=f"With {side}Outer or outer: a stream of their own for the {side} side's tuples that come out "
        "alone, as they are; without it they go to `output`.",
    )


class PortsShape(FileModel):
    """The streams on the two sides of a join; they may be the same one."""

    left: str = Field(description="The stream whose tuples arrive on the left.")
    right: str = Field(description="The stream whose tuples arrive on the right.")


class JoinShape(FileModel):
    """Pairs of tuples of two streams, each pair while both are in their windows (SPL's Join)."""

    name: Name = Field(description="The operator's name, which its state is kept under.")
    join: PortsShape = Field(
        description="The two input streams. Expressions say `left.price` and `right.price`; a name that only one side "
        "has needs no side.",
        examples=[{"left": "orders", "right": "payments"}],
    )
    window_left: WindowText = side_window("left")
    window_right: WindowText = side_window("right")
    partition_by_left: list[ExpressionText] = side_partition_by("left")
    partition_by_right: list[ExpressionText] = side_partition_by("right")
    equality_left: list[ExpressionText] = Field(
        [],
        description="What must be equal in a pair, entry by entry with `equality_right`. It is looked up, not "
        "searched.",
        examples=[["order"]],
    )
    equality_right: list[ExpressionText] = Field([], description="The other side of `equality_left`.")
    match: ExpressionText | None = Field(
        None,
        description="What must hold besides. Without it and without equality every tuple meets every one.",
        examples=["left.price > right.price"],
    )
    algorithm: Literal["inner", "leftOuter", "rightOuter", "outer"] = Field(
        "inner",
        description="Of which sides a tuple comes out too that leaves its window without ever having had a partner.",
    )
    default_left: dict[str, Any] | None = side_default("left", "rightOuter")
    default_right: dict[str, Any] | None = side_default("right", "leftOuter")
    unmatched_left: str | None = side_unmatched("left")
    unmatched_right: str | None = side_unmatched("right")
    output: Outputs


class SortShape(FileModel):
    """The tuples of a stream in order (SPL's Sort)."""

    name: Name = Field(description="The operator's name, which its state is kept under.")
    sort: str = Field(description="The input stream.")
    window: WindowText = Field(
        description="The window clause. A tumbling window comes out in order when it fires, so does each pane of "
        "timeInterval. `sliding, count(n)` holds n tuples and lets the first of them go when another one comes.",
        examples=["sliding, count(100)", "tumbling, time(1.0), partitioned", "timeInterval, intervalDuration(60.0)"],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = Field(
        [],
        description="The key: each value has windows of its own. Goes with `partitioned` in the window clause.",
    )
    align: AlignShape | None = aligned()
    order_by: dict[str, Literal["asc", "desc"]] = Field(
        description="Expressions, the most significant first, each ascending or descending.",
        min_length=1,
        examples=[{"price": "desc", "time": "asc"}],
    )
    output: list[str] = Field(description="The streams that the tuples are written to, as they are.", min_length=1)


class CustomShape(FileModel):
    """What a Python class makes of the events of a window."""

    name: Name = Field(description="The operator's name, which its state is kept under.")
    custom: str = Field(description="The input stream.")
    handler: str = Field(
        description="The Python class, a WindowHandler, as `package.module:Class`. It runs row by row.",
        examples=["trading.gaps:Gaps"],
    )
    window: WindowText = Field(
        description="The window clause; any that an aggregate may have.",
        examples=["sliding, count(2), partitioned"],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = Field(
        [],
        description="The key: each value has windows of its own. Goes with `partitioned` in the window clause.",
    )
    align: AlignShape | None = aligned()
    output: list[str] = Field(description="The streams that what the class sends is written to.", min_length=1)


#: the key that gives the kind of an operator -> the tag of that kind
KINDS = {"aggregate": AGGREGATE, "map": MAP, "join": JOIN, "sort": SORT, "custom": CUSTOM}
#: tag -> model
SHAPES: dict[str, type[FileModel]] = {
    AGGREGATE: AggregateShape, MAP: MapShape, JOIN: JoinShape, SORT: SortShape, CUSTOM: CustomShape,
}  # fmt: skip
OperatorShape = AggregateShape | MapShape | JoinShape | SortShape | CustomShape
#: keys besides `output` that name an output stream of an operator
UNMATCHED = ("unmatched_left", "unmatched_right")


def inputs_of(operator: OperatorShape) -> list[tuple[tuple[str, ...], str]]:
    """The input streams in the order of their ports, each with its path within the operator."""
    match operator:
        case AggregateShape():
            return [(("aggregate",), operator.aggregate)]
        case MapShape():
            return [(("map",), operator.map)]
        case SortShape():
            return [(("sort",), operator.sort)]
        case CustomShape():
            return [(("custom",), operator.custom)]
        case JoinShape(join=ports):
            return [(("join", "left"), ports.left), (("join", "right"), ports.right)]


def kind_of(value: object) -> str | None:
    if isinstance(value, dict):
        return next((tag for key, tag in KINDS.items() if key in value), None)
    return AGGREGATE


AnyOperator = Annotated[
    Annotated[AggregateShape, Tag(AGGREGATE)]
    | Annotated[MapShape, Tag(MAP)]
    | Annotated[JoinShape, Tag(JOIN)]
    | Annotated[SortShape, Tag(SORT)]
    | Annotated[CustomShape, Tag(CUSTOM)],
    Discriminator(kind_of),
]


class FileShape(FileModel):
    """A pipeline of Sluice: windows over Kafka topics."""

    pipeline: Name = Field(description="The pipeline's name. Its transactions and its ledger are kept under it.")
    streams: dict[str, StreamShape] = Field(description="All streams, by name.", min_length=1)
    operators: list[AnyOperator] = Field(description="What is done, in any order.", min_length=1)
    dead_letters: str | None = Field(
        None,
        description="The stream for records that cannot be handled, with the reason in their headers. It has a topic "
        "and no schema. Without it they are only counted and logged.",
    )
    kafka: dict[str, Text] = Field(
        {},
        description="Properties of librdkafka. ${NAME} stands for an environment variable, ${file:PATH} for a file.",
        examples=[{"bootstrap.servers": "kafka:9092", "sasl.password": "${KAFKA_PASSWORD}"}],
    )
    registry: dict[str, Text] = Field(
        {},
        description="The schema registry of avro-confluent: properties of Confluent's client. ${NAME} and ${file:PATH} "
        "as under kafka.",
        examples=[{"url": "https://registry:8081", "basic.auth.user.info": "${REGISTRY_USER}"}],
    )
    clock: Literal["processing", "records"] = Field(
        "processing",
        description="What moves the clock of time windows: records and the machine's clock, or records alone.",
    )
    clock_origin: Text | None = Field(
        None,
        description="The time that periodic timers count from: ISO 8601 or seconds since 1970. Without it the "
        "timestamp of the first record.",
        examples=["2013-01-01T00:00:00Z", 0],
    )
    merge: Literal["arrival", "timestamp"] = Field(
        "arrival",
        description="In which order records of several topic partitions are handled: by their timestamps within each "
        "batch as it comes (arrival), or within all, for which they wait for each other (timestamp).",
    )
    merge_wait: Duration = Field(
        5.0,
        description="With merge: timestamp, seconds that a silent topic partition is waited for; what comes later "
        "counts as arriving now. With clock: records it is waited for without end.",
    )
    max_future: Duration = Field(
        3600.0,
        description="Seconds that the timestamp of a record may be ahead of the time at which it is read; beyond it "
        "the record is a dead letter.",
    )
    trigger_interval: Duration = Field(
        0.0,
        description="Seconds from the start of one batch to the next; 0: as soon as the last is done.",
    )
    max_records_per_batch: int = Field(500_000, ge=1, le=2**29, description="The most records that one batch reads.")
    max_bytes_per_batch: int = Field(
        256 << 20,
        ge=1,
        le=2**53,
        description="Bytes that one batch reads, keys, values and headers, about: each start of the service measures "
        "how large the next records are. Lowers max_records_per_batch, never below one record.",
    )
    buckets: int | None = Field(
        None,
        ge=1,
        le=65536,
        description="Slices of keys, the unit of parallel work. Cannot be changed later.",
    )
    checkpoint: str | None = Field(None, description="Folder or URL that the progress is kept in.")
    delivery: Literal["exactly_once", "at_least_once"] = Field("exactly_once", description="What is promised.")
    on_data_loss: Literal["fail", "continue"] = Field(
        "fail",
        description="What to do when records are gone that were not read yet, by retention or with their topic: end "
        "with an error, or go on with what is there.",
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Where an input topic is read from that was never read before.",
    )


def json_schema() -> dict[str, Any]:
    _, schema = models_json_schema([(FileShape, "validation")], by_alias=True)
    definitions: dict[str, Any] = schema["$defs"]
    top = definitions.pop("FileShape")
    header = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sluice pipeline"}
    return {**header, **{key: value for key, value in top.items() if key != "title"}, "$defs": definitions}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
