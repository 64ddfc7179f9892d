"""Records of the input topics that the service's own process reads ahead, so that they are there for a small batch."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluice.kafka.client import client_properties
from sluice.kafka.partition_reader import RecordsNotReadError
from sluice.kafka.range_reader import END, READER_PROPERTIES, Offsets, receive
from sluice.kafka.requests import discard
from sluice.spark.pace import size_of

#: seconds of a wait for records that Spark's source has seen already
TIMEOUT_S = 2.0
#: seconds of one poll while records are missing
POLL_S = 0.05
#: properties of a consumer that reads ahead at most 4 MiB
AHEAD = {"queued.max.messages.kbytes": 4 << 10, "fetch.message.max.bytes": 1 << 20, "fetch.wait.max.ms": 100}

#: bytes of records that this process holds at once; a batch with more is a job of Spark
MAX_BYTES = 16 << 20
#: factor of the expected size of records after each batch that was expected to be too large and so was not read
DECAY = 0.99

Place = tuple[str, int]


class RecordFeed:
    """A consumer that stays at the end offset of the last batch, and whose client reads ahead in its own threads.

    `consumer` makes a consumer that joins no group, with the isolation level `read_committed`.
    """

    def __init__(self, consumer: Callable[[], Consumer]) -> None:
        self._make = consumer
        self._consumer: Consumer | None = None
        #: by topic partition: the offset that the next batch starts with
        self._next: dict[Place, int] = {}
        #: by topic partition: records at or after that offset, in order, each with its bytes
        self._ahead: defaultdict[Place, deque[tuple[Message, int]]] = defaultdict(deque)
        #: the bytes of all these records
        self._bytes = 0
        #: the mean size of the records of the last batch that had too many bytes
        self._expected_size = 0.0
        #: by topic partition: the offset up to which all records were received (exclusive)
        self._received: dict[Place, int] = {}

    @classmethod
    def of(cls, kafka: Mapping[str, str]) -> RecordFeed:
        """The feed from the brokers of a `kafka:` block."""
        return cls(lambda: Consumer(client_properties(kafka, "consumer") | READER_PROPERTIES | AHEAD))

    def fits(self, records: int) -> bool:
        """Whether a batch of so many records probably has at most MAX_BYTES.

        The mean size of the records of the last batch that had more decides, so that a stream of large records is not
        read here in vain for each batch. As records may become smaller, its weight shrinks with each batch that does
        not fit.
        """
        if records * self._expected_size <= MAX_BYTES:
            return True
        self._expected_size *= DECAY
        return False

    def take(self, starts: Offsets, ends: Offsets) -> dict[Place, Sequence[Message]]:
        """The records from the start (inclusive) to the end (exclusive) of each topic partition, in order of offsets.

        Both have the same topic partitions. Topic partitions without records are left out. Raises RecordsNotReadError
        after TIMEOUT_S, if the records have more than MAX_BYTES, or if the client reports an error; the next call then
        reads from its own starts on.
        """
        try:
            self._follow(starts)
            self._await(ends)
        except KafkaException as error:
            self.close()
            raise RecordsNotReadError(str(error)) from error
        except RecordsNotReadError:
            self.close()
            raise
        found = {place: self._taken(place, end) for place, end in ends.items()}
        self._next = dict(ends)
        return {place: records for place, records in found.items() if records}

    def close(self) -> None:
        """Closes the consumer, and frees the records that it has read ahead; the next `take` makes a new one."""
        clients = [] if self._consumer is None else [self._consumer]
        self._consumer, self._next = None, {}
        self._drop_records()
        discard(clients)

    def _drop_records(self) -> None:
        self._ahead.clear()
        self._bytes = 0

    def _follow(self, starts: Offsets) -> None:
        """Places the consumer at these offsets, unless it is there already."""
        if self._consumer is not None and self._next == starts:
            return
        self._consumer = self._consumer or self._make()
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
        self._next, self._received = dict(starts), dict(starts)
        self._drop_records()

    def _await(self, ends: Offsets) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while any(self._received[place] < end for place, end in ends.items()):
            if time.monotonic() > deadline:
                raise RecordsNotReadError("records did not arrive in time")
            if self._bytes > MAX_BYTES:
                self._expected_size = self._bytes / sum(map(len, self._ahead.values()))
                raise RecordsNotReadError(f"its records have more than {MAX_BYTES} bytes")
            self._receive()

    def _receive(self) -> None:
        """Receives what the client has; waits at most POLL_S if it has nothing."""
        if self._consumer is None:
            raise RecordsNotReadError("there is no consumer")
        for message in receive(self._consumer, POLL_S):
            place = message.topic(), message.partition()
            if message.error() is None:
                size = size_of(message)
                self._ahead[place].append((message, size))
                self._bytes += size
                self._received[place] = message.offset() + 1
            elif message.error().code() == END:
                # Markers of transactions have offsets, too, so the end may lie behind the last record.
                self._received[place] = max(self._received[place], message.offset())
            else:
                raise KafkaException(message.error())

    def _taken(self, place: Place, end: int) -> list[Message]:
        ahead, found = self._ahead[place], []
        while ahead and ahead[0][0].offset() < end:
            message, size = ahead.popleft()
            found.append(message)
            self._bytes -= size
        return found
