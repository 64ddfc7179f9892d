"""The Spark task of one bucket: the rows of a batch go to the bucket's state server, and its outputs come back."""

from __future__ import annotations

from sluice.batch.envelope import Packed, split_pass_through
from sluice.batch.query_plan import Plan
from sluice.spark.task import Task
from sluice.state.server.request import ask


def run_bucket(plan: Plan, arrived: list[Packed]) -> list[Packed]:
    """The outputs of a batch's rows of one bucket: the bucket whose number is the number of the task.

    The number of the batch is the version of the state that the rows are applied to. The bucket's state server holds
    the state.
    """
    task = Task.now()
    through, rest = split_pass_through(plan.topic_partitions, arrived)
    return [*through, *ask(plan, task.number, task.batch, rest)]
