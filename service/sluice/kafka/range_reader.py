"""Reads committed records of topic partitions between given offsets, with headers, and the ends of topic partitions."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.records import Header
from sluice.kafka.requests import REQUEST, Requests, send_request

#: (topic, topic partition) -> offset
Offsets = Mapping[tuple[str, int], int]

#: the most records that one call of the client library returns
MAX_CONSUMED = 10_000
END = KafkaError._PARTITION_EOF  # noqa: SLF001
#: number of further offsets that `tail` reads at first: the markers of transactions have offsets too
MARKER_MARGIN = 1000
#: Properties of a consumer that joins no group and commits no offsets. After its queue was full, the client would send
#: its next fetch only a second later (`fetch.queue.backoff.ms`).
READER_PROPERTIES = {
    "group.id": "sluice.ledger", "enable.auto.commit": False, "isolation.level": "read_committed",
    "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.queue.backoff.ms": 2,
}  # fmt: skip

#: Calls `Message.headers`. For a name that is not UTF-8 the client returns a null pointer in a list, and sets an error.
#: This call checks for that error. A call `message.headers()` that Python has specialised does not, and may crash.
_headers = methodcaller("headers")
#: stands for headers that cannot be read: a second call of `Message.headers` would return the null
#: pointer
_UNREADABLE: Any = object()


def headers_of(message: Message) -> list[Header]:
    """The headers of a record, in order. Raises HeaderNameError if a name is not UTF-8."""
    try:
        headers = _headers(message)
    except (SystemError, UnicodeDecodeError):
        message.set_headers(_UNREADABLE)
        headers = _UNREADABLE
    if headers is _UNREADABLE:
        raise HeaderNameError(header_name_message(message.topic(), message.partition(), message.offset()))
    return headers or []


def header_name_message(topic: str, partition: int, offset: int) -> str:
    record = f"topic {topic}, topic partition {partition}, offset {offset}"
    return f"the name of a header is not UTF-8, which the Kafka client cannot read ({record})"


def headers_of_each(messages: Sequence[Message]) -> list[list[Header] | None]:
    """The headers of each record, None for a record without any. Raises HeaderNameError as `headers_of` does."""
    headers: list[list[Header] | None] = []
    try:
        headers.extend(map(_headers, messages))
    except (SystemError, UnicodeDecodeError):
        message = messages[len(headers)]
        message.set_headers(_UNREADABLE)
        headers_of(message)
    if headers.count(None) < len(headers):
        return [headers_of(message) or None for message in messages]
    return headers


def ends(requests: Requests[AdminClient], topic_partitions: Iterable[tuple[str, int]]) -> Offsets:
    """The end offset of each topic partition (exclusive) for a reader of committed records."""
    return _offsets(requests, topic_partitions, OffsetSpec.latest(), "list the ends of topic partitions")


def beginnings(requests: Requests[AdminClient], topic_partitions: Iterable[tuple[str, int]]) -> Offsets:
    """The offset of the oldest record that each topic partition still has, or its end offset if it has none."""
    return _offsets(requests, topic_partitions, OffsetSpec.earliest(), "list the beginnings of topic partitions")


def _offsets(
    requests: Requests[AdminClient], topic_partitions: Iterable[tuple[str, int]], spec: OffsetSpec, action: str
) -> Offsets:
    specs = {TopicPartition(*place): spec for place in topic_partitions}

    def list_offsets(client: AdminClient) -> Offsets:
        committed = IsolationLevel.READ_COMMITTED
        answers = client.list_offsets(specs, isolation_level=committed, request_timeout=REQUEST)
        return {(p.topic, p.partition): _offset(answer.result().offset) for p, answer in answers.items()}

    return requests.send(action, list_offsets)


def _offset(offset: int) -> int:
    """The offset. Raises KafkaException if it is negative: librdkafka returns that if a broker answers too late."""
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
    return offset


def tail(kafka: Mapping[str, str], topic_partition: tuple[str, int], end: int, count: int) -> list[Message]:
    """The last `count` records of a topic partition before offset `end`; fewer if the topic partition has fewer."""

    def first(consumer: Consumer) -> int:
        return int(consumer.get_watermark_offsets(TopicPartition(*topic_partition), timeout=REQUEST)[0])

    begin = send_request(kafka, "consumer", "read records again", first, READER_PROPERTIES)
    span = count + MARKER_MARGIN
    while True:
        records: deque[Message] = deque(maxlen=count)
        read(kafka, {topic_partition: max(begin, end - span)}, {topic_partition: end}, records.append)
        if len(records) == count or end - span <= begin:
            return list(records)
        span *= 4


def read(
    kafka: Mapping[str, str],
    starts: Offsets,
    ends: Offsets,
    handle: Callable[[Message], object],
    retry_s: float | None = None,
) -> None:
    """Calls `handle` with each record from its topic partition's start (inclusive) to its end (exclusive).

    The records of a topic partition come in order of their offsets. A topic partition without a start is read from
    offset 0. Raises UnavailableError if no broker answers, if Kafka has deleted the record at a start, or if a topic
    partition ends before its end: each for `retry_s` seconds (RETRY_TIMEOUT_S) without progress.
    """
    unread = {
        topic_partition: (starts.get(topic_partition, 0), end)
        for topic_partition, end in ends.items()
        if starts.get(topic_partition, 0) < end
    }
    while unread:
        send_request(
            kafka,
            "consumer",
            "read records again",
            lambda consumer: _read_some(consumer, unread, handle),
            READER_PROPERTIES,
            retry_s=retry_s,
        )


def receive(consumer: Consumer, seconds: float) -> list[Message]:
    """The messages that the client has; empty if none came within `seconds`. Some may be events of the client."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(MAX_CONSUMED, 0)]


def _read_some(
    consumer: Consumer, unread: dict[tuple[str, int], tuple[int, int]], handle: Callable[[Message], object]
) -> None:
    """Reads records for at most REQUEST seconds, and removes their offsets from `unread`."""
    deadline = time.monotonic() + REQUEST
    consumer.assign([TopicPartition(*place, start) for place, (start, _) in unread.items()])
    while unread and time.monotonic() < deadline:
        messages = receive(consumer, REQUEST)
        if not messages:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, _missing(unread)))  # noqa: SLF001
        for message in messages:
            if message.error() and message.error().code() != END:
                raise KafkaException(message.error())
            _take(message, unread, handle)


def _take(
    message: Message, unread: dict[tuple[str, int], tuple[int, int]], handle: Callable[[Message], object]
) -> None:
    """Handles a record, or the end of a topic partition. Ignores a record that was handled before.

    A topic partition may end too early for a while: a new leader, or a follower that a client reads from, knows later
    than the leader before which records all followers have.
    """
    topic_partition = message.topic(), message.partition()
    if topic_partition not in unread:
        return
    start, end = unread[topic_partition]
    if message.error() is None and start <= message.offset() < end:
        handle(message)
        unread[topic_partition] = message.offset() + 1, end
    if message.offset() >= (end if message.error() else end - 1):
        del unread[topic_partition]


def _missing(unread: Mapping[tuple[str, int], tuple[int, int]]) -> str:
    (topic, partition), (start, end) = min(unread.items())
    return f"topic {topic}, topic partition {partition}, has no records at the offsets {start} to {end - 1}"
