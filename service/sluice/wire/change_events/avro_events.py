"""The parts of Debezium's change events in Avro, without and with the id of their schema (EN1).

A program of the interpreter of Avro finds where the row and the source lie in an event. The ordinary reader decodes
them, by the part of the event's schema that describes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.model.avro_schema import Avro, AvroError, Node, parse
from sluice.model.envelopes.change_events import LETTERS, Operation
from sluice.model.members import Members
from sluice.model.types import Schema
from sluice.wire.avro.avro_program import Compiler, Op, Program
from sluice.wire.avro.avro_read import Reader
from sluice.wire.change_events.byte_spans import cut
from sluice.wire.change_events.event_parts import BAD, EventParts, checked, unwritten
from sluice.wire.confluent import MAGIC, PREFIX, Confluent, no_prefix, prefixes_of
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import bytes_of
from sluice.wire.formats.format_contract import Codec, Part
from sluice.wire.schema_registry import Registry, UnknownSchemaError, registry

#: the members that the program finds, by the number of their buffer
MEMBERS = ("op", "before", "after", "source")
NOWHERE = -1


def part_of(event: Avro, member: str) -> Avro:
    """The schema of a member of events that is a record. Raises AvroError."""
    for field in event.fields:
        if field.name == member:
            for branch in event.branches(field.node):
                if branch.type == "record":
                    return Avro(branch, event.names)
    raise AvroError(f"the schema of a change event, with the record {member}")


class PartsCompiler(Compiler):
    """Compiles the program that finds the members of events."""

    def program(self) -> Program:
        named = {field.name for field in self.writer.fields}
        if not {"op", "before", "after"} <= named:
            raise AvroError("the schema of a change event, with op, before and after")
        self.constants.append((NOWHERE, NOWHERE))
        absent = [number for number, name in enumerate(MEMBERS) if name not in named]
        for field in self.writer.fields:
            if field.name in MEMBERS:
                self._span(field.node, MEMBERS.index(field.name))
            else:
                self._pass(field.node)
        for number in absent:
            self._emit(Op.CONSTANT, number, 0)
        self._emit(Op.END)
        self._subroutines()
        code, constants = np.array(self.code, np.int64), np.array(self.constants, np.int64).reshape(-1, 2)
        return Program(code, len(MEMBERS), (), (), {}, constants, b"")

    def _span(self, node: Node, buffer: int) -> None:
        """Emits the code that keeps where a value begins and ends; null is NOWHERE."""
        for branch in self._cases(node):
            if branch.type == "null":
                self._emit(Op.CONSTANT, buffer, 0)
            elif branch.type == "string":
                self._emit(Op.TEXT, buffer)
            else:
                self._emit(Op.SPAN, buffer)
                self._pass(branch)
                self._emit(Op.SHUT, buffer)


def parts(values: pa.BinaryArray, finder: Reader, skipped: int) -> EventParts:
    """The parts of events, of which none is null. Their first `skipped` bytes are no Avro."""
    data, starts = bytes_of(values)
    faults = np.zeros((2, len(values)), np.int64)
    to = finder.run(data, starts, skipped, faults)
    good = faults[0] == 0
    first, last = np.full((2, len(MEMBERS), len(values)), NOWHERE, np.int64)
    for number in range(len(MEMBERS)):
        of_part = slice(to.base[number], to.base[number] + to.filled[number])
        first[number, good], last[number, good] = to.words[of_part], to.ends[of_part]
    bad = {row: finder.why(*faults[:, row]) for row in np.flatnonzero(~good).tolist()}
    operation = _operations(data, first[0], last[0], good, bad)
    of_row, record = np.where(operation == Operation.DELETE, 1, 2), np.arange(len(values))
    at, end = first[of_row, record], last[of_row, record]
    operation = checked(operation, at != NOWHERE, bad)
    begins = np.where(good, starts[:-1] + skipped, NOWHERE)
    return EventParts(operation, cut(data, at, end), cut(data, begins, starts[1:]), cut(data, first[3], last[3]), bad)


def _operations(
    data: np.ndarray, first: np.ndarray, last: np.ndarray, good: np.ndarray, bad: dict[int, str]
) -> np.ndarray:  # fmt: skip
    operation = np.full(len(first), BAD, np.int8)
    for row in np.flatnonzero(good).tolist():
        letter = data[first[row] : last[row]].tobytes().decode() if first[row] != NOWHERE else "null"
        operation[row] = LETTERS.get(letter, BAD)
        if letter not in LETTERS:
            bad[row] = reason(Reason.NOT_A_CHANGE, f'op: expected one of {", ".join(LETTERS)}, got "{letter}"')
    return operation


def finder_of(event: Avro) -> Reader:
    """The reader that finds the members of events. Raises AvroError if the schema is not that of a change event."""
    return Reader((), PartsCompiler(event, None, (), {}).program())


@dataclass(frozen=True)
class AvroEvents:
    """Change events in Avro's encoding alone. `event` is their schema."""

    part: Part
    event: Avro

    @classmethod
    def of(cls, part: Part) -> AvroEvents:
        return cls(part, parse(part.options.avro_writer_schema or part.options.avro_schema))

    @cached_property
    def _finder(self) -> Reader:
        return finder_of(self.event)

    def parts(self, values: pa.BinaryArray) -> EventParts:
        return with_tombstones(values, lambda is_valid: parts(is_valid, self._finder, 0))

    def keys(self, values: pa.BinaryArray) -> pa.BinaryArray:
        return values

    def row(self) -> Codec:
        reader = Reader.of(self.part.schema, part_of(self.event, "after"), None, self.part.defaults, self.part.members)
        return Codec(reader.read, unwritten)

    def beside(self, schema: Schema, part: str) -> Codec:
        event = self.event if part == "event" else part_of(self.event, part)
        return Codec(Reader.of(schema, event, None, {}).read, unwritten)


@dataclass(frozen=True)
class MemberOfEvents(Confluent):
    """Reads one member of events, by the schema that the id of each event names."""

    member: str = ""

    def writer_schema(self, number: int) -> Avro:
        event = self.registry.schema(number)
        return part_of(event, self.member) if self.member else event


@dataclass(frozen=True)
class ConfluentEvents:
    """Change events that begin with the id of their schema. The parts that are records begin with it, too."""

    part: Part
    registry: Registry
    finders: dict[int, Reader]

    @classmethod
    def of(cls, part: Part) -> ConfluentEvents:
        return cls(part, registry(part.registry), {})

    def parts(self, values: pa.BinaryArray) -> EventParts:
        return with_tombstones(values, self._parts)

    def _parts(self, values: pa.BinaryArray) -> EventParts:
        prefixes, framed = prefixes_of(values)
        nothing = pa.nulls(len(values), pa.binary())
        bad = {row: no_prefix(Reason.NOT_AVRO) for row in np.flatnonzero(~framed).tolist()}
        event_parts = EventParts(np.full(len(values), BAD, np.int8), nothing, nothing, nothing, bad)
        for number in np.unique(prefixes["id"][framed]).tolist():
            rows = np.flatnonzero(framed & (prefixes["id"] == number))
            event_parts = event_parts.with_rows(rows, self._of_schema(number, values.take(pa.array(rows))))
        return event_parts

    def _of_schema(self, number: int, values: pa.BinaryArray) -> EventParts:
        try:
            finder = self.finders.get(number) or finder_of(self.registry.schema(number))
        except UnknownSchemaError as unknown:
            return refused(values, reason(Reason.UNKNOWN_SCHEMA, str(unknown)))
        except AvroError as error:
            return refused(values, reason(Reason.UNKNOWN_SCHEMA, f"the schema {number}: expected {error}"))
        self.finders[number] = finder
        event_parts = parts(values, finder, PREFIX)
        prefix = pa.scalar(bytes([MAGIC]) + number.to_bytes(4, "big"), pa.binary())
        row, event, source = (
            pc.binary_join_element_wise(prefix, part, pa.scalar(b"", pa.binary()))
            for part in (event_parts.row, event_parts.event, event_parts.source)
        )
        return EventParts(event_parts.operation, row, event, source, event_parts.bad)

    def keys(self, values: pa.BinaryArray) -> pa.BinaryArray:
        return values

    def row(self) -> Codec:
        return self._member(self.part.schema, "after", dict(self.part.defaults), self.part.members)

    def beside(self, schema: Schema, part: str) -> Codec:
        return self._member(schema, "" if part == "event" else part, {}, {})

    def _member(self, schema: Schema, member: str, defaults: dict[str, object], members: Members) -> Codec:
        reader = MemberOfEvents(schema, self.registry, self.part.subject, "", None, defaults, members, member)
        return Codec(reader.decode, unwritten)


def with_tombstones(values: pa.BinaryArray, read: Callable[[pa.BinaryArray], EventParts]) -> EventParts:
    """The parts of values, of which some may be null."""
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    if is_valid.all():
        return read(values)
    nothing = pa.nulls(len(values), pa.binary())
    empty = EventParts(np.full(len(values), Operation.TOMBSTONE, np.int8), nothing, nothing, nothing, {})
    return empty.with_rows(np.flatnonzero(is_valid), read(values.filter(pa.array(is_valid))))


def refused(values: pa.BinaryArray, why: str) -> EventParts:
    nothing = pa.nulls(len(values), pa.binary())
    return EventParts(
        np.full(len(values), BAD, np.int8), nothing, nothing, nothing, dict.fromkeys(range(len(values)), why)
    )  # fmt: skip
