"""The state of one bucket: at hand in this process, and in the checkpoint as a snapshot and the log behind it.

A batch costs what it brings: its rows go to the log, and the state is changed in place. Where the log has grown about
as long as the state, or would take long to feed again, a new snapshot is written beside the work. A state that is no
larger than the rows of the batch is written in place of them.

The state at hand counts only if its version is the one that is asked for, and it has none while a batch changes it.
Else it is made again: from the snapshot, or from what is at hand if that is older, by feeding the log.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from service.engine.graph import Graph, GraphState
from service.engine.items import MAXIMUM, Items
from service.engine.store import StateError
from service.spark.batch import Batch
from service.spark.packed import Packed
from service.spark.plan import Plan
from service.spark.state.background import Background
from service.spark.state.log import Entry, Log
from service.spark.state.snapshots import Snapshots
from service.times import UNSET

#: versions that stay within reach: Spark may go back by the batch in hand, and readers of the checkpoint lag behind
KEPT = 3
#: seconds that the log may take to feed again
PATIENCE = 20.0
#: snapshots up to so many bytes are written at once: a copy of the process would cost more
SMALL = 4 << 20


@dataclass(frozen=True, slots=True)
class Fed:
    """What came of a batch, and the bytes of state that were read, written and are held."""

    version: int
    batch: Batch
    made: dict[str, Items]
    read: int
    written: int
    held: int


class Bucket:
    """Number `number` of the plan's buckets; `folder` is its own in the checkpoint."""

    def __init__(self, plan: Plan, number: int, folder: Path | None = None) -> None:
        self.plan = plan
        self.graph = Graph(plan.pipeline, plan.topic_partitions)
        self._topics = dict(plan.topic_partitions)
        self._folder = folder or folder_of(plan, number)
        self._log, self._snapshots = Log(self._folder), Snapshots(self._folder)
        #: of the greatest lengths of the log which this bucket takes, so that not all write their states in one batch
        self.share = (1 + (number + 1) / plan.buckets) / 2
        self.background = Background()
        #: the state at hand, its version (UNSET while it is none), and how many bytes it would be in a file
        self._state = self.graph.initial()
        self._version = 0
        self.held = 0
        #: bytes of the log behind the newest snapshot, and seconds that its batches took
        self._behind, self._took = 0, 0.0
        #: the version of the snapshot that is being written, its bytes, and those that the next report tells of
        self._writing, self._size, self._written = 0, 0, 0
        #: versions of snapshots, each of which makes what is older needless, once it is old enough itself
        self._covered: deque[int] = deque()

    def feed(self, version: int, clock: int, rows: list[Packed]) -> Fed | None:
        """Takes the bucket from `version`, with its clock there, to the next; None where nothing moves the clock."""
        batch = Batch.of(self.plan, rows, clock)
        if batch is None:
            return None
        read = self._go_to(version)
        made = self._fed(batch)
        self.held = self.graph.size(self._state)
        written = self._keep(Entry(version + 1, clock, rows))
        self._version = version + 1
        return Fed(self._version, batch, made, read, written, self.held)

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
        return None if due == MAXIMUM else due

    def ended(self) -> bool:
        """Whether all inputs are final, as of the state at hand."""
        return self.graph.ended(self._state)

    def at(self, version: int) -> GraphState:
        """The state of this version."""
        self._go_to(version)
        self._version = UNSET  # who has it may change it
        return self._state

    def tried(self, batch: Batch) -> dict[str, Items]:
        """What a batch makes of the state at hand, whichever version that is; nothing goes to the checkpoint."""
        return self._fed(batch)

    def settle(self) -> None:
        """What can wait until a batch has been answered: a snapshot where one is due, and forgetting what it covers."""
        writing = self.writing
        if self._version > 0 and self._due(3 if writing else 1):  # one that takes so long hangs
            self.write_snapshot()
        needless = 0
        while self._covered and self._version >= self._covered[0] + KEPT:
            needless = self._covered.popleft()
        if needless:
            self._snapshots.forget(needless)
            self._log.forget(needless)

    def write_snapshot(self) -> None:
        """Of the state at hand: at once where it is small, or one that is being written hangs, else beside the work."""
        write = partial(self._snapshots.write, self._version, partial(self.graph.write, self._state))
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

    def _go_to(self, version: int) -> int:
        """Makes the state that of `version`; how many bytes were read for it."""
        if self._version == version:
            return 0
        newest, start, read = self._snapshots.newest(version), self._version, 0
        if not newest <= start < version:
            start, read = newest, self._load(newest)
        for entry in self._log.entries(start, version):
            batch = Batch.of(self.plan, entry.rows, entry.clock)
            if batch is None:
                msg = f"{self._folder}: nothing moves the clock to version {entry.version}"
                raise StateError(msg)
            self._fed(batch)
            self._behind += entry.size
            read += entry.size
        self._version = version
        return read

    def _load(self, version: int) -> int:
        """Makes the state that of a snapshot, or the initial one; how many bytes were read."""
        self._version = UNSET
        self._behind, self._took = 0, 0.0
        self._state = self.graph.initial()  # room for the one that comes
        if not version:
            return 0
        body = self._snapshots.read(version)
        try:
            self._state = self.graph.load(body)
        except StateError as error:
            msg = f"{self._folder}, version {version}: {error}"
            raise StateError(msg) from error
        self._covered.append(version)
        return len(body)

    def _fed(self, batch: Batch) -> dict[str, Items]:
        """What the engine makes of a batch. Until its version is set, the state is nobody's."""
        self._version = UNSET
        if batch.topics and batch.topics != self._topics:
            self._know(batch.topics)
        begin = time.perf_counter()
        made = self.graph.feed(self._state, batch.inputs, batch.clock)
        self._took += time.perf_counter() - begin
        return made

    def _know(self, topics: dict[str, int]) -> None:
        """The log tells how many topic partitions there were: to know more of them would have changed what came out."""
        body = self.graph.save(self._state)
        self.graph, self._topics = Graph(self.plan.pipeline, topics), topics
        self._state = self.graph.load(body)

    # ---- in the checkpoint ------------------------------------------------------------------------------------------

    def _keep(self, entry: Entry) -> int:
        """Puts what is new into the checkpoint; how many bytes that were, with those of a snapshot beside the work."""
        written, self._written = self._written, 0
        if self.held <= entry.size:
            self._snapshots.write(entry.version, partial(self.graph.write, self._state))
            self._begin_anew(entry.version)
            return written + self.held
        self._log.append(entry)
        self._behind += entry.size
        return written + entry.size

    def _due(self, times: int) -> bool:
        """Whether the log is so many times as long as it should become."""
        most = times * self.share
        return self._behind > most * self.held or self._took > most * PATIENCE

    def _finish(self, *, succeeded: bool) -> None:
        if succeeded:
            self._written += self._size
            self._covered.append(self._writing)
        else:
            print(f"{self._folder}: no snapshot of version {self._writing} was written", file=sys.stderr)  # noqa: T201
            self._took = 2 * PATIENCE  # so that the next batch is followed by another try

    def _begin_anew(self, version: int) -> None:
        """There is a snapshot of this version, and no log behind it."""
        self._log.turn()
        self._behind, self._took = 0, 0.0
        self._covered.append(version)


def folder_of(plan: Plan, number: int) -> Path:
    """Where a bucket's state is in the checkpoint."""
    return Path(plan.checkpoint, "buckets", str(number))
