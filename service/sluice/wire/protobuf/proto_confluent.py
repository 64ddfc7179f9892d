"""Confluent's wire format for Protobuf: the id of a schema, the message indexes, then the message.

The message indexes are the path of the message in the schema: the position of the message at the top, then within that
message, and so on. They are zigzag varints, their number first; a single zero stands for the first message at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import kernel
from sluice.model.members import Members
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_schema import Protobuf, Source, parse
from sluice.wire.confluent import PREFIX, Framed, frame
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, bytes_of, in_order, nothing
from sluice.wire.protobuf.proto_read import Reader
from sluice.wire.protobuf.proto_write import Writer
from sluice.wire.schema_registry import PROTOBUF, UnknownSchemaError
from sluice.wire.varints import zigzags

#: the deepest message, and the size of the table of message indexes of a batch
MAX_PATH = 16
FIRST = (0,)
NOT_FRAMED = reason(Reason.NOT_PROTOBUF, "the path of its message behind the id of the schema is not readable")


@dataclass(frozen=True)
class ProtobufConfluent(Framed):
    """Protobuf.

    files      the schema that is written, the main file last
    message    the full name of the message that is written
    wanted     the full name of the message that is read; empty: any
    reads_by   whether records are read by `files`, else by the schema that each of them names
    """

    files: tuple[Source, ...]
    message: str
    defaults: Mapping[str, Any]
    wanted: str = ""
    reads_by: bool = False
    members: Members = field(default_factory=dict)

    word = Reason.NOT_PROTOBUF

    def reader_of(self, number: int) -> Callable[[pa.BinaryArray], Decoded]:
        try:
            written = parse(self.registry.sources(number, PROTOBUF))
        except ProtobufError as error:
            raise UnknownSchemaError(f"the schema {number} cannot be used: expected {error}") from None
        return _Messages(self, number, written, {}).read

    def message_reader(self, number: int, written: Protobuf, path: tuple[int, ...]) -> Reader:
        """The reader of a message in the schema `written`. Raises UnknownSchemaError (PB21)."""
        name = written.order.get(path)
        if name is None:
            raise UnknownSchemaError(f"the schema {number} has no message with the path {list(path)}")
        if self.wanted and name != self.wanted and name.rpartition(".")[2] != self.wanted:
            raise UnknownSchemaError(f"expected the message {self.wanted}, got {name}")
        proto, meant = (self._own, self.message) if self.reads_by else (written, name)
        try:
            return Reader.of(self.schema, proto, proto.messages[meant], self.defaults, self.members)
        except ProtobufError as error:
            raise UnknownSchemaError(
                f"the message {name} of the schema {number} does not fit the schema of the stream: expected {error}"
            ) from None

    def encode(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        *imported, (_, main) = self.files
        number = self.registry.id_of(self.subject, main, PROTOBUF, tuple(imported))
        return frame(number, self._writer.write(tuples), self._path)

    def refused(self, tuples: pa.RecordBatch) -> dict[int, str]:
        return self._writer.refused(tuples)

    @cached_property
    def _own(self) -> Protobuf:
        return parse(self.files)

    @cached_property
    def _writer(self) -> Writer:
        return Writer.of(self.schema, self._own, self._own.messages[self.message], self.members)

    @cached_property
    def _path(self) -> bytes:
        path = self._own.path_of(self.message) or FIRST
        written = [0] if path == FIRST else [len(path), *path]
        return b"".join(zigzags(np.array(written, np.int64)).to_pylist())


@dataclass(frozen=True)
class _Messages:
    """The readers of the messages of one schema, by their paths."""

    format: ProtobufConfluent
    number: int
    written: Protobuf
    readers: dict[tuple[int, ...], Reader]

    def read(self, values: pa.BinaryArray) -> Decoded:
        paths, ends = _indexes_of(values)
        parts = [nothing(self.format.schema, np.flatnonzero(ends < 0), NOT_FRAMED)]
        for path, rows in _by_path(paths, np.flatnonzero(ends >= 0)):
            chosen = values if len(rows) == len(values) else values.take(pa.array(rows))
            parts.append(self._of_path(path, chosen, ends[rows], rows))
        return in_order(*parts)

    def _of_path(self, path: tuple[int, ...], values: pa.BinaryArray, ends: np.ndarray, rows: np.ndarray) -> Decoded:
        try:
            reader = self.readers.get(path) or self.format.message_reader(self.number, self.written, path)
        except UnknownSchemaError as unknown:
            return nothing(self.format.schema, rows, reason(Reason.UNKNOWN_SCHEMA, str(unknown)))
        self.readers[path] = reader
        return reader.read(values, ends).at(rows)


def message_paths(values: pa.BinaryArray) -> set[tuple[int, ...]]:
    """The paths of the messages of these values, as far as they are readable."""
    paths, ends = _indexes_of(values)
    return {_indexes(path) for path in paths[ends >= 0]}


def _indexes_of(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """The message indexes of each value, and the bytes up to its message (see `_paths`)."""
    data, starts = bytes_of(values)
    paths, ends = np.zeros((len(values), MAX_PATH + 1), np.int64), np.zeros(len(values), np.int64)
    _paths(data, starts, paths, ends)
    return paths, ends


def _by_path(paths: np.ndarray, rows: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """The different paths of these rows, each with its rows. Mostly all rows have one path."""
    if not len(rows):
        return
    has_first_path = (paths[rows] == paths[rows[0]]).all(axis=1)
    first, others = rows[has_first_path], rows[~has_first_path]
    yield _indexes(paths[first[0]]), first
    if len(others):
        different, places = np.unique(paths[others], axis=0, return_inverse=True)
        for number, path in enumerate(different):
            yield _indexes(path), others[places.reshape(-1) == number]


def _indexes(path: np.ndarray) -> tuple[int, ...]:
    return tuple(path[1 : path[0] + 1].tolist())


@kernel
def _paths(data: np.ndarray, starts: np.ndarray, paths: np.ndarray, ends: np.ndarray) -> None:
    """Reads the message indexes of each value: `paths[r]` becomes their number and they themselves, `ends[r]` the
    number of bytes up to the message, -1 if they are not readable.

    Implements PB20 of the reference.
    """
    for row in range(len(ends)):
        count, i = _zigzag(data, starts[row] + PREFIX, starts[row + 1])
        if i < 0 or not 0 <= count <= MAX_PATH:
            ends[row] = -1
            continue
        paths[row, 0] = max(count, 1)
        for place in range(count):
            paths[row, place + 1], i = _zigzag(data, i, starts[row + 1])
            if i < 0:
                break
        ends[row] = i - starts[row] if i >= 0 else -1


@kernel
def _zigzag(data: np.ndarray, i: int, stop: int) -> tuple[int, int]:
    """Reads a number of at most five bytes. Returns it and the position behind it, -1 if there is none."""
    bits, shift = np.int64(0), 0
    while 0 <= i < stop and shift < 35:  # noqa: PLR2004 - five bytes of seven bits
        byte = np.int64(data[i])
        bits |= (byte & 0x7F) << shift
        i += 1
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
            return (bits >> 1) ^ -(bits & 1), i  # type: ignore[return-value]
        shift += 7
    return 0, -1
