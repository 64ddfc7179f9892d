"""A producer with the ledger's group, as long as they last: how a batch begins, ends and is given up."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from service.kafka import ledger
from service.kafka.client import client_properties

SECONDS, ABORT_SECONDS = 60.0, 5.0
#: of a topic's `max.message.bytes` where nobody tells: Kafka's default
DEFAULT_LIMIT = 1_048_588

DEFAULTS = {
    "linger.ms": 1,
    "compression.type": "lz4",
    "batch.num.messages": 100_000,
    "delivery.report.only.error": True,  # a report for each record would cost as much as a tenth of sending it
    "transaction.timeout.ms": int(SECONDS * 1000),
    # The client holds so much while it sends; whoever produces waits for room then.
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 262_144,
}
#: of one of the client's own batches, which must fit into the smallest limit of a topic
BATCH_BYTES = 1_000_000


class Session:
    """A batch is visible when `finish` returns; with `close` before that, none of it ever is."""

    def __init__(self, kafka: Mapping[str, str], limits: Collection[int], own: dict[str, object]) -> None:
        sizes = [DEFAULT_LIMIT, *limits]
        size = {"message.max.bytes": max(sizes), "batch.size": min(BATCH_BYTES, *sizes)}
        self.producer = Producer(DEFAULTS | client_properties(kafka, "producer") | size | own)

    def begin(self) -> None:
        raise NotImplementedError

    def finish(self, place: TopicPartition) -> None:
        """Commits with this place in the ledger."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class ExactlyOnce(Session):
    """Each batch is a transaction. A new one shuts out each earlier producer of the query and ends what it left."""

    def __init__(self, kafka: Mapping[str, str], query: str, limits: Collection[int]) -> None:
        super().__init__(kafka, limits, {"transactional.id": ledger.transactional_id_of(query)})
        member = ledger.group_member(kafka, query)
        self._group = member.consumer_group_metadata()
        member.close()
        self.producer.init_transactions(SECONDS)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def finish(self, place: TopicPartition) -> None:
        self.producer.send_offsets_to_transaction([place], self._group, SECONDS)
        deadline = time.monotonic() + SECONDS
        while not self._committed(deadline):
            pass

    def close(self) -> None:
        # There may be no transaction, or it may be beyond aborting; the next producer ends it then.
        with suppress(KafkaException):
            self.producer.abort_transaction(ABORT_SECONDS)

    def _committed(self, deadline: float) -> bool:
        """Whether it is; False where asking again is safe and may help."""
        try:
            self.producer.commit_transaction(max(0.1, deadline - time.monotonic()))
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            return False
        return True


class AtLeastOnce(Session):
    """No transactions: a batch that fails half-way is written again whole."""

    def __init__(self, kafka: Mapping[str, str], query: str, limits: Collection[int]) -> None:
        self._failures: list[KafkaError] = []
        super().__init__(kafka, limits, {"enable.idempotence": True, "on_delivery": self._delivered})
        self._group = ledger.group_member(kafka, query)

    def begin(self) -> None:
        self._failures.clear()

    def finish(self, place: TopicPartition) -> None:
        left = self.producer.flush(SECONDS)
        if self._failures:
            raise KafkaException(self._failures[0])
        if left:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        self._group.commit(offsets=[place], asynchronous=False)

    def close(self) -> None:
        self.producer.purge()
        self._group.close()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)


SESSIONS = {"exactly_once": ExactlyOnce, "at_least_once": AtLeastOnce}
