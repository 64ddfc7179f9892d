"""Writes each batch, with its entry in the ledger, in one Kafka transaction, so that it is written exactly once.

Spark may run a batch again, after a crash or in another process. The outputs are then equal, because a batch depends
only on data in the checkpoint, and the ledger shows whether an earlier run has written the batch. The page
`docs/exactly-once.md` lists the moments at which something can fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from sluice.invariants import require_offsets
from sluice.kafka import ledger
from sluice.kafka.batch_producers import BATCH_PRODUCERS, DEFAULT_LIMIT, DEFAULTS, BatchProducer, TimeLimits
from sluice.kafka.batch_report import Entry, Planned, Report
from sluice.kafka.client import LOGGER
from sluice.kafka.kafka_errors import (
    ExpiredError,
    FencedError,
    LedgerError,
    TakenOverError,
    UnavailableError,
    WriteError,
)
from sluice.kafka.records import Records
from sluice.kafka.requests import produce_row, transient
from sluice.model.errors import SluiceError
from sluice.processes import without_garbage_collection
from sluice.time_units import MILLISECOND

#: called with records, the row number of a record that exceeds its topic's limit, and the limit in bytes. Returns the
#: records to write in its place
TooLarge = Callable[[Records, int, int], Iterable[Records]]

#: properties of a producer for large batches: the longest transaction that brokers allow by default
LONG = {"transaction.timeout.ms": "900000"}
FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001

#: what a user can do about records that a topic refuses, by the broker's error
REFUSED = {
    KafkaError.INVALID_RECORD: ". A topic that Kafka compacts takes only records that have a key: set its "
    "cleanup.policy=delete, or give the stream a `key`",
    KafkaError.MSG_SIZE_TOO_LARGE: ". Its max.message.bytes was lowered while the service ran: the next start reads "
    "it, and larger records then become dead letters",
}


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The settings of a writer. They are hashable: a process keeps one writer for each different value.

    kafka     properties of the pipeline file's `kafka:` block
    query     name of the query, after which its transactional id and its ledger are named
    query_id  id of the checkpoint
    delivery  "exactly_once" or "at_least_once" (batch_producers.py)
    limits    `max.message.bytes` by topic
    start     id of this start of the service: a new start makes a new writer, which fences the earlier ones
    large     whether the batch is large enough to need a long transaction time-out
    times     its time limits
    made_for  the fingerprint of the pipeline, its number of buckets and the ids of its input topics, for the entries
    gapless   whether no topic partition may go back: with `on_data_loss: continue` one may, after a loss
    keep      number of batches whose plans the ledger keeps; 0: all of them stay until something else removes them
    parted    the streams of which each bucket writes its part of a batch before this writer closes the batch
    bucket    the bucket whose parts it writes; None: it writes or closes whole batches
    """

    kafka: tuple[tuple[str, str], ...] = field(repr=False)
    query: str
    query_id: str
    delivery: str = "exactly_once"
    limits: tuple[tuple[str, int], ...] = ()
    start: str = ""
    large: bool = False
    times: TimeLimits = field(default_factory=TimeLimits)
    made_for: tuple[str, int, tuple[tuple[str, str], ...]] = ("", 0, ())
    keep: int = 0
    gapless: bool = True
    parted: frozenset[str] = frozenset()
    bucket: int | None = None

    @property
    def name(self) -> str:
        """The name of the ledger, of its group and of the transactional id."""
        return self.query if self.bucket is None else ledger.part_of(self.query, self.bucket)


_writers: dict[WriterSettings, TransactionalWriter] = {}


def writer(settings: WriterSettings) -> TransactionalWriter:
    """This process's writer with these settings. It may be lost with the process: the ledger has all that must last.

    Closes the writers of earlier starts of the query, which have ended: this process may outlive many starts.
    """
    if settings not in _writers:
        for old in [other for other in [*_writers] if other.query == settings.query and other.start != settings.start]:
            _writers.pop(old).close()
        _writers[settings] = TransactionalWriter(settings)
    return _writers[settings]


def open_early(settings: WriterSettings, batch: int) -> None:
    """Lets a thread open this process's writer for its first batch, which probably is `batch`.

    Opening takes half a second, in which the start has other work. The first batch waits for it. If it fails, the batch
    opens the writer, and raises the error if that fails, too.
    """
    early_writer = writer(settings)
    threading.Thread(target=early_writer.open, args=(batch,), name="sluice-writer", daemon=True).start()


def close_writers(settings: WriterSettings) -> None:
    """Closes this process's writers with these settings, for small and for large batches. None may be writing."""
    for large in (False, True):
        if (open_writer := _writers.pop(replace(settings, large=large), None)) is not None:
            open_writer.close()


class TransactionalWriter:
    """Writes the batches of one query. A failed batch closes the producer, and the next call makes a new one."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        self._limits = dict(settings.limits)
        self._producer: BatchProducer | None = None
        #: held while the producer is opened or closed
        self._opening = threading.RLock()
        #: number of the batch that the ledger expects, and digest of the previous batch's input, empty if not known
        self._next_batch = 0
        self._digest = ""
        #: the input of the previous batch, if this producer wrote it
        self._planned: Planned | None = None
        self._skipped = 0
        #: start of the open transaction, None if none is open
        self._began: Moment | None = None

    def write(
        self,
        batch: int,
        records: Iterable[Records],
        report: Report,
        too_large: TooLarge | None = None,
        planned: Planned | None = None,
        *,
        before: Planned | None = None,
    ) -> bool:
        """Writes the whole batch or, on an error, nothing. Returns False if the ledger has the batch already.

        too_large   replaces a record that exceeds its topic's limit. It may change `report` while the records are
                    written; the entry in the ledger is written after them. Without it, such a record is dropped
        planned     the input of the batch
        before      for batch 0: the position at which it starts

        Raises LedgerError if the ledger expects another batch, or has a batch of this number with another input, and
        FencedError if another instance wrote that. Raises FencedError, ExpiredError, UnavailableError or WriteError if
        Kafka does not take the batch, and HungError if a call of the client library does not return.
        """
        if batch > self._next_batch and not self._of_bucket:  # the writer of the other size (`large`) has written some
            self.close()
        if self._of_bucket and self._producer is None and self._has(batch, planned):
            return False
        producer = self._opened(batch, planned)
        if batch < self._next_batch:
            self._require_last(batch, planned)
            self._skipped += 1
            return False
        if batch > self._next_batch and not self._of_bucket:
            message = (
                f"the ledger of {self._settings.query!r} expects batch {self._next_batch}, Spark hands over {batch}: "
            )
            raise LedgerError(message + "the checkpoint and the ledger do not fit together; start the service again")
        if self._settings.gapless and planned is not None and self._planned is not None:
            require_offsets(self._planned.offsets, planned.offsets)
        # a batch makes millions of objects and no cycle; the search for cycles takes 0.5 microseconds for each header
        with self._closing_on_error("write the batch", batch), without_garbage_collection():
            start = self._settings.start if self._settings.parted and not self._of_bucket else ""
            buckets = self._settings.made_for[1]
            producer.begin(ledger.offset_after(batch, self._settings.query_id, planned, start, buckets))
            self._began = began = Moment.now()
            for piece in within(self._limits, records, too_large):
                producer.produce(piece)
            producer.confirm()
            self._produce_entry(producer.client, batch, report, planned, began)
            self._produce_plans(producer.client, batch, planned, before)
            producer.finish()
        self._next_batch, self._skipped, self._began = batch + 1, 0, None
        self._digest, self._planned = "" if planned is None else planned.digest, planned
        if producer.spent:
            LOGGER.warning("batch %s is written; the next one gets a new producer: %s", batch, producer.spent)
            self.close()
        return True

    def open(self, batch: int) -> None:
        """Opens the producer for this batch, if it can: `write` opens it otherwise, and raises what prevents it."""
        try:
            self._opened(batch, None)
        except SluiceError as error:
            LOGGER.debug("the writer is not opened before the first batch: %s", error)

    def close(self) -> None:
        with self._opening:
            if self._producer:
                self._producer.close()
            self._producer, self._began, self._planned = None, None, None

    def _opened(self, batch: int, planned: Planned | None) -> BatchProducer:
        with self._opening:
            if self._producer is None:
                with self._closing_on_error("open the ledger", batch):
                    self._require_turn(batch, planned)
                    settings = self._settings
                    producer_class = BATCH_PRODUCERS[settings.delivery]
                    self._producer = producer_class(self._kafka, settings.name, self._limits.values(), settings.times)
                    if settings.parted:
                        self._require_owner(batch)
                    self._next_batch, self._digest = self._read_ledger(batch)
            return self._producer

    @property
    def _of_bucket(self) -> bool:
        return self._settings.bucket is not None

    def _has(self, batch: int, planned: Planned | None) -> bool:
        """Whether the ledger of the bucket has the part already. Then no writer needs to be fenced to find that out.

        It also has the part if the batch is closed: a start before this one, with one writer, has written the whole
        batch, and was killed before Spark noted that.
        """
        next_batch, digest = self._read_parts(fenced=False)
        if next_batch == batch + 1 and bool(digest) and _may_be(digest, planned):
            return True
        return ledger.is_closed(dict(self._settings.kafka), self._settings.query, self._settings.query_id, batch)

    def _require_owner(self, batch: int) -> None:
        """Raises TakenOverError unless this start may write batches in parts. The writer has fenced all others before:
        one that opens later does so after this check.
        """
        settings = self._settings
        if ledger.owner(dict(settings.kafka), settings.query) != (settings.query_id, settings.start):
            part = "" if settings.bucket is None else f"the part of bucket {settings.bucket} of "
            raise TakenOverError(
                f"cannot write {part}batch {batch} of {settings.query!r}: another instance of this pipeline has "
                "started and taken over; this one must stop"
            )

    def _require_turn(self, batch: int, planned: Planned | None) -> None:
        """Raises FencedError if another instance has written this batch or a later one, and LedgerError if the ledger
        is that of another checkpoint. A new producer would fence that instance.

        Where batches have parts, no writer opens for another start than the one that owns the ledger: the other
        instance may have closed this very batch, with the same plan.

        At its start the service has brought the checkpoint to the ledger, so only another instance can be ahead of it.
        """
        if self._settings.parted:
            self._require_owner(batch)
        next_batch, digest = self._read_ledger(batch, ledger.OPEN)
        if next_batch > batch + 1 or (next_batch == batch + 1 and not _may_be(digest, planned)):
            raise FencedError(
                f"cannot write batch {batch} of {self._settings.query!r}: another instance of this pipeline has taken "
                f"over, and has written batch {next_batch - 1}; this one must stop"
            )

    @property
    def _kafka(self) -> dict[str, str]:
        """The properties of the producer. A property in the pipeline file overrides one for large batches."""
        return (LONG if self._settings.large else {}) | dict(self._settings.kafka)

    def _require_last(self, batch: int, planned: Planned | None) -> None:
        """Raises LedgerError unless `batch` is the last written batch and, if both digests are known, has its input."""
        if batch < self._next_batch - 1:
            message = (
                f"the ledger of {self._settings.query!r} has batch {self._next_batch - 1} already, Spark runs batch "
                f"{batch}: the checkpoint is an older copy, or another instance of this pipeline goes on with a copy"
            )
            raise LedgerError(message)
        if not _may_be(self._digest, planned):
            raise LedgerError(ledger.parted_message(self._settings.query, batch))

    def _read_ledger(self, batch: int, isolation: str = "read_committed") -> tuple[int, str]:
        """The number of the batch that the ledger expects, and the digest of the previous batch's input."""
        settings = self._settings
        if self._of_bucket:
            return self._read_parts(fenced=isolation == "read_committed")
        position = ledger.read_position(dict(settings.kafka), settings.name, isolation)
        if position is None and batch > 0 and isolation != "read_committed":
            # The first transaction is committed, but the brokers have not marked it as such in all topic partitions.
            position = ledger.read_position(dict(settings.kafka), settings.query)
        if position is None:
            if batch > 0:
                raise LedgerError(ledger.lost_message(settings.query, batch))
            return 0, ""
        if position.query_id != settings.query_id:
            raise LedgerError(ledger.foreign_message(settings.query, settings.query_id, position))
        return position.next_batch, position.digest

    def _read_parts(self, *, fenced: bool) -> tuple[int, str]:
        """As `_read_ledger`, for the parts of a bucket: they begin with any batch, and parts of an earlier checkpoint
        do not count. `fenced` as in `ledger.part_position`.
        """
        settings = self._settings
        position = ledger.part_position(dict(settings.kafka), settings.name, fenced=fenced)
        if position is None or position.query_id != settings.query_id:
            return 0, ""
        return position.next_batch, position.digest

    def _produce_entry(
        self, producer: Producer, batch: int, report: Report, planned: Planned | None, began: Moment
    ) -> None:
        settings, now = self._settings, time.time_ns() // MILLISECOND
        since = int(began.wall * 1000)  # rounded down, as the time of the entry is
        outcome = (now, self._skipped, report, since, planned)
        fingerprint, buckets, topics = settings.made_for
        parted = tuple(sorted(settings.parted)) if self._of_bucket else ()
        entry = Entry(settings.query, settings.query_id, batch, *outcome, fingerprint, buckets, dict(topics), parted)
        produce_row(producer, ledger.TOPIC, (entry.to_json(), settings.name.encode(), ledger.PARTITION))

    def _produce_plans(self, producer: Producer, batch: int, planned: Planned | None, before: Planned | None) -> None:
        """Keeps the batch's plan, and removes the one that has become too old."""
        settings = self._settings
        # The entry of a part has its plan, and the driver keeps those of closed batches.
        plans: dict[int, Planned | None] = {} if planned is None or self._of_bucket else {batch: planned}
        plans |= {} if before is None else {batch - 1: before}
        if settings.keep and batch >= settings.keep and not self._of_bucket:
            plans |= {batch - settings.keep - 1: None}
        for value, key in ledger.plan_records(settings.query, settings.query_id, plans):
            produce_row(producer, ledger.TOPIC, (value, key, ledger.PARTITION))

    @contextmanager
    def _closing_on_error(self, action: str, batch: int) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            open_for = self._began.seconds_ago() if self._began else 0.0
            reason = error.args[0] if self._producer is None else self._producer.reason(error.args[0])
            self.close()
            failed = f"cannot {action} ({self._settings.query!r}, batch {batch})"
            if reason.code() in FENCED and self._expired(open_for, batch):
                raise ExpiredError(f"{failed}: {self._expiry(open_for)}") from error
            raise _explained(reason, failed) from error
        except BaseException:
            self.close()
            raise

    def _expired(self, open_for: float, batch: int) -> bool:
        """Whether the broker refuses the producer because its transaction was open for too long.

        The broker aborts a transaction that is open for longer than its limit, and raises the producer's epoch. A new
        instance of the service raises the epoch, too. Before the limit, only a new instance can have raised it. After
        the limit, the ledger shows the cause: only a new instance can have written the batch.
        """
        if open_for < self._limit:
            return False
        with suppress(UnavailableError):
            position = ledger.read_position(dict(self._settings.kafka), self._settings.name, ledger.OPEN)
            return position is None or position.next_batch <= batch
        return True

    @property
    def _limit(self) -> float:
        """The longest time that a transaction may be open, in seconds."""
        milliseconds = self._kafka.get("transaction.timeout.ms", DEFAULTS["transaction.timeout.ms"])
        return int(str(milliseconds)) / 1000

    def _expiry(self, open_for: float) -> str:
        return (
            f"its transaction was open for {open_for:.0f} seconds, and the broker has aborted it after "
            f"{self._limit:g} (transaction.timeout.ms); nothing of it is visible. The machine or the broker was "
            "too slow, or stood still; make batches smaller (max_records_per_batch), or the limit longer"
        )


def _may_be(digest: str, planned: Planned | None) -> bool:
    """Whether the ledger's digest of a batch may be that of this input. True if one of them is not known."""
    return planned is None or digest in ("", planned.digest)


class Moment(NamedTuple):
    """A point in time on the monotonic clock and on the wall clock, which also runs while the machine is suspended."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), time.time())

    def seconds_ago(self) -> float:
        """The seconds since this moment: the larger value of the two clocks."""
        now = Moment.now()
        return max(now.monotonic - self.monotonic, now.wall - self.wall)


def within(limits: Mapping[str, int], batch: Iterable[Records], too_large: TooLarge | None = None) -> Iterator[Records]:
    """The records of a batch that their topics accept. `limits`: bytes by topic.

    `too_large` replaces each larger record (see TooLarge), also one that it made; without it, larger records are
    dropped.
    """
    for records in batch:
        limit, start = limits.get(records.topic, DEFAULT_LIMIT), 0
        for row in records.larger(limit):
            yield records.part(start, row)
            if too_large is not None:
                yield from within(limits, too_large(records, row, limit), too_large)
            start = row + 1
        yield records.part(start, len(records)) if start else records


def _explained(error: KafkaError, action: str) -> Exception:
    if error.code() in FENCED:
        message = f"{action}: another instance of this pipeline has started and taken over; this one must stop"
        return FencedError(message)
    if transient(error):
        return UnavailableError(f"{action}: {error.str()}")
    return WriteError(f"{action}: {error.str()}{REFUSED.get(error.code(), '')}")
