"""What a task does with the rows of its bucket."""

from __future__ import annotations

from collections.abc import Iterable

from service.spark.packed import SPOOLED, THROUGH, Packed, topics_row
from service.spark.plan import Plan
from service.spark.spool import Spool
from service.spark.state.ask import ask
from service.spark.task import Task


def staged(plan: Plan, arrived: Iterable[Packed]) -> list[Packed]:
    """What comes out of a batch's rows of one bucket, that which has the number of the task (buckets.py).

    The number of the batch is the version of the state that it goes on from. The bucket's keeper has the state.
    """
    task = Task.now()
    folder, held = plan.checkpoint, plan.bounds.held
    with Spool(folder, task.batch, plan.returned) as past, Spool(folder, task.batch, held) as fed:
        through, rest = parted(plan, ((past if row[0] in THROUGH else fed).handed(row) for row in arrived))
        fed.flush()
        made = ask(plan, task.number, task.batch, rest)
        fed.remove()
    return [*through, *made]


def parted(plan: Plan, arrived: Iterable[Packed]) -> tuple[list[Packed], list[Packed]]:
    """What goes past the bucket as it is, and what it is fed."""
    through: list[Packed] = []
    rest: list[Packed] = []
    for row in arrived:
        (through if row[0] & ~SPOOLED in THROUGH else rest).append(row)
    return through, [*rest, topics_row(plan.topic_partitions)] if rest else []
