"""The attributes of sampled records in Confluent's wire format, from the schemas in the registry that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from sluice.columns.json_columns import json_values
from sluice.draft.sampled_attributes import Attribute, Document, names_of
from sluice.draft.value_forms import Form
from sluice.model.avro_schema import Avro, AvroError, Field, attribute_type
from sluice.model.types import Schema, Type, parse_type
from sluice.wire.avro.avro_read import Reader
from sluice.wire.confluent import PREFIX
from sluice.wire.schema_registry import UnknownSchemaError, registry


def avro_sample(
    values: Sequence[bytes], properties: Mapping[str, str]
) -> tuple[list[Attribute], list[Document | None], str]:
    """The attributes, a document for each value (None if it cannot be read), and why the last such value cannot.

    Raises RegistryError if the registry does not answer.
    """
    known, reason = {}, ""
    for number in sorted({_number(value) for value in values}):
        try:
            known[number] = registry(tuple(properties.items())).schema(number)
        except UnknownSchemaError as error:
            reason = str(error)
    fields = _fields(list(known.values()))
    schema = tuple((field.name, parse_type(field.type)) for field in fields if not field.problem)
    documents: list[Document | None] = [None] * len(values)
    for number, writer in known.items():
        rows = [row for row, value in enumerate(values) if _number(value) == number]
        read, why = _read([values[row] for row in rows], schema, writer)
        reason = why or reason
        for row, document in zip(rows, read, strict=True):
            documents[row] = document
    return [_with_values(field, documents) for field in fields], documents, reason


def _number(value: bytes) -> int:
    return int.from_bytes(value[1:PREFIX], "big")


def _fields(schemas: Sequence[Avro]) -> list[Attribute]:
    """The fields of these schemas as attributes without values, each with its type in the newest schema."""
    listed: dict[str, list[tuple[Avro, Field]]] = {}
    for schema in schemas:
        for field in schema.fields if schema.meant(schema.root).type == "record" else ():
            listed.setdefault(field.name, []).append((schema, field))
    return [_attribute(name, fields, len(schemas)) for name, fields in listed.items()]


def _attribute(name: str, fields: Sequence[tuple[Avro, Field]], schemas: int) -> Attribute:
    avro, newest = fields[-1]
    type_, problem = _type(avro, newest)
    nullable = any(branch.type == "null" for avro, field in fields for branch in avro.branches(field.node))
    absences = (*(["may be null"] if nullable else []), *(["not in each schema"] if len(fields) < schemas else []))
    (attribute,) = names_of([(name,)])
    form = Form(str(type_.present)) if type_ else None
    return Attribute(attribute, (name,), form, (), (), 0, problem=problem, absence=", ".join(absences))


def _type(avro: Avro, field: Field) -> tuple[Type | None, str]:
    """The type of the attribute, or why there is none."""
    try:
        return attribute_type(avro, field.node, field.name), ""
    except AvroError:
        branches = ", ".join(branch.type for branch in avro.branches(field.node) if branch.type != "null")
        return None, f"no type is chosen for {branches or 'null'}; docs/formats.md has those that can be read"


def _read(values: list[bytes], schema: Schema, writer: Avro) -> tuple[list[Document | None], str]:
    try:
        decoded = Reader.of(schema, writer, None, {}).read(pa.array(values, pa.binary()), PREFIX)
    except AvroError as error:
        return [None] * len(values), f"expected {error}"
    documents: list[Document | None] = [None] * len(values)
    for row, document in zip(decoded.good.tolist(), _documents(decoded.tuples, schema), strict=True):
        documents[row] = document
    return documents, decoded.bad[-1][1] if decoded.bad else ""


def _documents(tuples: pa.RecordBatch, schema: Schema) -> Iterator[Document]:
    columns = [json_values(tuples.column(index), type_) for index, (_, type_) in enumerate(schema)]
    for row in range(len(tuples)):
        yield {name: column[row] for (name, _), column in zip(schema, columns, strict=True)}


def _with_values(field: Attribute, documents: Sequence[Document | None]) -> Attribute:
    read = [document for document in documents if document is not None]
    found = [(row, document[field.name]) for row, document in enumerate(read) if document.get(field.name) is not None]
    rows, values = [row for row, _ in found], [value for _, value in found]
    return replace(field, values=values, rows=rows, documents=len(read) if field.form else 0)
