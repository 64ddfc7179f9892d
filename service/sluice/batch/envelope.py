"""Packed rows (envelopes): many rows that travel through Spark as one binary value with a kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson
import pyarrow as pa

#: kinds of packed rows. RECORDS: Arrow rows of a topic partition or of an output; IDLE_CLOCK: a time of the idle clock;
#: DEAD_LETTERS: Arrow rows; COUNTS: a part of the batch's report; TOPICS: the number of topic partitions of each
#: stream
RECORDS, IDLE_CLOCK, DEAD_LETTERS, COUNTS, TOPICS = 0, 1, 2, 3, 4
#: the kinds that go to the sink unchanged, past the bucket
PASS_THROUGH = (DEAD_LETTERS, COUNTS)
#: a flag that is added to a kind: the bytes are in a file, and the row has a reference to it (spool.py)
SPOOLED = 64

#: the bytes of a packed row: in memory, or in a file that is mapped into memory
Body = bytes | memoryview
#: a packed row: its kind, and its bytes
Packed = tuple[int, Body]

#: in place of the number of a record's topic partition: the record is written to all topic partitions
BROADCAST = -1
#: the kind of a record that is a tuple with a header for the window mark that follows it
TUPLE_WITH_MARK = 10

#: Spark's schema of packed rows on their way to the buckets
ROUTED = "bucket int, kind int, packed binary"


def pack(batch: pa.RecordBatch, about: Mapping[str, str | int]) -> bytes:
    """The rows as an Arrow IPC stream. `about` is stored as the metadata of its schema."""
    schema = batch.schema.with_metadata({name: str(value) for name, value in about.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack(data: Body) -> tuple[pa.RecordBatch, dict[str, str]]:
    """The rows and `about` (values as text) that `pack` wrote. The columns are views of `data`: nothing is copied."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        batch = reader.read_next_batch()
    about = {name.decode(): value.decode() for name, value in (batch.schema.metadata or {}).items()}
    return batch.replace_schema_metadata(None), about


def pieces(rows: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The rows in order, in pieces of about `size` bytes each. Yields nothing for no rows."""
    count = max(1, -(-rows.num_rows // max(1, -(-rows.nbytes // size))))
    for start in range(0, rows.num_rows, count):
        yield rows if count >= rows.num_rows else rows.slice(start, count)


def packed_time(time: int) -> bytes:
    """The bytes of an IDLE_CLOCK row, from a time in nanoseconds."""
    return time.to_bytes(8, "big", signed=True)


def time_of(packed: Body) -> int:
    return int.from_bytes(packed, "big", signed=True)


def topics_row(topic_partitions: Mapping[str, int]) -> Packed:
    """A packed row with the number of topic partitions of each stream."""
    return TOPICS, orjson.dumps(dict(topic_partitions))


def topics_of(packed: Body) -> dict[str, int]:
    return orjson.loads(packed)  # type: ignore[no-any-return]


def split_pass_through(topics: Mapping[str, int], arrived: Iterable[Packed]) -> tuple[list[Packed], list[Packed]]:
    """The rows that pass the bucket unchanged, and the rows for the bucket, with a TOPICS row behind them.

    Without rows for the bucket there is no TOPICS row.
    """
    through: list[Packed] = []
    fed: list[Packed] = []
    for row in arrived:
        (through if passes_through(row) else fed).append(row)
    return through, [*fed, topics_row(topics)] if fed else []


def passes_through(row: Packed) -> bool:
    return row[0] & ~SPOOLED in PASS_THROUGH
