"""Reads the input of past batches again from the input topics, and routes it to buckets as the reading tasks did.

Each batch is cut where it was cut when it first ran: at the offsets of its plan. Its rows then are the same rows in the
same order, and a bucket computes the same state from them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from confluent_kafka import Message

from sluice.batch.envelope import Packed
from sluice.batch.partition_router import arrived_rows
from sluice.batch.query_plan import Plan
from sluice.kafka.planned_batch import Planned
from sluice.kafka.range_reader import Offsets, read

#: number of offsets that are read at once, if the batches are smaller: each read connects to Kafka anew
OFFSETS_PER_READ = 200_000
#: the packed rows of each bucket
Arrived = Mapping[int, list[Packed]]


def inputs_again(plan: Plan, before: Planned, batches: Sequence[Planned]) -> Iterator[tuple[Plan, Arrived]]:
    """The rows of these consecutive batches, and the plan with the numbers of topic partitions that each batch had.

    `before` is the position at which the first batch starts. One batch must fit into memory.
    """
    at = 0
    while at < len(batches):
        stop = _stop(before, batches, at)
        messages = _read(plan, before.offsets, batches[stop - 1].offsets)
        for batch in batches[at:stop]:
            own = {
                of: _between(some, before.offsets.get(of, 0), batch.offsets.get(of, 0)) for of, some in messages.items()
            }
            own_plan = _plan_of(plan, batch)
            yield own_plan, arrived_rows(own_plan, before, batch, {of: some for of, some in own.items() if some})
            before = batch
        at = stop


def _stop(before: Planned, batches: Sequence[Planned], at: int) -> int:
    """The end (exclusive) of the batches from `at` on that are read at once: at least one."""
    stop = at + 1
    while stop < len(batches) and _count(before.offsets, batches[stop].offsets) <= OFFSETS_PER_READ:
        stop += 1
    return stop


def _count(starts: Offsets, ends: Offsets) -> int:
    return sum(end - starts.get(of, 0) for of, end in ends.items())


def _read(plan: Plan, starts: Offsets, ends: Offsets) -> dict[tuple[str, int], list[Message]]:
    found: dict[tuple[str, int], list[Message]] = defaultdict(list)
    kafka = plan.pipeline.settings.kafka
    read(kafka, starts, ends, lambda message: found[message.topic(), message.partition()].append(message))
    return found


def _between(messages: list[Message], start: int, end: int) -> list[Message]:
    """The messages from offset `start` (inclusive) to offset `end` (exclusive)."""
    first, stop = (bisect_left(messages, offset, key=Message.offset) for offset in (start, end))
    return messages[first:stop]


def _plan_of(plan: Plan, batch: Planned) -> Plan:
    """The plan with the numbers of topic partitions that the service had found when it planned this batch."""
    known = Counter(topic for topic, _ in batch.offsets)
    read = {stream.name: known[str(stream.topic)] for stream in plan.inputs}
    return replace(plan, topic_partitions={**plan.topic_partitions, **read})
