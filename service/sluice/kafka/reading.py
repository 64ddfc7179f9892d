"""Records of topics from one offset to another, as a reader of committed records sees them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sluice.kafka.client import client_properties
from sluice.kafka.kafka_errors import UnavailableError

#: by topic and topic partition
Offsets = Mapping[tuple[str, int], int]

AT_ONCE = 10_000
#: seconds that the broker may be silent
SECONDS = 30.0
REQUEST = 10.0
END = KafkaError._PARTITION_EOF  # noqa: SLF001
#: so many offsets before the last records are tried first: transactions have offsets too
ROOM = 1000
#: a consumer that joins no group and commits nothing
OWN = {
    "group.id": "sluice.ledger", "enable.auto.commit": False, "isolation.level": "read_committed",
    "enable.partition.eof": True, "auto.offset.reset": "error",
}  # fmt: skip


def ends(client: AdminClient, places: Iterable[tuple[str, int]]) -> Offsets:
    """Where the topic partitions end for a reader of committed records."""
    wanted = {TopicPartition(*place): OffsetSpec.latest() for place in places}
    answers = client.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REQUEST)
    return {(p.topic, p.partition): answer.result().offset for p, answer in answers.items()}


def tail(kafka: Mapping[str, str], place: tuple[str, int], end: int, count: int) -> list[Message]:
    """The last `count` records of a topic partition before `end`, or as many as it still has."""
    consumer = Consumer(client_properties(kafka, "consumer") | OWN)
    try:
        begin, _ = consumer.get_watermark_offsets(TopicPartition(*place), timeout=SECONDS)
    finally:
        consumer.close()
    span = count + ROOM
    while True:
        found: deque[Message] = deque(maxlen=count)
        read(kafka, {place: max(begin, end - span)}, {place: end}, found.append)
        if len(found) == count or end - span <= begin:
            return list(found)
        span *= 4


def read(kafka: Mapping[str, str], starts: Offsets, ends: Offsets, heard: Callable[[Message], object]) -> None:
    """Tells `heard` each record from its topic partition's start to before its end, those of one in their order.

    A topic partition without a start is read from its beginning. Raises UnavailableError where the broker does not
    answer, or does not have the first records any more.
    """
    if not ends:
        return
    consumer = Consumer(client_properties(kafka, "consumer") | OWN)
    try:
        _read(consumer, {place: (starts.get(place, 0), end) for place, end in ends.items()}, heard)
    except KafkaException as error:
        message = f"cannot read records again: {error.args[0].str()}"
        raise UnavailableError(message) from error
    finally:
        consumer.close()


def _read(
    consumer: Consumer, spans: Mapping[tuple[str, int], tuple[int, int]], heard: Callable[[Message], object]
) -> None:
    unread = {place: end for place, (start, end) in spans.items() if start < end}
    consumer.assign([TopicPartition(*place, spans[place][0]) for place in unread])
    while unread:
        first = consumer.poll(SECONDS)
        if first is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        for message in (first, *consumer.consume(AT_ONCE, 0)):
            if message.error() and message.error().code() != END:
                raise KafkaException(message.error())
            place = message.topic(), message.partition()
            if place in unread and not message.error() and message.offset() < unread[place]:
                heard(message)
            if place in unread and (message.error() or message.offset() >= unread[place] - 1):
                del unread[place]
