"""How many records a batch and a fetch may have, from how large the records are that come next.

Spark's Kafka source bounds both in records, and bytes are what takes memory. The sizes are not known without reading:
brokers know the sizes of compressed batches of records alone. So each start of a query reads some records at several
places of each topic partition, and counts with the largest mean that it finds.

This keeps batches short. It is no promise: larger records may follow. A batch that was planned with too many bytes is
handled in parts and needs no more memory than a small one (spool.py, batch.py); it takes longer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity
from sluice.checkpoint.offset_log import before_all, planned
from sluice.kafka.client import client_properties
from sluice.kafka.reading import OWN, Offsets

LOGGER = logging.getLogger("sluice")

#: bytes of records that one poll of Spark's Kafka consumer returns, in each task that reads
POLL = 16 << 20
#: most records of a poll: small ones come in few and large fetches
POLL_RECORDS = 10_000

#: places of a topic partition where records are read, evenly spaced over what the next batch may read
PLACES = 4
#: the same where that batch is planned already: nothing but the sizes of its records is open
PLACES_OF_PLANNED = 16
#: records that are read at each place
SOME = 100
#: seconds that all reads together may take; bytes that a read asks for, the broker gives at least one of its batches
SECONDS = 3.0
FETCH = 256 << 10


@dataclass(frozen=True, slots=True)
class Pace:
    """The most records that a batch reads, and that one poll of Spark's Kafka consumer returns."""

    batch: int
    poll: int


def pace(most_records: int, most_bytes: int, size: float) -> Pace:
    """For records of `size` bytes; 0: nothing is known."""
    largest = max(size, 1.0)
    return Pace(
        batch=max(1, min(most_records, int(most_bytes / largest))), poll=max(1, min(POLL_RECORDS, int(POLL / largest)))
    )


def measured(plan: Plan) -> Pace:
    """For the records that come next."""
    settings = plan.pipeline.settings
    size = 0.0
    try:
        with closing(Consumer(client_properties(settings.kafka, "consumer") | OWN | _own())) as consumer:
            size = max(_means(consumer, plan), default=0.0)
    except KafkaException as error:
        LOGGER.warning("sizes of the next records are unknown: %s", error.args[0].str())
    found = pace(settings.max_records_per_batch, settings.max_bytes_per_batch, size)
    if found.batch < settings.max_records_per_batch:
        LOGGER.info("batches take %s records at most, of about %.0f bytes each", found.batch, size)
    return found


def size_of(message: Message) -> int:
    """Bytes of the key, the value and the headers of a record."""
    headers = sum(len(name) + len(value or b"") for name, value in message.headers() or ())
    return len(message.key() or b"") + len(message.value() or b"") + headers


def _own() -> dict[str, object]:
    """A consumer that holds little and starts anywhere in what there is."""
    return {
        "auto.offset.reset": "latest", "fetch.message.max.bytes": FETCH, "queued.max.messages.kbytes": 16 << 10,
        "fetch.wait.max.ms": 10,
    }  # fmt: skip


def _means(consumer: Consumer, plan: Plan) -> Iterator[float]:
    """The mean sizes of records at each place that has some."""
    spans, rounds = _spans(consumer, plan)
    deadline = time.monotonic() + SECONDS
    for number in range(rounds):
        at = {place: start + (end - start) * number // rounds for place, (start, end) in spans.items()}
        for sizes in _sizes(consumer, at, deadline).values():
            yield sum(sizes) / len(sizes)


def _spans(consumer: Consumer, plan: Plan) -> tuple[dict[tuple[str, int], tuple[int, int]], int]:
    """From where to where the next batch may read each topic partition, and how many places are looked at."""
    starts, ends = _next(plan)
    most = plan.pipeline.settings.max_records_per_batch
    spans = {}
    for stream in plan.inputs:
        for number in range(plan.topic_partitions[stream.name]):
            place = str(stream.topic), number
            low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=SECONDS)
            start = max(low, starts.get(place, low if plan.pipeline.settings.start == "earliest" else high))
            end = min(high, ends.get(place, start + most))
            if start < end:
                spans[place] = start, end
    return spans, PLACES_OF_PLANNED if ends else PLACES


def _next(plan: Plan) -> tuple[Offsets, Offsets]:
    """Where the next batch starts and, if it is planned already, where it ends."""
    folder = Path(plan.checkpoint)
    committed, last = checkpoint_identity.batches(folder)
    if last is None:
        return {}, {}
    if last == committed:
        return planned(folder, last).offsets, {}
    before = planned(folder, last - 1) if last else before_all(folder)
    return before.offsets, planned(folder, last).offsets


def _sizes(consumer: Consumer, at: Mapping[tuple[str, int], int], deadline: float) -> dict[tuple[str, int], list[int]]:
    """The sizes of some records from these offsets on."""
    found: dict[tuple[str, int], list[int]] = {}
    left = set(at)
    consumer.assign([TopicPartition(*place, offset) for place, offset in at.items()])
    while left and time.monotonic() < deadline:
        first = consumer.poll(0.1)
        for message in [first, *consumer.consume(SOME, 0)] if first is not None else []:
            place = message.topic(), message.partition()
            if not message.error():
                found.setdefault(place, []).append(size_of(message))
            if message.error() or len(found[place]) >= SOME:
                left.discard(place)
        left -= found.keys()  # one fetch of each is enough
    return found
