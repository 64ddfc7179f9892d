"""Encodes tuples as Avro's bytes, a batch at a time.

Each column is encoded as an array of byte strings, one for each value. Then the strings of each row are joined.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns import number_columns
from sluice.columns.forms.form_contract import spread
from sluice.model.avro_schema import (
    Avro,
    Node,
    branch_for,
    branch_of_default,
    branches_by_name,
    is_of_branches,
    members_of,
    null_branch,
    parse,
    spelled,
    steps_in,
)
from sluice.model.members import NO_MEMBERS, Members, PathTree
from sluice.model.types import MapType, Schema, StructType, Type
from sluice.wire.unwritable_tuples import Mask, either, of_items, of_present, refusals, texts_outside
from sluice.wire.varints import grouped, of_size, zigzags


@dataclass(frozen=True)
class Writer:
    """Encodes tuples with one schema."""

    avro: Avro
    schema: Schema
    #: in the order of the fields the number of an attribute with the node that it is written as, or the bytes of the
    #: default of a field without an attribute
    parts: tuple[tuple[int, Node] | bytes, ...]

    @classmethod
    def of(cls, schema: Schema, text: str, members: Members = NO_MEMBERS) -> Writer:
        avro = parse(text)
        paths = [(name, member.path if (member := members.get(name)) else None) for name, _ in schema]
        tree = PathTree.of([steps_in(avro, name, path) for name, path in paths])
        return cls(avro, schema, tuple(_parts(avro, avro.root, tree)))

    def write(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        if not self.parts:
            return pa.array([b""] * tuples.num_rows, pa.binary())
        pieces = [
            pa.scalar(part, pa.binary()) if isinstance(part, bytes) else self._column(tuples, *part)
            for part in self.parts
        ]
        if not any(isinstance(piece, pa.Array) for piece in pieces):
            pieces.append(pa.array([b""] * tuples.num_rows, pa.binary()))
        return _joined(*pieces)

    def refused(self, tuples: pa.RecordBatch) -> dict[int, str]:
        """The rows that cannot be written, with their reasons."""
        masks = {}
        for part in self.parts:
            if not isinstance(part, bytes):
                (name, type_), node = self.schema[part[0]], part[1]
                expected = f"a value of {spelled(self.avro, node)} of the schema"
                masks[name] = _unwritten(tuples.column(name), type_, node, self.avro), expected
        return refusals(tuples, self.schema, masks)

    def _column(self, tuples: pa.RecordBatch, number: int, node: Node) -> pa.BinaryArray:
        name, type_ = self.schema[number]
        return _pieces(tuples.column(name), type_, node, self.avro)


def _parts(avro: Avro, node: Node, tree: PathTree) -> Iterator[tuple[int, Node] | bytes]:
    """The parts of a value with the attributes of the tree: of an attribute itself, or of a record (PA7)."""
    if tree.attributes:
        yield tree.attributes[0], node
        return
    branches = avro.branches(node)
    number, record = next((number, branch) for number, branch in enumerate(branches) if branch.type == "record")
    if avro.meant(node).type == "union":
        yield _varint(number)
    for field in record.fields:
        if field.name in tree.inner:
            yield from _parts(avro, field.node, tree.inner[field.name])
        else:
            yield default(avro, field.node, field.default)


def default(avro: Avro, node: Node, value: Any) -> bytes:  # noqa: ANN401 - JSON
    """Encodes the default of a field from JSON. In a union it belongs to the first branch that allows it."""
    branch, meant = branch_of_default(avro, node, value)
    prefix = _varint(branch) if avro.meant(node).type == "union" else b""
    return prefix + _plain_default(avro, meant, value)


def _plain_default(avro: Avro, node: Node, value: Any) -> bytes:  # noqa: ANN401, C901, PLR0911 - a case for each type
    match node.type:
        case "null":
            return b""
        case "record":
            values = {field.name: value.get(field.name, field.default) for field in node.fields}
            return b"".join(default(avro, field.node, values[field.name]) for field in node.fields)
        case "array":
            items = [default(avro, node.inner[0], item) for item in value]
            return _block(items)
        case "map":
            return _block([_sized(key.encode()) + default(avro, node.inner[0], item) for key, item in value.items()])
        case "enum":
            return _varint(node.symbols.index(value))
        case "boolean":
            return bytes([value])
        case "float" | "double":
            return struct.pack("<f" if node.type == "float" else "<d", value)
        case "string":
            return _sized(value.encode())
        case "bytes":
            return _sized(value.encode("latin-1"))  # the specification: each character is one byte
        case "fixed":
            return bytes(value.encode("latin-1"))
        case _:
            return _varint(value)


def _block(items: list[bytes]) -> bytes:
    return (_varint(len(items)) + b"".join(items) if items else b"") + _varint(0)


def _sized(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _joined(*pieces: pa.Array | pa.Scalar) -> pa.BinaryArray:
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))


def _pieces(column: pa.Array, type_: Type, node: Node, avro: Avro) -> pa.BinaryArray:
    """The encoded bytes of each value of a column."""
    if type_.optional:
        present = _pieces(column.drop_null(), type_.present, node, avro)
        null = pa.scalar(_varint(null_branch(avro, node)), pa.binary())
        return pc.coalesce(spread(present, column.is_valid()), null)
    if is_of_branches(avro, node, type_):
        return _of_branches(column, type_, node, avro)
    branch, written = branch_for(avro, node, type_)
    values = _values(column, type_, written, avro)
    if avro.meant(node).type != "union":
        return values
    return _joined(pa.scalar(_varint(branch), pa.binary()), values)


def _values(column: pa.Array, type_: Type, node: Node, avro: Avro) -> pa.BinaryArray:
    if isinstance(type_, StructType):
        return _struct(column, type_, node, avro)
    if isinstance(type_, MapType):
        keys, items = column.keys, _pieces(column.items, type_.value, node.inner[0], avro)
        return _blocks(_joined(_scalars(keys, Node("string")), items), column.offsets.to_numpy())
    if type_.element is not None:
        return _blocks(_pieces(column.values, type_.element, node.inner[0], avro), column.offsets.to_numpy())
    return _scalars(column, node)


def _of_branches(column: pa.StructArray, type_: Type, node: Node, avro: Avro) -> pa.BinaryArray:
    """The branch of the member that is there, or null if there is none (AV5)."""
    by_name, branches = branches_by_name(avro, node), avro.branches(node)
    pieces = []
    for name, inner in members_of(type_):
        member, number = column.field(name), next(n for n, branch in enumerate(branches) if branch is by_name[name])
        written = _pieces(member.drop_null(), inner.present, by_name[name], avro)
        prefix = [pa.scalar(_varint(number), pa.binary())] if len(branches) > 1 else []
        pieces.append(spread(_joined(*prefix, written), member.is_valid()))
    null = [number for number, branch in enumerate(branches) if branch.type == "null"]
    return pc.coalesce(*pieces, pa.scalar(_varint(null[0]) if null else b"", pa.binary()))


def _struct(column: pa.StructArray, type_: StructType, node: Node, avro: Avro) -> pa.BinaryArray:
    types = dict(type_.members)
    pieces = [
        _pieces(column.field(field.name), types[field.name], field.node, avro)
        if field.name in types
        else pa.scalar(default(avro, field.node, field.default), pa.binary())
        for field in node.fields
    ]
    return _joined(*pieces)


# ---- what cannot be written ------------------------------------------------------------------------------------------


def _unwritten(column: pa.Array, type_: Type, node: Node, avro: Avro) -> Mask:  # noqa: PLR0911 - a case for each kind
    """A mask of the values that the node does not hold (AV5, AV6)."""
    if type_.optional:
        return of_present(column, lambda present: _unwritten(present, type_.present, node, avro))
    if is_of_branches(avro, node, type_):
        by_name, members = branches_by_name(avro, node), members_of(type_)
        inside = [_unwritten(column.field(name), inner, by_name[name], avro) for name, inner in members]
        return either([_not_one(column, type_, nullable=len(by_name) < len(avro.branches(node))), *inside])
    _, written = branch_for(avro, node, type_)
    if isinstance(type_, StructType):
        own_types, fields = dict(type_.members), written.fields
        return either(
            _unwritten(column.field(field.name), own_types[field.name], field.node, avro)
            for field in fields
            if field.name in own_types
        )
    if type_.parts:
        values = column.items if isinstance(type_, MapType) else column.values
        return of_items(_unwritten(values, type_.parts[-1], written.inner[0], avro), column.offsets)
    if written.type == "enum":
        return texts_outside(column, written.symbols)
    if written.type == "fixed" and not written.scaled:
        return np.array(pc.not_equal(pc.binary_length(column), written.size))
    return None


def _not_one(column: pa.StructArray, type_: Type, *, nullable: bool) -> np.ndarray:
    """The structs of branches of which not just one member is there; none may be there if the union has null."""
    count = np.sum([np.array(column.field(name).is_valid()) for name, _ in members_of(type_)], axis=0)
    return np.asarray((count > 1) | (count < (0 if nullable else 1)))


def _varint(value: int) -> bytes:
    return bytes(zigzags(np.array([value], np.int64))[0].as_py())


def _scalars(column: pa.Array, node: Node) -> pa.BinaryArray:  # noqa: PLR0911 - a case for each type
    if node.scaled:
        return _scaled_numbers(column, node)
    match node.type:  # `branch_for` has chosen it by the type of the column
        case "boolean":
            return of_size(column.cast(pa.uint8()).to_numpy(), 1)
        case "double":
            return of_size(column.to_numpy(), 8)
        case "enum":
            texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            return zigzags(np.array(pc.index_in(texts, pa.array(node.symbols, texts.type)), np.int64))
        case "fixed":
            return column.cast(pa.binary())
        case "string" | "bytes":
            text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            text = text.cast(pa.string()) if pa.types.is_large_string(text.type) else text
            return _joined(zigzags(pc.binary_length(text).to_numpy().astype(np.int64)), text.cast(pa.binary()))
        case _:
            return zigzags(column.cast(pa.int64()).to_numpy() // (node.unit or 1))


def _scaled_numbers(column: pa.Array, node: Node) -> pa.BinaryArray:
    """Unscaled numbers in two's complement, the high byte first: in as few bytes as it takes, or in a fixed number."""
    up = 10 ** (node.scale - column.type.scale)
    numbers_ = [(number or 0) * up for number in number_columns.unscaled(column)]
    if node.size:
        return pa.array([number.to_bytes(node.size, "big", signed=True) for number in numbers_], pa.binary())
    return pa.array([_sized(number_columns.as_bytes(number)) for number in numbers_], pa.binary())


def _blocks(items: pa.BinaryArray, offsets: np.ndarray) -> pa.BinaryArray:
    """Encodes each list or map as one block with all items, then the empty block that ends it."""
    counts = np.diff(offsets).astype(np.int64)
    last = pa.array([b"", b"\0"], pa.binary()).take(pa.array((counts > 0).astype(np.int8)))
    return _joined(zigzags(counts), grouped(items, offsets), last)
