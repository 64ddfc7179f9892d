"""The stage that works on buckets: a bucket's packed rows in, its outputs as packed rows out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from service.spark.packed import THROUGH, Packed, topics_row
from service.spark.plan import Plan
from service.spark.state.task import ask

#: the property of a task that says which batch it belongs to
BATCH = "streaming.sql.batchId"


def stage(plan: Plan, arrived: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does: it has all rows of the bucket that has its number (buckets.py).

    The number of the batch is the version of the state that it goes on from. The bucket's keeper has the state.
    """
    task: Any = TaskContext.get()
    through, rest = parted(plan, _rows(arrived))
    made = ask(plan, task.partitionId(), int(task.getLocalProperty(BATCH)), rest)
    for holds, packed in [*through, *made]:  # each may have many megabytes
        yield pa.record_batch([pa.array([holds], pa.int32()), pa.array([packed], pa.binary())], ["holds", "packed"])


def parted(plan: Plan, arrived: list[Packed]) -> tuple[list[Packed], list[Packed]]:
    """What goes past the bucket as it is, and what it is fed."""
    through = [row for row in arrived if row[0] in THROUGH]
    rest = [row for row in arrived if row[0] not in THROUGH]
    return through, [*rest, topics_row(plan.topic_partitions)] if rest else []


def _rows(batches: Iterator[pa.RecordBatch]) -> list[Packed]:
    return [
        row
        for batch in batches
        for row in zip(batch.column("holds").to_pylist(), batch.column("packed").to_pylist(), strict=True)
    ]
