"""Encodes tuples as messages of Protocol Buffers, a batch at a time.

Each column is encoded as an array of byte strings, one for each value, with the tag of its field. Then the strings of
each row are joined, in the order of the fields' numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns import number_columns
from sluice.columns.kernel import kernel
from sluice.model.protobuf.proto_fit import SPAN, TIME, check_writing, kind_of, wrapped
from sluice.model.protobuf.proto_schema import FIXED, Protobuf, ProtoField, ProtoMessage
from sluice.model.types import Schema
from sluice.time_units import SECOND
from sluice.wire.decoded import bytes_of

#: the most bytes of a number
MOST_BYTES = 10
VARINT, EIGHT, BYTES, START, STOP, FOUR = range(6)
NOTHING = pa.scalar(b"", pa.binary())


@dataclass(frozen=True)
class Writer:
    """Encodes tuples as one message."""

    proto: Protobuf
    message: ProtoMessage
    schema: Schema

    @classmethod
    def of(cls, schema: Schema, proto: Protobuf, message: ProtoMessage) -> Writer:
        """Raises ProtobufError if the message cannot hold the attributes."""
        for name, type_ in schema:
            check_writing(proto, message, name, type_)
        return cls(proto, message, schema)

    def write(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        names = {name for name, _ in self.schema}
        pieces = [self._field(tuples.column(one.name), one) for one in self.message.fields if one.name in names]
        return _joined(pieces, tuples.num_rows)

    def _field(self, column: pa.Array, one: ProtoField) -> pa.BinaryArray:
        """The bytes of a field in each row: nothing for null, and for a default that needs no bytes (PB16)."""
        if one.repeated:
            return self._list(column, one) if pa.types.is_list(column.type) else self._map(column, one)
        present = column.is_valid().to_numpy(zero_copy_only=False)
        values = self._values(column, one)
        if not one.presence:
            present &= ~_is_default(column)
        return _where(present, _tagged(one, values))

    def _list(self, column: pa.ListArray, one: ProtoField) -> pa.BinaryArray:
        items = self._values(pc.list_flatten(column), one)
        counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        if not one.packed:
            return _grouped(_tagged(one, items), counts)
        packed = _with_length(_grouped(items, counts))
        return _where(counts > 0, _joined([pa.scalar(_tag(one.number, BYTES), pa.binary()), packed], len(counts)))

    def _map(self, column: pa.MapArray, one: ProtoField) -> pa.BinaryArray:
        """Each entry is a message with both of its fields."""
        starts = column.offsets.to_numpy().astype(np.int64)
        first, count = int(starts[0]), int(starts[-1] - starts[0])
        sides = (column.keys.slice(first, count), column.items.slice(first, count))
        fields = self.proto.message_of(one).fields
        parts = [_tagged(part, self._values(side, part)) for side, part in zip(sides, fields, strict=True)]
        return _grouped(_tagged(one, _with_length(_joined(parts, count))), np.diff(starts))

    def _message(self, column: pa.StructArray, one: ProtoField) -> pa.BinaryArray:
        names = {field.name for field in column.type}
        inner = [part for part in self.proto.message_of(one).fields if part.name in names]
        content = _joined([self._field(column.field(part.name), part) for part in inner], len(column))
        return content if one.group else _with_length(content)

    def _values(self, column: pa.Array, one: ProtoField) -> pa.BinaryArray:
        """The bytes of each value, with its length if the field has one, without its tag. Those of null are any."""
        inner = wrapped(self.proto, one)
        if inner is not one:
            present = column.is_valid().to_numpy(zero_copy_only=False) & ~_is_default(column)
            content = _where(present, _tagged(inner, self._values(column, inner)))
            return content if one.group else _with_length(content)
        match kind_of(self.proto, one):
            case "message":
                return self._message(column, one)
            case "string" | "bytes":
                return _with_length(_texts(column))
            case "double":
                return _fixed(column)
            case kind:
                return self._numbers(_words(column), kind, grouped=one.group)

    def _numbers(self, words: np.ndarray, kind: str, *, grouped: bool) -> pa.BinaryArray:
        match kind:
            case "sfixed64":
                return _eights(words)
            case "sint64":
                return numbers((words << 1) ^ (words >> 63))
            case _ if kind in (TIME, SPAN):
                return _time(words, floor=kind == TIME, grouped=grouped)
            case _:  # int64 and bool
                return numbers(words)


def _texts(column: pa.Array) -> pa.BinaryArray:
    """The bytes of texts, bytes and decimals."""
    if pa.types.is_decimal(column.type):
        column = number_columns.texts(column)
    elif pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return pc.fill_null(column.cast(pa.binary()), b"")


def _words(column: pa.Array) -> np.ndarray:
    whole: pa.Array = column.cast(pa.int64()) if not pa.types.is_temporal(column.type) else column.view(pa.int64())
    return np.asarray(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False))


def _is_default(column: pa.Array) -> np.ndarray:
    """Which values are the default of their type: 0, false or nothing. -0.0 is another value than 0.0."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type) or pa.types.is_dictionary(column.type):
        text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return np.asarray(pc.fill_null(pc.binary_length(text), 0).to_numpy(zero_copy_only=False) == 0)
    if pa.types.is_decimal(column.type):
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
        _where(part != 0, _joined([pa.scalar(_tag(number, VARINT), pa.binary()), numbers(part)], len(words)))
        for number, part in enumerate((seconds, nanos), 1)
    ]
    content = _joined(parts, len(words))
    return content if grouped else _with_length(content)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _tag(number: int, wire: int) -> bytes:
    return bytes(numbers(np.array([number << 3 | wire], np.int64))[0].as_py())


def _tagged(one: ProtoField, values: pa.BinaryArray) -> pa.BinaryArray:
    if one.group:
        around = [pa.scalar(_tag(one.number, wire), pa.binary()) for wire in (START, STOP)]
        return _joined([around[0], values, around[1]], len(values))
    wire = {4: FOUR, 8: EIGHT}.get(FIXED.get(one.kind, 0), BYTES if one.kind in LENGTHS else VARINT)
    return _joined([pa.scalar(_tag(one.number, wire), pa.binary()), values], len(values))


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
    return _joined([numbers(lengths), values], len(values))


def _fixed(column: pa.Array) -> pa.BinaryArray:
    return _eights(pc.fill_null(column, 0.0).to_numpy())


def _eights(values: np.ndarray) -> pa.BinaryArray:
    starts = np.arange(len(values) + 1, dtype=np.int32) * 8
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _grouped(items: pa.BinaryArray, counts: np.ndarray) -> pa.BinaryArray:
    """Joins the bytes of the next `counts[i]` items for each i."""
    data, starts = bytes_of(items)
    ends = starts[np.concatenate([[0], np.cumsum(counts)])]
    content = np.ascontiguousarray(data[starts[0] : starts[-1]])
    buffers = [None, pa.py_buffer((ends - ends[0]).astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)


def numbers(values: np.ndarray) -> pa.BinaryArray:
    """Encodes each number as a varint of its 64 bits."""
    starts = np.zeros(len(values) + 1, np.int32)
    data = np.empty(len(values) * MOST_BYTES, np.uint8)
    _numbers(np.ascontiguousarray(values, np.int64), data, starts)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data[: starts[-1]])]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


@kernel
def _numbers(values: np.ndarray, data: np.ndarray, starts: np.ndarray) -> None:
    at = 0
    for row in range(len(values)):
        bits = np.uint64(values[row])
        while bits >= np.uint64(0x80):
            data[at] = np.uint8(bits & np.uint64(0x7F)) | np.uint8(0x80)
            bits >>= np.uint64(7)
            at += 1
        data[at] = np.uint8(bits)
        at += 1
        starts[row + 1] = at
