"""Reads ranges of topic partitions, one after the other, with a consumer that stays connected between them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluice.kafka.client import client_properties
from sluice.kafka.range_reader import END, MAX_CONSUMED, READER_PROPERTIES, receive
from sluice.kafka.requests import discard

#: seconds without a record after which a range cannot be read here
TIMEOUT_S = 10.0
#: seconds of one poll
POLL_S = 0.1
#: Properties of the consumer. What its client has read behind the end of a range is lost: it reads at most 1 MiB ahead.
#: The broker answers after 10 ms at most, so that the end of a range does not wait for further records.
AHEAD = {"queued.max.messages.kbytes": 1 << 10, "fetch.message.max.bytes": 512 << 10, "fetch.wait.max.ms": 10}


class RecordsNotReadError(Exception):
    """The records of a batch cannot be read here in time. Spark's source reads them, and reports what is wrong."""


class PartitionReader:
    """`consumer` joins no group, and has the isolation level `read_committed`."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    @classmethod
    def of(cls, kafka: Mapping[str, str]) -> PartitionReader:
        """The reader from the brokers of a `kafka:` block."""
        return cls(Consumer(client_properties(kafka, "consumer") | READER_PROPERTIES | AHEAD))

    def close(self) -> None:
        """Closes the consumer, in a thread of its own."""
        discard([self._consumer])

    def read(self, of: tuple[str, int], start: int, end: int) -> Iterator[list[Message]]:
        """The records of a topic partition from `start` (inclusive) to `end` (exclusive), in order of their offsets.

        They come in lists of what the client has received. Markers of transactions have offsets, but no record. Raises
        RecordsNotReadError after TIMEOUT_S without a record, or if the client reports an error, such as a record at
        `start` that Kafka has deleted.
        """
        self._unassign()
        self._consumer.assign([TopicPartition(*of, start)])
        position, deadline = start, time.monotonic() + TIMEOUT_S
        while position < end:
            if messages := receive(self._consumer, POLL_S):
                found, position = _within(messages, end)
                if found:
                    yield found
                deadline = time.monotonic() + TIMEOUT_S
            elif time.monotonic() > deadline:
                raise RecordsNotReadError("records did not arrive in time")
        self._unassign()

    def _unassign(self) -> None:
        """Stops fetching, and drops what the client has received already."""
        self._consumer.unassign()
        while self._consumer.consume(MAX_CONSUMED, 0):
            pass


def _within(messages: list[Message], end: int) -> tuple[list[Message], int]:
    """The records before `end` among the next messages of a topic partition, and the position behind all of them.

    Some messages may be events of the client.
    """
    # An error of the client must not be compared with `==`, as `list.count` does: with None that sets an exception.
    events = [message for message in messages if message.error() is not None]
    if not events and messages[-1].offset() < end:
        return messages, messages[-1].offset() + 1
    for event in events:
        if event.error().code() != END:
            raise RecordsNotReadError(str(KafkaException(event.error())))
    found = [message for message in messages if message.error() is None and message.offset() < end]
    last = messages[-1]  # the event of an end has the offset behind the last record and the markers behind it
    return found, last.offset() + (last.error() is None)
