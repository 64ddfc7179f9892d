"""Writes the outputs of a batch's tasks to Kafka: in one transaction of one process of the service, or some of them in
a transaction of each bucket before that (`commit_part`, in the bucket's state server).

If Kafka does not take the batch because of a transient error, the batch is written again with a new producer, for
`requests.RETRY_TIMEOUT_S` seconds. The ledger shows whether an earlier attempt has written the batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sluice.batch.merge import merged_parts
from sluice.batch.packed_rows import BROADCAST, COUNTS, DEAD_LETTERS, RECORDS, TUPLE_WITH_MARK, Body, Packed, unpack
from sluice.batch.query_plan import Plan
from sluice.batch.reject_collector import dead_letters, read_again
from sluice.batch.spool import in_memory, remove_files
from sluice.checkpoint.offset_log import before_all, force_plan, planned
from sluice.engine.stream.items import EMPTY_FIRING, FINAL, TUPLE, WATERMARK, WINDOW
from sluice.invariants import all_checked, require_rising, violated
from sluice.kafka.batch_producers import DEFAULT_LIMIT
from sluice.kafka.batch_report import Counts, Planned, Report
from sluice.kafka.batch_writer import WriterSettings, within, writer
from sluice.kafka.client import LOGGER
from sluice.kafka.kafka_errors import FencedError, TakenOverError, UnavailableError
from sluice.kafka.records import SCHEMA, Records, records
from sluice.kafka.requests import RETRY_TIMEOUT_S
from sluice.model.errors import cut
from sluice.ops.batch_progress import Observe, Step, StepTimer, ignored
from sluice.time_units import MILLISECOND, SECOND
from sluice.wire.dead_letter_record import DeadLetter, Reason, reason, word_of
from sluice.wire.mark_headers import HEADER, header
from sluice.wire.output_timestamps import UNUSABLE, of_clock

#: kind of a record -> its name in the report
NAMES_IN_REPORT = {
    TUPLE: "tuple", TUPLE_WITH_MARK: "tuple", WINDOW: "window", EMPTY_FIRING: "window", FINAL: "final",
    WATERMARK: "watermark",
}  # fmt: skip
#: kind of a record -> kind of the mark in its headers
MARKS = {TUPLE_WITH_MARK: WINDOW, WINDOW: WINDOW, EMPTY_FIRING: WINDOW, FINAL: FINAL, WATERMARK: WATERMARK}
#: a number above those of all kinds
KINDS = TUPLE_WITH_MARK + 1
#: the kinds of the records that have a tuple
TUPLES = (TUPLE, TUPLE_WITH_MARK)
#: the starts and streams whose first unusable times were reported
_warned: set[tuple[str, str]] = set()
#: a batch of more bytes than this gets a longer transaction time-out
LARGE = 256 << 20
#: characters of a dead letter's reason in the report
MAX_REASON = 200
HEADERS = SCHEMA.field("headers").type
#: number of batches whose plans the ledger keeps, about 250 bytes each; with `state:` it keeps those since a snapshot
PLANS_KEPT = 50_000
#: seconds between two attempts to write a batch
PAUSE = 0.5
#: the most times that the writer of a bucket is fenced by another process at one batch
MOST_FENCED = 5
#: what takes the packed outputs of a batch: plan, number of the batch, rows, what is called with its steps -> the
#: report of the batch, None if it is not known
Deliver = Callable[[Plan, int, list[Packed], Observe], Report | None]


def commit(plan: Plan, batch: int, rows: list[Packed], observe: Observe = ignored) -> Report | None:
    """Writes the batch from the packed rows of all its tasks, unless the ledger has it already.

    Returns the report of the batch, None if the ledger had the batch. Removes the spool files of this batch and of all
    earlier ones. Raises UnavailableError if Kafka does not take the batch within RETRY_TIMEOUT_S seconds (HungError, a
    subclass, if the last attempt did not return), and the other errors of `writer.write`.
    """
    if plan.forced:
        force_plan(Path(plan.checkpoint), batch)
    gathered, written = _written_in_time(plan, settings_of(plan), batch, rows, observe)
    remove_files(plan.checkpoint, batch)
    return gathered.report if written else None


def commit_part(plan: Plan, bucket: int, batch: int, rows: list[Packed]) -> Report:
    """Writes a bucket's part of the batch: the records of streams that the buckets write (`Plan.parted`), in a
    transaction of the bucket. Skips it if the bucket's ledger has it. Without records there is no part.

    Returns the counts of the records. Raises as `commit` does, and TakenOverError if another start of the service has
    taken over.
    """
    if not rows:
        return Report()
    settings = replace(settings_of(plan), bucket=bucket)
    gathered, written = _written_in_time(plan, settings, batch, rows, ignored)
    if not written:  # the records are only counted
        deque(within(dict(plan.limits), gathered.records(), gathered.too_large), maxlen=0)
    return gathered.report


def split_parted(plan: Plan, rows: Iterable[Packed]) -> tuple[list[Packed], list[Packed]]:
    """The rows with records of streams that the buckets write, and the other rows."""
    parted: list[Packed] = []
    others: list[Packed] = []
    for kind, body in in_memory(plan.checkpoint, rows):
        is_parted = kind == RECORDS and unpack(body)[1]["stream"] in plan.parted
        (parted if is_parted else others).append((kind, body))
    return parted, others


def _written_in_time(
    plan: Plan, writing: WriterSettings, batch: int, rows: list[Packed], observe: Observe
) -> tuple[BatchResult, bool]:
    """The outputs, and whether they were written now, as `_written`. Tries again for RETRY_TIMEOUT_S.

    The writer of a bucket may also be fenced by the writer of another process of the same start, which has or had the
    bucket: the next attempt shows whether the part is written.
    """
    deadline, fenced = time.monotonic() + RETRY_TIMEOUT_S, 0
    held = list(in_memory(plan.checkpoint, rows))
    reads = planned(plan.store, batch), before_all(plan.store) if batch == 0 else None
    while True:
        gathered = BatchResult(plan, held, writing.bucket, at=reads[0].time)
        try:
            return gathered, _written(gathered, writing, batch, *reads, observe=observe)
        except TakenOverError:
            raise
        except (UnavailableError, FencedError) as error:
            # A call that did not return may still reach a broker. It cannot do harm: a new producer fences the old one.
            fenced += isinstance(error, FencedError)
            if time.monotonic() > deadline or (fenced and (writing.bucket is None or fenced > MOST_FENCED)):
                raise
            LOGGER.warning("writing the batch again: %s", error)
        time.sleep(PAUSE)


def settings_of(plan: Plan) -> WriterSettings:
    """The settings of this plan's writer."""
    settings = plan.pipeline.settings
    kafka = tuple(sorted(settings.kafka.items()))
    return WriterSettings(
        kafka, plan.pipeline.name, plan.query, settings.delivery, plan.limits, plan.start,
        made_for=(plan.fingerprint, plan.buckets, plan.topic_ids), keep=0 if settings.state else PLANS_KEPT,
        gapless=settings.on_data_loss == "fail", parted=plan.parted,
    )  # fmt: skip


def _written(
    gathered: BatchResult, writing: WriterSettings, batch: int, reads: Planned, before: Planned | None,
    *, observe: Observe,
) -> bool:  # fmt: skip
    """Whether the batch was written now; False if the ledger had it already.

    `reads` is the planned input and, for batch 0, `before` the position before it.
    """
    timer = StepTimer(observe)

    def produced() -> Iterator[Records]:
        yield from gathered.records()
        timer.ended(Step.PRODUCE)

    batch_writer = writer(replace(writing, large=gathered.size > LARGE))
    written = batch_writer.write(batch, produced(), gathered.report, gathered.too_large, reads, before=before)
    if written:
        timer.ended(Step.COMMIT)
    return written


class WrittenStream:
    """The records of a stream that were merged from those of the buckets, and the invariants that hold for them."""

    def __init__(self, name: str) -> None:
        self._name = name
        #: number of records by kind
        self._counts = np.zeros(KINDS, np.int64)
        #: the time and the ordinal of the last record
        self._last: tuple[int, int] | None = None

    def add(self, part: pa.RecordBatch) -> None:
        """Raises InvariantError if the part does not follow the parts before it."""
        if not part.num_rows:
            return
        at, ordinal, kind = (part.column(name).to_numpy() for name in ("at", "ordinal", "kind"))
        if self._last is not None and (at[0], ordinal[0]) < self._last:
            raise violated("outputs in order", f"stream {self._name}: {at[0], ordinal[0]} follows {self._last}")
        require_rising("outputs in order", f"stream {self._name}", at, ordinal)
        if all_checked() and (self._counts[FINAL] or (kind[:-1] == FINAL).any()):
            raise violated("marks are last", f"stream {self._name} has records behind its final mark")
        self._last = int(at[-1]), int(ordinal[-1])
        self._counts += np.bincount(kind, minlength=KINDS)

    def check(self, sources: Iterable[Iterable[pa.RecordBatch]]) -> None:
        """Raises InvariantError unless exactly the records of `sources`, by bucket, were added to the stream.

        There may be fewer EMPTY_FIRING records: the records of all buckets for one firing become one.
        """
        kinds = (part.column("kind").to_numpy() for slices in sources for part in slices)
        lost = sum((np.bincount(kind, minlength=KINDS) for kind in kinds), start=-self._counts)
        lost[EMPTY_FIRING] = min(lost[EMPTY_FIRING], 0)
        if lost.any():
            raise violated("firings are whole", f"stream {self._name}: {lost.tolist()} records, by kind, are lost")


class BatchResult:
    """The outputs of all tasks of a batch. Its report is complete when `records` has been read to the end."""

    def __init__(self, plan: Plan, rows: list[Packed], bucket: int | None = None, *, at: int | None = None) -> None:
        """With `bucket`, they are those of this bucket alone, for its own topic partitions. `at`: when the batch was
        planned, in nanoseconds since 1970; now, if it was not.
        """
        self._plan, self._bucket = plan, bucket
        self._at = time.time_ns() if at is None else at
        self._rows = rows
        self._dead = plan.pipeline.streams[plan.pipeline.dead_letters] if plan.pipeline.dead_letters else None
        self.report = Report()
        #: False after rejected records could not be read again; the others of the batch are then not tried
        self._readable = True
        #: whether a dead letter was larger than its topic takes
        self._lost = False

    def records(self) -> Iterator[Records]:
        """All records to write: the streams in order of their names, then the dead letters."""
        for packed in self._holding(COUNTS):
            self.report.add(Report.from_json(bytes(packed)))
        for name, sources in sorted(self._sources().items()):
            written = WrittenStream(name)
            for part in merged_parts(sources, self._plan.buckets):
                written.add(part)
                yield self._of_stream(name, part)
            written.check(sources)
        for letters in dead_letters(self._holding(DEAD_LETTERS), self._plan.bounds.piece):
            yield from self._dead_letters(self._as_they_were(letters))

    def too_large(self, refused: Records, row: int, limit: int) -> Iterator[Records]:
        """What replaces row `row` of `refused`, a record of more than `limit` bytes: the mark that it carries, as a
        record of its own, and a dead letter if the pipeline has a stream for them. Corrects the report.

        A mark whose key alone is too large stays a header of the dead letter. A dead letter was cut to the limit
        (`DeadLetter.record`): if it is too large nevertheless, it is not written.
        """
        name = next((stream.name for stream in self._plan.pipeline.outputs if stream.topic == refused.topic), None)
        if name is None:
            self._log_lost(refused.topic, limit)
            return
        (record,) = refused.columns.slice(row, 1).to_pylist()
        marks, kind = [header for header in record["headers"] or () if header[0] == HEADER], NAMES_IN_REPORT[TUPLE]
        if marks:
            empty, key = (pa.array([value], pa.binary()) for value in (b"", record["key"]))
            partition, timestamp = (np.array([record[column]]) for column in ("partition", "timestamp"))
            mark_record = records(refused.topic, empty, key, partition, timestamp, [marks])
            if not mark_record.larger(limit):
                yield mark_record
            elif record["value"]:
                marks = []
            else:  # the record is the mark
                marks, kind = [], marks[-1][1].decode()
        _add(self.report.written, name, kind, -1)
        letter = DeadLetter(
            stream=name, topic=refused.topic, partition=record["partition"], offset=-1, timestamp=record["timestamp"],
            reason=reason(Reason.TOO_LARGE, f"the topic takes at most {limit} bytes"),
            key=record["key"], value=record["value"], headers=[h for h in record["headers"] or () if h not in marks],
        )  # fmt: skip
        yield from self._dead_letters([letter])

    def _log_lost(self, topic: str, limit: int) -> None:
        """Says, once for each batch, that dead letters cannot be written."""
        if not self._lost:
            LOGGER.warning(
                "dead letters are not written: topic %s takes records of at most %d bytes (max.message.bytes), and "
                "their headers alone have more",
                topic, limit,
            )  # fmt: skip
        self._lost = True

    @property
    def size(self) -> int:
        """The number of bytes of all packed rows."""
        return sum(len(packed) for _, packed in self._rows)

    def _holding(self, row_kind: int) -> Iterator[Body]:
        return (packed for kind, packed in self._rows if kind == row_kind)

    def _sources(self) -> dict[str, list[list[pa.RecordBatch]]]:
        """By stream: a list for each bucket that has records, with its Arrow batches in order."""
        by_stream: dict[str, dict[int, list[pa.RecordBatch]]] = {}
        for packed in self._holding(RECORDS):
            batch, metadata = unpack(packed)
            by_stream.setdefault(metadata["stream"], {}).setdefault(int(metadata["bucket"]), []).append(batch)
        return {name: [batches for _, batches in sorted(by_bucket.items())] for name, by_bucket in by_stream.items()}

    def _as_they_were(self, letters: list[DeadLetter]) -> list[DeadLetter]:
        if not self._dead or not self._readable:
            return letters
        letters, self._readable = read_again(self._plan.pipeline.settings.kafka, letters)
        return letters

    def _of_stream(self, name: str, batch: pa.RecordBatch) -> Records:
        kind = batch.column("kind").to_numpy()
        partition = batch.column("partition").to_numpy()
        if (partition == BROADCAST).any():
            every = partition == BROADCAST
            times = np.where(every, self._plan.topic_partitions[name], 1)
            partition = np.where(np.repeat(every, times), _ranges(times), np.repeat(partition, times))
            batch = batch.take(pa.array(np.repeat(np.arange(len(kind)), times)))
            kind = np.repeat(kind, times)
        if self._bucket is not None:
            batch, kind, partition = self._own(name, batch, kind, partition)
        _count(self.report.written, name, kind)
        topic = str(self._plan.pipeline.streams[name].topic)
        names = batch.schema.names
        timestamps = of_clock(batch.column("at").to_numpy())
        if "stamp" in names:
            stamps = batch.column("stamp").to_numpy()
            self._warn_of_times(name, int(np.count_nonzero((stamps == UNUSABLE) & np.isin(kind, TUPLES))))
            timestamps = np.where(stamps == UNUSABLE, timestamps, stamps)
        key = batch.column("own_key" if "own_key" in names else "key")
        headers = _headers(kind, batch.column("headers") if "headers" in names else None)
        return records(topic, batch.column("value"), key, partition, timestamps, headers)

    def _own(
        self, name: str, batch: pa.RecordBatch, kind: np.ndarray, partition: np.ndarray
    ) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
        """The records for the topic partitions of the bucket: it has the marks of the others, too.

        Raises InvariantError if it has a tuple for a topic partition of another bucket.
        """
        is_own = partition % self._plan.buckets == self._bucket
        if (~is_own & np.isin(kind, TUPLES)).any():
            raise violated("one bucket for a topic partition", f"stream {name}, bucket {self._bucket}")
        return (
            (batch, kind, partition)
            if is_own.all()
            else (batch.filter(pa.array(is_own)), kind[is_own], partition[is_own])
        )

    def _warn_of_times(self, name: str, count: int) -> None:
        """Says once for each start and stream that records got the operator clock as their timestamp."""
        if count and (self._plan.start, name) not in _warned:
            _warned.add((self._plan.start, name))
            stream, ahead = self._plan.pipeline.streams[name], self._plan.pipeline.settings.max_future / SECOND
            LOGGER.warning(
                "stream %s: %d records get the operator clock as their timestamp, since %s is not after 1970, or "
                "more than %g s (max_future) ahead of that clock; further ones are not reported",
                name, count, stream.record_timestamp, ahead,
            )  # fmt: skip

    def _dead_letters(self, letters: list[DeadLetter]) -> Iterator[Records]:
        for letter in letters:
            word = word_of(letter.reason)
            _add(self.report.dead_letters, letter.stream, word, 1)
            first = [letter.topic, letter.partition, letter.offset, cut(letter.reason, MAX_REASON)]
            self.report.first_dead.setdefault(letter.stream, {}).setdefault(word, first)
        if letters and self._dead:
            topic = str(self._dead.topic)
            limit = dict(self._plan.limits).get(topic, DEFAULT_LIMIT)
            keys, values, headers = zip(*(letter.record(limit) for letter in letters), strict=True)
            partitions = (
                np.array([letter.partition for letter in letters]) % self._plan.topic_partitions[self._dead.name]
            )
            # A broker may refuse a record whose timestamp lies in the future. A repeated batch has the same records.
            planned_at = self._at // MILLISECOND
            timestamps = np.array([min(letter.timestamp, planned_at) for letter in letters])
            yield records(
                topic, pa.array(values, pa.binary()), pa.array(keys, pa.binary()), partitions, timestamps, headers
            )


def _headers(kind: np.ndarray, own_headers: pa.MapArray | None) -> pa.Array:
    """The headers of each record: its own headers, and the header of the mark that the record is or carries."""
    if not kind.any():
        return pa.nulls(len(kind), HEADERS) if own_headers is None else own_headers
    kinds = list(MARKS)
    mark_headers = pa.array([[header(MARKS[mark_kind])] for mark_kind in kinds], HEADERS)
    code = np.select([kind == mark_kind for mark_kind in kinds], range(len(kinds)))
    marks = mark_headers.take(pa.array(code, mask=kind == TUPLE))
    if own_headers is None:
        return marks
    pairs = zip(own_headers.to_pylist(), marks.to_pylist(), strict=True)
    return pa.array([(own_pairs or []) + (mark_pairs or []) for own_pairs, mark_pairs in pairs], HEADERS)


def _count(counts: Counts, stream: str, kind: np.ndarray) -> None:
    for kind_of_rows, count in zip(*np.unique(kind, return_counts=True), strict=True):
        _add(counts, stream, NAMES_IN_REPORT[kind_of_rows], int(count))


def _add(counts: Counts, stream: str, word: str, count: int) -> None:
    counts_of_stream = counts.setdefault(stream, {})
    counts_of_stream[word] = counts_of_stream.get(word, 0) + count


def _ranges(lengths: np.ndarray) -> np.ndarray:
    """For each length n in turn the numbers 0 to n - 1, in one array."""
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # type: ignore[no-any-return]
