"""Repeats batches of a service from its checkpoint and its input topics, without Spark and without writing anything."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from confluent_kafka import Message

from sluice.batch.bucket_labels import labels
from sluice.batch.commit import BatchResult
from sluice.batch.envelope import IDLE_CLOCK, Packed, packed_time, split_pass_through
from sluice.batch.outgoing import outgoing
from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.batch.record_order import place
from sluice.kafka.planned_batch import Planned
from sluice.kafka.reading import read
from sluice.kafka.records import Records
from sluice.kafka.transactions import within
from sluice.state.bucket import Bucket
from sluice.wire.header_text import to_text

SCHEMA = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.string()), ("place", pa.int64()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
])  # fmt: skip
#: number of records of a topic partition in one Arrow batch
RECORDS_PER_BATCH = 100_000


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
        plan = _knowing(self._plan, batch)
        arrived = _arrived(plan, before, batch)
        rows = [row for number, packed in sorted(arrived.items()) for row in self._made(plan, number, packed)]
        gathered = BatchResult(plan, rows)
        return within(dict(plan.limits), gathered.records(), gathered.too_large)

    def _made(self, plan: Plan, number: int, arrived: list[Packed]) -> Iterator[Packed]:
        """The packed outputs of a bucket for a batch, computed as the service computes them."""
        through, rest = split_pass_through(plan.topic_partitions, arrived)
        yield from through
        for part, made in self._buckets[number].tried(rest):
            yield from outgoing(plan, made, part, number)


def _knowing(plan: Plan, batch: Planned) -> Plan:
    """The plan with the numbers of topic partitions that the service had found when it planned this batch."""
    known = Counter(topic for topic, _ in batch.offsets)
    read = {stream.name: known[str(stream.topic)] for stream in plan.inputs}
    return replace(plan, topic_partitions={**plan.topic_partitions, **read})


def _arrived(plan: Plan, before: Planned, batch: Planned) -> dict[int, list[Packed]]:
    """The packed rows of each bucket, made from the input topics as the reading tasks make them."""
    arrived: dict[int, list[Packed]] = defaultdict(list)
    if batch.pulse != before.pulse:
        for number in range(plan.buckets):
            arrived[number].append((IDLE_CLOCK, packed_time(batch.pulse)))
    found: dict[tuple[str, int], list[Message]] = defaultdict(list)
    settings = plan.pipeline.settings
    read(settings.kafka, before.offsets, batch.offsets, lambda m: found[m.topic(), m.partition()].append(m))
    number_of = {label: number for number, label in enumerate(labels(plan.buckets))}
    for (topic, partition), messages in found.items():
        port = next(port for port, stream in enumerate(plan.inputs) if stream.topic == topic)
        for packed in route_records(plan, batch.time, _as_columns(messages, place(port, partition))):
            for row in packed.to_pylist():
                arrived[number_of[row["bucket"]]].append((row["holds"], row["packed"]))
    return arrived


def _as_columns(messages: list[Message], first: int) -> Iterator[pa.RecordBatch]:
    """The records of a topic partition in the columns of Spark's source. `first` is the value of the column `place`."""
    for start in range(0, len(messages), RECORDS_PER_BATCH):
        some = messages[start : start + RECORDS_PER_BATCH]
        times = [message.timestamp()[1] for message in some]
        columns = [
            [message.key() for message in some], [message.value() for message in some],
            [to_text(message.headers()) for message in some], [first] * len(some),
            [message.offset() for message in some], [time * 1000 for time in times],
        ]  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
