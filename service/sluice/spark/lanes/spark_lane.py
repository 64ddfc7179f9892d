"""The Spark lane: a job of Spark does the work of a batch.

    records --> packed rows --> shuffle by bucket --> state servers --> packed outputs, in the service's own process
                partition_router.py                   run_bucket.py

The query of Spark has the records alone, so Spark plans this job only for the batches that need it. On a cluster each
batch needs it; without a cluster a batch needs it if the direct lane cannot read its records, or if the pipeline has no
direct lane. Spark's source reads the records, and reports lost ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from sluice.batch.envelope import IDLE_CLOCK, ROUTED, Packed, packed_time
from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import before_batch, planned
from sluice.kafka.batch_report import Planned
from sluice.spark.run_bucket import run_bucket
from sluice.spark.source import received

#: Arrow and Spark schema of the packed outputs of a bucket
PACKED = pa.schema([("kind", pa.int32()), ("packed", pa.binary())])
PACKED_COLUMNS = "kind int, packed binary"

#: rows with the column `bucket`, spread by it over as many partitions as there are buckets -> the same rows, whose
#: tasks prefer executors
Placed = Callable[[DataFrame], DataFrame]


class SparkLane:
    """Does the work of batches of one query."""

    def __init__(self, plan: Plan, placed: Placed | None = None) -> None:
        self._plan, self._placed = plan, placed

    def outputs(self, records: DataFrame, batch: int) -> list[Packed]:
        """The packed outputs of all buckets, computed by one task for each bucket, from the records of the batch."""
        before, now = before_batch(self._plan.store, batch), planned(self._plan.store, batch)
        return self._of_rows(self._read_by_source(records, now), before, now)

    def _read_by_source(self, records: DataFrame, now: Planned) -> DataFrame:
        return received(self._plan, records).mapInArrow(partial(route_records, self._plan, now.time), ROUTED)

    def _of_rows(self, rows: DataFrame, before: Planned, now: Planned) -> list[Packed]:
        rows = rows.repartition(self._plan.buckets, "bucket")
        if self._placed:
            rows = self._placed(rows)
        first: list[Packed] = [(IDLE_CLOCK, packed_time(now.idle_clock))] if now.idle_clock != before.idle_clock else []
        table = rows.mapInArrow(partial(_outputs, self._plan, first), PACKED_COLUMNS).toArrow()
        columns = table.column("kind").to_pylist(), table.column("packed").to_pylist()
        return list(zip(*columns, strict=True))


def _outputs(plan: Plan, first: list[Packed], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The packed outputs of one task, whose bucket gets `first` before the rows of the batch.

    Each is an Arrow batch of its own, because it may have megabytes.
    """

    def arrived() -> Iterator[Packed]:
        yield from first
        for batch in batches:
            yield from zip(batch.column("kind").to_pylist(), batch.column("packed").to_pylist(), strict=True)

    for kind, body in run_bucket(plan, arrived()):
        yield pa.RecordBatch.from_arrays([pa.array([kind], pa.int32()), pa.array([body], pa.binary())], schema=PACKED)
