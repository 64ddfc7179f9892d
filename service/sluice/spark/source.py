"""The source: the input topics of a stage as one streaming DataFrame of Spark, and how much a batch reads of them.

Spark's Kafka source bounds batches and fetches by numbers of records, but memory is used by bytes. A broker has only
the sizes of compressed batches of records, so the size of a record is unknown until it is read. Therefore each start of
a query reads some records at several offsets of each topic partition and uses the largest mean size that it finds
(`pace`).

The result is an estimate that keeps batches short: larger records may follow. A batch that was planned with too many
bytes is handled in parts and needs no more memory than a small batch, only more time (batch/spool.py,
state/bucket_batch.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from sluice.batch.packed_rows import PORT, TOPIC_PARTITION
from sluice.batch.query_plan import Plan
from sluice.checkpoint.offset_log import batches, before_batch, planned
from sluice.kafka.client import client_properties, java_properties
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.range_reader import READER_PROPERTIES, Offsets, headers_of
from sluice.kafka.requests import discard
from sluice.model.spec import Properties, Settings, Stream

#: Consumer properties unless the pipeline file sets them: fetches are fewer and larger than by default, and the broker
#: answers after 10 ms at most. A consumer sends its next fetch as soon as it has records. With few records, a batch
#: would otherwise wait 500 ms for the answer to that fetch before it could send its own.
FETCHES = {"max.partition.fetch.bytes": str(4 << 20), "fetch.max.wait.ms": "10"}


LOGGER = logging.getLogger("sluice")
#: the settings of a file that sets none
DEFAULTS = Settings(Properties())
#: target for the bytes of records that one poll of Spark's Kafka consumer returns, in each task that reads
POLL = 16 << 20
#: maximum number of records of a poll, which bounds a poll of small records
POLL_RECORDS = 10_000
#: number of sampled offsets of a topic partition, evenly spaced over the range that the next batch may read
SAMPLES = 4
#: the same number if the next batch is already planned, so that its range is known and cannot be changed any more
SAMPLES_OF_PLANNED = 16
#: number of records that are read from each sampled offset on
RECORDS_PER_SAMPLE = 100
#: SECONDS: maximum duration of all reads together. FETCH: bytes that a read requests; the broker returns at least one
#: of its batches of records.
SECONDS = 3.0
FETCH = 256 << 10


def read(spark: SparkSession, plan: Plan, most: Pace) -> DataFrame:
    """The records of all topics, in the columns of Spark's Kafka source. Each topic partition is read by one task, in
    the order of its offsets.
    """
    settings = plan.pipeline.settings
    client = FETCHES | {"max.poll.records": str(most.poll)} | java_properties(settings.kafka)
    # `minPartitions` must not be set: it would split a topic partition between tasks, but its running maximum of
    # timestamps needs all its records in one task.
    options = {
        "subscribe": ",".join(str(stream.topic) for stream in plan.inputs),
        "includeHeaders": "true",
        "startingOffsets": settings.start,
        "failOnDataLoss": str(settings.on_data_loss == "fail").lower(),
        "maxOffsetsPerTrigger": str(most.batch),
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in client.items()},
    }
    return spark.readStream.format("kafka").options(**options).load()


def received(plan: Plan, records: DataFrame) -> DataFrame:
    """The columns of `records` that the router reads: `key`, `value`, `headers`, `ordinal` (of the first record of the
    topic partition), `offset` and `timestamp`.

    No expression may depend on the batch, as the current time does. Spark would put its value into the code that it
    generates, and would compile this code again in each batch.
    """
    headers = sf.to_json(sf.col("headers")).alias("headers")  # as JSON text, which wire/header_text.py reads
    return records.select("key", "value", headers, _ordinal(plan.inputs).alias("ordinal"), "offset", "timestamp")


def _ordinal(inputs: tuple[Stream, ...]) -> Column:
    """The ordinal of the first record of the topic partition, as batch/packed_rows.py defines it."""
    port = sf.lit(0)
    for number, stream in enumerate(inputs[1:], 1):
        port = sf.when(sf.col("topic") == str(stream.topic), sf.lit(number)).otherwise(port)
    partition = sf.col("partition").cast("long")
    return sf.shiftleft(port.cast("long"), PORT).bitwiseOR(sf.shiftleft(partition, TOPIC_PARTITION))


@dataclass(frozen=True, slots=True)
class Pace:
    """The maximum number of records of a batch, and of one poll of Spark's Kafka consumer."""

    batch: int
    poll: int


def pace(most_records: int, most_bytes: int, size: float) -> Pace:
    """The pace for records of `size` bytes each; 0 means that the size is unknown."""
    largest = max(size, 1.0)
    return Pace(
        batch=max(1, min(most_records, int(most_bytes / largest))), poll=max(1, min(POLL_RECORDS, int(POLL / largest)))
    )


def pace_of(settings: Settings, size: float, cores: int = 1) -> Pace:
    """The pace for records of `size` bytes each. A batch of a cluster is as much larger as it has cores, unless the
    file sets its size.
    """
    most, most_bytes = settings.max_records_per_batch, settings.max_bytes_per_batch
    if not sized_by_file(settings):
        most, most_bytes = most * cores, most_bytes * cores
    limited = pace(most, most_bytes, size)
    if limited.batch < most:
        LOGGER.info("batches take %s records at most, of about %.0f bytes each", limited.batch, size)
    return limited


def sized_by_file(settings: Settings) -> bool:
    """Whether the pipeline file sets the size of a batch."""
    sizes = settings.max_records_per_batch, settings.max_bytes_per_batch
    return sizes != (DEFAULTS.max_records_per_batch, DEFAULTS.max_bytes_per_batch)


def record_size(plan: Plan) -> float:
    """The largest mean size of the next records at several offsets, in bytes; 0: unknown. Logs an error of Kafka."""
    clients: list[Consumer] = []
    try:
        clients.append(
            Consumer(client_properties(plan.pipeline.settings.kafka, "consumer") | READER_PROPERTIES | _own())
        )
        return max(_means(clients[0], plan), default=0.0)
    except KafkaException as error:
        LOGGER.warning("sizes of the next records are unknown: %s", error.args[0].str())
        return 0.0
    finally:
        discard(clients)


class BatchSize:
    """The size of the batches of a running query, which follows the cores of the executors."""

    def __init__(
        self, cores: int, present: Callable[[], int], most: Callable[[int], int], limit: Callable[[int], object]
    ) -> None:
        """`cores` is their number when the query started, and `present` gives their number now. `most` gives the most
        records of a batch for so many cores. `limit` is called with the most records of the next batches when the
        number has changed.
        """
        self._cores, self._present, self._most, self._limit = cores, present, most, limit

    def batch_ended(self) -> None:
        """Called in the thread of the query after each batch."""
        before, self._cores = self._cores, self._present()
        if self._cores != before:
            records = self._most(self._cores)
            LOGGER.info(
                "batches take %d records at most: %d cores of executors, before %d", records, self._cores, before
            )
            self._limit(records)


def size_of(message: Message) -> int:
    """Bytes of the key, the value and the headers of a record together; without headers that cannot be read."""
    size = len(message.key() or b"") + len(message.value() or b"")
    with suppress(HeaderNameError):
        size += sum(len(name) + len(value or b"") for name, value in headers_of(message))
    return size


def _own() -> dict[str, object]:
    """Properties of a consumer that buffers few bytes and can start at any offset that exists."""
    return {
        "auto.offset.reset": "latest", "fetch.message.max.bytes": FETCH, "queued.max.messages.kbytes": 16 << 10,
        "fetch.wait.max.ms": 10,
    }  # fmt: skip


def _means(consumer: Consumer, plan: Plan) -> Iterator[float]:
    """The mean size of the records at each sampled offset, in bytes. Offsets without records are left out."""
    spans, rounds = _spans(consumer, plan)
    deadline = time.monotonic() + SECONDS
    for number in range(rounds):
        at = {place: start + (end - start) * number // rounds for place, (start, end) in spans.items()}
        for sizes in _sizes(consumer, at, deadline).values():
            yield sum(sizes) / len(sizes)


def _spans(consumer: Consumer, plan: Plan) -> tuple[dict[tuple[str, int], tuple[int, int]], int]:
    """The range of offsets (start inclusive, end exclusive) that the next batch may read of each topic partition, and
    the number of sampled offsets. Topic partitions with an empty range are left out.
    """
    starts, ends = _next(plan)
    most = plan.pipeline.settings.max_records_per_batch
    spans = {}
    for place in plan.places:
        low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=SECONDS)
        start = max(low, starts.get(place, low if plan.pipeline.settings.start == "earliest" else high))
        end = min(high, ends.get(place, start + most))
        if start < end:
            spans[place] = start, end
    return spans, SAMPLES_OF_PLANNED if ends else SAMPLES


def _next(plan: Plan) -> tuple[Offsets, Offsets]:
    """The offsets at which the next batch starts and, if it is already planned, those at which it ends."""
    committed, last = batches(plan.store)
    if last is None:
        return {}, {}
    if last == committed:
        return planned(plan.store, last).offsets, {}
    return before_batch(plan.store, last).offsets, planned(plan.store, last).offsets


def _sizes(consumer: Consumer, at: Mapping[tuple[str, int], int], deadline: float) -> dict[tuple[str, int], list[int]]:
    """The sizes in bytes of up to about RECORDS_PER_SAMPLE records from each of these offsets on, read until
    `deadline`.
    """
    sizes: dict[tuple[str, int], list[int]] = {}
    left = set(at)
    consumer.assign([TopicPartition(*place, offset) for place, offset in at.items()])
    while left and time.monotonic() < deadline:
        first = consumer.poll(0.1)
        for message in [first, *consumer.consume(RECORDS_PER_SAMPLE, 0)] if first is not None else []:
            place = message.topic(), message.partition()
            if not message.error():
                sizes.setdefault(place, []).append(size_of(message))
            if message.error() or len(sizes[place]) >= RECORDS_PER_SAMPLE:
                left.discard(place)
        left -= sizes.keys()  # one fetch of each topic partition is enough
    return sizes
