"""The models of the pipeline file: which keys it may have, and which kinds of values.

Whether the values fit together is checked in checks/build.py. The JSON Schema for editors is generated from these
models, with their docstrings as descriptions:
`python -m sluice.config.syntax.file_models > schemas/pipeline.schema.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema, create_model
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError

from sluice.config.syntax.durations import EXAMPLES, WITH_UNIT, seconds
from sluice.model.errors import one_of
from sluice.model.types import SCALARS
from sluice.model.windows.join_windows import JOIN_WINDOWS
from sluice.model.windows.kinds import SIZED, kinds_reading, kinds_with_early
from sluice.wire.formats.format_table import FORMATS

#: between the names of the streams of a union
PLUS = "+"
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


def union_of(streams: Sequence[str]) -> str:
    """The name of the union of these streams. No stream of a file has a name with a plus sign."""
    return PLUS.join(streams)


def _are_texts(values: Sequence[object]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


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
#: the input of an operator: a stream, or several with the same attributes, which the operator reads as one
Input = Annotated[
    str,
    BeforeValidator(lambda value: union_of(value) if isinstance(value, list) and _are_texts(value) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
INPUT = "The input stream, or a list of streams with the same attributes, which are read as one."
#: limited because parsing takes time that grows with the square of the length
WindowText = Annotated[str, Field(max_length=4_000)]
Attributes = dict[str, ExpressionText]

# A discriminator returns the tag of a union's member. pydantic also inserts this tag into the path of an error.
MAPPING, LIST, AGGREGATE, MAP, JOIN, SORT = "<mapping>", "<list>", "<aggregate>", "<map>", "<join>", "<sort>"
NAMED, DEDUP, CUSTOM = "<named>", "<dedup>", "<custom>"
Outputs = Annotated[
    Annotated[dict[str, Attributes], Tag(MAPPING)] | Annotated[list[str], Tag(LIST)],
    Discriminator(lambda value: LIST if isinstance(value, list) else MAPPING),
    Field(
        description="For each output stream its attributes, each with an expression. "
        "A list of streams writes the attributes of the input unchanged.",
        examples=[{"averages": {"symbol": "symbol", "price": "Average(price)"}}, ["large"]],
    ),
]


class FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def with_formats(base: type[FileModel], *, in_keys: bool) -> type[FileModel]:
    """The model with the words of the formats as `format`, and with the keys that set options of a format."""
    formats = {word: one for word, one in FORMATS.items() if one.in_keys or not in_keys}
    words = sorted(formats, key=lambda word: word != base.model_fields["format"].default)
    options = {name: key for one in formats.values() for name, key in one.keys.items() if key.of_key or not in_keys}
    fields = {
        name: (key.annotation, Field(None, description=key.of_key) if in_keys else key.field)
        for name, key in options.items()
    }
    of_format = (Literal[*words], base.model_fields["format"])
    return create_model(base.__name__, __base__=base, **{"format": of_format, **fields})  # type: ignore[call-overload, no-any-return]


class KeyHead(FileModel):
    """The keys of `KeyShape` that do not depend on formats."""

    attributes: list[str] = Field(
        description="The attributes that the key holds. They are not part of the value.", min_length=1
    )
    format: str = Field(
        "text",
        description="How the key is encoded. `text` is for one attribute; the other formats take any number of "
        "attributes.",
    )


class KeyShape(with_formats(KeyHead, in_keys=True)):  # type: ignore[misc]
    """The encoding of the keys of records."""


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
    """The event time of a stream, and how watermarks are computed from it (SPL's @eventTime)."""

    attribute: str = Field(
        description="The attribute with the event time: a timestamp, an int64, or a float64 with seconds since 1970."
    )
    resolution: Literal["milliseconds", "microseconds", "nanoseconds"] | None = Field(
        None,
        description="The unit of an int64 event time, counted since 1970. The default is milliseconds.",
    )
    lag: Seconds | None = Field(
        None,
        description="Seconds by which the computed watermarks are behind the latest event time. Without it, no "
        "watermarks are computed from the tuples: they arrive as marks, or from the operator that "
        "writes the stream.",
    )
    minimum_gap: Seconds = Field(
        0.1,
        description="The minimum distance between two computed watermarks, in seconds of event time.",
    )
    idle_after: Seconds | None = Field(
        None,
        description="A topic partition that sends nothing for this many seconds no longer holds the watermark of "
        "the stream back.",
    )
    advance: bool = Field(
        default=False,
        description="Whether the watermark follows the clock, `lag` behind it, while all topic partitions are idle. So "
        "the windows of a quiet stream close. Needs `lag` and `idle_after`.",
    )
    max_future: Seconds | None = Field(
        None,
        description="A tuple whose event time is more than this many seconds ahead of the clock becomes a dead letter.",
    )


class MarkWhenShape(FileModel):
    """Conditions on tuples that insert window marks, for producers that cannot send marks."""

    before: ExpressionText | None = Field(
        None,
        description="A condition. A window mark is inserted before each tuple for which the condition is true.",
        examples=["kind == 'start'"],
    )
    after: ExpressionText | None = Field(
        None,
        description="A condition. A window mark is inserted after each tuple for which the condition is true.",
        examples=["last"],
    )
    of: Annotated[
        list[ExpressionText],
        BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = Field(
        [],
        description="The key, one expression or a list: a mark closes the window partition with the key of its tuple "
        "alone. It is the `partition_by` of the `punct()` windows that read the stream. Without it, a mark applies as "
        "`marks_in` says.",
        examples=["symbol", ["symbol", "venue"]],
    )


class StreamHead(FileModel):
    """The keys of a stream that come before those that its format adds (`StreamShape`)."""

    topic: str | None = Field(
        None, description="The Kafka topic. A stream without a topic exists only inside the service."
    )
    format: str = Field("json", description="How a tuple is encoded as the value of a record.")
    attributes: dict[str, TypeName] | None = Field(
        None,
        alias="schema",
        description="The attributes and their types. Required for a stream that is read from Kafka. For other "
        "streams it is derived from the operator that writes the stream, and compared with this schema "
        "if one is given.",
        examples=[{"symbol": "string", "price": "float64", "time": "timestamp"}],
    )


class StreamShape(with_formats(StreamHead, in_keys=False)):  # type: ignore[misc]
    """A stream: a Kafka topic or, without `topic`, a stream inside the service."""

    key: KeyShape | None = Field(
        None,
        description="Attributes that are stored in the key of the record. Without it, keys of input records are "
        "ignored, and keys of output records are as docs/formats.md describes.",
        examples=[{"attributes": ["symbol"]}],
    )
    headers: dict[str, str] = Field(
        {},
        description="Attributes that are stored in headers of the record, as text: attribute -> name of the header.",
        examples=[{"trace": "trace-id"}],
    )
    record_timestamp: str | None = Field(
        None,
        description="The attribute that is the timestamp of the Kafka record. It is not part of the value, and may be "
        "the event time. Its type is timestamp; of an output also int64, with milliseconds since 1970. Without it, the "
        "timestamp of an output's record is the operator clock.",
        examples=["sent"],
    )
    defaults: dict[str, Any] = Field(
        {},
        description="The value of an attribute, in JSON, for records in which the attribute is missing or null.",
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
        description="The attribute with the event time, or a mapping with further settings. Streams derived from "
        "this one inherit the event time if they have the attribute.",
        examples=["time", {"attribute": "time", "lag": 5.0}],
    )
    marks: Literal["header", "record", "none"] | None = Field(
        None,
        description="How window marks are written. `header`: as a header of the last tuple of a firing; a firing "
        "without tuples writes nothing. `record`: as records of their own, also for firings without tuples. `none`: "
        "not at all. Default: `header`; `record` for an exchange, and for marks that come from Kafka and pass through "
        "maps.",
    )
    mark_when: MarkWhenShape | None = Field(
        None,
        description="For an input stream: conditions on tuples that insert window marks, in addition to the marks "
        "in the topic.",
        examples=[{"after": "last"}],
    )
    marks_in: Literal["topic_partition", "any", "aligned"] = Field(
        "topic_partition",
        description="For an input stream: which tuples a window mark covers. `topic_partition`: the tuples of its "
        "topic partition. `any`: the tuples of the whole stream. `aligned`: the tuples of the whole stream; the mark "
        "takes effect when every topic partition has sent it, and items that follow it in faster topic partitions are "
        "buffered until then. Required if a `punct()` window reads a topic with several topic partitions.",
    )
    watermarks: bool = Field(
        default=False,
        description="Whether watermarks are written to the topic, as records of their own in every topic partition. "
        "Requires an event time.",
    )
    partitions: int | None = Field(
        1,
        ge=1,
        description="The number of topic partitions with which a missing output topic is created; null: the topic "
        "must exist.",
    )
    exchange: bool = Field(
        default=False,
        description="For a stream that one operator writes and another one reads: whether the tuples pass through "
        "the topic. The two operators then run in different stages, each distributed over buckets by "
        "its own keys.",
    )
    table: bool = Field(
        default=False,
        description="For an input stream with a `key` that is the right side of a join: whether it is a table. The "
        "newest record of a key is the row of the key, and a record without a value deletes the row. The first start "
        "loads the topic up to its end before any other record is handled.",
    )


class AlignShape(FileModel):
    """The times of a timer's ticks on the wall clock."""

    at: str = Field("00:00", description="The local time of one of the ticks: hours and minutes, optionally seconds.")
    zone: str = Field(
        "UTC",
        description="The name of the time zone in the time zone database.",
        examples=["Europe/Berlin"],
    )
    on: Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] | None = Field(
        None, description="For a period of one week: the day of the week on which it begins."
    )


def aligned() -> Any:  # noqa: ANN401 - pydantic's fields have no type of their own
    return Field(
        None,
        description="For tumbling time(...) and a time(...) trigger: the timer follows the wall clock of a time zone, "
        "with daylight saving time, instead of the clock's origin. The period must divide a day, or be a week. For "
        "timeInterval with an intervalDuration of a day, a week, month, quarter or year: the panes are these periods "
        "of the zone.",
        examples=[{"at": "23:59", "zone": "Europe/Berlin"}],
    )


class AggregateShape(FileModel):
    """Computes aggregation functions over the windows of a stream (SPL's Aggregate)."""

    name: Name = Field(description="The operator's name. The state of the operator is stored under this name.")
    aggregate: Input = Field(description=INPUT, examples=["trades", ["trades", "late_trades"]])
    window: WindowText = Field(
        description="The window clause, in SPL's syntax: `tumbling` or `sliding`, an eviction policy, for `sliding` "
        "optionally a trigger policy, and optionally `partitioned` with a policy of partition eviction. Policies: "
        "count(n), time(seconds), delta(attribute, size), punct(). Policies of partition eviction: "
        "partitionAge(seconds), partitionCount(n), tupleCount(n). "
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
        description="The key: each value has its own windows. Requires `partitioned` in the window clause.",
    )
    group_by: list[ExpressionText] = Field(
        [],
        description="Expressions that divide the tuples of a firing window into groups. Each group gives one output "
        "tuple.",
    )
    aggregate_incomplete_windows: bool = Field(
        default=True,
        description="Whether a sliding window emits results before it was full for the first time. SPL's default is "
        "false: count(n) then emits nothing for the first n - 1 tuples, delta nothing until a tuple is evicted.",
    )
    aggregate_evicted_partitions: bool = Field(
        default=False,
        description="Whether a tumbling window emits results for a partition that is evicted by partitionAge, "
        "partitionCount or tupleCount.",
    )
    align: AlignShape | None = aligned()
    emit: Literal["final", "updates"] = Field(
        "final",
        description=f"When a {kinds_reading('emit')} window is emitted: once when it closes, or at each change.",
    )
    early: str | None = Field(
        None,
        description="When an open window also emits what it holds so far, as an early result without a window mark: "
        "count(n), after every n tuples; time(seconds), that long after a tuple that no result has had yet; or both, "
        f"with the word `or`. For {kinds_with_early()} windows. `isEarly()` says whether a result is early.",
        examples=["time(10)", "count(1000)", "count(1000) or time(10)"],
    )
    window_set: Literal["distinct", "perTimestampForward", "perTimestampBackward"] = Field(
        "distinct",
        description="Which windows `slidingTime` has: one per distinct set of tuples, or one per event time, which "
        "starts (Forward) or ends (Backward) at this time.",
    )
    output: Outputs


class MapShape(FileModel):
    """Gives one or no output tuple for each tuple, and forwards marks (SPL's Functor and Filter)."""

    name: Name = Field(description="The operator's name.")
    map: Input = Field(description=INPUT)
    where: ExpressionText | None = Field(
        None,
        description="A condition. Tuples for which it is not true are dropped.",
        examples=["price > 0 and symbol != ''"],
    )
    output: Outputs


def side_window(side: str) -> Any:  # noqa: ANN401 - pydantic's fields have no type of their own
    return Field(
        None,
        description=f"The window of the {side} side: `sliding`, an eviction policy, and `partitioned`. `count(0)` "
        "stores nothing: a tuple of this side is only paired with stored tuples of the other side.",
        examples=["sliding, time(60.0)", "sliding, count(1), partitioned"],
        json_schema_extra={"pattern": WINDOW},
    )


def side_partition_by(side: str) -> Any:  # noqa: ANN401
    return Field(
        [],
        description=f"The key of the {side} side's window. It divides the window and does not restrict the pairs; "
        "`equality_left` and `equality_right` do that.",
    )


def side_default(side: str, algorithm: str) -> Any:  # noqa: ANN401
    return Field(
        None,
        description=f"For {algorithm} and outer: the values of the {side} side's attributes in a tuple without a "
        'partner. The default of an attribute is 0, false, "" or an empty list.',
        examples=[{"price": 0.0, "note": "none"}],
    )


def side_unmatched(side: str) -> Any:  # noqa: ANN401
    return Field(
        None,
        description=f"For {side}Outer and outer: a stream for the {side} side's tuples without a partner, unchanged. "
        "Without it, they are written to `output`.",
    )


class PortsShape(FileModel):
    """The streams on the two sides of a join; they may be the same one."""

    left: str = Field(description="The stream of the left side.")
    right: str = Field(description="The stream of the right side.")


class JoinShape(FileModel):
    """Emits pairs of tuples of two streams: tuples that are in their windows at the same time (SPL's Join), or tuples
    whose event times fit.
    """

    name: Name = Field(description="The operator's name. The state of the operator is stored under this name.")
    join: PortsShape = Field(
        description="The two input streams. Expressions name an attribute as `left.price` or `right.price`; an "
        "attribute that only one side has needs no prefix.",
        examples=[{"left": "orders", "right": "payments"}],
    )
    window_left: WindowText | None = side_window("left")
    window_right: WindowText | None = side_window("right")
    window: WindowText | None = Field(
        None,
        description="A window over the event times of both sides, instead of `window_left` and `window_right`: "
        "`interval` pairs tuples whose times are near each other, `asOf` pairs each left tuple with the newest right "
        "tuple that is not newer.",
        examples=[kind.example for kind in JOIN_WINDOWS.values()],
        json_schema_extra={"pattern": rf"\b({'|'.join(JOIN_WINDOWS)})\b"},
    )
    partition_by_left: list[ExpressionText] = side_partition_by("left")
    partition_by_right: list[ExpressionText] = side_partition_by("right")
    equality_left: list[ExpressionText] = Field(
        [],
        description="Expressions over the left side. In a pair each must be equal to the entry of `equality_right` "
        "at the same position. Pairs are found by a hash lookup.",
        examples=[["order"]],
    )
    equality_right: list[ExpressionText] = Field(
        [], description="Expressions over the right side; see `equality_left`."
    )
    match: ExpressionText | None = Field(
        None,
        description="A further condition on a pair. Without it and without equalities, each tuple is paired with "
        "every tuple in the other window.",
        examples=["left.price > right.price"],
    )
    algorithm: Literal["inner", "leftOuter", "rightOuter", "outer"] = Field(
        "inner",
        description="For which sides a tuple is also emitted without a partner, if it leaves its window and never "
        "had a partner.",
    )
    default_left: dict[str, Any] | None = side_default("left", "rightOuter")
    default_right: dict[str, Any] | None = side_default("right", "leftOuter")
    unmatched_left: str | None = side_unmatched("left")
    unmatched_right: str | None = side_unmatched("right")
    output: Outputs


class SortShape(FileModel):
    """Emits the tuples of a stream in sorted order (SPL's Sort)."""

    name: Name = Field(description="The operator's name. The state of the operator is stored under this name.")
    sort: Input = Field(description=INPUT)
    window: WindowText = Field(
        description="The window clause. A tumbling window emits its tuples in order when it fires, and so does each "
        "pane of timeInterval. `sliding, count(n)` stores n tuples; when another tuple arrives, it "
        "emits the first one in the sort order.",
        examples=["sliding, count(100)", "tumbling, time(1.0), partitioned", "timeInterval, intervalDuration(60.0)"],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = Field(
        [],
        description="The key: each value has its own windows. Requires `partitioned` in the window clause.",
    )
    align: AlignShape | None = aligned()
    order_by: dict[str, Literal["asc", "desc"]] = Field(
        description="Expressions, the most significant first, each ascending or descending.",
        min_length=1,
        examples=[{"price": "desc", "time": "asc"}],
    )
    limit: int | None = Field(
        None,
        ge=1,
        description="The maximum number of tuples that a window emits, the first ones in sort order. Not for a sliding "
        "window.",
    )
    output: list[str] = Field(description="The streams to which the tuples are written unchanged.", min_length=1)


class DedupShape(FileModel):
    """Emits one tuple of each key and period of time, unchanged; the others are duplicates."""

    name: Name = Field(description="The operator's name. The state of the operator is stored under this name.")
    dedup: Input = Field(description=INPUT)
    by: list[ExpressionText] = Field(
        description="The key: tuples with equal values are duplicates of each other.",
        min_length=1,
        examples=[["id"]],
    )
    within: str = Field(
        description="The length of a period, which the first tuple of a key begins: `time(seconds)` by the operator "
        "clock, or `eventTime(seconds)` by the event time of the tuples.",
        max_length=100,
        examples=["time(600)", "eventTime(10m)"],
        json_schema_extra={"pattern": r"\b(time|eventTime)\s*\("},
    )
    keep: Literal["first", "last"] = Field(
        "first",
        description="Which tuple of a period is emitted: the first one, at once, or the last one, when the period is "
        "over.",
    )
    output: list[str] = Field(description="The streams to which the tuples are written unchanged.", min_length=1)


class CustomShape(FileModel):
    """Calls a Python class with the events of windows."""

    name: Name = Field(description="The operator's name. The state of the operator is stored under this name.")
    custom: Input = Field(description=INPUT)
    handler: str = Field(
        description="The Python class, a WindowHandler, as `package.module:Class`. It is called tuple by tuple.",
        examples=["trading.gaps:Gaps"],
    )
    window: WindowText = Field(
        description="The window clause. Every clause of an aggregate is allowed.",
        examples=["sliding, count(2), partitioned"],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = Field(
        [],
        description="The key: each value has its own windows. Requires `partitioned` in the window clause.",
    )
    align: AlignShape | None = aligned()
    output: list[str] = Field(
        description="The streams to which the tuples that the class sends are written.", min_length=1
    )


#: the key that gives the kind of an operator -> the tag of that kind
KINDS = {"aggregate": AGGREGATE, "map": MAP, "join": JOIN, "sort": SORT, "dedup": DEDUP, "custom": CUSTOM}
#: tag -> model
SHAPES: dict[str, type[FileModel]] = {
    AGGREGATE: AggregateShape, MAP: MapShape, JOIN: JoinShape, SORT: SortShape, DEDUP: DedupShape,
    CUSTOM: CustomShape,
}  # fmt: skip
OperatorShape = AggregateShape | MapShape | JoinShape | SortShape | DedupShape | CustomShape
#: the path of a value within an operator
Inner = tuple[str | int, ...]
#: keys besides `output` that name an output stream of an operator
UNMATCHED = ("unmatched_left", "unmatched_right")


def inputs_of(operator: OperatorShape) -> list[tuple[Inner, str]]:
    """The input streams in the order of their ports, each with its path within the operator."""
    if isinstance(operator, JoinShape):
        return [(("join", "left"), operator.join.left), (("join", "right"), operator.join.right)]
    word = input_key(operator)
    names = getattr(operator, word).split(PLUS)
    return [((word, number), name) for number, name in enumerate(names)] if len(names) > 1 else [((word,), names[0])]


def input_key(operator: OperatorShape) -> str:
    """The key that names the kind of an operator and its input."""
    return next(word for word, tag in KINDS.items() if isinstance(operator, SHAPES[tag]))


def kind_of(value: object) -> str | None:
    if isinstance(value, dict):
        return next((tag for key, tag in KINDS.items() if key in value), None)
    return AGGREGATE


AnyOperator = Annotated[
    Annotated[AggregateShape, Tag(AGGREGATE)]
    | Annotated[MapShape, Tag(MAP)]
    | Annotated[JoinShape, Tag(JOIN)]
    | Annotated[SortShape, Tag(SORT)]
    | Annotated[DedupShape, Tag(DEDUP)]
    | Annotated[CustomShape, Tag(CUSTOM)],
    Discriminator(kind_of),
]


class FileShape(FileModel):
    """A pipeline of Sluice: windows over Kafka topics."""

    pipeline: Name = Field(description="The pipeline's name. Kafka's transactions and the ledger use this name.")
    streams: dict[str, StreamShape] = Field(description="All streams, by name.", min_length=1)
    operators: list[AnyOperator] = Field(description="The operators, in any order.", min_length=1)
    dead_letters: str | None = Field(
        None,
        description="The stream for records that cannot be handled. The reason is in a header of the record. The "
        "stream has a topic and no schema. Without it, such records are only counted and logged.",
    )
    kafka: dict[str, Text] = Field(
        {},
        description="Properties of librdkafka. `${NAME}` is replaced by an environment variable, `${file:PATH}` by "
        "the content of a file.",
        examples=[{"bootstrap.servers": "kafka:9092", "sasl.password": "${KAFKA_PASSWORD}"}],
    )
    registry: dict[str, Text] = Field(
        {},
        description="The schema registry of `avro-confluent`: properties of Confluent's client. `${NAME}` and "
        "`${file:PATH}` are replaced as in `kafka`.",
        examples=[{"url": "https://registry:8081", "basic.auth.user.info": "${REGISTRY_USER}"}],
    )
    clock: Literal["processing", "records"] = Field(
        "processing",
        description="What advances the operator clock: records and the machine's clock, or records alone.",
    )
    clock_origin: Text | None = Field(
        None,
        description="The time from which periodic timers count: ISO 8601, or seconds since 1970. The default is the "
        "timestamp of the first record.",
        examples=["2013-01-01T00:00:00Z", 0],
    )
    merge: Literal["arrival", "timestamp"] = Field(
        "arrival",
        description="The order in which records of several topic partitions are handled. `arrival`: by timestamp "
        "within each batch. `timestamp`: by timestamp over all batches; a record is buffered until "
        "every other topic partition has sent a later one.",
    )
    merge_wait: Duration = Field(
        5.0,
        description="For `merge: timestamp`: the maximum wait for a silent topic partition, in seconds. Records "
        "that arrive later are handled at their arrival. With `clock: records` the wait has no limit.",
    )
    max_future: Duration = Field(
        3600.0,
        description="The maximum difference, in seconds, by which the timestamp of a record may be ahead of the "
        "time at which it is read. Other records become dead letters.",
    )
    trigger_interval: Duration = Field(
        0.0,
        description="Seconds from the start of one batch to the start of the next; 0: the next batch starts when "
        "the previous one ends.",
    )
    max_records_per_batch: int = Field(
        500_000, ge=1, le=2**29, description="The maximum number of records that one batch reads."
    )
    max_bytes_per_batch: int = Field(
        256 << 20,
        ge=1,
        le=2**53,
        description="The approximate maximum size of the records that one batch reads, in bytes of keys, values and "
        "headers. Each start of the service measures the size of the next records. This lowers "
        "max_records_per_batch, to at least one record.",
    )
    direct_records: int = Field(
        8000,
        ge=0,
        le=100_000,
        description="A batch of at most this many records, and of at most 16 MiB, is computed by the service's own "
        "process, without a job of Spark, which lowers the latency of small batches. 0: each batch is a job of Spark. "
        "It has no effect on a cluster.",
    )
    buckets: int | None = Field(
        None,
        ge=1,
        le=65536,
        description="The number of slices of the key space; a bucket is the unit of parallel work. It may change at "
        "any start, but not to or from 1 if operators read one input with different keys.",
    )
    checkpoint: str | None = Field(
        None,
        description="The folder in which state and progress are stored. Without it the folder is checkpoints/ and the "
        "name of the pipeline, in the current folder.",
    )
    state: str | None = Field(
        None,
        description="A store for snapshots of the state that outlives the checkpoint's folder: the URL of an object "
        "store (`s3://`, `gs://`, `az://`, `abfs://`), or another folder. A start without the checkpoint restores it "
        "from there, from the ledger and from the input topics.",
        examples=["s3://bucket/sluice", "/mnt/snapshots"],
    )
    state_options: dict[str, Text] = Field(
        {},
        description="Settings of the client of the object store, such as `endpoint`, `region` or `access_key_id`. "
        "Settings that are missing come from the environment (`AWS_...`, `GOOGLE_...`, `AZURE_...`) or from the "
        "machine's role. `${NAME}` and `${file:PATH}` are replaced by values of the environment or of files.",
        examples=[{"region": "eu-central-1"}],
    )
    snapshot_interval: Duration = Field(
        300.0,
        description="With `state`: the time after which the next snapshot goes to the store, in seconds.",
    )
    snapshot_records: int = Field(
        10_000_000, ge=1, description="With `state`: the number of records after which it goes there earlier."
    )
    durability: Literal["process", "machine"] = Field(
        "process",
        description="What the checkpoint's folder survives: the death of any process, or also a loss of power. With "
        "`machine`, each batch waits until the disk has its files. It matters where the folder is the only copy.",
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field("exactly_once", description="The delivery guarantee.")
    on_data_loss: Literal["fail", "continue"] = Field(
        "fail",
        description="What to do if records were deleted before they were read, by retention or with their topic: "
        "end with an error, or continue with the records that exist.",
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Where an input topic without stored offsets is read from.",
    )
    restart: Literal["always", "on-failure", "never"] | None = Field(
        None,
        description="When a service starts the pipeline again after it has ended: after each end, after a failure, or "
        "never. `sluice run --restart` has precedence. The default is never in a service of one file, and on-failure "
        "in a service of several files or of a folder.",
        examples=["on-failure"],
    )


def json_schema() -> dict[str, Any]:
    _, schema = models_json_schema([(FileShape, "validation")], by_alias=True)
    definitions: dict[str, Any] = schema["$defs"]
    top = definitions.pop("FileShape")
    header = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sluice pipeline"}
    return {**header, **{key: value for key, value in top.items() if key != "title"}, "$defs": definitions}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
