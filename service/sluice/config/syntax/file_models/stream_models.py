"""The models of a stream: its format, its key, its event time and its marks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema, create_model

from sluice.config.syntax.file_models.value_models import (
    AS_LIST,
    MAPPING,
    NAMED,
    ExpressionText,
    FileModel,
    Limit,
    PairsShape,
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
        description="The attributes in the key, and not in the value. Attributes with `from: key` need not be listed.",
    )
    format: str = Field(
        "text", description="The encoding of the key. `text` takes one attribute, the others any number."
    )


class KeyShape(with_formats(KeyHead, in_keys=True)):  # type: ignore[misc]
    """The encoding of the keys of records."""


class EventTimeShape(FileModel):
    """The event time of a stream, and how watermarks are computed from it (SPL's @eventTime)."""

    attribute: str = Field(
        description="The attribute with the event time: a timestamp, an int64, or a float64 with seconds since 1970."
    )
    resolution: Literal["milliseconds", "microseconds", "nanoseconds"] | None = Field(
        None, description="The unit of an int64 event time, counted since 1970. The default is milliseconds."
    )
    lag: Seconds | None = Field(
        None,
        description="Seconds by which computed watermarks are behind the latest event time. Without it watermarks "
        "arrive as marks, or from the operator that writes the stream.",
    )
    minimum_gap: Seconds = Field(
        0.1, description="The least distance between two computed watermarks, in seconds of event time."
    )
    idle_after: Seconds | None = Field(
        None,
        description="A topic partition that sends nothing for so many seconds does not hold the watermark back. With "
        "`per: key`: the windows of such a key close.",
    )
    per: Literal["key"] | None = Field(
        None,
        description="`key`: each key of the operator that reads the stream has its own watermark, `lag` behind its "
        "newest tuple; the stream has none (KT1).",
    )
    forget_after: Seconds | None = Field(
        None,
        description="With `per: key`: a key without a tuple for so many seconds of the clock begins anew. A week by "
        "default.",
    )
    advance: bool = Field(
        default=False,
        description="Whether the watermark follows the clock, `lag` behind it, while all topic partitions are idle. "
        "Needs `lag` and `idle_after`.",
    )
    max_future: Limit | None = Field(
        None,
        description="Seconds by which an event time may be ahead of the clock; other tuples become dead letters. "
        "`none`: no limit. Default: in a service with `lag`, an hour ahead of the present time.",
    )


class MarkWhenShape(FileModel):
    """Conditions on tuples that insert window marks, for producers that cannot send marks."""

    before: ExpressionText | None = Field(
        None,
        description="A window mark is inserted before each tuple for which this condition is true.",
        examples=["kind == 'start'"],
    )
    after: ExpressionText | None = Field(
        None,
        description="A window mark is inserted after each tuple for which this condition is true.",
        examples=["last"],
    )
    of: Annotated[
        list[ExpressionText],
        AS_LIST,
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = Field(
        [],
        description="The key, an expression or a list: a mark closes the window of its tuple's key alone. It is the "
        "`partition_by` of the `punct()` windows.",
        examples=["symbol", ["symbol", "venue"]],
    )


class MemberShape(FileModel):
    """An attribute: its type, its path in the record, and how its values are spelled there."""

    type: TypeName | None = Field(None, description="The type. An output may leave it out.")
    source: str | None = Field(
        None,
        alias="from",
        max_length=4_000,
        description="Of an input: the path in the record, such as `payload.after.amount`, `items[0].price` or "
        '`["order-id"]`; `key.customer.id` is in the key, `header.trace` in a header, `$` the whole value.',
        examples=["payload.after.amount", '["order-id"]', "key.customer.id", "header.trace", "$"],
    )
    target: str | None = Field(
        None,
        alias="as",
        max_length=4_000,
        description="Of an output: the path in the record. Several names make nested objects.",
        examples=["customer.id", '["order-id"]'],
    )
    coerce: bool | None = Field(
        None,
        description='Whether a number, text or boolean counts as its text: `7.0` and `"7"` as an int64, `7` as a '
        "string, an empty text as null. Default: `coerce` of the stream.",
    )
    unit: Literal["d", "s", "ms", "us", "ns"] | None = Field(
        None, description="The unit of a number that is a timestamp, since 1970 (`d`: days). Seconds by default."
    )
    pattern: str | None = Field(
        None,
        max_length=200,
        description="The form of a text that is a timestamp, in directives of Python's strptime.",
        examples=["%d/%m/%Y %H:%M:%S"],
    )
    zone: str | None = Field(
        None, description="The time zone of `pattern`, UTC by default.", examples=["Europe/Berlin"]
    )
    pairs: PairsShape | None = Field(
        None,
        description="For a map that is a list of objects in the record: where each object has key and value.",
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
        description="The attributes and their types. Needed for an input; of other streams it is compared with what "
        "the operator writes.",
        examples=[
            {"symbol": "string", "price": "float64", "time": "timestamp"},
            {"amount": {"from": "payload.after.amount", "type": "float64"}},
        ],
    )


class StreamShape(with_formats(StreamHead, in_keys=False)):  # type: ignore[misc]
    """A stream: a Kafka topic or, without `topic`, a stream inside the service."""

    key: KeyShape | None = Field(
        None,
        description="Attributes in the key of the record. Without it keys of inputs are ignored; docs/formats.md has "
        "those of outputs.",
        examples=[{"attributes": ["symbol"]}],
    )
    headers: dict[str, str] = Field(
        {},
        description="Attributes in headers of the record, as text: attribute -> header.",
        examples=[{"trace": "trace-id"}],
    )
    coerce: bool = Field(default=False, description="Of an input: `coerce` of all attributes.")
    record_timestamp: str | None = Field(
        None,
        description="The attribute that is the timestamp of the Kafka record, and not in the value: a timestamp, of "
        "an output also an int64 of milliseconds. Without it an output has the operator clock.",
        examples=["sent"],
    )
    defaults: dict[str, Any] = Field(
        {},
        description="The value, in JSON, of an attribute that is missing or null in the record.",
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
        description="The attribute with the event time, or a mapping with settings. Streams derived from this one "
        "inherit it if they have the attribute.",
        examples=["time", {"attribute": "time", "lag": 5.0}],
    )
    marks: Literal["header", "record", "none"] | None = Field(
        None,
        description="How window marks are written: in a `header` of the last tuple of a firing, as a `record`, or not "
        "(`none`). Default: `header`; `record` for an exchange, and for marks of Kafka that pass through "
        "maps (B10 to B12).",
    )
    mark_when: MarkWhenShape | None = Field(
        None,
        description="Of an input: conditions on tuples that insert further window marks.",
        examples=[{"after": "last"}],
    )
    marks_in: Literal["topic_partition", "any", "aligned"] = Field(
        "topic_partition",
        description="Of an input: a mark covers the tuples of its `topic_partition`, of `any` topic partition, or of "
        "all, once each has sent it (`aligned`). Needed if a `punct()` window reads several topic "
        "partitions.",
    )
    watermarks: bool = Field(
        default=False,
        description="Whether watermarks are written, as records in every topic partition. Needs an event time.",
    )
    partitions: int | None = Field(
        1,
        ge=1,
        description="The number of topic partitions of an output topic that the service creates; null: the topic must "
        "exist.",
    )
    exchange: bool = Field(
        default=False,
        description="For a stream between two operators: whether its tuples pass through the topic, so that the "
        "operators are in different stages.",
    )
    table: bool = Field(
        default=False,
        description="For an input with a `key`: whether it is a table, with the newest record of each key as its row; "
        "a record without a value deletes the row. The first start loads it before any other record.",
    )
    envelope: Literal["debezium", "upsert"] | None = Field(
        None,
        description="Of an input: `debezium`, if values are change events of Debezium; `upsert`, if a value is the row "
        "of the record's key, and a record without a value deletes it.",
    )
    deletes: Literal["omit", "include"] | None = Field(
        None,
        description="With an `envelope`, not of a table: whether a deletion is a tuple, with the row before it. By "
        "default it is not.",
    )
    change: dict[str, str] = Field(
        {},
        description="With an `envelope`: attributes beside the row, attribute -> member of the change event: op, "
        "ts_ms, source.ts_ms, or another member of source.",
        examples=[{"kind": "op", "changed": "source.ts_ms"}],
    )
