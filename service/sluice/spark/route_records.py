"""The Spark task of one topic partition: its records in a batch become packed rows for the buckets."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import planned
from sluice.spark.task import Task


def route(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of one task as packed rows; the time of the batch is the planned time in Spark's offset log."""
    return route_records(plan, planned(plan.store, Task.now().batch).time, batches)
