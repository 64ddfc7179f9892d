"""The sink: a Spark data source that runs the buckets and writes the outputs of a batch in one Kafka transaction.

`write` runs in tasks, one for each bucket; Spark sends its result to the driver. `commit` runs once per batch after all
tasks, in a Python process on the driver's machine that lives as long as the query.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from sluice.batch.commit import commit
from sluice.batch.envelope import ROUTED, Packed
from sluice.batch.query_plan import Plan
from sluice.kafka.kafka_errors import HungError
from sluice.processes import end_soon
from sluice.spark.run_bucket import run_bucket

#: seconds between a call that did not return and the end of this process; within them the error is reported to Spark
REPORT = 5.0


@dataclass
class TaskOutput(WriterCommitMessage):
    """The packed outputs of one task, which `commit` writes."""

    rows: list[Packed]


class Writer(DataSourceStreamArrowWriter):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOutput:
        arrived = (
            row
            for batch in iterator
            for row in zip(batch.column("holds").to_pylist(), batch.column("packed").to_pylist(), strict=True)
        )
        return TaskOutput(run_bucket(self._plan, arrived))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        rows = [row for message in messages if isinstance(message, TaskOutput) for row in message.rows]
        try:
            commit(self._plan, batchId, rows)
        except HungError:  # Spark fails the batch, and the service ends with exit code 3
            end_soon(REPORT)
            raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing, because tasks write nothing to Kafka."""


@cache
def _freeze() -> None:
    """Excludes the imported modules from garbage collection, which Spark runs after each batch.

    It does so in the two processes that create a writer.
    """
    gc.collect()
    gc.freeze()


def sink(plan: Plan) -> type[DataSource]:
    """The data source to register for this plan. The class holds the plan, so no secret appears in Spark's options."""

    class Sink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "sluice"

        def schema(self) -> str:
            return ROUTED

        def streamWriter(self, schema: StructType, overwrite: bool) -> Writer:  # noqa: FBT001, N802
            _freeze()
            return Writer(plan)

    return Sink
