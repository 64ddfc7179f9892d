"""Producers of batches: they begin, commit and abort a transaction for each batch, with the ledger's group in it.

Every call that can wait for a broker has a time-out of the client library and a bound of the service that is
`TimeLimits.slack` longer (requests.py): the library's `send_offsets_to_transaction` is known to exceed its time-out.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from sluice.kafka import ledger
from sluice.kafka.client import client_properties
from sluice.kafka.kafka_errors import HungError
from sluice.kafka.records import Records
from sluice.kafka.requests import RETRY_TIMEOUT_S, SLACK, begun, bounded, discard

T = TypeVar("T")


class TimeLimits(NamedTuple):
    """Time limits of the writing of a batch, in seconds."""

    #: time-out of each step in the client library
    step: float = RETRY_TIMEOUT_S
    #: time-out of the step that adds the ledger's offset to the transaction. The step takes milliseconds, unless the
    #: client waits for a coordinator that has moved; a new producer finds it, so there must be time left for that
    offsets: float = RETRY_TIMEOUT_S / 4
    #: time-out of an abort
    abort: float = 5.0
    #: time beyond a time-out after which a call counts as hung
    slack: float = SLACK
    #: a commit that takes longer than this may have sent its EndTxn request twice
    slow_commit: float = 3.0


#: Kafka's default of `max.message.bytes`, for topics whose limit is not known
DEFAULT_LIMIT = 1_048_588

DEFAULTS = {
    "linger.ms": 1,
    "compression.type": "lz4",
    "batch.num.messages": 100_000,
    "delivery.report.only.error": True,  # a report for each record would cost a tenth of the time of sending it
    "transaction.timeout.ms": int(RETRY_TIMEOUT_S * 1000),
    # The largest queue of unsent records in the client. `produce` waits while the queue is full (batch_writer.py).
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 262_144,
}
#: the most records, and about the most bytes, between two polls of the client
CHUNK = 10_000
CHUNK_BYTES = 16 << 20
#: seconds of a poll while the client's queue is full
FULL_PAUSE = 0.05
#: the largest size in bytes of the client's own batches; the smallest limit of a topic may lower it
BATCH_BYTES = 1_000_000


class BatchProducer(ABC):
    """A producer that writes batches, one after the other.

    The caller calls `begin`, calls `produce` with the records of the batch, calls `confirm`, produces the records of
    the ledger with `client`, and calls `finish`; the batch is visible when `finish` returns. `close` gives up an
    unfinished batch; each subclass says what is visible then.
    """

    #: the reason why the next batch needs a new batch producer; "" if this one may write it
    spent = ""

    def __init__(
        self, kafka: Mapping[str, str], limits: Collection[int], times: TimeLimits, further: dict[str, object]
    ) -> None:
        self._times = times
        sizes = [DEFAULT_LIMIT, *limits]
        size = {"message.max.bytes": max(sizes), "batch.size": min(BATCH_BYTES, *sizes)}
        self._clients: list[Producer | Consumer] = []
        properties = DEFAULTS | client_properties(kafka, "producer") | size | further
        self.client = Producer(properties | {"socket.timeout.ms": _socket_timeout(properties)})
        self._clients.append(self.client)

    @abstractmethod
    def begin(self, offset: TopicPartition) -> None:
        """Begins a batch. The previous batch was finished. `offset` is the offset of the ledger's group after it."""

    def produce(self, records: Records) -> None:
        """Puts the records into the client's queue, from which the client sends. Waits while the queue is full.

        Raises KafkaException if it is full for RETRY_TIMEOUT_S, or if the client refuses a record.
        """
        hand_over(self._enqueue, self.client.poll, records)

    @abstractmethod
    def _enqueue(self, records: Records, start: int, stop: int) -> int:
        """Puts the records from row `start` to row `stop` (exclusive) into the queue. Returns the first row that is not
        in it: less than `stop` if the queue is full.
        """

    @abstractmethod
    def confirm(self) -> None:
        """Makes sure that the ledger can have no entry of this batch without the records that were produced so far."""

    @abstractmethod
    def finish(self) -> None:
        """Commits the batch, together with the new offset of the ledger's group."""

    @abstractmethod
    def close(self) -> None:
        """Gives up an unfinished batch, and closes the clients."""

    def reason(self, error: KafkaError) -> KafkaError:
        """The error of a call itself, or, if it says only that the producer has failed, the failure behind it."""
        if error.code() != KafkaError._FATAL:  # noqa: SLF001
            return error
        return _raised_by(partial(self.client.poll, 0)) or error  # which reports that failure, once

    def _call(self, action: str, seconds: float, call: Callable[[], T]) -> T:
        return bounded(action, seconds + self._times.slack, call)


class ExactlyOnce(BatchProducer):
    """Writes each batch in a transaction. After `close`, no record of an unfinished batch ever becomes visible.

    A new batch producer fences all earlier producers of the query, and aborts the transaction that they left open.

    It is spent after a commit during which the client may have sent its EndTxn request twice: the second copy could
    arrive late, and end a later transaction of the same producer epoch. The `init_transactions` of the next batch
    producer raises the epoch, so the broker refuses the copy (docs/exactly-once.md).
    """

    def __init__(self, kafka: Mapping[str, str], query: str, limits: Collection[int], times: TimeLimits) -> None:
        self._troubles: list[KafkaError] = []
        #: waits for the offset that is being added to the open transaction
        self._pending: Callable[[float], None] | None = None
        properties = {"transactional.id": ledger.transactional_id_of(query), "error_cb": self._troubles.append}
        super().__init__(kafka, limits, times, properties)
        try:
            member = ledger.group_member(kafka, query)
            self._group = member.consumer_group_metadata()
            discard([member])
            self._call("start transactions", times.step, lambda: self.client.init_transactions(times.step))
        except BaseException:
            del self.client
            discard(self._clients)
            raise

    def begin(self, offset: TopicPartition) -> None:
        self.client.poll(0)
        self._troubles.clear()
        self._offset = offset
        self.client.begin_transaction()
        # The two requests to the brokers take as long as the records of a small batch take to produce.
        self._pending = self._begin_to_send_offset()

    def _enqueue(self, records: Records, start: int, stop: int) -> int:
        # it imports numba, which only processes that write need
        from sluice.kafka.librdkafka.producer_queue import enqueue  # noqa: PLC0415

        return enqueue(self.client, records, start, stop)

    def confirm(self) -> None:
        """Does nothing: the transaction has all of them or none."""

    def finish(self) -> None:
        self._await_offset(self._offset_seconds)
        began, attempts = time.monotonic(), 1
        while not self._committed(began + self._times.step):
            attempts += 1
        self.client.poll(0)
        seconds = time.monotonic() - began
        self.spent = late_copy_reason(attempts, seconds, self._troubles, self._times.slow_commit)

    def reason(self, error: KafkaError) -> KafkaError:
        """As its superclass says. The library says of the first call after a failure of the transaction only that its
        state is wrong, and of the next `send_offsets_to_transaction` why.
        """
        if error.code() != KafkaError._STATE:  # noqa: SLF001
            return super().reason(error)
        self._give_up_offset()
        return _raised_by(partial(self._begin_to_send_offset(), self._offset_seconds)) or error

    def _begin_to_send_offset(self) -> Callable[[float], None]:
        """Begins to add the offset to the transaction. Returns a function that waits so long until that is done."""
        send = self.client.send_offsets_to_transaction
        return begun("send offsets", partial(send, [self._offset], self._group, self._times.offsets))

    def _await_offset(self, seconds: float) -> None:
        """Waits until the request that `begin` has begun is done."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending(seconds)

    def _give_up_offset(self) -> None:
        """Waits a little until that request is done: the library refuses a further one, and an abort, beside it."""
        with suppress(KafkaException, HungError):
            self._await_offset(self._times.abort)

    @property
    def _offset_seconds(self) -> float:
        return self._times.offsets + self._times.slack

    def close(self) -> None:
        self._give_up_offset()
        # This fails if no transaction is open, or if it cannot be aborted. The next producer then ends it.
        with suppress(KafkaException, HungError):
            self._call("abort the batch", self._times.abort, lambda: self.client.abort_transaction(self._times.abort))
        del self.client
        discard(self._clients)

    def _committed(self, deadline: float) -> bool:
        """True if the commit has succeeded; False if another attempt is safe and may succeed.

        Raises KafkaException for an error that no attempt can change, and for any error after the deadline.
        """
        seconds = max(0.1, deadline - time.monotonic())
        try:
            self._call("commit the batch", seconds, lambda: self.client.commit_transaction(seconds))
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            return False
        return True


def late_copy_reason(attempts: int, seconds: float, troubles: Collection[KafkaError], slow: float) -> str:
    """The reason why a copy of a commit's EndTxn request may still reach the broker; "" if no copy can.

    attempts  number of calls of `commit_transaction`
    seconds      seconds that all of these calls took
    troubles  errors that the client reported since the transaction began: lost connections, requests that timed out
    slow      seconds beyond which a commit may have been sent twice (TimeLimits.slow_commit)
    """
    if attempts > 1:
        return f"the commit needed {attempts} attempts"
    if seconds > slow:
        return f"the commit took {seconds:.1f} seconds"
    if troubles:
        return f"the client reported: {next(iter(troubles)).str()}"
    return ""


class AtLeastOnce(BatchProducer):
    """Writes batches without transactions.

    Records are visible as soon as a broker has them. A batch that fails is written again as a whole, so readers may see
    some of its records twice.
    """

    def __init__(self, kafka: Mapping[str, str], query: str, limits: Collection[int], times: TimeLimits) -> None:
        self._failures: list[KafkaError] = []
        super().__init__(kafka, limits, times, {"enable.idempotence": True, "on_delivery": self._delivered})
        self._group = ledger.group_member(kafka, query)
        self._clients.append(self._group)

    def begin(self, offset: TopicPartition) -> None:
        self._failures.clear()
        self._offset = offset

    def _enqueue(self, records: Records, start: int, stop: int) -> int:
        """Enqueues records one by one: the client reports failures only of records that it got as Python objects."""
        for number, row in enumerate(records.rows(start, stop), start):
            try:
                self.client.produce(records.topic, *row)
            except BufferError:
                return number
        return stop

    def confirm(self) -> None:
        """Waits until the brokers have confirmed all records. An entry of the ledger's topic counts while the ledger's
        group has no offset: before the end of the first batch, and after the offset has expired.
        """
        self._flush()

    def finish(self) -> None:
        self._flush()
        step, offsets = self._times.step, [self._offset]
        self._call("commit the ledger", step, lambda: self._group.commit(offsets=offsets, asynchronous=False))

    def close(self) -> None:
        with suppress(KafkaException, HungError):
            self._call("give up the batch", self._times.abort, self.client.purge)
        del self.client, self._group
        discard(self._clients)

    def _flush(self) -> None:
        step = self._times.step
        left = self._call("write the batch", step, lambda: self.client.flush(step))
        if self._failures:
            raise KafkaException(self._failures[0])
        if left:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)


def _socket_timeout(properties: Mapping[str, object]) -> int:
    """Milliseconds: the client accepts no time-out of a request that is longer than one of a transaction."""
    return min(int(str(properties[name])) for name in ("socket.timeout.ms", "transaction.timeout.ms"))


def hand_over(
    enqueue: Callable[[Records, int, int], int],
    poll: Callable[[float], object],
    records: Records,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    """Calls `enqueue` for about `chunk_bytes` bytes of the records at a time, and `poll` after each call.

    Raises KafkaException if `enqueue` takes no record for RETRY_TIMEOUT_S.
    """
    chunk = max(1, min(CHUNK, len(records) * chunk_bytes // max(records.columns.nbytes, 1)))
    at, deadline = 0, time.monotonic() + RETRY_TIMEOUT_S
    while at < len(records):
        stop = min(at + chunk, len(records))
        reached = enqueue(records, at, stop)
        if reached > at:
            deadline = time.monotonic() + RETRY_TIMEOUT_S
        elif time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._QUEUE_FULL))  # noqa: SLF001
        poll(0 if reached == stop else FULL_PAUSE)
        at = reached


def _raised_by(call: Callable[[], object]) -> KafkaError | None:
    """The error of Kafka that the call raises, or None. A call that does not return raises none."""
    try:
        with suppress(HungError):
            call()
    except KafkaException as error:
        return error.args[0]
    return None


BATCH_PRODUCERS: Mapping[str, type[ExactlyOnce | AtLeastOnce]] = {
    "exactly_once": ExactlyOnce,
    "at_least_once": AtLeastOnce,
}
