"""Writes batches, each in one Kafka transaction with its entry in the ledger, so that each is written exactly once.

Spark may run a batch again, after a crash or in another process. Its outputs are then equal (nothing enters a batch
that is not in the checkpoint), and the ledger tells whether the first time was complete. `docs/exactly-once.md` goes
through the moments at which something can fail.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Producer

from service.kafka import ledger
from service.kafka.errors import FencedError, LedgerError, UnavailableError, WriteError
from service.kafka.records import Records
from service.kafka.report import Entry, Report
from service.kafka.sessions import DEFAULT_LIMIT, SECONDS, SESSIONS, Session
from service.times import MILLISECOND

#: what to do with a row that is larger than its topic's limit: records to write instead, or nothing
TooLarge = Callable[[Records, int, int], Records | None]

CHUNK = 10_000
#: bytes that are handed to the client at once
CHUNK_BYTES = 16 << 20
#: of the transaction of a large batch: the longest time that brokers allow by default
LONG = {"transaction.timeout.ms": "900000"}
#: the broker is not there, or does not answer
GONE = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}  # noqa: SLF001
FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Everything that a writer needs; hashable, so that a process can keep one writer for each.

    kafka     the properties of the file's `kafka:` block
    query     name of the query: its transactional id and its ledger are named after it
    query_id  of the checkpoint
    limits    `max.message.bytes` of topics
    start     of the service: a new one shuts out the writers of those before
    large     whether the batch has so many bytes that its transaction may last long
    """

    kafka: tuple[tuple[str, str], ...] = field(repr=False)
    query: str
    query_id: str
    delivery: str = "exactly_once"
    limits: tuple[tuple[str, int], ...] = ()
    start: str = ""
    large: bool = False


_writers: dict[WriterSettings, TransactionalWriter] = {}


def writer(settings: WriterSettings) -> TransactionalWriter:
    """This process's writer with these settings. It may be gone tomorrow: all that counts is in the ledger."""
    if settings not in _writers:
        _writers[settings] = TransactionalWriter(settings)
    return _writers[settings]


class TransactionalWriter:
    """Writes the batches of one query. A failed batch closes its producer; the next call starts with a new one."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        self._limits = dict(settings.limits)
        self._session: Session | None = None
        self._next_batch = 0
        self._skipped = 0
        self._took = 0

    def write(self, batch: int, records: Iterable[Records], report: Report, too_large: TooLarge | None = None) -> bool:
        """Writes the batch, all of it or nothing; False if the ledger has it already.

        `too_large` may change the report before the ledger gets it.
        """
        if batch > self._next_batch:  # another process of this service wrote meanwhile
            self.close()
        session = self._opened(batch)
        if batch < self._next_batch:
            self._skipped += 1
            return False
        if batch > self._next_batch:
            message = (
                f"the ledger of {self._settings.query!r} expects batch {self._next_batch}, Spark hands over {batch}: "
            )
            raise LedgerError(message + "the checkpoint and the ledger do not fit together; start the service again")
        began = time.monotonic()
        with self._closing_on_error("write the batch", batch), no_garbage_collection():
            session.begin()
            self._produce_all(session.producer, records, too_large)
            self._produce_entry(session.producer, batch, report)
            session.finish(ledger.place_after(batch, self._settings.query_id))
        self._next_batch, self._skipped = batch + 1, 0
        self._took = round((time.monotonic() - began) * 1000)
        return True

    def close(self) -> None:
        if self._session:
            self._session.close()
        self._session = None

    def _opened(self, batch: int) -> Session:
        if self._session is None:
            with self._closing_on_error("open the ledger", batch):
                settings = self._settings
                kafka = (LONG if settings.large else {}) | dict(settings.kafka)
                session = SESSIONS[settings.delivery](kafka, settings.query, self._limits.values())
                self._next_batch = self._read_ledger(batch)
                self._session = session
        return self._session

    def _read_ledger(self, batch: int) -> int:
        settings = self._settings
        stand = ledger.read_stand(dict(settings.kafka), settings.query)
        if stand is None:
            if batch > 0:
                raise LedgerError(ledger.lost_message(settings.query, batch))
            return 0
        if stand.query_id != settings.query_id:
            raise LedgerError(ledger.foreign_message(settings.query, settings.query_id, stand))
        return stand.next_batch

    def _produce_all(self, producer: Producer, batch: Iterable[Records], too_large: TooLarge | None) -> None:
        for records in within(self._limits, batch, too_large):
            produce(producer, records)

    def _produce_entry(self, producer: Producer, batch: int, report: Report) -> None:
        settings, now = self._settings, time.time_ns() // MILLISECOND
        entry = Entry(settings.query, settings.query_id, batch, now, self._skipped, report, self._took)
        _produce_row(producer, ledger.TOPIC, (entry.to_json(), settings.query.encode(), ledger.PARTITION))

    @contextmanager
    def _closing_on_error(self, action: str, batch: int) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            self.close()
            raise _explained(error.args[0], f"cannot {action} ({self._settings.query!r}, batch {batch})") from error
        except BaseException:
            self.close()
            raise


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A batch makes millions of objects and no cycle; to look for one takes half a microsecond per header."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def within(limits: Mapping[str, int], batch: Iterable[Records], too_large: TooLarge | None = None) -> Iterator[Records]:
    """The batch as its topics take it; in place of each row that is larger there is what `too_large` gives, if any."""
    for records in batch:
        limit = limits.get(records.topic, DEFAULT_LIMIT)
        small, large = records.within(limit)
        yield small
        if too_large is not None:
            yield from filter(None, (too_large(records, row, limit) for row in large))


def produce(producer: Producer, records: Records) -> None:
    """Hands the records to the client, which sends while this runs. Waits where its queue is full."""
    chunk = max(1, min(CHUNK, len(records) * CHUNK_BYTES // max(records.columns.nbytes, 1)))
    for at in range(0, len(records), chunk):
        _produce_rows(producer, records.topic, records.rows(at, min(at + chunk, len(records))))
        producer.poll(0)


def _produce_rows(producer: Producer, topic: str, rows: Iterator[tuple[object, ...]]) -> None:
    one = producer.produce
    for row in rows:
        try:
            one(topic, *row)
        except BufferError:
            _produce_row(producer, topic, row)


def _produce_row(producer: Producer, topic: str, row: tuple[object, ...]) -> None:
    """Waits for room in the client's queue."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            producer.produce(topic, *row)
        except BufferError:
            producer.poll(0.05)
        else:
            return
    raise KafkaException(KafkaError(KafkaError._QUEUE_FULL))  # noqa: SLF001


def _explained(error: KafkaError, what: str) -> Exception:
    if error.code() in FENCED:
        message = f"{what}: another instance of this pipeline has started and taken over; this one must stop"
        return FencedError(message)
    if error.retriable() or error.code() in GONE:
        return UnavailableError(f"{what}: {error.str()}; nothing of the batch is visible")
    return WriteError(f"{what}: {error.str()}; nothing of the batch is visible")
