"""Does the work of each batch in one of two lanes, and writes its outputs in one Kafka transaction (foreachBatch)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from sluice.batch.commit import commit
from sluice.batch.envelope import Packed
from sluice.batch.query_plan import Plan
from sluice.spark.lanes.direct_lane import DirectLane
from sluice.spark.run_bucket import run_bucket

#: Arrow and Spark schema of the packed outputs of a bucket
PACKED = pa.schema([("holds", pa.int32()), ("packed", pa.binary())])
PACKED_COLUMNS = "holds int, packed binary"


class BatchLanes:
    """The function that Spark calls with each batch of a query."""

    def __init__(self, plan: Plan, direct: DirectLane) -> None:
        self._plan, self._direct = plan, direct

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """`rows` has the packed rows of the batch. Spark computes them only if `by_spark` requests them."""
        outputs = self._direct.outputs(batch)
        commit(self._plan, batch, by_spark(self._plan, rows) if outputs is None else outputs)


def by_spark(plan: Plan, rows: DataFrame) -> list[Packed]:
    """The packed outputs of all buckets, computed by one task for each bucket."""
    table = rows.mapInArrow(partial(_outputs, plan), PACKED_COLUMNS).toArrow()
    columns = table.column("holds").to_pylist(), table.column("packed").to_pylist()
    return list(zip(*columns, strict=True))


def _outputs(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The packed outputs of one task. Each is an Arrow batch of its own, because it may have megabytes."""
    arrived = (
        row
        for batch in batches
        for row in zip(batch.column("holds").to_pylist(), batch.column("packed").to_pylist(), strict=True)
    )
    for holds, body in run_bucket(plan, arrived):
        yield pa.RecordBatch.from_arrays([pa.array([holds], pa.int32()), pa.array([body], pa.binary())], schema=PACKED)
