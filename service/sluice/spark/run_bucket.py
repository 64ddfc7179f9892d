"""What a task does with the rows of its bucket."""

from __future__ import annotations

from sluice.batch.envelope import THROUGH, Packed, topics_row
from sluice.batch.query_plan import Plan
from sluice.spark.task import Task
from sluice.state.server.request import ask


def staged(plan: Plan, arrived: list[Packed]) -> list[Packed]:
    """What comes out of a batch's rows of one bucket, that which has the number of the task (buckets.py).

    The number of the batch is the version of the state that it goes on from. The bucket's keeper has the state.
    """
    task = Task.now()
    through, rest = parted(plan, arrived)
    return [*through, *ask(plan, task.number, task.batch, rest)]


def parted(plan: Plan, arrived: list[Packed]) -> tuple[list[Packed], list[Packed]]:
    """What goes past the bucket as it is, and what it is fed."""
    through = [row for row in arrived if row[0] in THROUGH]
    rest = [row for row in arrived if row[0] not in THROUGH]
    return through, [*rest, topics_row(plan.topic_partitions)] if rest else []
