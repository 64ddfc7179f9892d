"""The models of a stream: its format, its key, its event time and its marks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, create_model

from sluice.config.syntax.file_models.value_models import (
    MAPPING,
    NAMED,
    ExpressionText,
    FileModel,
    Limit,
    Seconds,
    TypeName,
)
from sluice.wire.formats.format_table import FORMATS

#: the tag of an event time that is only the name of its attribute


def with_formats(base: type[FileModel], *, in_keys: bool) -> type[FileModel]:
    """The model with the words of the formats as `format`, and with the keys that set options of a format."""
    formats = {word: format_ for word, format_ in FORMATS.items() if format_.in_keys or not in_keys}
    words = sorted(formats, key=lambda word: word != base.model_fields["format"].default)
    options = {
        name: key for format_ in formats.values() for name, key in format_.keys.items() if key.of_key or not in_keys
    }
    fields = {
        name: (key.annotation, Field(None, description=key.of_key) if in_keys else key.field)
        for name, key in options.items()
    }
    of_format = (Literal[*words], base.model_fields["format"])
    return create_model(base.__name__, __base__=base, **{"format": of_format, **fields})  # type: ignore[call-overload, no-any-return]


class KeyHead(FileModel):
    """The keys of `KeyShape` that do not depend on formats."""

    attributes: list[str] = Field(
        [],
        description="The attributes that the key holds. They are not part of the value. Attributes with `from: key` "
        "need not be listed.",
    )
    format: str = Field(
        "text",
        description="How the key is encoded. `text` is for one attribute; the other formats take any number of "
        "attributes.",
    )


class KeyShape(with_formats(KeyHead, in_keys=True)):  # type: ignore[misc]
    """The encoding of the keys of records."""


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
        "the stream back. With `per: key`: the windows of a key without a tuple for so long close.",
    )
    per: Literal["key"] | None = Field(
        None,
        description="`key`: each key of the operator that reads the stream has its own watermark, `lag` behind its "
        "newest tuple, so that no tuple is late because of other keys. The stream has no watermark then (KT1).",
    )
    forget_after: Seconds | None = Field(
        None,
        description="With `per: key`: a key without a tuple for this many seconds of the clock is forgotten, and "
        "begins anew with its next tuple. A week by default.",
    )
    advance: bool = Field(
        default=False,
        description="Whether the watermark follows the clock, `lag` behind it, while all topic partitions are idle. So "
        "the windows of a quiet stream close. Needs `lag` and `idle_after`.",
    )
    max_future: Limit | None = Field(
        None,
        description="A tuple whose event time is more than this many seconds ahead of the clock becomes a dead letter. "
        "Without it, a service with `lag` reads a tuple that is more than an hour ahead of the present time as a dead "
        "letter. `none`: no tuple is too far ahead.",
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


class PairsShape(FileModel):
    """Where a list of objects has the entries of a map."""

    key: str = Field(description="The path of the key in an element of the list.", max_length=4_000)
    value: Annotated[
        list[str],
        BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = Field(
        description="The path of the value in an element of the list, or several, of which the first one that exists "
        "counts.",
    )


class MemberShape(FileModel):
    """An attribute: its type, its path in the record, and how its values are spelled there."""

    type: TypeName | None = Field(None, description="The type. Of a stream that an operator writes it may be left out.")
    source: str | None = Field(
        None,
        alias="from",
        max_length=4_000,
        description="For a stream that is read: the path of the attribute in the record, such as "
        '`payload.after.amount`, `items[0].price` or `["order-id"]`. `key.customer.id` and `header.trace` are in '
        "the key and in a header; `$` is the whole value.",
        examples=["payload.after.amount", '["order-id"]', "key.customer.id", "header.trace", "$"],
    )
    target: str | None = Field(
        None,
        alias="as",
        max_length=4_000,
        description="For a stream that an operator writes: the path of the attribute in the record. Several names make "
        "nested objects.",
        examples=["customer.id", '["order-id"]'],
    )
    coerce: bool | None = Field(
        None,
        description="Whether a number, a text or a boolean counts as its text, which is read as the type: `7.0` and "
        '`"7"` as an int64, `7` as a string, an empty text as null. The default is `coerce` of the stream.',
    )
    unit: Literal["s", "ms", "us", "ns"] | None = Field(
        None, description="The unit of a number that is a timestamp, counted since 1970. The default is seconds."
    )
    pattern: str | None = Field(
        None,
        max_length=200,
        description="The form of a text that is a timestamp, in the directives of Python's strptime.",
        examples=["%d/%m/%Y %H:%M:%S"],
    )
    zone: str | None = Field(
        None, description="The time zone of texts of `pattern`. The default is UTC.", examples=["Europe/Berlin"]
    )
    pairs: PairsShape | None = Field(
        None,
        description="For a map that the record has as a list of objects: where each object has the key and the value.",
        examples=[{"key": "key", "value": "value.stringValue"}],
    )


MEMBER_KEYS = {info.alias or name for name, info in MemberShape.model_fields.items()}


def is_member(value: object) -> bool:
    """Whether a mapping says how the record has an attribute: if it has a key `type`, or only keys of MemberShape. Any
    other mapping is a type, a struct.
    """
    if not isinstance(value, dict):
        return isinstance(value, MemberShape)
    return "type" in value or value.keys() <= MEMBER_KEYS


#: a type alone, or a mapping
AttributeShape = Annotated[
    Annotated[TypeName, Tag(NAMED)] | Annotated[MemberShape, Tag(MAPPING)],
    Discriminator(lambda value: MAPPING if is_member(value) else NAMED),
]


class StreamHead(FileModel):
    """The first keys of a stream. The keys of its format and the others follow in `StreamShape`."""

    topic: str | None = Field(
        None, description="The Kafka topic. A stream without a topic exists only inside the service."
    )
    format: str = Field("json", description="How a tuple is encoded as the value of a record.")
    attributes: dict[str, AttributeShape] | None = Field(
        None,
        alias="schema",
        description="The attributes and their types. Required for a stream that is read from Kafka. For other "
        "streams it is derived from the operator that writes the stream, and compared with this schema "
        "if one is given.",
        examples=[
            {"symbol": "string", "price": "float64", "time": "timestamp"},
            {"amount": {"from": "payload.after.amount", "type": "float64"}},
        ],
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
    coerce: bool = Field(
        default=False,
        description="For an input stream: `coerce` of all of its attributes.",
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
    envelope: Literal["debezium", "upsert"] | None = Field(
        None,
        description="For an input stream: what surrounds the row in the value of a record. `debezium`: the value is a "
        "change event of Debezium, with `before`, `after` and `op`; the attributes are those of the row. `upsert`: the "
        "value is the row of the record's key, and a record without a value deletes the row.",
    )
    deletes: Literal["omit", "include"] | None = Field(
        None,
        description="For a stream with an `envelope` that is no table: whether there is a tuple for the deletion of a "
        "row. `omit`, the default: there is none. `include`: there is one, with the row before the deletion.",
    )
    change: dict[str, str] = Field(
        {},
        description="For a stream with an `envelope`: attributes that are beside the row, attribute -> member of the "
        "change event: op, ts_ms, source.ts_ms, or another member of source.",
        examples=[{"kind": "op", "changed": "source.ts_ms"}],
    )
