"""The state of one bucket (a slice of the key space): in memory, and in the checkpoint as a snapshot and a log.

The log has one entry per batch: the rows of the batch for this bucket, from which the state can be computed again. So
the cost of a batch is proportional to its rows. When the log is about as large as the state, or when computing the
state from it would take long, a new snapshot of the whole state is written in the background. If the state is small
(two copies of it are not larger than the rows of the batch), the batch writes two snapshots in place of the log
entry: two, so that one is left if the other is damaged.

A version of the state is a number of batches, including those without rows for this bucket. A task requests the state
of one version. If the state in memory has that version, it is used. Otherwise the state is computed again: from the
state in memory if that is older than the requested version but newer than the newest usable snapshot, else from that
snapshot, and the log entries that follow. While a batch is changing the state in memory, that state has no version
and is not used.

A damaged snapshot is skipped. The snapshot before it and all log entries after that older snapshot are still in the
checkpoint, and lead to the same state.
"""

from __future__ import annotations

import sys
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from sluice.batch.envelope import IDLE_CLOCK, RECORDS, TOPICS, Packed, packed_time, topics_of, topics_row
from sluice.batch.inputs_again import PastInput
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.columns.tables import StateError, padded
from sluice.engine.graph import Graph, GraphState
from sluice.engine.stream.items import MAX_TIME, Items
from sluice.invariants import violated
from sluice.state.bucket_batch import Batch, in_order
from sluice.state.bucket_log import Entry, Log
from sluice.state.checksummed_blocks import LOGGER, DamagedError, Owner
from sluice.state.snapshots import Background, Snapshots
from sluice.time_units import SECOND, UNSET

#: minimum number of versions before the newest that can still be computed, because a start repeats the last batch and
#: readers of the checkpoint may use an older version
REPEATABLE_VERSIONS = 3
#: number of snapshots that are kept, including the newest; the initial state (version 0) counts as one
RETAINED_SNAPSHOTS = 2
#: maximum duration of a replay of the log, in seconds, before a new snapshot is written
MAX_REPLAY_S = 20.0
#: bytes of the first field of a snapshot: the length of the reorder buffer, which follows it, `padded`; then the state
#: follows
LENGTH = 8

#: a function that gets a part of a batch and the outputs of this part
Take = Callable[[Batch, dict[str, Items]], None]


@dataclass(frozen=True, slots=True)
class BucketResult:
    """The outputs of a batch or, if it was handled in parts, of its last part.

    `read` and `written` are bytes of state read from and written to the checkpoint since the previous report. `held` is
    the size of the state in bytes.
    """

    batch: Batch
    made: dict[str, Items]
    read: int
    written: int
    held: int


class Bucket:
    """The bucket with this number. Its snapshots are objects of the checkpoint store, its log is in a local folder."""

    def __init__(self, plan: Plan, number: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds, after which a snapshot for the store of `state:` is due."""
        self.plan = plan
        self.number = number
        self.graph = Graph(plan.pipeline, plan.topic_partitions)
        self.owner = Owner(plan.pipeline.name, plan.query, number)
        self._log = Log(folder_of(plan, number), self.owner, forced=plan.forced)
        self._snapshots = Snapshots(plan.store, f"{_prefix(number)}/", self.owner)
        #: the fraction of the maximum log length at which this bucket writes a snapshot: more than 0.5, at most 1. It
        #: differs from bucket to bucket, so that not all of them write their snapshots in the same batch.
        self.share = (1 + (number + 1) / plan.buckets) / 2
        self.background = Background()
        #: the state in memory, the saved reorder buffer with rows that wait for handling (state/bucket_batch.py), the
        #: version of both (UNSET: no version), and their size in a snapshot in bytes
        self._state = self.graph.initial()
        self._waiting = b""
        self._version = 0
        self.held = 0
        #: bytes of the log after the newest snapshot, and the seconds that the batches in it took
        self._behind, self._took = 0, 0.0
        #: when the newest snapshot was begun, and the number of records since then
        self._clock = clock
        self._snapshot_at, self._records = clock(), 0
        #: version and bytes of the snapshot that is written in the background
        self._writing, self._size = 0, 0
        #: bytes read and written since the last report
        self._read, self._written = 0, 0
        #: versions of the existing snapshots that are not known to be damaged, in ascending order
        self._covered = [0]

    def feed(self, version: int, rows: list[Packed], part_made: Take | None = None) -> BucketResult | None:
        """Applies a batch to the state of `version`, which becomes the state of `version` + 1.

        Returns None if the batch has no part: no record arrived, and no time to which the clock could move.

        A batch with many bytes is handled in parts. `part_made` is called with each part except the last one, and with
        the outputs of that part.
        """
        self._go_to(version)
        if self._version != version:
            raise violated("version follows version", f"{self._location}: {self._version} is loaded, not {version}")
        batch: Batch | None = None
        outputs: dict[str, Items] = {}
        for following, following_made in self.try_rows(rows):
            if batch is not None and part_made is not None:
                part_made(batch, outputs)
            batch, outputs = following, following_made
        self.held = self._size_of()
        self._record(Entry(version + 1, rows))
        self._version = version + 1
        if batch is None:
            return None
        read, self._read = self._read, 0
        written, self._written = self._written, 0
        return BucketResult(batch, outputs, read, written, self.held)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """The sizes of each operator in the state in memory."""
        return self.graph.sizes(self._state)

    def left_out(self) -> dict[str, int]:
        """See Graph.left_out."""
        return self.graph.left_out(self._state)

    def newest(self) -> int:
        """The newest version in the checkpoint."""
        return max(self._log.last(), self._snapshots.newest(sys.maxsize))

    def watermarks(self) -> dict[str, int]:
        """The watermark of each stream in the state in memory."""
        return self.graph.watermarks(self._state)

    def due(self) -> int | None:
        """The next time at which the clock alone causes an output of the state in memory; None if there is none."""
        due = self.graph.due(self._state)
        return None if due == MAX_TIME else due

    def ended(self) -> bool:
        """Whether all inputs have ended in the state in memory."""
        return self.graph.ended(self._state)

    def at(self, version: int) -> GraphState:
        """The state of this version. The caller may change it."""
        self._go_to(version)
        self._version = UNSET  # because the caller may change it
        return self._state

    @property
    def version(self) -> int:
        """The version of the state in memory; UNSET if it has none."""
        return self._version

    def in_memory(self) -> GraphState | None:
        """The state in memory, which the caller must not change; None if it has no version."""
        return None if self._version == UNSET else self._state

    def try_rows(self, rows: list[Packed]) -> Iterator[tuple[Batch, dict[str, Items]]]:
        """Applies the rows to the state in memory, and yields each part of the batch with its outputs.

        Nothing is written to the checkpoint, and the state has no version afterwards. The batch is complete only when
        the iterator is exhausted.
        """
        self._version = UNSET
        if not rows:
            return
        topics = next((topics_of(packed) for kind, packed in rows if kind == TOPICS), self.plan.topic_partitions)
        if topics != self.plan.topic_partitions:
            self._set_topic_partitions(topics)
        if self.plan.merging:
            rows, self._waiting = in_order(self.plan, self._waiting, rows)
        for part in Batch.parts(self.plan, rows, self._state.now):
            begin = time.perf_counter()
            outputs = self.graph.feed(self._state, part.inputs, part.clock)
            self._took += time.perf_counter() - begin
            self._records += len(part.ordinals)
            yield part, outputs

    def repeat(self, past: PastInput) -> None:
        """Applies the input of a past batch to the state in memory, as `try_rows` did when the batch first ran."""
        self._version = UNSET
        slices = past.slices.get(self.number, [])
        if not slices and past.idle_clock is None:
            return
        if self.plan.merging:
            rows: list[Packed] = [(RECORDS, piece.copied().packed()) for piece in slices]
            if past.idle_clock is not None:
                rows.append((IDLE_CLOCK, packed_time(past.idle_clock)))
            deque(self.try_rows([*rows, topics_row(past.topic_partitions)]), maxlen=0)
            return
        if past.topic_partitions != self.plan.topic_partitions:
            self._set_topic_partitions(past.topic_partitions)
        for part in self.parts(past):
            self.graph.feed(self._state, part.inputs, part.clock)

    def parts(self, past: PastInput) -> Iterator[Batch]:
        """The parts of a past batch, without the reorder buffer."""
        idle_clocks = [] if past.idle_clock is None else [past.idle_clock]
        return Batch.parts_of(self.plan, past.slices.get(self.number, []), idle_clocks, self._state.now)

    def content(self) -> tuple[GraphState, bytes]:
        """The state in memory and the saved reorder buffer. The caller may change them, so they have no version."""
        self._version = UNSET
        return self._state, self._waiting

    def take(self, version: int, state: GraphState, waiting: bytes) -> None:
        """Makes these the state of `version`, and its reorder buffer, in memory."""
        self._state, self._waiting, self._version = state, waiting, version

    def install(self, version: int, state: GraphState) -> None:
        """Makes `state` the state of `version`, in memory and as a snapshot in the checkpoint."""
        self._state, self._version = state, version
        self._snapshots.write(version, self._write)

    def export(self, store: CheckpointStore, version: int) -> None:
        """Writes the state in memory, which has `version`, as a snapshot with a second copy into another store.

        No log precedes this snapshot there, so a second copy replaces a damaged first one.
        """
        Snapshots(store, f"{_prefix(self.number)}/", self.owner).write(version, self._write, twice=True)

    def maintain(self) -> None:
        """Writes a snapshot if one is due, and removes the snapshots and log files that are not needed any more.

        It is called after the answer to a batch, so that the batch does not wait for this work.
        """
        writing = self.writing
        # While a snapshot is being written, the limit is three times as high: a write that takes so long hangs.
        if self._version > 0 and self._due(3 if writing else 1):
            self.write_snapshot()
        needless = 0
        while (
            len(self._covered) > RETAINED_SNAPSHOTS
            and self._version >= self._covered[RETAINED_SNAPSHOTS] + REPEATABLE_VERSIONS
        ):
            needless = self._covered[1]
            del self._covered[0]
        if needless:
            self._snapshots.delete_before(needless)
            self._log.delete_upto(needless)

    def write_snapshot(self) -> None:
        """Writes a snapshot of the state in memory.

        It is written at once if the state is small, or if another snapshot is still being written, whose writing is
        stopped. Otherwise it is written in the background.
        """
        write = partial(self._snapshots.write, self._version, self._write)
        if self.held <= self.plan.bounds.snapshot or self.background.busy:
            self.background.stop()
            write()
            self._written += self.held
            self._begin_anew(self._version)
            return
        self.background.start(write)
        self._writing, self._size = self._version, self.held
        self._log_begins()

    @property
    def writing(self) -> bool:
        """Whether a snapshot is being written in the background."""
        ended = self.background.ended()
        if ended is not None:
            self._finish(succeeded=ended)
        return self.background.busy

    @property
    def _location(self) -> str:
        return self.plan.store.location(_prefix(self.number))

    # ---- in memory --------------------------------------------------------------------------------------------------

    def _go_to(self, version: int) -> None:
        """Brings the state in memory to `version`.

        Raises StateError or DamagedError if the checkpoint does not lead to this version.
        """
        if self._version == version:
            return
        self._log.turn()  # another process may have gone on meanwhile, and may remove the file of this one
        start, damages = self._version, list[DamagedError]()
        if not self._snapshots.newest(version) <= start < version:
            start, body, damages = self._newest_undamaged(version)
            self._load(start, body)
        try:
            self._feed_again(start, self._log.entries(start, version))
        except StateError as error:
            if damages:
                raise _unreachable(version, damages, error) from error
            raise
        for damage in damages:
            LOGGER.warning("%s; version %d is computed from version %d and the log", damage, version, start)
        self._version = version

    def _feed_again(self, version: int, entries: Iterable[Entry]) -> None:
        """Applies the entries of the versions after `version`."""
        for following, entry in enumerate(entries, version + 1):
            if entry.version != following:
                raise violated("log versions follow", f"{self._location}: {entry.version}, not {following}")
            deque(self.try_rows(entry.rows), maxlen=0)
            self._behind += entry.size
            self._read += entry.size

    def _newest_undamaged(self, upto: int) -> tuple[int, memoryview, list[DamagedError]]:
        """The newest undamaged snapshot up to version `upto` (inclusive): its version, its bytes, and newer damages.

        Version 0 with no bytes stands for the initial state.
        """
        versions, damages = self._snapshots.versions(upto), list[DamagedError]()
        for version in versions:
            try:
                body = self._snapshots.read(version)
            except DamagedError as error:
                damages.append(error)
                continue
            self._covered = [0, *sorted(versions[len(damages) :])]
            return version, body, damages
        self._covered = [0]
        return 0, memoryview(b""), damages

    def _load(self, version: int, body: memoryview) -> None:
        """Loads the state in memory from a snapshot. Version 0 is the initial state."""
        self._version = UNSET
        self._behind, self._took = 0, 0.0
        self._state, self._waiting = self.graph.initial(), b""  # frees the old state first
        if not version:
            return
        length = int.from_bytes(body[:LENGTH], "little")
        try:
            self._state = self.graph.load(body[LENGTH + padded(length) :])
        except StateError as error:
            msg = f"{self._location}, version {version}: {error}"
            raise StateError(msg) from error
        self._waiting = bytes(body[LENGTH : LENGTH + length])
        self._read += len(body)

    def _set_topic_partitions(self, topics: Mapping[str, int]) -> None:
        """Changes the numbers of topic partitions to the numbers that the batch had when it first ran.

        The log stores these numbers, because with more topic partitions the same rows would give other outputs.
        """
        body = self.graph.save(self._state)
        self.plan = replace(self.plan, topic_partitions=topics)
        self.graph = Graph(self.plan.pipeline, topics)
        self._state = self.graph.load(body)

    def _size_of(self) -> int:
        """The number of bytes that `_write` would write."""
        return LENGTH + padded(len(self._waiting)) + self.graph.size(self._state)

    def _write(self, sink: pa.NativeFile) -> None:
        """Writes the content of a snapshot: the length of the reorder buffer, the reorder buffer, and the state."""
        length = len(self._waiting)
        sink.write(length.to_bytes(LENGTH, "little") + self._waiting.ljust(padded(length), b"\0"))
        self.graph.write(self._state, sink)

    # ---- in the checkpoint ------------------------------------------------------------------------------------------

    def _record(self, entry: Entry) -> None:
        """Writes a batch to the checkpoint: as an entry of the log, or the state itself if that takes fewer bytes."""
        if 2 * self.held <= entry.size:  # two copies, because no log entry can replace a damaged one
            self._snapshots.write(entry.version, self._write, twice=True)
            self._written += 2 * self.held
            self._begin_anew(entry.version)
            return
        self._log.append(entry)
        self._behind += entry.size
        self._written += entry.size

    def _due(self, times: int) -> bool:
        """Whether the log is longer than `times` its maximum length, in bytes or in seconds of a replay."""
        most = times * self.share
        return self._behind > most * self.held or self._took > most * MAX_REPLAY_S or self._due_in_store(most)

    def _due_in_store(self, most: float) -> bool:
        """Whether the store of `state:` needs another snapshot, because of the records or the time since the last."""
        settings = self.plan.pipeline.settings
        if settings.state is None or not self._behind:
            return False
        age = (self._clock() - self._snapshot_at) * SECOND
        return self._records * self.plan.buckets > most * settings.snapshot_records or (
            age > most * settings.snapshot_interval
        )

    def _finish(self, *, succeeded: bool) -> None:
        if succeeded:
            self._written += self._size
            self._cover(self._writing)
        else:
            print(f"{self._location}: no snapshot of version {self._writing} was written", file=sys.stderr)  # noqa: T201
            self._took = 2 * MAX_REPLAY_S  # so that the next batch starts another attempt

    def _begin_anew(self, version: int) -> None:
        """Records that a snapshot of this version exists, and that the log after it is empty."""
        self._log_begins()
        self._cover(version)

    def _log_begins(self) -> None:
        """Begins a new file of the log, and counts what follows the snapshot that is written now."""
        self._log.turn()
        self._behind, self._took = 0, 0.0
        self._snapshot_at, self._records = self._clock(), 0

    def _cover(self, version: int) -> None:
        """Records that a snapshot of this version exists. A repeated batch may have recorded it before."""
        if version not in self._covered:
            insort(self._covered, version)


def folder_of(plan: Plan, number: int) -> Path:
    """The local folder of a bucket's log."""
    return Path(plan.checkpoint, _prefix(number))


def _prefix(number: int) -> str:
    """The prefix of the names of the bucket's objects in the checkpoint store."""
    return f"buckets/{number}"


def _unreachable(version: int, damages: list[DamagedError], error: StateError) -> DamagedError:
    """The error for a version that neither the damaged snapshots nor older ones lead to."""
    others = "".join(f"; {damage}" for damage in damages[1:])
    return damages[0].but(f"{others}; and no older snapshot leads to version {version}: {error}")
