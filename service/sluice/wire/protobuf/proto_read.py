"""Decodes messages of Protocol Buffers to tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.columns.column_forms import form
from sluice.columns.forms.word_forms import WordForm
from sluice.model.members import NO_MEMBERS, Members, place
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_fit import SCALED, SPAN, kind_of
from sluice.model.protobuf.proto_schema import Protobuf, ProtoEnum, ProtoMessage
from sluice.model.types import Float64Type, JsonType, Schema, StringType, Type
from sluice.time_units import SECOND
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, beside, bytes_of, nothing, record_batch
from sluice.wire.gathered_texts import Texts
from sluice.wire.protobuf.proto_json import json_text, scaled_text
from sluice.wire.protobuf.proto_program import (
    MAX_DEPTH,
    NO,
    Compiler,
    Entries,
    Fault,
    Items,
    Leaf,
    Picked,
    Program,
    Shape,
    SharedFieldError,
    Struct,
)
from sluice.wire.protobuf.proto_scan import GROUPS, Scratch, Slots, scan

#: characters of a value in a message
SHOWN = 80
FAULTS = {
    Fault.CUT: (Reason.NOT_PROTOBUF, "the bytes end in the middle of a field"),
    Fault.TAG: (Reason.NOT_PROTOBUF, "no field has this number or this wire type"),
    Fault.NUMBER: (Reason.NOT_PROTOBUF, "a number has more than ten bytes"),
    Fault.TEXT: (Reason.NOT_PROTOBUF, "a string is not UTF-8"),
    Fault.DEPTH: (Reason.NOT_PROTOBUF, "groups are nested too deeply"),
    Fault.GROUP: (Reason.NOT_PROTOBUF, "a group ends that has not begun"),
    Fault.WIRE: (Reason.WRONG_TYPE, "expected {type}, got another wire type: the record has another schema"),
    Fault.MISSING: (Reason.MISSING, "expected {type}, got nothing"),
    Fault.RANGE: (Reason.WRONG_TYPE, "expected {type}, got a number outside of the range of this type"),
}


@dataclass(frozen=True)
class Reader:
    """Decodes messages of one type. Attributes that read a field in different ways are in different passes over the
    records.

    passes  of each pass the positions of its attributes in the schema, and what reads them
    """

    schema: Schema
    passes: tuple[tuple[tuple[int, ...], Pass], ...]

    @classmethod
    def of(
        cls, schema: Schema, proto: Protobuf, message: ProtoMessage, defaults: Mapping[str, Any],
        members: Members = NO_MEMBERS,
    ) -> Reader:  # fmt: skip
        """The reader of a schema from a message. Raises ProtobufError if the message does not give the attributes."""
        passes: list[tuple[tuple[int, ...], Pass]] = []
        numbers = list(range(len(schema)))
        while numbers or not passes:
            first, numbers = _first_pass(schema, numbers, partial(Pass.of, proto, message, defaults, members))
            passes.append(first)
        return cls(schema, tuple(passes))

    def read(self, values: pa.BinaryArray, skipped: np.ndarray | None = None) -> Decoded:
        """The tuples in these values. The first `skipped[i]` bytes of value i are not part of the message."""
        parts = [part.read(values, skipped) for _, part in self.passes]
        return parts[0] if len(parts) == 1 else beside(self.schema, [numbers for numbers, _ in self.passes], parts)


def _first_pass(
    schema: Schema, numbers: list[int], make: Callable[[Schema], Pass]
) -> tuple[tuple[tuple[int, ...], Pass], list[int]]:
    """The pass over these attributes, and the attributes for a later pass. Raises ProtobufError."""
    later: list[int] = []
    while True:
        try:
            return (tuple(numbers), make(tuple(schema[number] for number in numbers))), sorted(later)
        except SharedFieldError as error:
            if len(numbers) == 1:
                raise
            later.append(numbers[error.attribute])
            numbers = [number for number in numbers if number != later[-1]]


@dataclass(frozen=True)
class Pass:
    """Decodes attributes of messages of one type in one program."""

    schema: Schema
    proto: Protobuf
    program: Program
    shapes: tuple[Shape, ...]
    texts: bytes
    defaults: Mapping[str, Any]
    members: Members = field(default_factory=dict)

    @classmethod
    def of(
        cls, proto: Protobuf, message: ProtoMessage, defaults: Mapping[str, Any], members: Members, schema: Schema
    ) -> Pass:
        """The pass over the attributes of a schema. Raises ProtobufError if the message does not give them, and
        SharedFieldError.
        """
        compiler = Compiler(proto, message, schema, defaults, members)
        program, shapes = compiler.compile()
        return cls(schema, proto, program, shapes, bytes(compiler.texts), defaults, members)

    def read(self, values: pa.BinaryArray, skipped: np.ndarray | None = None) -> Decoded:
        """The tuples in these values. The first `skipped[i]` bytes of value i are not part of the message."""
        if (absent := self._absent()) is not None:
            return nothing(self.schema, np.arange(len(values)), absent)
        data, starts = bytes_of(values)
        skipped = np.zeros(len(values), np.int64) if skipped is None else skipped
        faults = np.zeros((3, len(values)), np.int64)
        to = self._run(data, starts, skipped, faults)
        good = faults[0] == Fault.NONE
        columns = _Columns(to, self.program, self.proto, Texts(data, self.texts))
        wrong: dict[int, str] = {}
        arrays = [self._column(columns, number, wrong) for number in range(len(self.schema))]
        bad = [(int(row), self._why(*faults[:, row])) for row in np.flatnonzero(~good)]
        tuples = record_batch(arrays, arrow_schema(self.schema), int(to.filled[0]))
        decoded = Decoded(tuples, np.flatnonzero(good), bad)
        return without(decoded, wrong) if wrong else decoded

    def _absent(self) -> str | None:
        """Why no record gives a tuple: the message lacks a field."""
        for (name, type_), shape in zip(self.schema, self.shapes, strict=True):
            if shape is None and name not in self.defaults and not type_.optional:
                where = place(name, self.members)
                text = f"{name}: expected {type_}{where}, got nothing: the message of the record has no such field"
                return reason(Reason.MISSING, text)
        return None

    def _column(self, columns: _Columns, number: int, wrong: dict[int, str]) -> pa.Array:
        """The column of an attribute. Adds the rows with a value that is none of its type to `wrong`."""
        (name, type_), shape = self.schema[number], self.shapes[number]
        if shape is None:
            return array_of([self.defaults.get(name)] * int(columns.to.filled[0]), type_)
        column = columns.column(shape, type_, 0)
        for row, message in columns.wrong.items():
            wrong.setdefault(row, reason(Reason.WRONG_TYPE, f"{name}: expected {type_}, got {message}"))
        columns.wrong.clear()
        return self._present(number, column, wrong) if isinstance(shape, Picked) else column

    def _present(self, number: int, column: pa.Array, wrong: dict[int, str]) -> pa.Array:
        """The column with the default of the attribute for null. Without one, null is wrong unless it is optional."""
        (name, type_), count = self.schema[number], len(column)
        if name in self.defaults:
            places = np.where(column.is_valid(), np.arange(count), count)
            return pa.concat_arrays([column, array_of([self.defaults[name]], type_)]).take(pa.array(places))
        absent = [] if type_.optional else np.flatnonzero(column.is_null()).tolist()
        why = reason(Reason.MISSING, f"{name}: expected {type_}{place(name, self.members)}, got nothing")
        wrong.update({row: why for row in absent if row not in wrong})
        return column

    def _run(self, data: np.ndarray, starts: np.ndarray, skipped: np.ndarray, faults: np.ndarray) -> Slots:
        """Runs the program over all records. If there are lists, a first run counts the rows of their items."""
        room = np.zeros(len(self.program.own), np.int64)
        room[0] = faults.shape[1]
        if len(room) > 1:
            room[1:] = self._scan(data, starts, skipped, room, faults).filled[1:]
        return self._scan(data, starts, skipped, room, faults)

    def _scan(
        self, data: np.ndarray, starts: np.ndarray, skipped: np.ndarray, room: np.ndarray, faults: np.ndarray
    ) -> Slots:
        sizes = room[self.program.slots[:, 0]]
        words, ends = np.empty((2, int(sizes.sum())), np.int64)
        present = np.empty(len(words), np.bool_)
        base = np.cumsum(sizes) - sizes
        to = Slots(words, words.view(np.float64), ends, present, base, room.copy(), np.zeros(len(room), np.int64))
        bits = np.zeros(1, np.uint32)
        scratch = Scratch(
            np.zeros(len(room), np.int64), np.zeros((len(room), len(room)), np.int64),
            np.zeros((MAX_DEPTH + 4, 4), np.int64), np.zeros(GROUPS, np.int64), bits, bits.view(np.float32),
        )  # fmt: skip
        scan(data, starts, skipped, self.program, to, scratch, faults)
        return to

    def _why(self, fault: int, attribute: int, at: int) -> str:
        word, text = FAULTS[Fault(fault)]
        if attribute < 0:
            return reason(word, f"{text} (at byte {at})")
        name, type_ = self.schema[attribute]
        return reason(word, f"{name}: {text.format(type=f'{type_}{place(name, self.members)}')} (at byte {at})")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Makes columns from the slots that the interpreter has filled."""

    to: Slots
    program: Program
    proto: Protobuf
    texts: Texts
    #: by row of the records: a value that is none of the type
    wrong: dict[int, str] = field(default_factory=dict)
    #: by table: the rows of which an attribute reads values, if it does not read all
    picked: Mapping[int, np.ndarray] = field(default_factory=dict)

    def column(self, shape: Shape, type_: Type, table: int) -> pa.Array:
        """The column of an attribute or of a part of it, in the rows of a table."""
        match shape:
            case Leaf():
                return self._leaf(shape)
            case Struct():
                return self._struct(shape)
            case Items(slot, items, _, item):
                element = type_.present.parts[0]
                return pa.ListArray.from_arrays(self._ends(slot), self.column(item, element, items))
            case Entries(slot, entries, _, key, value):
                of_key, of_value = type_.present.parts
                keys, values = self.column(key, of_key, entries), self.column(value, of_value, entries)
                return sorted_entries(self._ends(slot), keys, values, form(type_.present).arrow)
            case Picked():
                return self._picked(shape)
        return pa.nulls(int(self.to.filled[table]), form(type_).arrow)

    def _picked(self, shape: Picked) -> pa.Array:
        """Of each row the value of one item; null if the row has no such item."""
        places = self._places(shape)
        rows = np.zeros(int(self.to.filled[shape.table]), np.bool_)
        rows[places[places != NO]] = True
        values = replace(self, picked={**self.picked, shape.table: rows}).column(shape.item, shape.type, shape.table)
        return values.take(pa.array(places, mask=places == NO))

    def _places(self, shape: Picked) -> np.ndarray:
        """The row of the item in the table of the items, for each row; NO without one. The last one of a key counts."""
        ends = self._ends(shape.slot).to_numpy().astype(np.int64)
        if shape.keys is None:
            places = ends[:-1] + int(shape.wanted)
            return np.where(places < ends[1:], places, NO)
        keys = self.column(shape.keys, shape.keys.type, shape.table)
        rows = np.flatnonzero(pc.equal(keys, pa.scalar(shape.wanted, keys.type)))
        places = np.full(len(ends) - 1, NO, np.int64)
        places[np.repeat(np.arange(len(places)), np.diff(ends))[rows]] = rows
        return places

    def _ends(self, slot: int) -> pa.Array:
        ends = np.concatenate([[0], self._of(self.to.words, slot)])
        if ends[-1] > np.iinfo(np.int32).max:
            raise OverflowError("more than 2 billion items in the lists of one batch")
        return pa.array(ends, pa.int32())

    def _struct(self, struct: Struct) -> pa.Array:
        type_ = struct.type.present
        columns = [
            self.column(member, part, struct.table) for member, part in zip(struct.members, type_.parts, strict=True)
        ]
        mask = None
        if struct.type.optional and struct.slot != NO:
            mask = pa.array(~self._of(self.to.present, struct.slot))
        return pa.StructArray.from_arrays(columns, fields=list(form(type_).arrow), mask=mask)

    def _of(self, values: np.ndarray, slot: int) -> np.ndarray:
        """The values of a slot in all rows of its table."""
        start = self.to.base[slot]
        return values[start : start + self.to.filled[self.program.slots[slot, 0]]]

    def _leaf(self, leaf: Leaf) -> pa.Array:
        values = self._values(leaf, leaf.type.present, self._of(self.to.words, leaf.slot))
        present = self._of(self.to.present, leaf.slot)
        if not leaf.type.optional or present.all():
            return values
        return pc.if_else(pa.array(present), values, pa.scalar(None, values.type))

    def _values(self, leaf: Leaf, type_: Type, words: np.ndarray) -> pa.Array:
        shape, ends = form(type_), self._of(self.to.ends, leaf.slot)
        if type_.exact or isinstance(type_, JsonType):
            return self._converted(leaf, type_, words, ends)
        enum = self.proto.enums.get(leaf.field.type_name)
        if isinstance(type_, StringType) and enum is not None:
            return self._names(enum, words, ends)
        if isinstance(type_, Float64Type) and kind_of(self.proto, leaf.field) == SPAN:
            return pa.array(words / SECOND)
        return shape.values(words) if isinstance(shape, WordForm) else self.texts.cut(words, ends, shape.arrow)

    def _converted(self, leaf: Leaf, type_: Type, words: np.ndarray, ends: np.ndarray) -> pa.Array:
        """Exact numbers, and messages as JSON, from texts that are made one by one (PB19)."""
        present, table = self._of(self.to.present, leaf.slot), int(self.program.slots[leaf.slot, 0])
        texts = (self._digits if type_.exact else self._documents)(leaf, words, ends)
        if leaf.type.optional:  # an empty text, which a string without presence has, is no number
            present = present & np.array([text != "" for text in texts], np.bool_)
        numbers = [text or "" for text in texts]
        values = form(type_).from_digits(numbers) if type_.exact else pa.array(texts, pa.string())
        rows = self._records(table)
        for row in np.flatnonzero(present & self._is_read(table) & values.is_null().to_numpy(zero_copy_only=False)):
            text = texts[row]
            shown_text = "a damaged message" if text is None else orjson.dumps(text[:SHOWN]).decode()
            self.wrong.setdefault(int(rows[row]), shown_text)
        filled = pc.coalesce(values, form(type_).constant(type_.empty)).cast(form(type_).arrow)
        return pc.if_else(pa.array(present), filled, pa.scalar(None, filled.type)) if leaf.type.optional else filled

    def _is_read(self, table: int) -> np.ndarray:
        """Of which rows of a table values are read."""
        is_picked = self.picked.get(table, np.ones(int(self.to.filled[table]), np.bool_))
        return is_picked if table == 0 else is_picked & self._each_of(table, self._is_read)

    def _digits(self, leaf: Leaf, words: np.ndarray, ends: np.ndarray) -> list[str | None]:
        """The texts of numbers, None for each that cannot be read."""
        kind = kind_of(self.proto, leaf.field)
        if kind == "string":
            return self.texts.cut(words, ends, pa.string()).to_pylist()  # type: ignore[no-any-return]
        is_default = ends < 0  # the text of a default
        texts = self.texts.cut(np.where(is_default, words, 0), np.where(is_default, ends, 0), pa.string()).to_pylist()
        if kind != SCALED:
            numbers = map(str, words.tolist())
            return [text if other else number for text, other, number in zip(texts, is_default, numbers, strict=True)]
        contents = self.texts.cut(
            np.where(is_default, 0, words), np.where(is_default, 0, ends), pa.binary()
        ).to_pylist()
        return [
            text if other else _read(scaled_text, content)
            for text, other, content in zip(texts, is_default, contents, strict=True)
        ]

    def _documents(self, leaf: Leaf, words: np.ndarray, ends: np.ndarray) -> list[str | None]:
        """The JSON of messages, None for each that cannot be read."""
        is_default, contents = ends < 0, self.texts.cut(words, ends, pa.binary()).to_pylist()
        read = partial(json_text, self.proto, leaf.field)
        return [
            content.decode() if other else _read(read, content)
            for other, content in zip(is_default, contents, strict=True)
        ]

    def _records(self, table: int) -> np.ndarray:
        """For each row of a table the row of its record."""
        return np.arange(self.to.filled[0]) if table == 0 else self._each_of(table, self._records)

    def _each_of(self, table: int, values_of: Callable[[int], np.ndarray]) -> np.ndarray:
        """For each item in a table what `values_of` has for the row around it."""
        (slot,) = np.flatnonzero(self.program.slots[:, 1] == table)
        ends = self._of(self.to.words, int(slot))
        return np.repeat(values_of(int(self.program.slots[slot, 0])), np.diff(ends, prepend=0))

    def _names(self, enum: ProtoEnum, words: np.ndarray, ends: np.ndarray) -> pa.Array:
        """The names of values of an enum; a number without a name is written as a number. `ends` is not 0 where the
        word is that of a text.

        Implements PB5 of the reference.
        """
        numbers, places = np.unique(words, return_inverse=True)
        name_of = enum.by_number
        names = pa.array([name_of.get(number, str(number)) for number in numbers.tolist()], pa.string())
        named = names.take(pa.array(places))
        unnamed = ends < 0
        if not unnamed.any():
            return named
        texts = self.texts.cut(np.where(unnamed, words, 0), np.where(unnamed, ends, 0), pa.string())
        return pc.if_else(pa.array(unnamed), texts, named)


def without(decoded: Decoded, wrong: Mapping[int, str]) -> Decoded:
    """The result in which these rows of its tuples are bad: `wrong` has the reason by row."""
    kept = np.ones(len(decoded.good), np.bool_)
    kept[list(wrong)] = False
    bad = [(int(decoded.good[row]), why) for row, why in wrong.items()]
    return Decoded(decoded.tuples.filter(pa.array(kept)), decoded.good[kept], sorted([*decoded.bad, *bad]))


def _read(read: Callable[[bytes], str], content: bytes) -> str | None:
    try:
        return read(content)
    except ProtobufError:
        return None


def sorted_entries(ends: pa.Array, keys: pa.Array, values: pa.Array, arrow: pa.DataType) -> pa.MapArray:
    """Maps of these entries in the order of their keys. The last entry of a key counts."""
    starts = ends.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = pc.sort_indices(
        pa.table({"row": rows, "key": keys, "place": np.arange(len(rows))}),
        [("row", "ascending"), ("key", "ascending"), ("place", "ascending")],
    ).to_numpy()
    sorted_keys, sorted_rows = keys.take(pa.array(order)), rows[order]
    last = np.ones(len(order), np.bool_)
    if len(order) > 1:
        equal_keys = pc.equal(sorted_keys[:-1], sorted_keys[1:]).to_numpy(zero_copy_only=False)
        last[:-1] = ~equal_keys | (sorted_rows[:-1] != sorted_rows[1:])
    kept = pa.array(order[last])
    counts = np.bincount(sorted_rows[last], minlength=len(starts) - 1)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys.take(kept), values.take(kept)).cast(arrow)
