"""The attributes of sampled records that have a schema: of Avro or Protobuf, from a registry or from a file.

The attributes are the fields of the schemas, also inside of records and messages. The values come from the ordinary
decoder of the format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from sluice.columns.json_columns import json_values
from sluice.draft.envelopes import DEBEZIUM, NO_ENVELOPE, Envelope
from sluice.draft.record_tree import Path, is_scaled
from sluice.draft.sampled_attributes import Attribute, Document, names_of
from sluice.draft.value_forms import Form, form_of
from sluice.model.avro_schema import Avro, AvroError, Node, attribute_type
from sluice.model.avro_schema import parse as parse_avro
from sluice.model.envelopes.change_events import EXISTS, LETTERS
from sluice.model.members import Member
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_fit import attribute_type as attribute_of_field
from sluice.model.protobuf.proto_fit import is_plain_message
from sluice.model.protobuf.proto_schema import Protobuf, ProtoMessage, parse
from sluice.model.spec import Coding, FormatOptions
from sluice.model.types import JSON as JSON_TYPE
from sluice.model.types import Schema, Type, optional_of, parse_type
from sluice.wire.change_events.avro_events import part_of
from sluice.wire.confluent import PREFIX
from sluice.wire.formats.avro_format import SCHEMA as AVRO_SCHEMA
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.formats.format_contract import Finder, Part
from sluice.wire.formats.format_table import FORMATS, codec
from sluice.wire.formats.protobuf_format import DESCRIPTOR, MESSAGE, PROTO, ProtobufOptions
from sluice.wire.protobuf.proto_confluent import message_paths
from sluice.wire.schema_registry import AVRO, JSON, PROTOBUF, UnknownSchemaError, registry

#: the members of a change event that are rows, and those beside the row that a draft reads
IMAGES: tuple[str, ...] = ("before", "after")
BESIDE: tuple[Path, ...] = (("op",), ("source", "ts_ms"), ("ts_ms",))
#: the most records within records whose fields are attributes
MAX_DEPTH = 8
#: kind of a schema in the registry -> the format of its records
OF_KIND = {AVRO: "avro-confluent", PROTOBUF: "protobuf-confluent", JSON: "json-confluent"}
#: the settings of a format whose records have the ids of their schemas
OPTIONS: Mapping[str, FormatOptions] = {OF_KIND[AVRO]: AvroOptions(), OF_KIND[PROTOBUF]: ProtobufOptions()}


class Leaf(NamedTuple):
    """A field that is no record: its type, why it has none, and whether it, or a record around it, may be absent."""

    type: Type | None
    problem: str
    nullable: bool


Leaves = list[tuple[Path, Leaf]]


@dataclass(frozen=True, slots=True)
class SchemaSample:
    """The attributes of values, and a document for each value.

    documents  None for a value that cannot be read, or that has no row
    reason     why the last value that cannot be read cannot
    envelope   what surrounds the rows
    rowless    the number of values without a row, such as the deletion of one
    """

    attributes: list[Attribute]
    documents: list[Document | None]
    reason: str = ""
    envelope: Envelope = NO_ENVELOPE
    rowless: int = 0


# ---- which schemas there are -----------------------------------------------------------------------------------------


def format_of(values: Sequence[bytes], properties: Mapping[str, str]) -> str:
    """The format of most values that begin with the id of a schema; Avro if the registry has none of the ids.

    Raises RegistryError if the registry does not answer.
    """
    client, formats = registry(tuple(properties.items())), Counter[str]()
    for number, count in Counter(map(_number, values)).items():
        kind = client.kind(number)
        formats[OF_KIND[AVRO] if kind is None else OF_KIND.get(kind, kind)] += count if kind is not None else 0
    return formats.most_common(1)[0][0]


def registry_sample(values: Sequence[bytes], properties: Mapping[str, str], form: str) -> SchemaSample:
    """The sample of values with the ids of their schemas. Raises RegistryError if the registry does not answer."""
    client, coding, reason = registry(tuple(properties.items())), Coding(form, OPTIONS[form]), ""
    records: list[Avro] = []
    messages: list[Leaves] = []
    for number in sorted({_number(value) for value in values}):
        try:
            if form == OF_KIND[AVRO]:
                records.append(client.schema(number))
            else:
                of_schema = [value for value in values if _number(value) == number]
                messages += _of_messages(parse(client.sources(number, PROTOBUF)), of_schema)
        except (UnknownSchemaError, ProtobufError) as error:
            reason = str(error)
    if form == OF_KIND[AVRO]:
        return _avro_sample(values, records, coding, properties, reason)
    return _sample(values, messages, coding, properties, reason)


def registry_keys(keys: Sequence[bytes | None], properties: Mapping[str, str]) -> list[Document | None]:
    """The documents of keys that begin with the ids of their schemas, if these are records of Avro; None for others."""
    present = {row: key for row, key in enumerate(keys) if key is not None}
    if not present or format_of(list(present.values()), properties) != OF_KIND[AVRO]:
        return [None] * len(keys)
    documents = registry_sample(list(present.values()), properties, OF_KIND[AVRO]).documents
    read = dict(zip(present, documents, strict=True))
    return [read.get(row) for row in range(len(keys))]


def _of_messages(proto: Protobuf, values: Sequence[bytes]) -> list[Leaves]:
    """The fields of each message of the schema that the values have."""
    names = dict.fromkeys(proto.order.get(path, "") for path in message_paths(pa.array(values, pa.binary())))
    return [list(_of_message(proto, proto.messages[name], (), nullable=False)) for name in names if name]


def file_sample(
    values: Sequence[bytes], form: str, options: FormatOptions, properties: Mapping[str, str]
) -> SchemaSample:
    """The sample of values of a schema that the user names."""
    coding = Coding(form, options)
    if isinstance(options, ProtobufOptions):
        proto = parse(options.files)
        leaves = list(_of_message(proto, proto.messages[options.message], (), nullable=False))
        return _sample(values, [leaves], coding, properties, "")
    assert isinstance(options, AvroOptions)  # noqa: S101 - the only other format with a schema
    return _avro_sample(values, [parse_avro(str(options.avro_schema))], coding, properties, "")


def options_of(keys: Mapping[str, str], form: str, finder: Finder) -> FormatOptions:
    """The settings of the format for the keys that the user has given. `finder` reports what is wrong with them."""
    return FORMATS[form].options({key: keys.get(key) for key in (PROTO, DESCRIPTOR, MESSAGE, AVRO_SCHEMA)}, finder)


def _number(value: bytes) -> int:
    return int.from_bytes(value[1:PREFIX], "big")


# ---- the fields of a schema ------------------------------------------------------------------------------------------


def _of_record(avro: Avro, node: Node, path: Path, *, nullable: bool) -> Iterator[tuple[Path, Leaf]]:
    """The fields of a record, also in records within it. A union of several types is one field."""
    for field in avro.meant(node).fields:
        values, place = avro.values(field.node), (*path, field.name)
        absent = nullable or len(values) < len(avro.branches(field.node))
        if len(values) == 1 and values[0].variable:
            yield place, Leaf(JSON_TYPE, "", absent)
        elif len(values) == 1 and values[0].type == "record" and len(path) < MAX_DEPTH:
            yield from _of_record(avro, values[0], place, nullable=absent)
        else:
            yield place, _leaf(avro, field.node, field.name, nullable=absent)


def _leaf(avro: Avro, node: Node, name: str, *, nullable: bool) -> Leaf:
    try:
        return Leaf(attribute_type(avro, node, name).present, "", nullable)
    except AvroError:
        return Leaf(None, _no_type(", ".join(value.type for value in avro.values(node)) or "null"), nullable)


def _of_message(
    proto: Protobuf, message: ProtoMessage, path: Path, *, nullable: bool, around: tuple[str, ...] = ()
) -> Iterator[tuple[Path, Leaf]]:
    """The fields of a message, also in messages within it that are not repeated."""
    around = (*around, message.name)
    for field in message.fields:
        place, absent = (*path, field.name), nullable or (field.presence and not field.required)
        if is_plain_message(proto, field, around) and len(path) < MAX_DEPTH:
            yield from _of_message(proto, proto.message_of(field), place, nullable=absent, around=around)
            continue
        try:
            yield place, Leaf(attribute_of_field(proto, field, around).present, "", absent)
        except ProtobufError:
            yield place, Leaf(None, _no_type(field.shown), absent)


def _no_type(subject: str) -> str:
    return f"no type is chosen for {subject}; docs/formats.md has those that can be read"


# ---- change events ---------------------------------------------------------------------------------------------------


def _avro_sample(
    values: Sequence[bytes], schemas: Sequence[Avro], coding: Coding, properties: Mapping[str, str], reason: str
) -> SchemaSample:
    """The sample of records of Avro, or of the rows of change events."""
    if schemas and all(map(_is_event, schemas)):
        leaves = [list(_of_event(schema)) for schema in schemas]
        return _rows_of_events(_sample(values, leaves, coding, properties, reason))
    leaves = [list(_of_record(schema, schema.root, (), nullable=False)) for schema in schemas]
    return _sample(values, leaves, coding, properties, reason)


def _is_event(schema: Avro) -> bool:
    names = {field.name for field in schema.fields}
    return names >= {"op", *IMAGES} and all(_has_record(schema, name) for name in IMAGES)


def _has_record(schema: Avro, name: str) -> bool:
    return any(branch.type == "record" for field in schema.fields if field.name == name
               for branch in schema.branches(field.node))  # fmt: skip


def _of_event(schema: Avro) -> Iterator[tuple[Path, Leaf]]:
    """The fields of the row after a change, and those beside it that a stream can have."""
    row = part_of(schema, "after")
    yield from _of_record(schema, row.root, ("after",), nullable=False)
    yield from ((path, leaf) for path, leaf in _of_record(schema, schema.root, (), nullable=False) if path in BESIDE)


def _rows_of_events(sample: SchemaSample) -> SchemaSample:
    """The sample of rows, from that of events with the fields of the row in `after`."""
    envelope = Envelope(DEBEZIUM)
    of_row = [attribute for attribute in sample.attributes if attribute.path not in BESIDE]
    beside = {attribute.path: attribute.name for attribute in sample.attributes if attribute.path in BESIDE}
    events = [document and _event(document, beside) for document in sample.documents]
    documents = [document if event and event["after"] is not None else None
                 for document, event in zip(sample.documents, events, strict=True)]  # fmt: skip
    names = names_of([attribute.path[1:] for attribute in of_row])
    rows = [
        replace(_with_values(attribute, documents), name=name, path=attribute.path[1:])
        for name, attribute in zip(names, of_row, strict=True)
    ]
    renamed = {attribute.name: name for name, attribute in zip(names, of_row, strict=True)}
    attributes = [*rows, *envelope.beside([event for event in events if event], rows)]
    left = [document and {renamed.get(name, name): value for name, value in document.items()} for document in documents]
    rowless = left.count(None) - sample.documents.count(None)
    return replace(sample, attributes=attributes, documents=left, envelope=envelope, rowless=rowless)


def _event(document: Document, names: Mapping[Path, str]) -> Document:
    """A change event as its JSON has it; `after` is empty, or null without a row."""
    op, time, handled = (document.get(names.get(path, "")) for path in BESIDE)
    exists = LETTERS.get(str(op)) in EXISTS
    return {"op": op, "after": {} if exists else None, "source": {"ts_ms": time}, "ts_ms": handled}


# ---- attributes and values -------------------------------------------------------------------------------------------


def _sample(
    values: Sequence[bytes], schemas: Sequence[Leaves], coding: Coding, properties: Mapping[str, str], reason: str
) -> SchemaSample:
    fields = _attributes(schemas)
    usable = [field for field in fields if not field.problem]
    schema = tuple((field.name, optional_of(parse_type(field.type))) for field in usable)
    members = {field.name: Member(field.path) for field in usable if field.path != (field.name,)}
    if not schema:
        return SchemaSample(fields, [None] * len(values), reason)
    part = Part(coding, schema, registry=tuple(properties.items()), members=members)
    decoded = codec(part).decode(pa.array(values, pa.binary()))
    documents: list[Document | None] = [None] * len(values)
    for row, document in zip(decoded.good.tolist(), _documents(decoded.tuples, schema), strict=True):
        documents[row] = document
    why = decoded.bad[-1][1] if decoded.bad else ""
    listed = [_with_values(field, documents) for field in fields]
    attributes = listed if isinstance(coding.options, ProtobufOptions) else list(map(_with_times, listed))
    return SchemaSample(attributes, documents, why or reason)


def _attributes(schemas: Sequence[Leaves]) -> list[Attribute]:
    """The fields of these schemas as attributes without values, each with its type in the newest schema."""
    listed: dict[Path, list[Leaf]] = {}
    for leaves in schemas:
        for path, leaf in leaves:
            listed.setdefault(path, []).append(leaf)
    names = names_of(list(listed))
    return [
        _attribute(name, path, leaves, len(schemas)) for name, (path, leaves) in zip(names, listed.items(), strict=True)
    ]


def _attribute(name: str, path: Path, leaves: Sequence[Leaf], schemas: int) -> Attribute:
    type_, problem, _ = leaves[-1]
    nullable = any(leaf.nullable for leaf in leaves)
    absences = (*(["may be null"] if nullable else []), *(["not in each schema"] if len(leaves) < schemas else []))
    form = Form(str(type_)) if type_ else None
    return Attribute(name, path, form, (), (), 0, problem=problem, absence=", ".join(absences))


def _documents(tuples: pa.RecordBatch, schema: Schema) -> Iterator[Document]:
    columns = [json_values(tuples.column(index), type_) for index, (_, type_) in enumerate(schema)]
    for row in range(len(tuples)):
        yield {name: column[row] for (name, _), column in zip(schema, columns, strict=True)}


def _with_values(field: Attribute, documents: Sequence[Document | None]) -> Attribute:
    read = [document for document in documents if document is not None]
    pairs = [(row, document[field.name]) for row, document in enumerate(read) if document.get(field.name) is not None]
    rows, values = [row for row, _ in pairs], [value for _, value in pairs]
    return replace(field, values=values, rows=rows, documents=len(read) if field.form else 0)


def _with_times(field: Attribute) -> Attribute:
    """The field, as a time if its values are texts of times: Avro has them for times with a zone (AV8). Numbers with
    scales of their own (AV9) are decimals.
    """
    if field.form is None or not field.values:
        return field
    form = form_of(field.meaning, field.values)
    time = field.form.type == "string" and form == Form("timestamp")
    scaled = field.form.type == "json" and form is not None and all(map(is_scaled, field.values))
    return replace(field, form=Form(form.type)) if form is not None and (time or scaled) else field
