"""Reads consecutive ranges of topic partitions with one consumer, which stays at their ends and reads ahead."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException

from sluice.kafka.client import client_properties
from sluice.kafka.kafka_errors import HungError
from sluice.kafka.librdkafka.column_consumer import Arrival, ColumnConsumer, Place, offsets_of
from sluice.kafka.range_reader import READER_PROPERTIES, Offsets

#: seconds of one poll while records are missing
POLL_S = 0.05
#: How a broker answers a request for records that are not there yet: as soon as it has this many bytes, or after 5 ms.
#: With the client's own least answer, one byte, the records of producers that do not linger come in one answer each,
#: which costs more than the rest of a batch. Shorter waits cost processor time without records.
FETCH = {"fetch.min.bytes": 65_536, "fetch.wait.max.ms": 5}
#: the most bytes of a topic partition in an answer
MAX_ANSWER = 1 << 20
#: The most bytes of a topic partition, in Arrow columns, that are kept behind the end of its range while records of
#: others are missing. An answer may have MAX_ANSWER bytes of each, and the columns of small records take twice that:
#: with less, each small batch of a backlog would drop and request again what it has not reached.
MAX_KEPT = 4 * MAX_ANSWER


def reader_properties(kafka: Mapping[str, str], ahead: int) -> Mapping[str, object]:
    """The properties of a consumer that reads at most `ahead` bytes ahead. The `kafka:` block may replace FETCH."""
    bounds = {"queued.max.messages.kbytes": ahead >> 10, "fetch.message.max.bytes": MAX_ANSWER}
    return FETCH | client_properties(kafka, "consumer") | READER_PROPERTIES | bounds


class RecordsNotReadError(Exception):
    """The records of a batch cannot be read here in time. Spark's source reads them, and reports what is wrong."""


class FollowingReader:
    """A consumer that stays at the ends of the last ranges, and whose client reads ahead in its own threads."""

    def __init__(self, consumer: Callable[[], ColumnConsumer], seconds: float) -> None:
        """`consumer` makes a consumer that joins no group, with the isolation level `read_committed` and events for the
        ends of topic partitions. `seconds` is the longest wait for the next records.
        """
        self._make, self._seconds = consumer, seconds
        self._consumer: ColumnConsumer | None = None
        #: by topic partition that the consumer follows: the offset at which the next range starts
        self._next: dict[Place, int] = {}
        #: by topic partition: the offset up to which all records were received (exclusive)
        self._received: dict[Place, int] = {}
        #: received records behind the last ranges, in order: each item has records of one topic partition
        self._ahead: deque[tuple[Place, pa.RecordBatch]] = deque()

    @classmethod
    def of(cls, kafka: Mapping[str, str], seconds: float, ahead: int) -> FollowingReader:
        """The reader from the brokers of a `kafka:` block. Its client reads at most `ahead` bytes ahead."""
        properties = reader_properties(kafka, ahead)
        return cls(lambda: ColumnConsumer(Consumer(properties)), seconds)

    def read(self, starts: Offsets, ends: Offsets) -> Generator[tuple[Place, pa.RecordBatch]]:
        """The records from the start (inclusive) to the end (exclusive) of each topic partition, as the client has
        received them (column_consumer.py). The records of a topic partition come in order of their offsets.

        Both have the same topic partitions. Markers of transactions have offsets, but no record. Raises
        RecordsNotReadError after `seconds` without a message of the client, or if the client reports an error, such as
        a record at a start that Kafka has deleted. Raises HeaderNameError for a record that only Spark can read. After
        an error, or if the caller does not take all records, the next call reads from its own starts on.
        """
        if not self._next and starts == ends:
            return  # a reader that rests goes on resting
        try:
            self._follow(starts)
            yield from self._until(ends)
            self._next = dict(ends) if self._next else {}
        except (KafkaException, HungError) as error:
            self.close()
            raise RecordsNotReadError(str(error)) from error
        except BaseException:
            self.close()
            raise

    def rest(self) -> None:
        """Lets the client request nothing until the next `read`, and drops what it has read ahead."""
        if self._consumer is not None and self._next:
            self._next = {}
            try:
                self._assign(self._consumer, {})
            except (KafkaException, HungError):
                self.close()

    def close(self) -> None:
        """Closes the consumer, and frees the records that it has read ahead; the next `read` makes a new one."""
        consumer, self._consumer, self._next = self._consumer, None, {}
        self._ahead.clear()
        if consumer is not None:
            consumer.close()

    def _follow(self, starts: Offsets) -> None:
        """Places the consumer at these offsets, unless it is there already."""
        if self._consumer is not None and self._next == starts:
            return
        self._consumer = self._consumer or self._make()
        self._assign(self._consumer, starts)
        self._next, self._received = dict(starts), dict(starts)

    def _assign(self, consumer: ColumnConsumer, starts: Offsets) -> None:
        """Drops what was received, also by the client alone, and reads on from these offsets."""
        self._ahead.clear()
        consumer.assign(starts)

    def _until(self, ends: Offsets) -> Iterator[tuple[Place, pa.RecordBatch]]:
        before, self._ahead = self._ahead, deque()
        yield from self._within(before, ends)
        deadline = time.monotonic() + self._seconds
        while missing := {place: at for place, at in self._received.items() if at < ends[place]}:
            if self._consumer is None:
                raise RecordsNotReadError("the reader was closed")
            if sum(fetched.nbytes for _, fetched in self._ahead) > MAX_KEPT * len(ends):
                self._assign(self._consumer, missing)
                self._next = {}  # the others are not followed any more
            if arrivals := self._consumer.receive(POLL_S):
                yield from self._within(self._noted(arrivals), ends)
                deadline = time.monotonic() + self._seconds
            elif time.monotonic() > deadline:
                raise RecordsNotReadError("records did not arrive in time")

    def _noted(self, arrivals: Iterable[Arrival]) -> Iterator[tuple[Place, pa.RecordBatch]]:
        """The records that have come. Notes how far each topic partition has come."""
        for place, records, reached in arrivals:
            self._received[place] = max(self._received[place], reached)
            if len(records):
                yield place, records

    def _within(
        self, arrived: Iterable[tuple[Place, pa.RecordBatch]], ends: Offsets
    ) -> Iterator[tuple[Place, pa.RecordBatch]]:
        """The records before the ends. Keeps the others."""
        for place, records in arrived:
            count = int(np.searchsorted(offsets_of(records), ends[place]))
            if count < len(records):
                self._ahead.append((place, records.slice(count)))
            if count:
                yield place, records.slice(0, count)
