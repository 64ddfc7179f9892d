"""Confluent's wire format for Avro: a zero byte, the writer's schema id in four bytes (big-endian), then Avro."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema
from sluice.model.avro_schema import Avro, AvroError
from sluice.model.members import Members
from sluice.model.types import Schema
from sluice.wire.avro.avro_read import Reader
from sluice.wire.avro.avro_write import Writer
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded import Decoded, bytes_of, in_order, record_batch
from sluice.wire.schema_registry import Registry, UnknownSchemaError

MAGIC, PREFIX = 0, 5
PREFIX_TYPE = np.dtype([("magic", np.uint8), ("id", ">i4")])


@dataclass(frozen=True)
class Confluent:
    """Reads and writes the values or the keys of one stream.

    The readers of the writers' schemas, and the writer, are made at their first use.
    """

    schema: Schema
    registry: Registry
    subject: str
    #: the text of the schema that is written
    text: str
    #: the reader's schema, if the pipeline file names one
    reads_by: Avro | None
    defaults: Mapping[str, Any]
    members: Members = field(default_factory=dict)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decodes each record with its writer's schema. Raises RegistryError if the registry does not answer."""
        prefixes, framed = _prefixes(values)
        bad = reason(Reason.NOT_AVRO, "its bytes do not begin with a zero byte and the id of a schema (4 bytes)")
        parts = [self._none([(int(row), bad) for row in np.flatnonzero(~framed)])]
        for number in np.unique(prefixes["id"][framed]):
            rows = np.flatnonzero(framed & (prefixes["id"] == number))
            parts.append(
                self._with(int(number), values if len(rows) == len(values) else values.take(pa.array(rows)), rows)
            )
        return in_order(*parts)

    def _none(self, bad: list[tuple[int, str]]) -> Decoded:
        fields = arrow_schema(self.schema)
        empty = record_batch([pa.array([], one.type) for one in fields], fields, 0)
        return Decoded(empty, np.zeros(0, np.int64), bad)

    def _with(self, number: int, values: pa.BinaryArray, rows: np.ndarray) -> Decoded:
        try:
            reader = self._readers.get(number) or self._reader(number)
        except UnknownSchemaError as unknown:
            return self._none([(int(row), reason(Reason.UNKNOWN_SCHEMA, str(unknown))) for row in rows])
        return reader.read(values, PREFIX).at(rows)

    @cached_property
    def _readers(self) -> dict[int, Reader]:
        return {}

    def _reader(self, number: int) -> Reader:
        writer = self.registry.schema(number)
        try:
            reader = Reader.of(self.schema, writer, self.reads_by, self.defaults, self.members)
        except AvroError as error:
            raise UnknownSchemaError(
                f"the schema {number} does not fit the schema of the stream: expected {error}"
            ) from None
        self._readers[number] = reader
        return reader

    def encode(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        """Encodes the tuples with the schema's id in the registry. Raises RegistryError."""
        number = self.registry.id_of(self.subject, self.text)
        prefix = pa.scalar(bytes([MAGIC]) + number.to_bytes(4, "big"), pa.binary())
        return pc.binary_join_element_wise(prefix, self._writer.write(tuples), pa.scalar(b"", pa.binary()))

    @cached_property
    def _writer(self) -> Writer:
        return Writer.of(self.schema, self.text, self.members)


def _prefixes(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """The first PREFIX bytes of each value as magic byte and id, and whether they are a valid prefix."""
    data, starts = bytes_of(values)
    long = np.diff(starts) >= PREFIX
    places = np.where(long, starts[:-1], 0)[:, None] + np.arange(PREFIX)
    padded = data if len(data) >= PREFIX else np.zeros(PREFIX, np.uint8)
    prefixes = np.ascontiguousarray(padded[places]).view(PREFIX_TYPE).ravel()
    return prefixes, long & (prefixes["magic"] == MAGIC)
