"""The state of one bucket (a slice of the key space): in memory, and in the checkpoint as a snapshot and a log.

The log has one entry per batch: the rows of the batch for this bucket, from which the state can be computed again. So
the cost of a batch is proportional to its rows. Now and then (snapshot_schedule.py) a new snapshot of the whole state
is written in the background. If the state is small (two copies of it are not larger than the rows of the batch), the
batch writes two snapshots in place of the log entry: two, so that one is left if the other is damaged.

A task requests the state of one version (bucket_memory.py). If the state in memory has that version, it is used.
Otherwise the state is computed again: from the state in memory if that is older than the requested version but newer
than the newest usable snapshot, else from that snapshot, and the log entries that follow.

A damaged snapshot is skipped. The snapshot before it and all log entries after that older snapshot are still in the
checkpoint, and lead to the same state.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from sluice.batch.packed_rows import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.columns.saved_columns import StateError
from sluice.engine.graph import GraphState
from sluice.engine.stream.items import Items
from sluice.invariants import violated
from sluice.kafka.kafka_errors import TakenOverError
from sluice.state.bucket_batch import Batch
from sluice.state.bucket_log import Entry, Log
from sluice.state.bucket_memory import BucketMemory
from sluice.state.checksummed_blocks import LOGGER, DamagedError, Owner
from sluice.state.snapshot_schedule import SnapshotSchedule
from sluice.state.snapshots import Background, Snapshots
from sluice.time_units import UNSET

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


class Bucket(BucketMemory):
    """The bucket with this number, in memory and in the checkpoint: its snapshots are objects of the checkpoint
    store, its log is in a local folder.
    """

    def __init__(self, plan: Plan, number: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds, after which a snapshot for the store of `state:` is due."""
        super().__init__(plan, number)
        self.owner = Owner(plan.pipeline.name, plan.query, number)
        self._log = Log(folder_of(plan, number), self.owner, forced=plan.forced)
        self._snapshots = Snapshots(plan.store, f"{_prefix(number)}/", self.owner)
        self._schedule = SnapshotSchedule(plan, number, clock)
        self.background = Background()
        #: which folder has the buckets (`_folder_id`)
        self._folder = self._folder_id()
        #: the size of the state in a snapshot after the last batch, in bytes
        self.held = 0
        #: version and bytes of the snapshot that is written in the background
        self._writing, self._size = 0, 0
        #: bytes read and written since the last report
        self._read, self._written = 0, 0

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

    def newest(self) -> int:
        """The newest version in the checkpoint."""
        return max(self._log.last(), self._snapshots.newest(sys.maxsize))

    def snapshots(self, upto: int) -> list[int]:
        """The versions of the snapshots in the checkpoint up to `upto` (inclusive), the newest first."""
        return self._snapshots.versions(upto)

    def at(self, version: int) -> GraphState:
        """The state of this version. The caller may change it."""
        self._go_to(version)
        self._version = UNSET  # because the caller may change it
        return self._state

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
        self._require_folder()
        writing = self.writing
        # While a snapshot is being written, the limit is three times as high: a write that takes so long hangs.
        if self._version > 0 and self._schedule.due(self.held, 3 if writing else 1):
            self.write_snapshot()
        needless = self._schedule.needless_before(self._version)
        if needless:
            self._snapshots.delete_before(needless)
            self._log.delete_upto(needless)

    def write_snapshot(self) -> None:
        """Writes a snapshot of the state in memory.

        It is written at once if the state is small, or if another snapshot is still being written, whose writing is
        stopped. Otherwise it is written in the background.
        """
        self._require_folder()
        write = partial(self._snapshots.write, self._version, self._write_here)
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

    # ---- to another version -----------------------------------------------------------------------------------------

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
            self._read_snapshot(start, body)
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
            self._schedule.logged(entry.size)
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
            self._schedule.exist(versions[len(damages) :])
            return version, body, damages
        self._schedule.exist([])
        return 0, memoryview(b""), damages

    def _read_snapshot(self, version: int, body: memoryview) -> None:
        """Loads the state in memory from a snapshot. Version 0 is the initial state."""
        self._schedule.loaded()
        try:
            self._load(body)
        except StateError as error:
            msg = f"{self._location}, version {version}: {error}"
            raise StateError(msg) from error
        self._read += len(body)

    def _applied(self, seconds: float, records: int) -> None:
        self._schedule.applied(seconds, records)

    # ---- in the checkpoint ------------------------------------------------------------------------------------------

    def _record(self, entry: Entry) -> None:
        """Writes a batch to the checkpoint: as an entry of the log, or the state itself if that takes fewer bytes."""
        self._require_folder()
        if 2 * self.held <= entry.size:  # two copies, because no log entry can replace a damaged one
            self._snapshots.write(entry.version, self._write_here, twice=True)
            self._written += 2 * self.held
            self._begin_anew(entry.version)
            return
        self._log.append(entry)
        self._require_folder()  # which exists now
        self._schedule.logged(entry.size)
        self._written += entry.size

    def _write_here(self, sink: pa.NativeFile) -> None:
        """Writes the state. The store shows the snapshot after that, if the folder is still that of this bucket."""
        self._write(sink)
        self._require_folder()

    def _require_folder(self) -> None:
        """Raises TakenOverError if the folder of the buckets was removed, or another start has replaced it by one with
        states of another history or of other buckets: this process has outlived its start, and what it wrote would
        count, or keep a start from restoring an empty checkpoint.
        """
        now = self._folder_id()
        if self._folder not in (None, now):
            raise TakenOverError(f"{self._location}: another start of this pipeline has replaced the checkpoint")
        self._folder = self._folder or now

    def _folder_id(self) -> int | None:
        """What identifies the folder that has the folders of all buckets; None before the first batch."""
        try:
            return Path(self.plan.checkpoint, "buckets").stat().st_ino
        except FileNotFoundError:
            return None

    def _finish(self, *, succeeded: bool) -> None:
        if succeeded:
            self._written += self._size
            self._schedule.cover(self._writing)
        else:
            LOGGER.warning("%s: no snapshot of version %d was written", self._location, self._writing)
            self._schedule.failed()

    def _begin_anew(self, version: int) -> None:
        """Records that a snapshot of this version exists, and that the log after it is empty."""
        self._log_begins()
        self._schedule.cover(version)

    def _log_begins(self) -> None:
        """Begins a new file of the log, and counts what follows the snapshot that is written now."""
        self._log.turn()
        self._schedule.begins()


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
