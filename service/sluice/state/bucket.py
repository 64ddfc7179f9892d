"""The state of one bucket: at hand in this process, and in the checkpoint as a snapshot and the log behind it.

A batch costs what it brings: its rows go to the log, and the state is changed in place. Where the log has grown about
as long as the state, or would take long to feed again, a new snapshot is written beside the work. A state of which two
copies are no larger than the rows of the batch is written in place of them, twice.

A version is the number of batches that led to it, with and without rows for this bucket. The state at hand counts only
if its version is the one that is asked for, and it has none while a batch changes it. Else it is made again: from the
snapshot, or from what is at hand if that is older, by feeding the log.

A damaged snapshot is passed over: the one before it and the log behind that are kept, and lead to the same state.
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

from sluice.batch.bucket_batch import Batch
from sluice.batch.envelope import TOPICS, Packed, topics_of
from sluice.batch.query_plan import Plan
from sluice.batch.reorder_buffer import in_order
from sluice.columns.tables import StateError
from sluice.engine.graph import Graph, GraphState
from sluice.engine.stream.items import MAX_TIME, Items
from sluice.state.background_fork import Background
from sluice.state.bucket_log import Entry, Log
from sluice.state.integrity import LOGGER, DamagedError, Owner
from sluice.state.snapshots import Snapshots
from sluice.time_units import UNSET

#: versions that stay within reach: a start goes back by the batch in hand, and readers of the checkpoint lag behind
KEPT = 3
#: snapshots that are kept, the newest one included; version 0, the beginning, counts as one
RETAINED = 2
#: seconds that the log may take to feed again
PATIENCE = 20.0
#: snapshots up to so many bytes are written at once: a copy of the process would cost more
SMALL = 4 << 20
#: before the state in a snapshot: the length of what waits in front of it; both are padded to a multiple of it
LENGTH = 8

#: what is called with a part of a batch and what came of it
Take = Callable[[Batch, dict[str, Items]], None]


@dataclass(frozen=True, slots=True)
class BucketResult:
    """What came of a batch, or of its last part, and the bytes of state that were read and written since the last
    batch, and are held.
    """

    batch: Batch
    made: dict[str, Items]
    read: int
    written: int
    held: int


class Bucket:
    """Number `number` of the plan's buckets; `folder` is its own in the checkpoint."""

    def __init__(self, plan: Plan, number: int, folder: Path | None = None) -> None:
        self.plan = plan
        self.number = number
        self.graph = Graph(plan.pipeline, plan.topic_partitions)
        self._folder = folder or folder_of(plan, number)
        owner = Owner(plan.pipeline.name, plan.query, number)
        self._log, self._snapshots = Log(self._folder, owner), Snapshots(self._folder, owner)
        #: of the greatest lengths of the log which this bucket takes, so that not all write their states in one batch
        self.share = (1 + (number + 1) / plan.buckets) / 2
        self.background = Background()
        #: the state at hand, what waits in front of it (holding.py), its version (UNSET while it is none), and how many
        #: bytes it would be in a file
        self._state = self.graph.initial()
        self._waiting = b""
        self._version = 0
        self.held = 0
        #: bytes of the log behind the newest snapshot, and seconds that its batches took
        self._behind, self._took = 0, 0.0
        #: the version of the snapshot that is being written, and its bytes
        self._writing, self._size = 0, 0
        #: bytes that the next report tells of
        self._read, self._written = 0, 0
        #: versions of the snapshots that are there and not known to be damaged, ascending
        self._covered = [0]

    def feed(self, version: int, rows: list[Packed], part_made: Take | None = None) -> BucketResult | None:
        """Takes the bucket from `version` to the next; None where nothing came that tells where the clock stands.

        A batch with many bytes is handled in parts. `part_made` is called with each part but the last one, and with
        what came of it.
        """
        self._go_to(version)
        batch: Batch | None = None
        made: dict[str, Items] = {}
        for following, following_made in self.tried(rows):
            if batch is not None and part_made is not None:
                part_made(batch, made)
            batch, made = following, following_made
        self.held = self._size_of()
        self._keep(Entry(version + 1, rows))
        self._version = version + 1
        if batch is None:
            return None
        read, self._read = self._read, 0
        written, self._written = self._written, 0
        return BucketResult(batch, made, read, written, self.held)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """By operator, as of the state at hand."""
        return self.graph.sizes(self._state)

    def newest(self) -> int:
        """The newest version that is in the checkpoint."""
        return max(self._log.last(), self._snapshots.newest(sys.maxsize))

    def watermarks(self) -> dict[str, int]:
        """By stream, as of the state at hand."""
        return self.graph.watermarks(self._state)

    def due(self) -> int | None:
        """When time alone will bring something out next, as of the state at hand; None: it never will."""
        due = self.graph.due(self._state)
        return None if due == MAX_TIME else due

    def ended(self) -> bool:
        """Whether all inputs are final, as of the state at hand."""
        return self.graph.ended(self._state)

    def at(self, version: int) -> GraphState:
        """The state of this version."""
        self._go_to(version)
        self._version = UNSET  # who has it may change it
        return self._state

    def tried(self, rows: list[Packed]) -> Iterator[tuple[Batch, dict[str, Items]]]:
        """What the parts of a batch make of the state at hand, which then is of no version; nothing goes to the
        checkpoint. The batch is done when this has been read to the end.
        """
        self._version = UNSET
        if not rows:
            return
        topics = next((topics_of(packed) for holds, packed in rows if holds == TOPICS), self.plan.topic_partitions)
        if topics != self.plan.topic_partitions:
            self._know(topics)
        if self.plan.merging:
            rows, self._waiting = in_order(self.plan, self._waiting, rows)
        for part in Batch.parts(self.plan, rows, self._state.now):
            begin = time.perf_counter()
            made = self.graph.feed(self._state, part.inputs, part.clock)
            self._took += time.perf_counter() - begin
            yield part, made

    def plant(self, version: int, state: GraphState) -> None:
        """Makes this the state of a version, and puts it into the checkpoint."""
        self._state, self._version = state, version
        self._snapshots.write(version, self._write)

    def settle(self) -> None:
        """What can wait until a batch has been answered: a snapshot where one is due, and forgetting what it covers."""
        writing = self.writing
        if self._version > 0 and self._due(3 if writing else 1):  # one that takes so long hangs
            self.write_snapshot()
        needless = 0
        while len(self._covered) > RETAINED and self._version >= self._covered[RETAINED] + KEPT:
            needless = self._covered[1]
            del self._covered[0]
        if needless:
            self._snapshots.forget(needless)
            self._log.forget(needless)

    def write_snapshot(self) -> None:
        """Of the state at hand: at once where it is small, or one that is being written hangs, else beside the work."""
        write = partial(self._snapshots.write, self._version, self._write)
        if self.held <= SMALL or self.background.busy:
            self.background.stop()
            write()
            self._written += self.held
            self._begin_anew(self._version)
            return
        self.background.start(write)
        self._writing, self._size = self._version, self.held
        self._log.turn()
        self._behind, self._took = 0, 0.0

    @property
    def writing(self) -> bool:
        """Whether a snapshot is being written beside the work."""
        ended = self.background.ended()
        if ended is not None:
            self._finish(succeeded=ended)
        return self.background.busy

    # ---- at hand ----------------------------------------------------------------------------------------------------

    def _go_to(self, version: int) -> None:
        """Makes the state that of `version`."""
        if self._version == version:
            return
        start, damages = self._version, list[DamagedError]()
        if not self._snapshots.newest(version) <= start < version:
            start, body, damages = self._newest_whole(version)
            self._load(start, body)
        try:
            self._feed_again(self._log.entries(start, version))
        except StateError as error:
            if damages:
                raise _unreachable(version, damages, error) from error
            raise
        for damage in damages:
            LOGGER.warning("%s; version %d is made of version %d and the log", damage, version, start)
        self._version = version

    def _feed_again(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            deque(self.tried(entry.rows), maxlen=0)
            self._behind += entry.size
            self._read += entry.size

    def _newest_whole(self, upto: int) -> tuple[int, memoryview, list[DamagedError]]:
        """The newest snapshot up to this version that is not damaged, or version 0; its bytes; what newer ones have."""
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
        """Makes the state that of a snapshot, or the initial one."""
        self._version = UNSET
        self._behind, self._took = 0, 0.0
        self._state, self._waiting = self.graph.initial(), b""  # room for the one that comes
        if not version:
            return
        length = int.from_bytes(body[:LENGTH], "little")
        try:
            self._state = self.graph.load(body[LENGTH + _padded(length) :])
        except StateError as error:
            msg = f"{self._folder}, version {version}: {error}"
            raise StateError(msg) from error
        self._waiting = bytes(body[LENGTH : LENGTH + length])
        self._read += len(body)

    def _know(self, topics: Mapping[str, int]) -> None:
        """The log tells how many topic partitions there were: to know more of them would have changed what came out."""
        body = self.graph.save(self._state)
        self.plan = replace(self.plan, topic_partitions=topics)
        self.graph = Graph(self.plan.pipeline, topics)
        self._state = self.graph.load(body)

    def _size_of(self) -> int:
        """How many bytes `_write` would write."""
        return LENGTH + _padded(len(self._waiting)) + self.graph.size(self._state)

    def _write(self, sink: pa.NativeFile) -> None:
        """What a snapshot is."""
        length = len(self._waiting)
        sink.write(length.to_bytes(LENGTH, "little") + self._waiting.ljust(_padded(length), b"\0"))
        self.graph.write(self._state, sink)

    # ---- in the checkpoint ------------------------------------------------------------------------------------------

    def _keep(self, entry: Entry) -> None:
        """Puts what is new into the checkpoint."""
        if 2 * self.held <= entry.size:  # there is no log from which it could be made again: one copy may be damaged
            self._snapshots.write(entry.version, self._write, twice=True)
            self._written += 2 * self.held
            self._begin_anew(entry.version)
            return
        self._log.append(entry)
        self._behind += entry.size
        self._written += entry.size

    def _due(self, times: int) -> bool:
        """Whether the log is so many times as long as it should become."""
        most = times * self.share
        return self._behind > most * self.held or self._took > most * PATIENCE

    def _finish(self, *, succeeded: bool) -> None:
        if succeeded:
            self._written += self._size
            self._cover(self._writing)
        else:
            print(f"{self._folder}: no snapshot of version {self._writing} was written", file=sys.stderr)  # noqa: T201
            self._took = 2 * PATIENCE  # so that the next batch is followed by another try

    def _begin_anew(self, version: int) -> None:
        """There is a snapshot of this version, and no log behind it."""
        self._log.turn()
        self._behind, self._took = 0, 0.0
        self._cover(version)

    def _cover(self, version: int) -> None:
        """There is a snapshot of this version. A batch that ran again may have written it anew."""
        if version not in self._covered:
            insort(self._covered, version)


def folder_of(plan: Plan, number: int) -> Path:
    """Where a bucket's state is in the checkpoint."""
    return Path(plan.checkpoint, "buckets", str(number))


def _unreachable(version: int, damages: list[DamagedError], error: StateError) -> DamagedError:
    """Neither the damaged snapshots nor what is older lead to this version."""
    others = "".join(f"; {damage}" for damage in damages[1:])
    return damages[0].but(f"{others}; and no older snapshot leads to version {version}: {error}")


def _padded(length: int) -> int:
    return -(-length // LENGTH) * LENGTH
