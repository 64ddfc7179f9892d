"""Which of Spark's tasks this process is at work for."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark import TaskContext

#: the property of a task that says which batch it belongs to
BATCH = "streaming.sql.batchId"


class Task(NamedTuple):
    """The number of the task among those of its stage, and that of the batch."""

    number: int
    batch: int

    @classmethod
    def now(cls) -> Task:
        context: Any = TaskContext.get()
        return cls(context.partitionId(), int(context.getLocalProperty(BATCH)))
