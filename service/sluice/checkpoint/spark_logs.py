"""Writes Spark's logs of a query: all of them, so that Spark continues after a batch that another checkpoint has
recorded; or the plan of the first batch, so that Spark begins with this batch.

Spark 4.2 continues with batch N + 1 if a checkpoint has `metadata`, `offsets/N-1`, `offsets/N` and `commits/N`, and
nothing else. Without `offsets/N-1` it refuses to start. The file `sources/0/0` has the offsets at which batch 0 starts:
Spark reads it only before that batch, and `sluice replay --checkpoint` for it.

A planned batch that was not committed is run again by a start. Spark then compares the number of shuffle partitions of
this batch and of the batch before it, and fails if one of them has none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from sluice.checkpoint.checkpoint_store import CheckpointStore, put_bytes
from sluice.checkpoint.offset_log import COMMITTED, FIRST_OFFSETS, IDLE_CLOCK_KEY, METADATA, PLANNED
from sluice.kafka.planned_batch import Planned
from sluice.time_units import MILLISECOND

#: the parts of a checkpoint that Spark writes
PARTS = (METADATA, PLANNED, COMMITTED, "sources")
VERSION = "v1"
#: the settings in Spark's log of planned batches. A start of the query uses them. Sluice gives its own number of
#: partitions to each shuffle, so Spark's default changes nothing
CONF = {"spark.sql.shuffle.partitions": "200"}


def write_logs(store: CheckpointStore, plans: Mapping[int, Planned], batch: int, *, idle_clock: bool) -> None:
    """Writes Spark's logs as they are after `batch` was committed.

    plans        the planned inputs by batch, of which `batch` is needed. Batch -1 is the position before batch 0
    idle_clock   whether the query has the idle clock as its second source
    """
    put_bytes(store, METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
    for number in range(max(0, batch - 1), batch + 1):
        put_bytes(store, f"{PLANNED}/{number}", _offsets(plans.get(number, plans[batch]), idle_clock=idle_clock))
    if -1 in plans:
        put_bytes(store, FIRST_OFFSETS, b"\0" + _lines(VERSION, _nested(plans[-1])))
    put_bytes(store, f"{COMMITTED}/{batch}", _lines(VERSION, {"nextBatchWatermarkMs": 0}))


def write_first_plan(store: CheckpointStore, before: Planned, first: Planned, *, idle_clock: bool) -> None:
    """Writes Spark's logs of a query that has not begun, so that Spark's first batch is `first`.

    before       the position before the first batch
    idle_clock   as in `write_logs`

    Spark, when it starts a query, runs the last batch of the log `offsets` if the log `commits` does not have it. The
    entry in `offsets` is written last: without it the logs are those of a query that has not begun.
    """
    store.delete(f".{METADATA}.crc")
    put_bytes(store, METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
    write_first_offsets(store, before)
    put_bytes(store, f"{PLANNED}/0", _offsets(first, idle_clock=idle_clock))


def write_first_offsets(store: CheckpointStore, before: Planned) -> None:
    """Writes the position at which a query that has not begun begins, in place of the one that an earlier start wrote.

    Spark reads a topic partition that is not in it from its oldest record.
    """
    store.delete("sources/0/.0.crc")  # Hadoop's checksums of the old file
    put_bytes(store, FIRST_OFFSETS, b"\0" + _lines(VERSION, _nested(before)))


def _offsets(planned: Planned, *, idle_clock: bool) -> bytes:
    head = {"batchWatermarkMs": 0, "batchTimestampMs": planned.time // MILLISECOND, "conf": CONF}
    # Spark compares offsets as texts, and the idle clock writes a space after the colon.
    time = [json.dumps({IDLE_CLOCK_KEY: planned.idle_clock})] if idle_clock else []
    return _lines(VERSION, head, _nested(planned), *time)


def _nested(planned: Planned) -> object:
    return planned.to_fields()["offsets"]


def _lines(*lines: object) -> bytes:
    texts = (line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) for line in lines)
    return "\n".join(texts).encode()
