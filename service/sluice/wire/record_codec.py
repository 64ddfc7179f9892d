"""Decodes and encodes the records of a stream: values, keys and headers, each with the codec of its format, and the
timestamps of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.model.members import HEADER, Member, Members, place
from sluice.model.spec import DELETES, Coding, Stream
from sluice.model.types import TIMESTAMP, Schema
from sluice.wire.change_events.change_reader import ChangeReader, change_reader
from sluice.wire.change_events.event_parts import EventParts
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, in_order, record_batch
from sluice.wire.formats.format_contract import Codec, Part
from sluice.wire.formats.format_table import codec


@dataclass(frozen=True)
class Records:
    """Decodes and encodes the records of a stream."""

    stream: Stream
    value: Codec
    key: Codec | None
    headers: Mapping[str, Codec]
    #: reads the envelope of the values; None: a value is a tuple
    changes: ChangeReader | None = None

    @classmethod
    def of(cls, stream: Stream, properties: Mapping[str, str]) -> Records:
        """`properties` configure the schema registry."""
        return _records(stream, tuple(sorted(properties.items())))

    def decode(
        self,
        values: pa.BinaryArray,
        keys: pa.BinaryArray,
        headers: pa.ListArray,
        times: np.ndarray | None = None,
        event: EventParts | None = None,
    ) -> Decoded:
        """The tuples in these records. `values` must not have nulls. `times` has the timestamps of the records in
        nanoseconds since 1970. It is needed for a stream with a `record_timestamp`. `event` has the parts of the change
        events of a stream with an envelope, whose rows are `values`; a null row has the defaults of its attributes.

        A record that is bad in several parts gets the reason of the first one: value, key, headers, what is beside the
        row of a change event, then timestamp.
        """
        stream = self.stream
        parts = [(self.value, stream.value_schema, values)]
        if self.key:
            parts.append((self.key, stream.key_schema, self._keys(keys)))
        for attribute, header in stream.headers:
            schema = ((attribute, dict(stream.schema)[attribute]),)
            parts.append((self.headers[attribute], schema, last_values(headers, header)))
        if event is not None and self.changes is not None:
            parts += [(form, schema, column) for form, schema, column in self.changes.columns(event)]
        decoded = [_or_defaults(column, form, schema, stream) for form, schema, column in parts]
        if stream.record_timestamp is not None:
            assert times is not None  # noqa: S101 - the readers of inputs pass them
            decoded.append(_timestamps(stream.record_timestamp, times))
        return decoded[0] if len(decoded) == 1 else _together(decoded, stream.schema, len(values))

    def decode_table(
        self,
        values: pa.BinaryArray,
        keys: pa.BinaryArray,
        headers: pa.ListArray,
        times: np.ndarray,
        event: EventParts | None = None,
    ) -> Decoded:
        """The tuples in these records of a table, with the attribute DELETES. A record without a value deletes the row
        of its key: its tuple has the attributes of the key, and 0, false or nothing in the others (M4).
        """
        rows = values.is_valid().to_numpy(zero_copy_only=False)
        kept = pa.array(rows)
        with_value = (values.filter(kept), keys.filter(kept), headers.filter(kept))
        of_rows = None if event is None else event.only(rows)
        decoded = self.decode(*with_value, times[rows], of_rows).at(np.flatnonzero(rows))
        if rows.all():
            return _flagged(decoded, deletes=False)
        deleted = self._deleted(keys.filter(pa.array(~rows))).at(np.flatnonzero(~rows))
        return in_order(_flagged(decoded, deletes=False), _flagged(deleted, deletes=True))

    def _keys(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The keys without an envelope."""
        return keys if self.changes is None or self.changes.open_key is None else self.changes.open_key(keys)

    def _deleted(self, keys: pa.BinaryArray) -> Decoded:
        """Tuples that have the attributes of these keys alone."""
        if self.key is None:
            msg = f"stream {self.stream.name} is a table without a key"  # `check` refuses it
            raise TypeError(msg)
        decoded = _or_defaults(self._keys(keys), self.key, self.stream.key_schema, self.stream)
        column_of = dict(zip(decoded.tuples.schema.names, decoded.tuples.columns, strict=True))
        count = decoded.tuples.num_rows
        columns = [column_of.get(name, array_of([kind.empty] * count, kind)) for name, kind in
                   self.stream.schema]  # fmt: skip
        return Decoded(record_batch(columns, arrow_schema(self.stream.schema), count), decoded.good, decoded.bad)

    def check(self) -> None:
        """Gets the ids of the schemas for writing, before there are tuples. Raises RegistryError if that fails."""
        nothing = pa.RecordBatch.from_pylist([], schema=arrow_schema(self.stream.schema))
        self.encode_values(nothing)
        self.encode_keys(nothing)

    def refused(self, tuples: pa.RecordBatch) -> dict[int, str]:
        """The rows whose values or keys cannot be encoded, with their reasons."""
        of_keys = self.key.refused(_of(tuples, self.stream.key_schema)) if self.key else {}
        return of_keys | self.value.refused(_of(tuples, self.stream.value_schema))

    def encode_values(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        return self.value.encode(_of(tuples, self.stream.value_schema))

    def encode_keys(self, tuples: pa.RecordBatch) -> pa.BinaryArray | None:
        """The keys of the records; None if the pipeline file has no key for the stream."""
        return self.key.encode(_of(tuples, self.stream.key_schema)) if self.key else None

    def encode_headers(self, tuples: pa.RecordBatch) -> dict[str, pa.BinaryArray]:
        """The values of the headers, by the name of the header."""
        return {
            header: self.headers[attribute].encode(tuples.select([attribute]))
            for attribute, header in self.stream.headers
        }


@lru_cache(maxsize=1000)
def _records(stream: Stream, properties: tuple[tuple[str, str], ...]) -> Records:
    defaults, types = dict(stream.defaults), dict(stream.schema)

    places = _places(stream)

    def form(coding: Coding, schema: Schema, part: str) -> Codec:
        return codec(Part(coding, schema, defaults, f"{stream.topic}-{part}", properties, members=places))

    of_value = Part(
        stream.value, stream.value_schema, defaults, f"{stream.topic}-value", properties, members=dict(stream.members)
    )  # fmt: skip
    key = form(stream.key.coding, stream.key_schema, "key") if stream.key else None
    text = Coding("text")
    headers = {attribute: form(text, ((attribute, types[attribute]),), "header") for attribute, _ in stream.headers}
    changes = change_reader(stream, of_value)
    value = codec(of_value) if changes is None or changes.row is None else changes.row
    return Records(stream, value, key, headers, changes)


def _places(stream: Stream) -> Members:
    """The members of the attributes, also of those in headers, for reasons."""
    members = dict(stream.members)
    in_headers = {
        attribute: replace(members.get(attribute, Member()), path=(header,), part=HEADER)
        for attribute, header in stream.headers
    }
    return members | in_headers


def _flagged(decoded: Decoded, *, deletes: bool) -> Decoded:
    """The same tuples with the attribute DELETES."""
    flag = pa.array(np.full(decoded.tuples.num_rows, deletes))
    return Decoded(decoded.tuples.append_column(DELETES, flag), decoded.good, decoded.bad)


def _of(tuples: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    return tuples if len(schema) == tuples.num_columns else tuples.select([name for name, _ in schema])


def last_values(headers: pa.ListArray, name: str) -> pa.BinaryArray:
    """The value of the header `name` in each record, null if a record has none. The last one of several counts."""
    places = np.full(len(headers), -1)
    pairs = pc.list_flatten(headers)
    values = pairs.field("value") if len(pairs) else pa.array([], pa.binary())
    if len(pairs):
        of_name = np.flatnonzero(pc.equal(pairs.field("key"), name).to_numpy(zero_copy_only=False))
        places[pc.list_parent_indices(headers).to_numpy()[of_name]] = of_name
    return values.take(pa.array(places, mask=places < 0))


def _timestamps(attribute: str, times: np.ndarray) -> Decoded:
    """The values of the attribute that is the timestamp of the record. A record without a timestamp (Kafka has -1) is
    bad.
    """
    fields = arrow_schema(((attribute, TIMESTAMP),))
    good, bad = np.flatnonzero(times >= 0), np.flatnonzero(times < 0)
    column = pa.array(times[good], pa.int64()).view(fields[0].type)
    why = reason(Reason.MISSING, f"{attribute}: expected a record with a timestamp, got none")
    return Decoded(record_batch([column], fields, len(good)), good, [(row, why) for row in bad.tolist()])


def _or_defaults(column: pa.BinaryArray, form: Codec, schema: Schema, stream: Stream) -> Decoded:
    """Decodes keys or headers, of which some may be null.

    The attributes of a null get their defaults, else null (NU2). If one has no default and is not optional, the row is
    bad.
    """
    if not column.null_count:
        return form.decode(column)
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    decoded = form.decode(column.filter(pa.array(is_valid))).at(np.flatnonzero(is_valid))
    return in_order(decoded, _without(np.flatnonzero(~is_valid), schema, stream))


def _without(rows: np.ndarray, schema: Schema, stream: Stream) -> Decoded:
    fields, defaults = arrow_schema(schema), dict(stream.defaults)
    needed = ((name, type_) for name, type_ in schema if name not in defaults and not type_.optional)
    name, type_ = next(needed, (None, None))
    if name is None:
        columns = [array_of([defaults.get(attribute)] * len(rows), kind) for attribute, kind in schema]
        return Decoded(record_batch(columns, fields, len(rows)), rows, [])
    why = reason(Reason.MISSING, f"{name}: expected {type_}{place(str(name), _places(stream))}, got nothing")
    empty = record_batch([pa.array([], field.type) for field in fields], fields, 0)
    return Decoded(empty, rows[:0], [(int(row), why) for row in rows])


def _together(parts: list[Decoded], schema: Schema, rows: int) -> Decoded:
    """Joins the attributes of all parts. A row must be good in every part."""
    bad: dict[int, str] = {}
    for part in reversed(parts):
        bad.update(part.bad)
    good = np.ones(rows, np.bool_)
    good[list(bad)] = False
    columns: dict[str, pa.Array] = {}
    for part in parts:
        kept = part.tuples.filter(pa.array(good[part.good]))
        columns.update(zip(kept.schema.names, kept.columns, strict=True))
    tuples = record_batch([columns[name] for name, _ in schema], arrow_schema(schema), int(np.count_nonzero(good)))
    return Decoded(tuples, np.flatnonzero(good), sorted(bad.items()))
