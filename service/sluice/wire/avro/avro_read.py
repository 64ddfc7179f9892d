"""Decodes Avro's bytes to tuples, for one writer's schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.column_forms import form
from sluice.columns.forms.composite_forms import MapForm
from sluice.columns.forms.form_contract import spread
from sluice.columns.forms.word_forms import WordForm
from sluice.json_texts import is_json
from sluice.model.avro_schema import Avro
from sluice.model.members import NO_MEMBERS, Members, place
from sluice.model.types import JSON, Schema, Type
from sluice.wire.avro.avro_json import AvroJsonError, json_text, scaled_text, variable_text
from sluice.wire.avro.avro_program import TEXTS, VARIABLE, Compiler, Fault, Program, Slot
from sluice.wire.avro.avro_scan import STACK, Buffers, Scratch, scan
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, bytes_of, record_batch
from sluice.wire.gathered_texts import Texts

FAULTS = {
    Fault.CUT: (Reason.NOT_AVRO, "its bytes end in the middle of a value"),
    Fault.BEHIND: (Reason.NOT_AVRO, "bytes are left after its last field"),
    Fault.NUMBER: (Reason.NOT_AVRO, "an int or long has more bits than its type, or a boolean is neither 0 nor 1"),
    Fault.SELECTOR: (Reason.NOT_AVRO, "the schema has no branch of a union, or no symbol of an enum, with this number"),
    Fault.LENGTH: (Reason.NOT_AVRO, "the length of a string, list or map is below zero"),
    Fault.TEXT: (Reason.NOT_AVRO, "a string is not UTF-8"),
    Fault.DEPTH: (Reason.NOT_AVRO, "its values are nested too deeply"),
    Fault.NULL: (Reason.NULL, "{name}: expected {type}, got null"),
    Fault.MISSING: (Reason.MISSING, "{name}: expected {type}, got nothing: the schema of the record has no such field"),
    Fault.ABSENT: (Reason.MISSING, "{name}: expected {type}, got nothing: a part on the way is absent or another type"),
    Fault.RANGE: (Reason.WRONG_TYPE, "{name}: expected {type}, got a number outside of the range of this type"),
    Fault.NO_JSON: (Reason.WRONG_TYPE, "{name}: expected {type}, got a value nested too deeply or a time without date"),
    Fault.NO_TIME: (
        Reason.WRONG_TYPE,
        "{name}: expected {type}, got a text that is no ISO 8601 time from 1678 to 2261",
    ),
    Fault.MISMATCH: (Reason.WRONG_TYPE, "{name}: expected {type}, got another type: see the schema of the record"),
}


@dataclass(frozen=True)
class Reader:
    """Decodes values that were written with one schema."""

    schema: Schema
    program: Program
    members: Members = field(default_factory=dict)

    @classmethod
    def of(
        cls, schema: Schema, writer: Avro, reader: Avro | None, defaults: Mapping[str, Any],
        members: Members = NO_MEMBERS,
    ) -> Reader:  # fmt: skip
        return cls(schema, Compiler(writer, reader, schema, defaults, members).program(), members)

    def read(self, values: pa.BinaryArray, skipped: int = 0) -> Decoded:
        """The tuples in these values. The first `skipped` bytes of each value are not part of the Avro data."""
        data, starts = bytes_of(values)
        return self.read_bytes(data, starts, skipped)

    def read_bytes(self, data: np.ndarray, starts: np.ndarray, skipped: int) -> Decoded:
        rows = len(starts) - 1
        faults = np.zeros((2, rows), np.int64)
        to = self.run(data, starts, skipped, faults)
        good = faults[0] == Fault.NONE
        kept = np.flatnonzero(good)
        columns = [
            _column(type_, slot, to, Texts(data, self.program.texts), self.program)
            for (_, type_), slot in zip(self.schema, self.program.kept, strict=True)
        ]
        unfit = self._unfit(columns, to, kept, faults)
        good[unfit] = False
        columns = (
            [column.filter(pa.array(faults[0, kept] == Fault.NONE)) for column in columns] if len(unfit) else columns
        )
        bad = [(int(row), self.why(*faults[:, row])) for row in np.flatnonzero(~good)]
        tuples = record_batch(columns, arrow_schema(self.schema), int(np.count_nonzero(good)))
        return Decoded(tuples, np.flatnonzero(good), bad)

    def _unfit(self, columns: list[pa.Array], to: Buffers, rows: np.ndarray, faults: np.ndarray) -> np.ndarray:
        """Notes a fault of each of the `rows` with a number that is not of its attribute's type, or with a value that
        has no JSON. Returns these rows.
        """
        for attribute in reversed(range(len(columns))):
            slot = self.program.kept[attribute]
            numbers = not self.program.scales.keys().isdisjoint(slot.every())
            if numbers or not self.program.documents.keys().isdisjoint(slot.every()):
                unfit = _without_value(columns[attribute], self.schema[attribute][1], slot, to)
                faults[:, rows[unfit]] = [[Fault.RANGE if numbers else Fault.NO_JSON], [attribute]]
        unfit_rows: np.ndarray = rows[faults[0, rows] != Fault.NONE]
        return unfit_rows

    def run(self, data: np.ndarray, starts: np.ndarray, skipped: int, faults: np.ndarray) -> Buffers:
        """Runs the program over all records. If there are lists, a first run counts the items for their buffers."""
        room = np.full(self.program.buffers, faults.shape[1], np.int64)
        lists = list(self.program.items)
        if lists:
            room[lists] = 0
            room[lists] = self._scan(data, starts, skipped, room, faults).filled[lists]
        return self._scan(data, starts, skipped, room, faults)

    def _scan(
        self, data: np.ndarray, starts: np.ndarray, skipped: int, room: np.ndarray, faults: np.ndarray
    ) -> Buffers:
        base = np.cumsum(room) - room
        words, ends = np.empty((2, int(room.sum())), np.int64)
        to = Buffers(words, words.view(np.float64), ends, base, room, np.zeros(len(room), np.int64))
        bits = np.zeros(1, np.int32)
        scratch = Scratch(np.zeros(len(room), np.int64), np.zeros(STACK, np.int64), bits, bits.view(np.float32))
        texts = np.frombuffer(self.program.texts, np.uint8)
        scan(data, starts, skipped, self.program.code, self.program.constants, texts, to, scratch, faults)
        return to

    def why(self, fault: int, attribute: int) -> str:
        word, text = FAULTS[Fault(fault)]
        name, type_ = self.schema[attribute] if attribute >= 0 else ("", "")
        return reason(word, text.format(name=name, type=f"{type_}{place(name, self.members)}"))


def _column(type_: Type, slot: Slot, to: Buffers, texts: Texts, program: Program) -> pa.Array:
    parts = (type_.present,) if type_.optional else type_.parts
    inner = [_column(part, place, to, texts, program) for part, place in zip(parts, slot.inner, strict=True)]
    if type_.optional:
        return spread(inner[0], pa.array(_words(to, slot.buffer).astype(np.bool_)))
    if not parts:
        return _values(type_, slot.buffer, to, texts, program)
    value_form = form(type_)
    if slot.buffer < 0:
        return pa.StructArray.from_arrays(inner, fields=list(value_form.arrow))
    ends = _words(to, slot.buffer)
    if len(ends) and ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError("more than 2 billion items in the lists of one batch")
    counts = np.diff(ends, prepend=0)
    if isinstance(value_form, MapForm):
        keys, items = inner
        return value_form.in_order(keys, items, counts)
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), *inner)


def _without_value(column: pa.Array, type_: Type, slot: Slot, to: Buffers) -> np.ndarray:
    """A mask of the values that are null without being absent, or have such a value inside."""
    if type_.optional:
        without = _words(to, slot.buffer).astype(np.bool_)
        without[without] = _without_value(column.filter(pa.array(without)), type_.present, slot.inner[0], to)
        return without
    if not type_.parts:
        return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_struct(column.type):
        inner = zip(column.flatten(), type_.parts, slot.inner, strict=True)
        return np.asarray(np.logical_or.reduce([_without_value(*child, to) for child in inner]))
    values = column.items if pa.types.is_map(column.type) else column.values
    counts = np.concatenate([[0], np.cumsum(_without_value(values, type_.parts[-1], slot.inner[-1], to))])
    return np.asarray(np.diff(counts[column.offsets.to_numpy()]) > 0, np.bool_)


def _words(to: Buffers, buffer: int) -> np.ndarray:
    start = to.base[buffer]
    return to.words[start : start + to.filled[buffer]]


def _values(type_: Type, buffer: int, to: Buffers, texts: Texts, program: Program) -> pa.Array:
    words, value_form, scale = _words(to, buffer), form(type_), program.scales.get(buffer)
    if scale is None and isinstance(value_form, WordForm):
        return value_form.values(words)
    start = to.base[buffer]
    ends = to.ends[start : start + len(words)]
    if scale is not None:
        return value_form.from_digits(_scaled_texts(words, ends, texts, scale))
    if type_ == JSON and buffer in program.documents:
        return _documents(texts.cut(words, ends, pa.binary()), words, program.documents[buffer])
    if type_ == JSON:
        return _json_texts(texts.cut(words, ends, pa.string()))
    return texts.cut(words, ends, value_form.arrow)


def _json_texts(texts: pa.StringArray) -> pa.Array:
    """The texts as JSON. A text that is not JSON is the JSON string of it."""
    return pa.array(
        [text if is_json(text) else orjson.dumps(text).decode() for text in texts.to_pylist()], form(JSON).arrow
    )


def _documents(contents: pa.BinaryArray, places: np.ndarray, avro: Avro) -> pa.Array:
    """The JSON of values, null for each that has none. A negative place refers to a default, which is a text."""
    texts = [
        _document(avro, content) if place >= 0 else content.decode()
        for content, place in zip(contents.to_pylist(), places.tolist(), strict=True)
    ]
    return pa.array(texts, form(JSON).arrow)


def _document(avro: Avro, content: bytes) -> str | None:
    try:
        return json_text(avro, content)
    except AvroJsonError:
        return None


def _scaled_texts(first: np.ndarray, last: np.ndarray, texts: Texts, scale: int) -> list[str]:
    """The exact texts of unscaled numbers."""
    written = texts.cut(first, last, pa.binary()).to_pylist()
    text = variable_text if scale == VARIABLE else partial(scaled_text, scale=scale)
    return [
        text(value) if start >= 0 and scale != TEXTS else value.decode()
        for value, start in zip(written, first, strict=True)
    ]
