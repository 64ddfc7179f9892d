"""The attributes of sampled records in Confluent's wire format, from the schemas in the registry that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from sluice.columns.json_columns import json_values
from sluice.draft.record_tree import Path
from sluice.draft.sampled_attributes import Attribute, Document, names_of
from sluice.draft.value_forms import Form
from sluice.model.avro_schema import Avro, AvroError, Field, Node, attribute_type
from sluice.model.members import Member, Members
from sluice.model.types import Schema, Type, parse_type
from sluice.wire.avro.avro_read import Reader
from sluice.wire.confluent import PREFIX
from sluice.wire.schema_registry import UnknownSchemaError, registry

#: the most records within records whose fields are attributes
MAX_DEPTH = 8


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
    usable = [field for field in fields if not field.problem]
    schema = tuple((field.name, parse_type(field.type)) for field in usable)
    members = {field.name: Member(field.path) for field in usable if field.path != (field.name,)}
    documents: list[Document | None] = [None] * len(values)
    for number, writer in known.items():
        rows = [row for row, value in enumerate(values) if _number(value) == number]
        read, why = _read([values[row] for row in rows], schema, members, writer)
        reason = why or reason
        for row, document in zip(rows, read, strict=True):
            documents[row] = document
    return [_with_values(field, documents) for field in fields], documents, reason


def _number(value: bytes) -> int:
    return int.from_bytes(value[1:PREFIX], "big")


class _Leaf(NamedTuple):
    """A field of a schema that is no record, and whether a record around it, or the field itself, may be null."""

    avro: Avro
    field: Field
    nullable: bool


def _fields(schemas: Sequence[Avro]) -> list[Attribute]:
    """The fields of these schemas as attributes without values, each with its type in the newest schema."""
    listed: dict[Path, list[_Leaf]] = {}
    for schema in schemas:
        for path, leaf in _leaves(schema, schema.root, (), nullable=False):
            listed.setdefault(path, []).append(leaf)
    names = names_of(list(listed))
    return [
        _attribute(name, path, leaves, len(schemas)) for name, (path, leaves) in zip(names, listed.items(), strict=True)
    ]


def _leaves(avro: Avro, node: Node, path: Path, *, nullable: bool) -> Iterator[tuple[Path, _Leaf]]:
    """The fields below a node, also in records within records."""
    for field in avro.meant(node).fields:
        branches = avro.branches(field.node)
        records = [branch for branch in branches if branch.type == "record"]
        absent = nullable or len(branches) > len([branch for branch in branches if branch.type != "null"])
        if records and len(path) < MAX_DEPTH and all(branch.type in ("record", "null") for branch in branches):
            yield from _leaves(avro, records[0], (*path, field.name), nullable=absent)
        else:
            yield (*path, field.name), _Leaf(avro, field, absent)


def _attribute(name: str, path: Path, leaves: Sequence[_Leaf], schemas: int) -> Attribute:
    newest = leaves[-1]
    type_, problem = _type(newest.avro, newest.field)
    nullable = any(leaf.nullable for leaf in leaves)
    absences = (*(["may be null"] if nullable else []), *(["not in each schema"] if len(leaves) < schemas else []))
    form = Form(str(type_.present)) if type_ else None
    return Attribute(name, path, form, (), (), 0, problem=problem, absence=", ".join(absences))


def _type(avro: Avro, field: Field) -> tuple[Type | None, str]:
    """The type of the attribute, or why there is none."""
    try:
        return attribute_type(avro, field.node, field.name), ""
    except AvroError:
        branches = ", ".join(branch.type for branch in avro.branches(field.node) if branch.type != "null")
        return None, f"no type is chosen for {branches or 'null'}; docs/formats.md has those that can be read"


def _read(values: list[bytes], schema: Schema, members: Members, writer: Avro) -> tuple[list[Document | None], str]:
    try:
        decoded = Reader.of(schema, writer, None, {}, members).read(pa.array(values, pa.binary()), PREFIX)
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
