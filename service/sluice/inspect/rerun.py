"""Repeats batches of a service from its checkpoint and its input topics, without Spark and without writing anything."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.batch.commit import BatchResult
from sluice.batch.envelope import Packed, split_pass_through
from sluice.batch.inputs_again import Arrived, input_again
from sluice.batch.outgoing import outgoing
from sluice.batch.query_plan import Plan
from sluice.kafka.batch_writer import within
from sluice.kafka.planned_batch import Planned
from sluice.kafka.records import Records
from sluice.state.bucket import Bucket


class BatchReplay:
    """The state of all buckets of a service before a batch. Each call of `records` repeats the next batch on it.

    Nothing is written to the checkpoint or to Kafka.
    """

    def __init__(self, plan: Plan, batch: int) -> None:
        """Raises StateError or FileNotFoundError if the checkpoint does not have the state before `batch` any more."""
        self._plan = plan
        self._buckets = [Bucket(plan, number) for number in range(plan.buckets)]
        for bucket in self._buckets:
            bucket.at(batch)

    def records(self, before: Planned, batch: Planned) -> Iterator[Records]:
        """The records that `batch` writes. `before` is the batch before it, at whose offsets it starts."""
        return self._records(*input_again(self._plan, before, batch))

    def _records(self, plan: Plan, arrived: Arrived) -> Iterator[Records]:
        rows = [row for number, packed in sorted(arrived.items()) for row in self._outputs_of(plan, number, packed)]
        gathered = BatchResult(plan, rows)
        return within(dict(plan.limits), gathered.records(), gathered.too_large)

    def _outputs_of(self, plan: Plan, number: int, arrived: list[Packed]) -> Iterator[Packed]:
        """The packed outputs of a bucket for a batch, computed as the service computes them."""
        through, rest = split_pass_through(plan.topic_partitions, arrived)
        yield from through
        for part, made in self._buckets[number].try_rows(rest):
            yield from outgoing(plan, made, part, number)
