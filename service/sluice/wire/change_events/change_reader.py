"""Reads the change events of a stream: what each does to a tuple or a row, and the values beside the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema, arrow_type
from sluice.model.envelopes.change_events import EXISTS, LETTERS, NAMES, OP, SOURCE, UPSERT, Operation, unit_of
from sluice.model.spec import Coding, Stream
from sluice.model.types import INT64, TIMESTAMP, Schema
from sluice.time_units import MAX_TIME
from sluice.wire.change_events.event_parts import EventParts, Opener, unwritten, upserts
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, record_batch
from sluice.wire.formats.format_contract import Codec, Part
from sluice.wire.formats.format_table import FORMATS, codec
from sluice.wire.formats.pair_lists import as_lists, with_maps


class Effect(IntEnum):
    """The effect of a record on the tuples of a stream. The effect of each operation is in the table of `effects`."""

    REJECTED = 0
    TUPLE = 1
    #: a row of a table is deleted
    DELETION = 2
    #: a table is emptied
    CLEARING = 3
    SKIPPED = 4


def effects(stream: Stream) -> np.ndarray:
    """By operation: its effect (EN4, EN8, EN9). The last entry is for BAD."""
    envelope = stream.envelope
    of_deletes = Effect.DELETION if stream.table else Effect.TUPLE if envelope and envelope.deletes else Effect.SKIPPED
    table = {
        **dict.fromkeys(EXISTS, Effect.TUPLE),
        Operation.DELETE: of_deletes,
        Operation.TOMBSTONE: Effect.DELETION if stream.table else Effect.SKIPPED,
        Operation.TRUNCATE: Effect.CLEARING if stream.table else Effect.SKIPPED,
        Operation.NO_ROW: Effect.SKIPPED,
    }
    return np.array([*(table[operation] for operation in Operation), Effect.REJECTED], np.int8)


@dataclass(frozen=True, slots=True)
class BesideRow:
    """The attributes of a change event outside of its row, their codec, and the part of the event that has them."""

    schema: Schema
    codec: Codec
    part: str


@dataclass(frozen=True)
class ChangeReader:
    """Reads the change events of one stream.

    open      finds the parts of values
    open_key  finds the key in the keys of records
    effects   by operation: its effect
    row       the codec of rows; None: the codec of the stream's values
    beside    the attributes beside the row, without the operation
    letter    the attribute that has the operation; None if there is none
    """

    open: Opener
    open_key: Callable[[pa.BinaryArray], pa.BinaryArray] | None
    effects: np.ndarray
    row: Codec | None
    beside: tuple[BesideRow, ...]
    letter: Schema

    def effect(self, parts: EventParts) -> np.ndarray:
        """The effect of each record."""
        of_each: np.ndarray = self.effects[parts.operation]
        return of_each

    def columns(self, parts: EventParts) -> Iterator[tuple[Codec, Schema, pa.BinaryArray]]:
        """What is beside the rows (EN5), as codecs with the columns that they decode."""
        for row in self.beside:
            yield row.codec, row.schema, getattr(parts, row.part)
        if self.letter:
            yield Codec(self._letters, unwritten), self.letter, _letters(parts.operation)

    def _letters(self, values: pa.BinaryArray) -> Decoded:
        fields = arrow_schema(self.letter)
        return Decoded(record_batch([values.cast(pa.string())], fields, len(values)), np.arange(len(values)), [])


def counts(parts: EventParts) -> Mapping[str, int]:
    """The number of records of each operation, by its name in the metrics."""
    numbers = np.bincount(parts.operation[parts.operation >= 0], minlength=len(Operation)).tolist()
    return {NAMES[operation]: numbers[operation] for operation in Operation if numbers[operation]}


#: the letters of a column with the operation
LETTER_OF = {operation: letter for letter, operation in LETTERS.items()} | {Operation.TOMBSTONE: "d"}


def _letters(operation: np.ndarray) -> pa.BinaryArray:
    letters = pa.array([LETTER_OF[each].encode() for each in Operation], pa.binary())  # not at import: it loads pandas
    return letters.take(pa.array(operation.astype(np.int64)))


def change_reader(stream: Stream, part: Part) -> ChangeReader | None:
    """The reader of a stream with an envelope, whose values are coded as `part`; None if it has none."""
    envelope = stream.envelope
    if envelope is None:
        return None
    letter = tuple((name, dict(stream.schema)[name]) for name, member in envelope.members if member == OP)
    if envelope.word == UPSERT:
        return ChangeReader(upserts, None, effects(stream), None, (), letter)
    lists = FORMATS[part.coding.format].lists_pairs
    form = FORMATS_OF_EVENTS[part.coding.format](as_lists(part) if lists else part)
    beside = tuple(_beside(stream, form))
    row = form.row()
    if row is not None and lists:
        row = with_maps(row, part)
    return ChangeReader(form.parts, form.keys, effects(stream), row, beside, letter)


class EventForm(Protocol):
    """How a format codes change events."""

    @property
    def parts(self) -> Opener:
        """Finds the parts of values."""

    @property
    def keys(self) -> Callable[[pa.BinaryArray], pa.BinaryArray]:
        """Finds the key in the keys of records."""

    def row(self) -> Codec | None:
        """The codec of rows; None: that of the stream's values."""

    def beside(self, schema: Schema, part: str) -> Codec:
        """The codec of members of an event (`part`: "event") or of its source ("source")."""


@dataclass(frozen=True)
class JsonEvents:
    """Change events in JSON."""

    parts: Opener
    keys: Callable[[pa.BinaryArray], pa.BinaryArray]

    @classmethod
    def of(cls, part: Part) -> JsonEvents:
        from sluice.wire.change_events import json_events  # noqa: PLC0415 - it imports compiled kernels

        del part
        return cls(json_events.parts, json_events.keys)

    def row(self) -> None:
        return None

    def beside(self, schema: Schema, part: str) -> Codec:
        del part
        return codec(Part(Coding("json"), schema))


def _avro(part: Part) -> EventForm:
    from sluice.wire.change_events.avro_events import AvroEvents  # noqa: PLC0415 - it imports compiled kernels

    return AvroEvents.of(part)


def _confluent(part: Part) -> EventForm:
    from sluice.wire.change_events.avro_events import ConfluentEvents  # noqa: PLC0415 - it imports compiled kernels

    return ConfluentEvents.of(part)


FORMATS_OF_EVENTS: Mapping[str, Callable[[Part], EventForm]] = {
    "json": JsonEvents.of, "avro": _avro, "avro-confluent": _confluent,
}  # fmt: skip


def _beside(stream: Stream, form: EventForm) -> Iterator[BesideRow]:
    """The attributes of the stream that are beside the row, by the part of the event that has them."""
    members = dict(stream.envelope.members) if stream.envelope else {}
    types = dict(stream.schema)
    for part in ("event", "source"):
        of_source = part == "source"
        names = [name for name, member in members.items() if member != OP and member.startswith(SOURCE) == of_source]
        if names:
            schema = tuple((name, types[name]) for name in names)
            units = [unit_of(members[name]) if types[name] == TIMESTAMP else None for name in names]
            read = tuple(
                (members[name].removeprefix(SOURCE), INT64 if unit else types[name])
                for name, unit in zip(names, units, strict=True)
            )
            inner = form.beside(read, part)
            yield BesideRow(schema, Codec(partial(_decoded, inner, schema, units), unwritten), part)


def _decoded(inner: Codec, schema: Schema, units: Sequence[int | None], values: pa.BinaryArray) -> Decoded:
    """Decodes members, and makes times of numbers of a unit."""
    decoded = inner.decode(values)
    columns, beyond = [], np.zeros(decoded.tuples.num_rows, np.bool_)
    for column, unit in zip(decoded.tuples.columns, units, strict=True):
        if unit is None:
            columns.append(column)
            continue
        count = column.to_numpy(zero_copy_only=False)
        beyond |= (count > MAX_TIME // unit) | (count < -(MAX_TIME // unit))
        columns.append(pa.array(count * unit).view(arrow_type(TIMESTAMP)))
    fields = arrow_schema(schema)
    tuples = record_batch(columns, fields, decoded.tuples.num_rows)
    if not beyond.any():
        return Decoded(tuples, decoded.good, decoded.bad)
    why = reason(Reason.WRONG_TYPE, "a time of the change event: expected a time before 2262, got a later one")
    bad = sorted([*decoded.bad, *((int(row), why) for row in decoded.good[beyond])])
    return Decoded(tuples.filter(pa.array(~beyond)), decoded.good[~beyond], bad)
