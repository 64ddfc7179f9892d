"""Follows the ledger topic: reports each batch of a query soon after the batch's commit.

All queries of a service write to one ledger, so one client follows it for all of them: with a client for each query,
each of a hundred queries would read the entries of all others.
"""

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
#: the longest wait, in seconds, for a call of `on_entry` or of the client library that is in progress
MAX_STOP_S = 2.0
FOLLOWER_PROPERTIES = {"group.id": "sluice.ledger", "enable.auto.commit": False, "isolation.level": "read_committed"}

#: the thread that follows a ledger, by the properties of its client
_threads: dict[frozenset[tuple[str, str]], _LedgerThread] = {}
_threads_lock = threading.Lock()


class Follower:
    """Calls `on_entry`, in another thread, with each entry of a query that is committed after the follower was made.

    An entry that cannot be read, or that `on_entry` does not take, is left out; such an error is logged once for each
    cause.
    """

    def __init__(self, kafka: Mapping[str, str], query: str, on_entry: Callable[[Entry], None]) -> None:
        self.query, self._on_entry = query.encode(), on_entry
        #: the offset of the first entry that it has not seen
        self.next = send_request(kafka, "consumer", "follow the ledger", _end, FOLLOWER_PROPERTIES)
        self._context = copy_context()  # so that log lines about its entries name the pipeline
        self._lock = threading.Lock()
        self._stopped = False
        #: the errors that were logged, without the numbers in their texts
        self._logged: set[str] = set()
        self._key = frozenset(kafka.items())
        with _threads_lock:
            if self._key not in _threads:
                _threads[self._key] = _LedgerThread(kafka)
            self._thread = _threads[self._key]
            self._thread.add(self)

    def stop(self, seconds: float = MAX_STOP_S) -> None:
        """Lets no further entry be reported. Waits for one that is being reported, for at most `seconds`."""
        with _threads_lock:
            if self._thread.remove(self):
                _threads.pop(self._key, None)
        if self._lock.acquire(timeout=seconds):
            self._stopped = True
            self._lock.release()
        self._thread.join(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def take(self, message: Message) -> None:
        """Reports the entry of this message, if it is one of the query and was not reported before."""
        if message.key() != self.query or message.offset() < self.next or not message.value():
            return
        self.next = message.offset() + 1
        with self._lock:
            if not self._stopped:
                self._context.copy().run(self._report, message)

    def _report(self, message: Message) -> None:
        try:
            self._on_entry(Entry.from_json(message.value()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next entry may be all right
            _log_once(self._logged, f"the metrics leave out the ledger's entry at offset {message.offset()}", error)


class _LedgerThread:
    """The thread that reads the entries for all followers of a ledger. It ends when the last of them is removed.

    A consumer that reports an error, or gets no answer from a broker, is replaced by one that continues at the same
    offset. The number of replacements has no limit: nothing depends on the thread. If Kafka stays unreachable, the
    writer of the batches ends the service. The thread ends at no error; an error that is not Kafka's is logged once for
    each cause.
    """

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._kafka = kafka
        self._lock = threading.Lock()
        self._followers: tuple[Follower, ...] = ()
        #: the offset of the next entry to read, and whether the consumer has to be placed there
        self._next, self._moved = 0, False
        self._stopped = threading.Event()
        self._logged: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="sluice-ledger-follower", daemon=True)

    def add(self, follower: Follower) -> None:
        """Starts with the first follower. A later one that has not seen what was read already lets it be read again."""
        with self._lock:
            self._followers = (*self._followers, follower)
            if self._thread.ident is None:
                self._next = follower.next
                self._thread.start()
            elif follower.next < self._next:
                self._next, self._moved = follower.next, True

    def remove(self, follower: Follower) -> bool:
        """Returns whether no follower is left. The thread then ends, which `join` waits for."""
        with self._lock:
            self._followers = tuple(other for other in self._followers if other is not follower)
            if not self._followers:
                self._stopped.set()
            return not self._followers

    def join(self, seconds: float) -> None:
        """Waits for its end, if it ends, for at most so many seconds: a call of the client library may not return."""
        if self._stopped.is_set():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._with_a_new_client()
            except Exception as error:  # noqa: BLE001 - whatever it is, the service goes on, and so must its metrics
                _log_once(self._logged, "following the ledger with a new Kafka client", error)
                self._stopped.wait(PAUSE)

    def _with_a_new_client(self) -> None:
        """Follows until the client fails or the last follower has stopped."""
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
        """Reads entries until it is stopped. Raises KafkaException or HungError if the consumer fails."""
        self._moved = True
        answered = time.monotonic()
        while not self._stopped.is_set():
            with self._lock:
                if self._moved:
                    consumer.assign([TopicPartition(ledger.TOPIC, ledger.PARTITION, self._next)])
                    self._moved = False
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
        with self._lock:
            if self._moved:  # it is read again
                return
            # Before the entry is handled: an error must not make the next consumer read the same entry for ever.
            self._next, followers = message.offset() + 1, self._followers
        for follower in followers:
            follower.take(message)


def _log_once(logged: set[str], task: str, error: Exception) -> None:
    """Logs an error with its stack trace, if its cause was not logged before."""
    cause = VARYING.sub("", f"{task} {type(error).__name__} {error}")
    if cause not in logged:
        logged.add(cause)
        LOGGER.warning("%s (%s: %s); this error is not logged again", task, type(error).__name__, error, exc_info=error)


def _end(consumer: Consumer) -> int:
    return watermarks(consumer, ledger.TOPIC, ledger.PARTITION)[1]
