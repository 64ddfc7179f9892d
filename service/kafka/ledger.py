"""The ledger: up to which batch a query's outputs are in Kafka, kept in Kafka itself.

Each batch's transaction commits two things beside its outputs: offset `batch + 1` of a consumer group, whose metadata
names the query's checkpoint, and an entry with the batch's counts in a small compacted topic. The group is read first;
the topic helps when the group is gone (a group's offsets expire, by default after seven days without a commit).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from service.kafka.client import client_properties
from service.kafka.errors import LedgerError, UnavailableError
from service.kafka.report import Entry

TOPIC = "sluice.ledger"
PARTITION = 0
SECONDS = 30.0

START_OVER = "to begin anew, with outputs that repeat what is there, start once with --reset-ledger"


class Stand(NamedTuple):
    """What the ledger says: the batch that is to be written next, and whose checkpoint counts the batches."""

    next_batch: int
    query_id: str


def group_of(query: str) -> str:
    return f"sluice.ledger.{query}"


def transactional_id_of(query: str) -> str:
    return f"sluice.{query}"


def verify(kafka: Mapping[str, str], query: str, query_id: str, committed: int | None, planned: int | None) -> None:
    """Checks at start that the checkpoint and the ledger belong together. Raises LedgerError where they don't.

    committed   last batch in the checkpoint's log of commits, None for none
    planned     last batch in the checkpoint's log of offsets, None for none
    """
    _require_same_checkpoint(read_stand(kafka, query), query, query_id, committed, planned)
    settle(kafka, query)
    stand = read_stand(kafka, query)
    if stand is None:
        return
    first, last = 1 + (-1 if committed is None else committed), 1 + (-1 if planned is None else planned)
    if not first <= stand.next_batch <= last:
        message = (
            f"the ledger of {query!r} says that batch {stand.next_batch} is next, the checkpoint says {first}"
            f"{'' if first == last else f' or {last}'}: one of them is an older copy; restore the one that fits, "
            f"or {START_OVER}"
        )
        raise LedgerError(message)


def _require_same_checkpoint(
    stand: Stand | None, query: str, query_id: str, committed: int | None, planned: int | None
) -> None:
    """Before anything is changed, so that a start by mistake does not stop the service that runs."""
    if stand is None:
        if committed is not None:
            raise LedgerError(lost_message(query, committed))
    elif planned is None:
        message = (
            f"the ledger of {query!r} says that {stand.next_batch} batches were written, but the checkpoint is "
            f"new; give the checkpoint that was used ({stand.query_id}), give the pipeline another name, or {START_OVER}"
        )
        raise LedgerError(message)
    elif stand.query_id != query_id:
        raise LedgerError(foreign_message(query, query_id, stand))


def lost_message(query: str, batch: int) -> str:
    return (
        f"the checkpoint of {query!r} is at batch {batch}, but Kafka has no ledger of it (no group "
        f"{group_of(query)!r}, no entry in topic {TOPIC!r}): is this the right cluster? If the ledger is lost, {START_OVER}"
    )


def foreign_message(query: str, query_id: str, stand: Stand) -> str:
    return (
        f"the ledger of {query!r} belongs to the checkpoint {stand.query_id}, this checkpoint is {query_id}: two "
        f"pipelines have one name, or the checkpoint was changed. Rename one, restore the checkpoint, or {START_OVER}"
    )


def settle(kafka: Mapping[str, str], query: str) -> None:
    """Ends a transaction that a killed process left open, and shuts out an instance that still runs."""
    own = {"transactional.id": transactional_id_of(query)}
    with reporting("settle the last transaction"):
        Producer(client_properties(kafka, "producer") | own).init_transactions(SECONDS)


def forget(kafka: Mapping[str, str], query: str) -> None:
    """Empties the ledger, so that a new checkpoint can begin; what was written stays."""
    settle(kafka, query)
    producer = Producer(client_properties(kafka, "producer") | {"transactional.id": transactional_id_of(query)})
    consumer = group_member(kafka, query)
    try:
        with reporting("reset the ledger"):
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
            producer.produce(TOPIC, None, query.encode(), PARTITION)
            producer.send_offsets_to_transaction([_place(0, "")], consumer.consumer_group_metadata())
            producer.commit_transaction(SECONDS)
    finally:
        consumer.close()


def read_stand(kafka: Mapping[str, str], query: str) -> Stand | None:
    """What the ledger says; None for a query that it does not know."""
    with reporting("read the ledger"):
        return _from_group(kafka, query) or _from_topic(kafka, query)


def _from_group(kafka: Mapping[str, str], query: str) -> Stand | None:
    consumer = group_member(kafka, query)
    try:
        place = consumer.committed([TopicPartition(TOPIC, PARTITION)], timeout=SECONDS)[0]
    finally:
        consumer.close()
    if place.error:
        raise KafkaException(place.error)
    return Stand(place.offset, place.metadata) if place.offset > 0 else None


def _from_topic(kafka: Mapping[str, str], query: str) -> Stand | None:
    last: Message | None = None
    for message in _all_entries(kafka):
        if message.key() == query.encode():
            last = message
    if last is None or not last.value():
        return None
    entry = Entry.from_json(last.value())
    return Stand(entry.batch + 1, entry.query_id)


def _all_entries(kafka: Mapping[str, str]) -> Iterator[Message]:
    own = {"group.id": "sluice.ledger", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer(client_properties(kafka, "consumer") | own | {"fetch.wait.max.ms": 10})
    place = TopicPartition(TOPIC, PARTITION)
    try:
        # To begin at a number is half a second faster than at OFFSET_BEGINNING.
        place.offset, _ = consumer.get_watermark_offsets(place, timeout=SECONDS)
        consumer.assign([place])
        while (message := _next(consumer)) is not None:
            yield message
    finally:
        consumer.close()


def _next(consumer: Consumer) -> Message | None:
    """None at the end of the topic."""
    message = consumer.poll(SECONDS)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
    if message.error() and message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
        return None
    if message.error():
        raise KafkaException(message.error())
    return message


def group_member(kafka: Mapping[str, str], query: str) -> Consumer:
    """A consumer that names the ledger's group and never joins it."""
    own = {"group.id": group_of(query), "enable.auto.commit": False, "isolation.level": "read_committed"}
    return Consumer(client_properties(kafka, "consumer") | own)


def _place(offset: int, metadata: str) -> TopicPartition:
    return TopicPartition(TOPIC, PARTITION, offset, metadata=metadata)


def place_after(batch: int, query_id: str) -> TopicPartition:
    """What the group commits with a batch."""
    return _place(batch + 1, query_id)


@contextmanager
def reporting(action: str) -> Iterator[None]:
    """Tells a failure of the client in our words."""
    try:
        yield
    except KafkaException as error:
        message = f"cannot {action}: {error.args[0].str()}"
        raise UnavailableError(message) from error
