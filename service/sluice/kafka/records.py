"""Records to be written to Kafka, as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Header = tuple[str, bytes | None]

SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("headers", pa.map_(pa.string(), pa.binary())),
    ]
)

#: upper bounds in bytes of Kafka's framing: of a batch with one record, and of each header of the record
FRAMING, HEADER_FRAMING = 128, 10


@dataclass(frozen=True, slots=True)
class Records:
    """Records for one topic, in the order in which they are written.

    `columns` has SCHEMA; timestamps are in milliseconds since 1970.
    """

    topic: str
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def rows(self, start: int, stop: int) -> Iterator[tuple[object, ...]]:
        """Arguments of `Producer.produce` after the topic: value, key, partition, None, None, timestamp, headers."""
        part = self.columns.slice(start, stop - start)
        key, value, partition, timestamp, headers = (part.column(i) for i in range(5))
        nothing = [None] * len(part)
        return zip(
            value.to_pylist(),
            key.to_pylist(),
            partition.to_pylist(),
            nothing,
            nothing,
            timestamp.to_pylist(),
            nothing if headers.null_count == len(part) else headers.to_pylist(),
            strict=True,
        )

    def sizes(self) -> np.ndarray:
        """An upper bound, for each record, of its size in bytes in a batch of its own."""
        sizes = FRAMING + _lengths(self.columns.column(0)) + _lengths(self.columns.column(1))
        headers = self.columns.column(4)
        if headers.null_count < len(self):
            listed = headers.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
            pairs = pc.list_flatten(listed)
            lengths = HEADER_FRAMING + _lengths(pairs.field("key")) + _lengths(pairs.field("value"))
            np.add.at(sizes, pc.list_parent_indices(listed).to_numpy(), lengths)
        return sizes  # type: ignore[no-any-return]

    def larger(self, limit: int) -> list[int]:
        """The row numbers of the records of more than `limit` bytes (by `sizes`)."""
        return np.flatnonzero(self.sizes() > limit).tolist()

    def part(self, start: int, stop: int) -> Records:
        """The records from row `start` to row `stop` (exclusive)."""
        return Records(self.topic, self.columns.slice(start, stop - start))

    def pack(self) -> bytes:
        """The records as an Arrow IPC stream, which `unpack` reads."""
        sink = pa.BufferOutputStream()
        schema = SCHEMA.with_metadata({"topic": self.topic})
        with pa.ipc.new_stream(sink, schema) as stream:
            stream.write_batch(self.columns.replace_schema_metadata(schema.metadata))
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def records(  # noqa: PLR0917 - one per column
    topic: str,
    values: pa.Array,
    keys: pa.Array,
    partitions: np.ndarray,
    timestamps: np.ndarray,
    headers: Sequence[Sequence[Header] | None] | pa.Array | None = None,
) -> Records:
    """Makes records from their columns. Values and keys may be null, and headers may be absent."""
    count = len(values)
    columns = [
        keys,
        values,
        pa.array(partitions, pa.int32()),
        pa.array(timestamps, pa.int64()),
        headers if isinstance(headers, pa.Array) else pa.array(headers or [None] * count, SCHEMA.field("headers").type),
    ]
    return Records(topic, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def unpack(data: bytes) -> Records:
    """The records that `pack` wrote as `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return Records(stream.schema.metadata[b"topic"].decode(), stream.read_next_batch())


def _lengths(column: pa.Array) -> np.ndarray:
    lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)  # type: ignore[no-any-return]
