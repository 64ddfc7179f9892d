"""The Spark task of one topic partition: its records in a batch become packed rows for the buckets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import planned
from sluice.spark.source import PLANNED
from sluice.spark.task import Task
from sluice.time_units import MILLISECOND


def route(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of one task as packed rows."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return iter(())
    return route_records(plan, _planned_time(plan, first), chain([first], batches))


def _planned_time(plan: Plan, records: pa.RecordBatch) -> int:
    """When the batch was planned, in nanoseconds since 1970.

    It comes with the records, or from Spark's offset log if the records do not have it.
    """
    if PLANNED in records.schema.names:
        return int(records.column(PLANNED)[0].as_py()) * MILLISECOND
    return planned(plan.store, Task.now().batch).time
