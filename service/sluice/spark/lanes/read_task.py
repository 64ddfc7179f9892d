"""The tasks of Spark that read the planned records of a batch with Kafka clients, and route them to buckets.

A large batch has a stage of reading tasks: each reads some topic partitions, and the packed rows are shuffled to the
tasks of the buckets. A small batch has no such stage: the task of each bucket reads all records, and keeps those of its
bucket. What Kafka clients cannot read is reported as NOT_READ rows; Spark's source then reads the batch.

What a task reads and when is in Spark's log of offsets. So its function does not depend on the batch, and Spark needs
not plan a small batch anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import ClassVar

import pyarrow as pa

from sluice.batch.packed_rows import NOT_READ, Packed, labels
from sluice.batch.partition_router import SCHEMA, joined, route_places, to_buckets
from sluice.batch.query_plan import Plan
from sluice.batch.spool import Spool
from sluice.checkpoint.offset_log import before_batch, planned
from sluice.kafka.batch_report import Planned
from sluice.kafka.following_reader import FollowingReader, RecordsNotReadError
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.librdkafka.column_consumer import Place
from sluice.processes import without_garbage_collection
from sluice.spark.lanes.topic_check import TopicCheck
from sluice.spark.run_bucket import Task

#: seconds without a record after which records cannot be read here
TIMEOUT_S = 10.0
#: bytes that the Kafka client of a task reads ahead
AHEAD = 8 << 20
#: the most starts of queries whose clients a worker keeps
MOST_CLIENTS = 4


class Clients:
    """The Kafka clients of a start of a query in this worker, and the rows of its last small batch."""

    #: by the name of the start of a query, least recently used first
    _open: ClassVar[dict[str, Clients]] = {}

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._reader = FollowingReader.of(plan.pipeline.settings.kafka, TIMEOUT_S, AHEAD)
        self._check = TopicCheck(plan)
        self._batch, self._rows = -1, dict[int, list[Packed]]()

    @classmethod
    def of(cls, plan: Plan) -> Clients:
        opened = cls._open.pop(plan.server_name, None) or cls(plan)
        cls._open[plan.server_name] = opened
        if len(cls._open) > MOST_CLIENTS:
            cls._open.pop(next(iter(cls._open))).close()
        return opened

    def routed(self, before: Planned, now: Planned, places: Iterable[Place]) -> Iterator[tuple[int, Packed]]:
        """The packed rows of the records of these topic partitions, each with the number of its bucket.

        Its last step checks that the topics are the topics with which the query started (topic_check.py), before any
        bucket computes with their records. Raises the errors of `FollowingReader.read` and of `TopicCheck.passed`.
        """
        filled = [place for place in places if before.offsets[place] < now.offsets[place]]
        if not filled:
            return
        starts, ends = ({place: planned.offsets[place] for place in filled} for planned in (before, now))
        with without_garbage_collection(), closing(self._reader.read(starts, ends)) as records:
            yield from route_places(self._plan, now.time, joined(records, self._plan.bounds.piece))
        self._check.passed()

    def rows_of(self, batch: int, bucket: int) -> list[Packed]:
        """The packed rows of a bucket in a small batch. All buckets of this worker use what one of them has read."""
        if batch != self._batch:
            before, now = before_batch(self._plan.store, batch), planned(self._plan.store, batch)
            routed = self.routed(before, now, now.offsets)
            self._rows, self._batch = to_buckets(self._plan, before, now, routed), batch
        return self._rows.get(bucket, [])

    def close(self) -> None:
        self._reader.close()
        self._check.close()


def readable(before: Planned, now: Planned) -> bool:
    """Whether the batch has no new topic partitions, and none that was made anew."""
    return before.offsets.keys() == now.offsets.keys() and all(
        before.offsets[place] <= end for place, end in now.offsets.items()
    )


def read_some(plan: Plan, readers: int, begin: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The packed rows of every `readers`-th topic partition of a batch, as `route_records` gives them."""
    for _ in begin:  # a row that only starts the task
        pass
    task, label = Task.now(), labels(plan.buckets)
    before, now = before_batch(plan.store, task.batch), planned(plan.store, task.batch)
    places = sorted(place for place, end in now.offsets.items() if before.offsets[place] < end)[task.number :: readers]
    try:
        with Spool(plan.checkpoint, task.batch, plan.bounds.held) as spool:
            for bucket, row in Clients.of(plan).routed(before, now, places):
                yield _row(label[bucket], spool.stored(row))
    except (RecordsNotReadError, HeaderNameError) as error:
        for bucket_label in label:
            yield _row(bucket_label, (NOT_READ, str(error).encode()))


def rows_of_bucket(plan: Plan) -> list[Packed]:
    """The packed rows of the bucket of this task, in a small batch."""
    task = Task.now()
    try:
        return Clients.of(plan).rows_of(task.batch, task.number)
    except (RecordsNotReadError, HeaderNameError) as error:
        return [(NOT_READ, str(error).encode())]


def _row(label: int, row: Packed) -> pa.RecordBatch:
    kind, body = row
    arrays = [pa.array([value], field.type) for value, field in zip((label, kind, bytes(body)), SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
