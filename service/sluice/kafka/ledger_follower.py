"""Follows the ledger topic: reports each batch of a query soon after the batch's commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry
from sluice.kafka.client import LOGGER, VARYING, client_properties
from sluice.kafka.kafka_errors import HungError
from sluice.kafka.requests import REQUEST, SLACK, bounded, discard, reason_of, send_request, watermarks

WAIT = 0.2
#: seconds without a record after which the consumer must send a request that a broker answers
SILENCE_S = 10.0
#: seconds between a consumer's failure and the start of its replacement
PAUSE = 1.0
FOLLOWER_PROPERTIES = {"group.id": "sluice.ledger", "enable.auto.commit": False, "isolation.level": "read_committed"}


class Follower:
    """A thread that calls `on_entry` with each entry of a query that is committed after the follower was made.

    A consumer that reports an error, or gets no answer from a broker, is replaced by one that continues at the same
    offset. The number of replacements has no limit: nothing depends on the follower. If Kafka stays unreachable, the
    writer of the batches ends the service.

    An entry that cannot be read, or that `on_entry` does not take, is left out. The thread ends at no error; an error
    that is not Kafka's is logged once for each cause.
    """

    def __init__(self, kafka: Mapping[str, str], query: str, on_entry: Callable[[Entry], None]) -> None:
        self._kafka, self._query, self._on_entry = kafka, query.encode(), on_entry
        self._next = send_request(kafka, "consumer", "follow the ledger", _end, FOLLOWER_PROPERTIES)
        self._stopped = threading.Event()
        #: the errors that were logged, without the numbers in their texts
        self._logged: set[str] = set()
        work = copy_context().run  # so that log lines of the thread name the pipeline
        self._thread = threading.Thread(target=work, args=(self._run,), name="sluice-ledger-follower", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Stops the thread. Waits for at most `seconds`, because a call of the client library may not return."""
        self._stopped.set()
        self._thread.join(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._with_a_new_client()
            except Exception as error:  # noqa: BLE001 - whatever it is, the service goes on, and so must its metrics
                self._log("following the ledger with a new Kafka client", error)
                self._stopped.wait(PAUSE)

    def _with_a_new_client(self) -> None:
        """Follows until the client fails or the follower is stopped."""
        consumers: list[Any] = []
        try:
            consumers.append(Consumer(client_properties(self._kafka, "consumer") | FOLLOWER_PROPERTIES))
            self._follow(consumers[0])
        except (KafkaException, HungError) as error:
            LOGGER.warning("following the ledger with a new Kafka client: %s", reason_of(error))
            self._stopped.wait(PAUSE)
        finally:
            discard(consumers)

    def _follow(self, consumer: Consumer) -> None:
        """Reads entries until the follower is stopped. Raises KafkaException or HungError if the consumer fails."""
        consumer.assign([TopicPartition(ledger.TOPIC, ledger.PARTITION, self._next)])
        answered = time.monotonic()
        while not self._stopped.is_set():
            # One message a call: `consume` would wait for more, and the time at which an entry is received is measured.
            message = consumer.poll(WAIT)
            if message is not None:
                self._take(message)
            elif time.monotonic() - answered > SILENCE_S:
                bounded("follow the ledger", REQUEST + SLACK, lambda: _end(consumer))
            else:
                continue
            answered = time.monotonic()

    def _take(self, message: Message) -> None:
        if message.error():
            raise KafkaException(message.error())
        # Before the entry is handled: an error must not make the next consumer read the same entry for ever.
        self._next = message.offset() + 1
        if message.key() == self._query and message.value():
            try:
                self._on_entry(Entry.from_json(message.value()))
            except Exception as error:  # noqa: BLE001 - whatever it is, the next entry may be all right
                self._log(f"the metrics leave out the ledger's entry at offset {message.offset()}", error)

    def _log(self, what: str, error: Exception) -> None:
        """Logs an error with its stack trace, if its cause was not logged before."""
        cause = VARYING.sub("", f"{what} {type(error).__name__} {error}")
        if cause not in self._logged:
            self._logged.add(cause)
            LOGGER.warning(
                "%s (%s: %s); this error is not logged again", what, type(error).__name__, error, exc_info=error
            )


def _end(consumer: Consumer) -> int:
    return watermarks(consumer, ledger.TOPIC, ledger.PARTITION)[1]
