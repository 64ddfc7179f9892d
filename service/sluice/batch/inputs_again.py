"""Reads the input of past batches again from the input topics, and routes it to buckets as the reading tasks did.

Each batch is cut where it was cut when it first ran: at the offsets of its plan. Its rows then are the same rows in the
same order, and a bucket computes the same state from them.

Many small batches are read and decoded together: a batch that has a few records then costs only the engine's time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from sluice.batch.packed_rows import ITSELF, NUMBERS, Packed, PartitionSlice, shares
from sluice.batch.partition_router import arrived_rows
from sluice.batch.query_plan import Plan
from sluice.batch.reject_collector import RejectCollector
from sluice.batch.usable_records import (
    RECORDS_PER_BATCH,
    PartitionRecords,
    as_received,
    buckets_of,
    first_ordinal,
    nanoseconds_of,
)
from sluice.kafka.batch_report import Planned
from sluice.kafka.librdkafka.column_consumer import of_messages, offsets_of
from sluice.kafka.range_reader import Offsets, read

#: the most offsets, and about the most bytes, that are read at once, if the batches are smaller: each read connects to
#: Kafka anew
OFFSETS_PER_READ, BYTES_PER_READ = 200_000, 128 << 20
#: The sizes of records are known only after a read. So the first read has one batch, and each further one at most so
#: many times the offsets of the one before, or so many offsets
GROWTH, FIRST_OFFSETS = 10, 1000
#: bytes of a record in memory beside its value
RECORD_BYTES = 300
#: the packed rows of each bucket
Arrived = Mapping[int, list[Packed]]


class PastInput(NamedTuple):
    """The input of the buckets in a past batch.

    topic_partitions   number of topic partitions by stream, when the batch first ran
    slices             by bucket: its slices, with or without rows; nothing if no record can be used
    idle_clock         time of the idle clock, nanoseconds since 1970; None if it did not move
    """

    topic_partitions: Mapping[str, int]
    slices: Mapping[int, list[PartitionSlice]]
    idle_clock: int | None


def input_again(plan: Plan, before: Planned, batch: Planned) -> tuple[Plan, Arrived]:
    """The plan with the numbers of topic partitions that a batch had, and the packed rows of the batch.

    `before` is the position at which the batch starts. The batch must fit into memory.
    """
    own_plan = _plan_of(plan, batch)
    records = {place: of_messages(of_place) for place, of_place in _read(plan, before.offsets, batch.offsets).items()}
    return own_plan, arrived_rows(own_plan, before, batch, records)


def inputs_again(plan: Plan, before: Planned, batches: Sequence[Planned]) -> Iterator[PastInput]:
    """The input of each of these consecutive batches.

    `before` is the position at which the first batch starts. One batch must fit into memory.
    """
    at = most = 0
    while at < len(batches):
        stop = _stop(before, batches, at, most)
        messages = _read(plan, before.offsets, batches[stop - 1].offsets)
        most = _most(_count(before.offsets, batches[stop - 1].offsets), messages) or most
        for _, alike in groupby(batches[at:stop], lambda batch: batch.offsets.keys()):  # the same topic partitions
            group = list(alike)
            yield from _inputs(_plan_of(plan, group[0]), before, group, messages)
            before = group[-1]
        at = stop
        del messages  # before the next ones are read


def _inputs(
    plan: Plan, before: Planned, batches: Sequence[Planned], messages: Mapping[tuple[str, int], list[Message]]
) -> Iterator[PastInput]:
    slices: list[dict[int, list[PartitionSlice]]] = [defaultdict(list) for _ in batches]
    for place, of_place in messages.items():
        in_batches = _between(of_place, before.offsets.get(place, 0), batches[-1].offsets.get(place, 0))
        for number, of_buckets in slices_again(plan, place, batches, of_messages(in_batches)) if in_batches else ():
            for bucket, slice_ in enumerate(of_buckets):
                slices[number][bucket].append(slice_)
    for batch, arrived in zip(batches, slices, strict=True):
        moved = batch.idle_clock != before.idle_clock
        yield PastInput(plan.topic_partitions, arrived, batch.idle_clock if moved else None)
        before = batch


def _stop(before: Planned, batches: Sequence[Planned], at: int, most: int) -> int:
    """The end (exclusive) of the batches from `at` on that are read at once: at least one, of at most `most` offsets if
    there are more.
    """
    stop = at + 1
    while stop < len(batches) and _count(before.offsets, batches[stop].offsets) <= most:
        stop += 1
    return stop


def _most(count: int, messages: Mapping[tuple[str, int], Sequence[Message]]) -> int:
    """The most offsets of the next read. The one before had `count` offsets and these records; 0 if it had none."""
    size = sum(RECORD_BYTES + len(message.value() or b"") for of_place in messages.values() for message in of_place)
    fitting = count * BYTES_PER_READ // max(size, 1)
    return min(OFFSETS_PER_READ, max(GROWTH * count, FIRST_OFFSETS), fitting)


def _count(starts: Offsets, ends: Offsets) -> int:
    return sum(end - starts.get(place, 0) for place, end in ends.items())


def _read(plan: Plan, starts: Offsets, ends: Offsets) -> dict[tuple[str, int], list[Message]]:
    messages: dict[tuple[str, int], list[Message]] = defaultdict(list)
    kafka = plan.pipeline.settings.kafka
    read(kafka, starts, ends, lambda message: messages[message.topic(), message.partition()].append(message))
    return messages


def _between(messages: list[Message], start: int, end: int) -> list[Message]:
    """The messages from offset `start` (inclusive) to offset `end` (exclusive)."""
    first, stop = (bisect_left(messages, offset, key=Message.offset) for offset in (start, end))
    return messages[first:stop]


def _plan_of(plan: Plan, batch: Planned) -> Plan:
    """The plan with the numbers of topic partitions that the service had found when it planned this batch."""
    topic_partitions = Counter(topic for topic, _ in batch.offsets)
    read = {stream.name: topic_partitions[str(stream.topic)] for stream in plan.inputs}
    return replace(plan, topic_partitions={**plan.topic_partitions, **read})


def slices_again(
    plan: Plan, place: tuple[str, int], batches: Sequence[Planned], fetched: pa.RecordBatch
) -> Iterator[tuple[int, list[PartitionSlice]]]:
    """The slices of a topic partition in past batches: the position of the batch in `batches`, and the slice of each
    bucket. They are the slices that `arrived_rows` makes for each batch, in one pass over the records of all batches.

    place      topic and topic partition
    fetched    the records of these consecutive batches (column_consumer.py)
    """
    offsets = offsets_of(fetched)
    batch_of = np.searchsorted([batch.offsets.get(place, 0) for batch in batches], offsets, side="right")
    _, firsts, batch_index = np.unique(batch_of, return_index=True, return_inverse=True)
    planned = np.array([batch.time for batch in batches])[batch_of]
    first = first_ordinal(plan, *place)
    router = PastPartition(plan, first)
    for start, stop in _runs(firsts.tolist(), len(fetched)):
        records = next(as_received(fetched.slice(start, stop - start), first))
        run = slice(start, stop)
        yield from router.slices(records, offsets[firsts[batch_index[run]]], planned[run], batch_of[run])


def _runs(firsts: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Cuts `count` records into runs of at most RECORDS_PER_BATCH, between batches where that is possible.

    `firsts` has the number of the first record of each batch. A batch that is larger than a run is cut as
    `as_received` cuts it.
    """
    start = 0
    for first, end in pairwise([*firsts, count]):
        if end - start > RECORDS_PER_BATCH and first > start:
            yield start, first
            start = first
        while end - start > RECORDS_PER_BATCH:
            yield start, start + RECORDS_PER_BATCH
            start += RECORDS_PER_BATCH
    if count > start:
        yield start, count


class PastPartition(PartitionRecords):
    """Routes the records of one topic partition in several past batches."""

    def slices(
        self, batch: pa.RecordBatch, base: np.ndarray, planned: np.ndarray, batch_of: np.ndarray
    ) -> Iterator[tuple[int, list[PartitionSlice]]]:
        """The slices of the next records, which several batches had: the number of the batch, and one for each bucket.

        By record: `base` is the offset of the first record of its batch, `planned` the time at which its batch was
        planned (ns since 1970), and `batch_of` the number of its batch, in ascending order.
        """
        times = nanoseconds_of(batch.column("timestamp"))
        numbers = NUMBERS * (batch.column("offset").to_numpy() - base) + ITSELF
        rows = self.usable(batch, numbers, times, planned, RejectCollector(batch))
        kept = self.without_clocks(rows)
        columns, owner = self.columns(kept, batch), batch_of[kept.row]
        of_tuples = buckets_of(self.spread, self.first, kept.tuples, self.plan.buckets)
        divided = shares(columns, of_tuples, self.plan.buckets, self.steps(kept))
        per_bucket = [(piece, owner[chosen]) for piece, chosen in divided]
        of_rows = batch_of[rows.row]
        for number in np.unique(of_rows).tolist():
            first, last = np.searchsorted(of_rows, number), np.searchsorted(of_rows, number, "right") - 1
            slice_fields = (
                self.stream.name, self.first, int(rows.number[first]), int(base[rows.row[first]]),
                int(rows.stamp[first]), int(rows.stamp[last]),
            )  # fmt: skip
            yield number, [PartitionSlice(*slice_fields, _part(piece, owners, number)) for piece, owners in per_bucket]


def _part(rows: pa.RecordBatch, owner: np.ndarray, number: int) -> pa.RecordBatch:
    """The rows of this owner. `owner` is in ascending order."""
    start, stop = np.searchsorted(owner, number), np.searchsorted(owner, number, "right")
    return rows.slice(start, stop - start)
