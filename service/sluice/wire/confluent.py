"""Confluent's wire format: a zero byte, the id of the writer's schema in four bytes (big-endian), then the data.

`Framed` reads it for all formats with a registry; `Confluent` is the format avro-confluent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.model.avro_schema import Avro, AvroError
from sluice.model.members import Members
from sluice.model.types import Schema
from sluice.wire.avro.avro_read import Reader
from sluice.wire.avro.avro_write import Writer
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, bytes_of, in_order, nothing
from sluice.wire.schema_registry import Registry, UnknownSchemaError

MAGIC, PREFIX = 0, 5
PREFIX_TYPE = np.dtype([("magic", np.uint8), ("id", ">i4")])


@dataclass(frozen=True)
class Framed(ABC):
    """Reads and writes the values or the keys of one stream, which begin with the id of their writer's schema.

    subject   the name under which the registry has the schema that is written
    """

    schema: Schema
    registry: Registry
    subject: str

    #: the first words of the reason for values without an id
    word: ClassVar[Reason]

    @abstractmethod
    def reader_of(self, number: int) -> Callable[[pa.BinaryArray], Decoded]:
        """The decoder of values with this id, which gets them with their prefix. It is made once for each id, at its
        first use. Raises UnknownSchemaError and RegistryError.
        """

    @abstractmethod
    def encode(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        """Encodes the tuples with the schema's id in the registry. Raises RegistryError."""

    def refused(self, tuples: pa.RecordBatch) -> dict[int, str]:
        """The rows that cannot be written, with their reasons."""
        return {}

    @cached_property
    def _readers(self) -> dict[int, Callable[[pa.BinaryArray], Decoded]]:
        return {}

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decodes each record with its writer's schema. Raises RegistryError if the registry does not answer."""
        prefixes, framed = prefixes_of(values)
        parts = [nothing(self.schema, np.flatnonzero(~framed), no_prefix(self.word))]
        for number in np.unique(prefixes["id"][framed]):
            rows = np.flatnonzero(framed & (prefixes["id"] == number))
            parts.append(
                self._with(int(number), values if len(rows) == len(values) else values.take(pa.array(rows)), rows)
            )
        return in_order(*parts)

    def _with(self, number: int, values: pa.BinaryArray, rows: np.ndarray) -> Decoded:
        try:
            read = self._readers.get(number) or self.reader_of(number)
        except UnknownSchemaError as unknown:
            return nothing(self.schema, rows, reason(Reason.UNKNOWN_SCHEMA, str(unknown)))
        self._readers[number] = read
        return read(values).at(rows)


def frame(number: int, values: pa.BinaryArray, between: bytes = b"") -> pa.BinaryArray:
    """The values behind the id of their schema, and the bytes `between`."""
    prefix = pa.scalar(bytes([MAGIC]) + number.to_bytes(4, "big") + between, pa.binary())
    return pc.binary_join_element_wise(prefix, values, pa.scalar(b"", pa.binary()))


@dataclass(frozen=True)
class Confluent(Framed):
    """Avro.

    text       the schema that is written
    reads_by   the reader's schema, if the pipeline file names one
    """

    text: str
    reads_by: Avro | None
    defaults: Mapping[str, Any]
    members: Members = field(default_factory=dict)

    word = Reason.NOT_AVRO

    def reader_of(self, number: int) -> Callable[[pa.BinaryArray], Decoded]:
        writer = self.writer_schema(number)
        try:
            reader = Reader.of(self.schema, writer, self.reads_by, self.defaults, self.members)
        except AvroError as error:
            raise UnknownSchemaError(
                f"the schema {number} does not fit the schema of the stream: expected {error}"
            ) from None
        return lambda values: reader.read(values, PREFIX)

    def writer_schema(self, number: int) -> Avro:
        """The schema of the values that have this id. Raises UnknownSchemaError and RegistryError."""
        return self.registry.schema(number)

    def encode(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        return frame(self.registry.id_of(self.subject, self.text), self._writer.write(tuples))

    def refused(self, tuples: pa.RecordBatch) -> dict[int, str]:
        return self._writer.refused(tuples)

    @cached_property
    def _writer(self) -> Writer:
        return Writer.of(self.schema, self.text, self.members)


def no_prefix(word: Reason) -> str:
    """Why a value without the id of a schema is rejected."""
    return reason(word, "its bytes do not begin with a zero byte and the id of a schema (4 bytes)")


def prefixes_of(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """The first PREFIX bytes of each value as magic byte and id, and whether they are a valid prefix."""
    data, starts = bytes_of(values)
    long = np.diff(starts) >= PREFIX
    places = np.where(long, starts[:-1], 0)[:, None] + np.arange(PREFIX)
    padded = data if len(data) >= PREFIX else np.zeros(PREFIX, np.uint8)
    prefixes = np.ascontiguousarray(padded[places]).view(PREFIX_TYPE).ravel()
    return prefixes, long & (prefixes["magic"] == MAGIC)
