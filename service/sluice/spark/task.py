"""The Spark task that this process runs: its number and its batch."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark import TaskContext

#: name of the local property of a task that holds the number of the batch
BATCH = "streaming.sql.batchId"


class Task(NamedTuple):
    """The number of a task within its Spark stage, and the number of its batch."""

    number: int
    batch: int

    @classmethod
    def now(cls) -> Task:
        context: Any = TaskContext.get()
        return cls(context.partitionId(), int(context.getLocalProperty(BATCH)))
