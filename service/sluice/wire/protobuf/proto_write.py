"""Encodes tuples as messages of Protocol Buffers, a batch at a time.

Each column is encoded as an array of byte strings, one for each value, with the tag of its field. Then the strings of
each row are joined, in the order of the fields' numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns import number_columns
from sluice.columns.column_forms import type_of
from sluice.model.members import NO_MEMBERS, Members, PathTree, Steps, paths_of
from sluice.model.protobuf.proto_fit import JSON_MESSAGES, SPAN, TIME, check_writing, field_at, kind_of, wrapped
from sluice.model.protobuf.proto_schema import FIXED, Protobuf, ProtoEnum, ProtoField, ProtoMessage
from sluice.model.types import Schema
from sluice.time_units import SECOND
from sluice.wire.protobuf.proto_json import json_message
from sluice.wire.unwritable_tuples import Mask, either, of_items, of_present, refusals
from sluice.wire.varints import grouped, of_size, varints, zigzags

VARINT, EIGHT, BYTES, START, STOP, FOUR = range(6)
NOTHING = pa.scalar(b"", pa.binary())


@dataclass(frozen=True)
class Writer:
    """Encodes tuples as one message."""

    proto: Protobuf
    message: ProtoMessage
    schema: Schema
    #: the paths of the attributes
    paths: tuple[Steps, ...]

    @property
    def tree(self) -> PathTree:
        return PathTree.of(list(self.paths))

    @classmethod
    def of(cls, schema: Schema, proto: Protobuf, message: ProtoMessage, members: Members = NO_MEMBERS) -> Writer:
        """The writer of a schema into a message. Raises ProtobufError if the message cannot hold the attributes."""
        paths = paths_of(schema, members)
        for path, (_, type_) in zip(paths, schema, strict=True):
            check_writing(proto, message, path, type_)
        return cls(proto, message, schema, tuple(paths))

    def write(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        return self._content(tuples, self.message, self.tree)

    def refused(self, tuples: pa.RecordBatch) -> dict[int, str]:
        """The rows that cannot be written, with their reasons."""
        masks = {}
        for path, (name, _) in zip(self.paths, self.schema, strict=True):
            field = field_at(self.proto, self.message, path)
            masks[name] = self._unwritten(tuples.column(name), field), f"a value of {field.shown}"
        return refusals(tuples, self.schema, masks)

    def _unwritten(self, column: pa.Array, field: ProtoField) -> Mask:
        """A mask of the values that the field does not hold (PB24, PB25)."""
        if column.null_count:
            return of_present(column, lambda present: self._unwritten(present, field))
        if pa.types.is_map(column.type):
            sides = zip((column.keys, column.items), self.proto.message_of(field).fields, strict=True)
            return of_items(either(self._unwritten(*side) for side in sides), column.offsets)
        if pa.types.is_list(column.type):
            return of_items(self._unwritten(column.values, field), column.offsets)
        if pa.types.is_struct(column.type):
            fields = {part.name: part for part in self.proto.message_of(field).fields}
            return either(self._unwritten(column.field(part.name), fields[part.name]) for part in column.type)
        if field.type_name in JSON_MESSAGES:
            return np.array([json_message(field.type_name, text) is None for text in column.to_pylist()], np.bool_)
        return _no_number(column, self.proto.enums[field.type_name]) if field.kind == "enum" else None

    def _content(self, tuples: pa.RecordBatch, message: ProtoMessage, tree: PathTree) -> pa.BinaryArray:
        """The fields of a message that the paths of the tree lead to (PB23)."""
        fields = [(field, tree.inner[field.name]) for field in message.fields if field.name in tree.inner]
        return _joined([self._part(tuples, field, inner) for field, inner in fields], tuples.num_rows)

    def _part(self, tuples: pa.RecordBatch, field: ProtoField, tree: PathTree) -> pa.BinaryArray:
        if tree.attributes:
            return self._field(tuples.column(tree.attributes[0]), field)
        content = self._content(tuples, self.proto.message_of(field), tree)
        return _tagged(field, content if field.group else _with_length(content))

    def _field(self, column: pa.Array, field: ProtoField) -> pa.BinaryArray:
        """The bytes of a field in each row: nothing for null, and for a default that needs no bytes (PB16)."""
        if field.repeated:
            return self._list(column, field) if pa.types.is_list(column.type) else self._map(column, field)
        present = column.is_valid().to_numpy(zero_copy_only=False)
        column = self._numbered(column, field)
        values = self._values(column, field)
        if not field.presence:
            present &= ~_is_default(column)
        return _where(present, _tagged(field, values))

    def _list(self, column: pa.ListArray, field: ProtoField) -> pa.BinaryArray:
        items = self._values(pc.list_flatten(column), field)
        counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        if not field.packed:
            return grouped(_tagged(field, items), offsets)
        packed = _with_length(grouped(items, offsets))
        return _where(counts > 0, _joined([pa.scalar(_tag(field.number, BYTES), pa.binary()), packed], len(counts)))

    def _map(self, column: pa.MapArray, field: ProtoField) -> pa.BinaryArray:
        """Each entry is a message with both of its fields."""
        starts = column.offsets.to_numpy().astype(np.int64)
        first, count = int(starts[0]), int(starts[-1] - starts[0])
        sides = (column.keys.slice(first, count), column.items.slice(first, count))
        fields = self.proto.message_of(field).fields
        parts = [_tagged(part, self._values(side, part)) for side, part in zip(sides, fields, strict=True)]
        return grouped(_tagged(field, _with_length(_joined(parts, count))), starts - first)

    def _message(self, column: pa.StructArray, field: ProtoField) -> pa.BinaryArray:
        names = {field.name for field in column.type}
        inner = [part for part in self.proto.message_of(field).fields if part.name in names]
        return self._embedded(
            _joined([self._field(column.field(part.name), part) for part in inner], len(column)), field
        )

    @staticmethod
    def _embedded(content: pa.BinaryArray, field: ProtoField) -> pa.BinaryArray:
        """The content of a message as the value of a field."""
        return content if field.group else _with_length(content)

    def _numbered(self, column: pa.Array, field: ProtoField) -> pa.Array:
        """The column; names of values of an enum as numbers (PB24)."""
        named = field.kind == "enum" and not pa.types.is_integer(column.type)
        return _numbers_of(column, self.proto.enums[field.type_name]) if named else column

    def _values(self, column: pa.Array, field: ProtoField) -> pa.BinaryArray:  # noqa: PLR0911 - a case for each kind
        """The bytes of each value, with its length if the field has one, without its tag. The bytes of a null have no
        meaning.
        """
        column = self._numbered(column, field)
        inner = wrapped(self.proto, field)
        if inner is not field:
            present = column.is_valid().to_numpy(zero_copy_only=False) & ~_is_default(column)
            content = _where(present, _tagged(inner, self._values(column, inner)))
            return content if field.group else _with_length(content)
        match kind_of(self.proto, field):
            case "message" if field.type_name in JSON_MESSAGES:
                contents = [json_message(field.type_name, text) or b"" for text in column.to_pylist()]
                return self._embedded(pa.array(contents, pa.binary()), field)
            case "message":
                return self._message(column, field)
            case "unscaled number":
                return self._embedded(_scaled_numbers(column), field)
            case "string" | "bytes":
                return _with_length(_texts(column))
            case "double":
                return _fixed(column)
            case kind:
                return self._numbers(_words(column), kind, grouped=field.group)

    def _numbers(self, words: np.ndarray, kind: str, *, grouped: bool) -> pa.BinaryArray:
        match kind:
            case "sfixed64":
                return of_size(words, 8)
            case "sint64":
                return zigzags(words)
            case _ if kind in (TIME, SPAN):
                return _time(words, floor=kind == TIME, grouped=grouped)
            case _:  # int64 and bool
                return varints(words)


def _numbers_of(column: pa.Array, enum: ProtoEnum) -> pa.Array:
    """The numbers of these names; null for another text. The text of a number stands for it, as it is read (PB15,
    PB24).
    """
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    number_of = dict(enum.values)
    different = pc.unique(texts)
    numbers = [number_of.get(text, _number_in(text)) for text in different.to_pylist()]
    return pa.array(numbers, pa.int64()).take(pc.index_in(texts, different))


def _number_in(text: str | None) -> int | None:
    return int(text) if text is not None and NUMBER.fullmatch(text) else None


#: the text of a number of an enum
NUMBER = re.compile(r"0|-?[1-9][0-9]{0,9}")


def _no_number(column: pa.Array, enum: ProtoEnum) -> np.ndarray:
    """The values that are no value of the enum: one of its numbers, or of an open enum any number of 32 bits."""
    numbers = column if pa.types.is_integer(column.type) else _numbers_of(column, enum)
    if enum.closed:
        return ~np.array(pc.is_in(numbers, pa.array([number for _, number in enum.values], pa.int64())))
    words = np.array(pc.fill_null(numbers, 2**31))
    return (words < -(2**31)) | (words >= 2**31)


def _scaled_numbers(column: pa.Array) -> pa.BinaryArray:
    """The contents of messages with an exact number: the unscaled number, the precision and the scale."""
    numbers = [number_columns.as_bytes(number or 0) for number in number_columns.unscaled(column)]
    beside = _tag(2, VARINT) + _varint(column.type.precision) + _tag(3, VARINT) + _varint(column.type.scale)
    values = _with_length(pa.array(numbers, pa.binary()))
    return _joined([pa.scalar(_tag(1, BYTES), pa.binary()), values, pa.scalar(beside, pa.binary())], len(column))


def _texts(column: pa.Array) -> pa.BinaryArray:
    """The bytes of texts, bytes and exact numbers."""
    if type_of(column.type).exact:
        column = number_columns.texts(column)
    elif pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return pc.fill_null(column.cast(pa.binary()), b"")


def _words(column: pa.Array) -> np.ndarray:
    whole: pa.Array = column.cast(pa.int64()) if not pa.types.is_temporal(column.type) else column.view(pa.int64())
    return np.asarray(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False))


#: the columns of texts and bytes; a large string is JSON
TEXTUAL = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_dictionary)


def _is_default(column: pa.Array) -> np.ndarray:
    """A mask of the values that are the default of their type: 0, false or nothing. -0.0 is another value than 0.0."""
    if any(holds(column.type) for holds in TEXTUAL):
        text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return np.asarray(pc.fill_null(pc.binary_length(text), 0).to_numpy(zero_copy_only=False) == 0)
    if type_of(column.type).exact:
        return np.zeros(len(column), np.bool_)
    if pa.types.is_floating(column.type):
        column = pc.fill_null(column, 0.0).view(pa.int64())
    return np.asarray(_words(column) == 0)


def _time(words: np.ndarray, *, floor: bool, grouped: bool) -> pa.BinaryArray:
    """Timestamps and durations in nanoseconds. The two parts of a duration have the same sign."""
    seconds = words // SECOND
    if not floor:
        seconds = seconds + ((words < 0) & (words % SECOND != 0))
    nanos = words - seconds * SECOND
    parts = [
        _where(part != 0, _joined([pa.scalar(_tag(number, VARINT), pa.binary()), varints(part)], len(words)))
        for number, part in enumerate((seconds, nanos), 1)
    ]
    content = _joined(parts, len(words))
    return content if grouped else _with_length(content)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    return bytes(varints(np.array([number], np.int64))[0].as_py())


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _tagged(field: ProtoField, values: pa.BinaryArray) -> pa.BinaryArray:
    if field.group:
        around = [pa.scalar(_tag(field.number, wire), pa.binary()) for wire in (START, STOP)]
        return _joined([around[0], values, around[1]], len(values))
    wire = {4: FOUR, 8: EIGHT}.get(FIXED.get(field.kind, 0), BYTES if field.kind in LENGTHS else VARINT)
    return _joined([pa.scalar(_tag(field.number, wire), pa.binary()), values], len(values))


LENGTHS = frozenset({"string", "bytes", "message"})


def _joined(pieces: list[pa.Array | pa.Scalar], rows: int) -> pa.BinaryArray:
    if not any(isinstance(piece, pa.Array) for piece in pieces):
        pieces = [*pieces, pa.array([b""] * rows, pa.binary())]
    return pc.binary_join_element_wise(*pieces, NOTHING)


def _where(present: np.ndarray, values: pa.BinaryArray) -> pa.BinaryArray:
    """The values where `present` is true, else nothing."""
    return values if present.all() else pc.if_else(pa.array(present), values, NOTHING)


def _with_length(values: pa.BinaryArray) -> pa.BinaryArray:
    lengths = pc.binary_length(values).to_numpy().astype(np.int64)
    return _joined([varints(lengths), values], len(values))


def _fixed(column: pa.Array) -> pa.BinaryArray:
    return of_size(pc.fill_null(column, 0.0).to_numpy(), 8)
