"""The Spark lane: a job of Spark does the work of a batch.

    a large batch   reading tasks --> packed rows --> shuffle by bucket --> state servers --> packed outputs
                    read_task.py                                            run_bucket.py
    a small batch   the task of each bucket reads: no shuffle
    what Kafka clients cannot read
                    Spark's source --> packed rows --> shuffle by bucket --> ...
                                       partition_router.py

The packed outputs come back to the service's own process. If the buckets write (`Plan.parted`), these are only what
they do not write, and counts. The query of Spark has the records alone, so Spark plans a job only for the batches that
need it. On a cluster each batch needs it; without a cluster a batch needs it if the direct lane cannot read its
records, or if the pipeline has no direct lane: Spark's source then reads them, and reports lost ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sluice.batch.packed_rows import IDLE_CLOCK, NOT_READ, ROUTED, Packed, packed_time
from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import before_batch, planned
from sluice.kafka.batch_report import Planned
from sluice.spark.lanes.read_task import read_some, readable, rows_of_bucket
from sluice.spark.placement import PlacementTable
from sluice.spark.run_bucket import run_bucket
from sluice.spark.source import received

LOGGER = logging.getLogger("sluice")
#: Arrow and Spark schema of the packed outputs of a bucket
PACKED = pa.schema([("kind", pa.int32()), ("packed", pa.binary())])
PACKED_COLUMNS = "kind int, packed binary"


class SparkLane:
    """Does the work of batches of one query."""

    def __init__(self, plan: Plan, placed: PlacementTable | None = None) -> None:
        """`placed`: the table that binds the buckets to the executors of a cluster; None in local mode."""
        self._plan, self._placed = plan, placed
        #: the job of a small batch
        self._small = None if placed is None else placed.rows.mapInArrow(partial(_of_small, plan), PACKED_COLUMNS)

    def outputs(self, records: DataFrame, batch: int) -> list[Packed]:
        """The packed outputs of all buckets, computed by one task for each bucket, from the records of the batch."""
        before, now = before_batch(self._plan.store, batch), planned(self._plan.store, batch)
        if self._small is not None and readable(before, now):
            outputs = _collected(self._read_by_tasks(records.sparkSession, before, now))
            if not (why := [bytes(body).decode() for kind, body in outputs if kind == NOT_READ]):
                return outputs
            LOGGER.info("a batch is read by Spark's source: %s", why[0], extra={"batch": batch})
        rows = received(self._plan, records).mapInArrow(partial(route_records, self._plan, now.time), ROUTED)
        return _collected(self._of_rows(rows, before, now))

    def _read_by_tasks(self, spark: SparkSession, before: Planned, now: Planned) -> DataFrame:
        """The packed outputs. A small batch has no stage of its own for reading."""
        counts = [end - before.offsets[place] for place, end in now.offsets.items()]
        if self._small is not None and sum(counts) <= self._plan.pipeline.settings.direct_records:
            return self._small
        readers = min(spark.sparkContext.defaultParallelism, sum(map(bool, counts)))
        begin = spark.range(0, readers, 1, readers)
        return self._of_rows(begin.mapInArrow(partial(read_some, self._plan, readers), ROUTED), before, now)

    def _of_rows(self, rows: DataFrame, before: Planned, now: Planned) -> DataFrame:
        rows = rows.repartition(self._plan.buckets, "bucket")
        if self._placed:
            rows = self._placed.joined(rows)
        first: list[Packed] = [(IDLE_CLOCK, packed_time(now.idle_clock))] if now.idle_clock != before.idle_clock else []
        return rows.mapInArrow(partial(_outputs, self._plan, first), PACKED_COLUMNS)


def _collected(rows: DataFrame) -> list[Packed]:
    table = rows.toArrow()
    columns = table.column("kind").to_pylist(), table.column("packed").to_pylist()
    return list(zip(*columns, strict=True))


def _outputs(plan: Plan, first: list[Packed], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The packed outputs of one task, whose bucket gets `first` before the rows of the batch."""

    def arrived() -> Iterator[Packed]:
        yield from first
        for batch in batches:
            yield from zip(batch.column("kind").to_pylist(), batch.column("packed").to_pylist(), strict=True)

    yield from _of_bucket(plan, arrived())


def _of_small(plan: Plan, begin: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As `_outputs`. The task reads the records itself."""
    for _ in begin:  # a row that only starts the task
        pass
    yield from _of_bucket(plan, rows_of_bucket(plan))


def _of_bucket(plan: Plan, arrived: Iterable[Packed]) -> Iterator[pa.RecordBatch]:
    """The packed outputs, each as an Arrow batch of its own, because it may have megabytes."""
    for kind, body in run_bucket(plan, arrived):
        yield pa.RecordBatch.from_arrays([pa.array([kind], pa.int32()), pa.array([body], pa.binary())], schema=PACKED)
