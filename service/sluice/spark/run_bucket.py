"""The Spark task of one bucket: the rows of a batch go to the bucket's state server, and its outputs come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark import TaskContext

from sluice.batch.packed_rows import NOT_READ, Packed, passes_through, split_pass_through
from sluice.batch.query_plan import Plan
from sluice.batch.spool import Spool
from sluice.state.server.request import request

#: name of the local property of a task that holds the number of the batch
BATCH = "streaming.sql.batchId"


def run_bucket(plan: Plan, arrived: Iterable[Packed]) -> list[Packed]:
    """The outputs of a batch's rows of one bucket: the bucket whose number is the number of the task.

    The number of the batch is the version of the state that the rows are applied to. The bucket's state server holds
    the state.

    If the records of the batch could not be read, it returns the NOT_READ rows, and the state stays.
    """
    task = Task.now()
    folder, held = plan.checkpoint, plan.bounds.held
    with Spool(folder, task.batch, plan.returned) as past, Spool(folder, task.batch, held) as fed:
        rows = ((past if passes_through(row) else fed).stored(row) for row in arrived)
        passing, rest = split_pass_through(plan.topic_partitions, rows)
        if not_read := [row for row in rest if row[0] == NOT_READ]:
            fed.remove()
            return not_read
        fed.flush()
        outputs = request(plan, task.number, task.batch, rest)
        fed.remove()
    return [*passing, *outputs]


class Task(NamedTuple):
    """The number of a task within its Spark stage, and the number of its batch."""

    number: int
    batch: int

    @classmethod
    def now(cls) -> Task:
        context: Any = TaskContext.get()
        return cls(context.partitionId(), int(context.getLocalProperty(BATCH)))
