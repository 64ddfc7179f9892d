"""Writes batches, each in one Kafka transaction with its entry in the ledger, so that each is written exactly once.

Spark may run a batch again, after a crash or in another process. Its outputs are then equal (nothing enters a batch
that is not in the checkpoint), and the ledger tells whether the first time was complete. `docs/exactly-once.md` goes
through the moments at which something can fail.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Report
from sluice.kafka.client_log import LOGGER
from sluice.kafka.kafka_errors import ExpiredError, FencedError, LedgerError, UnavailableError, WriteError
from sluice.kafka.planned_batch import Planned
from sluice.kafka.records import Records
from sluice.kafka.requests import transient
from sluice.kafka.sessions import DEFAULT_LIMIT, DEFAULTS, SECONDS, SESSIONS, Session
from sluice.time_units import MILLISECOND

#: what to do with a row that is larger than its topic's limit: records to write instead, or nothing
TooLarge = Callable[[Records, int, int], Records | None]

CHUNK = 10_000
#: bytes that are handed to the client at once
CHUNK_BYTES = 16 << 20
#: of the transaction of a large batch: the longest time that brokers allow by default
LONG = {"transaction.timeout.ms": "900000"}
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
        #: the batch that the ledger expects, and the digest of what the one before it read, empty if that is not known
        self._next_batch = 0
        self._digest = ""
        self._skipped = 0
        self._took = 0
        #: when the open transaction began, None while there is none
        self._began: Moment | None = None

    def write(
        self,
        batch: int,
        records: Iterable[Records],
        report: Report,
        too_large: TooLarge | None = None,
        planned: Planned | None = None,
    ) -> bool:
        """Writes the batch, all of it or nothing; False if the ledger has it already.

        `too_large` may change the report before the ledger gets it. `planned` is what the batch read: LedgerError is
        raised where the ledger has a batch of this number that read something else.
        """
        if batch > self._next_batch:  # another process of this service wrote meanwhile
            self.close()
        session = self._opened(batch)
        if batch < self._next_batch:
            self._require_last(batch, planned)
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
            self._began = Moment.now()
            self._produce_all(session.producer, records, too_large)
            self._produce_entry(session.producer, batch, report, planned)
            session.finish(ledger.place_after(batch, self._settings.query_id, planned))
        self._next_batch, self._skipped, self._began = batch + 1, 0, None
        self._digest = "" if planned is None else planned.digest
        self._took = round((time.monotonic() - began) * 1000)
        if session.spent:
            LOGGER.warning("batch %s is written; the next one gets a new producer: %s", batch, session.spent)
            self.close()
        return True

    def close(self) -> None:
        if self._session:
            self._session.close()
        self._session, self._began = None, None

    def _opened(self, batch: int) -> Session:
        if self._session is None:
            with self._closing_on_error("open the ledger", batch):
                settings = self._settings
                session = SESSIONS[settings.delivery](self._kafka, settings.query, self._limits.values())
                self._next_batch, self._digest = self._read_ledger(batch)
                self._session = session
        return self._session

    @property
    def _kafka(self) -> dict[str, str]:
        """The properties of the producer. What the file says is preferred to what a large batch needs."""
        return (LONG if self._settings.large else {}) | dict(self._settings.kafka)

    def _require_last(self, batch: int, planned: Planned | None) -> None:
        """Only the last batch that was written may run again, and with the input that it had."""
        if batch < self._next_batch - 1:
            message = (
                f"the ledger of {self._settings.query!r} has batch {self._next_batch - 1} already, Spark runs batch "
                f"{batch}: the checkpoint is an older copy, or another instance of this pipeline goes on with a copy"
            )
            raise LedgerError(message)
        if planned is not None and self._digest not in ("", planned.digest):
            raise LedgerError(ledger.parted_message(self._settings.query, batch))

    def _read_ledger(self, batch: int) -> tuple[int, str]:
        """The batch that the ledger expects, and the digest of the one before it."""
        settings = self._settings
        stand = ledger.read_position(dict(settings.kafka), settings.query)
        if stand is None:
            if batch > 0:
                raise LedgerError(ledger.lost_message(settings.query, batch))
            return 0, ""
        if stand.query_id != settings.query_id:
            raise LedgerError(ledger.foreign_message(settings.query, settings.query_id, stand))
        return stand.next_batch, stand.digest

    def _produce_all(self, producer: Producer, batch: Iterable[Records], too_large: TooLarge | None) -> None:
        for records in within(self._limits, batch, too_large):
            produce(producer, records)

    def _produce_entry(self, producer: Producer, batch: int, report: Report, planned: Planned | None) -> None:
        settings, now = self._settings, time.time_ns() // MILLISECOND
        entry = Entry(settings.query, settings.query_id, batch, now, self._skipped, report, self._took, planned)
        _produce_row(producer, ledger.TOPIC, (entry.to_json(), settings.query.encode(), ledger.PARTITION))

    @contextmanager
    def _closing_on_error(self, action: str, batch: int) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            open_for = self._began.seconds_ago() if self._began else 0.0
            self.close()
            what = f"cannot {action} ({self._settings.query!r}, batch {batch})"
            if error.args[0].code() in FENCED and self._expired(open_for, batch):
                raise ExpiredError(f"{what}: {self._expiry(open_for)}") from error
            raise _explained(error.args[0], what) from error
        except BaseException:
            self.close()
            raise

    def _expired(self, open_for: float, batch: int) -> bool:
        """Whether the broker refuses the producer because its transaction took too long.

        The broker aborts a transaction that is open for longer than its limit, and raises the producer's epoch as a
        new instance does. Before the limit, only a new instance can have raised it. After it, the ledger tells: a new
        instance has written the batch.
        """
        if open_for < self._limit:
            return False
        with suppress(UnavailableError):
            stand = ledger.read_position(dict(self._settings.kafka), self._settings.query, "read_uncommitted")
            return stand is None or stand.next_batch <= batch
        return True

    @property
    def _limit(self) -> float:
        """Seconds that a transaction may be open."""
        milliseconds = self._kafka.get("transaction.timeout.ms", DEFAULTS["transaction.timeout.ms"])
        return int(str(milliseconds)) / 1000

    def _expiry(self, open_for: float) -> str:
        return (
            f"its transaction was open for {open_for:.0f} seconds, and the broker has aborted it after "
            f"{self._limit:g} (transaction.timeout.ms); nothing of the batch is visible. The machine or the broker was "
            "too slow, or stood still; make batches smaller (max_records_per_batch), or the limit longer"
        )


class Moment(NamedTuple):
    """A point in time on the clock that never jumps, and on the one that goes on while the machine is suspended."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), time.time())

    def seconds_ago(self) -> float:
        """The longer of what the two clocks say."""
        now = Moment.now()
        return max(now.monotonic - self.monotonic, now.wall - self.wall)


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
    if transient(error):
        return UnavailableError(f"{what}: {error.str()}; nothing of the batch is visible")
    return WriteError(f"{what}: {error.str()}; nothing of the batch is visible")
