"""Rows that travel together through Spark as one binary value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson
import pyarrow as pa

#: what a packed row holds: Arrow rows, a time, Arrow rows, a part of the batch's report, how many topic partitions the
#: streams have
RECORDS, IDLE_CLOCK, DEAD_LETTERS, COUNTS, TOPICS = 0, 1, 2, 3, 4
#: what goes to the sink as it is
PASS_THROUGH = (DEAD_LETTERS, COUNTS)
#: added to one of these: the bytes are in a file, and the row names it (spool.py)
SPOOLED = 64

#: the bytes of a packed row: in memory, or of a file that is mapped into memory
Body = bytes | memoryview
#: a packed row: what it holds, and the bytes
Packed = tuple[int, Body]

#: among the records of a stream, in place of a topic partition: all of them
BROADCAST = -1
#: and the kind of a tuple that carries the mark of its run as a header
TUPLE_WITH_MARK = 10

#: of packed rows on their way to the buckets
ROUTED = "bucket int, holds int, packed binary"


def pack(batch: pa.RecordBatch, about: Mapping[str, str | int]) -> bytes:
    """The rows as an Arrow IPC stream that also says what they are about."""
    schema = batch.schema.with_metadata({name: str(value) for name, value in about.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack(data: Body) -> tuple[pa.RecordBatch, dict[str, str]]:
    """What `pack` was given; the columns lie in `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        batch = reader.read_next_batch()
    about = {name.decode(): value.decode() for name, value in (batch.schema.metadata or {}).items()}
    return batch.replace_schema_metadata(None), about


def pieces(rows: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The rows in order, in pieces of about `size` bytes; nothing of no rows."""
    count = max(1, -(-rows.num_rows // max(1, -(-rows.nbytes // size))))
    for start in range(0, rows.num_rows, count):
        yield rows if count >= rows.num_rows else rows.slice(start, count)


def packed_time(time: int) -> bytes:
    """What a PULSE row holds."""
    return time.to_bytes(8, "big", signed=True)


def time_of(packed: Body) -> int:
    return int.from_bytes(packed, "big", signed=True)


def topics_row(topic_partitions: Mapping[str, int]) -> Packed:
    """Tells a bucket how many topic partitions there are."""
    return TOPICS, orjson.dumps(dict(topic_partitions))


def topics_of(packed: Body) -> dict[str, int]:
    return orjson.loads(packed)  # type: ignore[no-any-return]


def split_pass_through(topics: Mapping[str, int], arrived: Iterable[Packed]) -> tuple[list[Packed], list[Packed]]:
    """The rows that bypass the bucket, and the rows that are fed to it, with the number of topic partitions known."""
    through: list[Packed] = []
    fed: list[Packed] = []
    for row in arrived:
        (through if passes_through(row) else fed).append(row)
    return through, [*fed, topics_row(topics)] if fed else []


def passes_through(row: Packed) -> bool:
    return row[0] & ~SPOOLED in PASS_THROUGH
