"""Copies snapshots of the checkpoint folder into the store of `state:`, beside the work of the service.

State servers write snapshots into the folder as they do without a store. A thread of the service copies the newest one
of each bucket, at most once in half of `snapshot_interval` or after `snapshot_records` records, and keeps two in the
store. Batches do not wait for the store: while it cannot be reached, the service continues, and a restore would have
to read more records again.

The ledger keeps the plans of the batches since the older one of the two snapshots. The thread removes the earlier ones.

Objects may be removed from outside: by a life cycle rule of the bucket, or by a person. So the thread lists the store
every LIST_S seconds, and copies again what is missing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Self

from sluice.batch.query_plan import Plan
from sluice.checkpoint import offset_log
from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.kafka import ledger
from sluice.kafka.batch_report import Planned
from sluice.model.errors import SluiceError
from sluice.ops.metrics import StoreReport
from sluice.state.snapshot_archive import SnapshotArchive, SnapshotOwner, StoredSnapshot, oldest_needed, owner_of
from sluice.time_units import SECOND

LOGGER = logging.getLogger("sluice.state")
#: maximum seconds between two scans of the folder, and seconds between two checks of the retention of the inputs
PAUSE_S, RETENTION_S = 2.0, 60.0
#: seconds between two lists of the store
LIST_S = 300.0
#: seconds after which a failure of the same kind is logged again
REPEAT_S = 60.0
#: number of snapshots of a bucket that the store keeps: the older one is used if the newer one is damaged
RETAINED = 2


class SnapshotUploads:
    """The copies of one query. `step` does what is due; the thread calls it until the `with` block ends."""

    def __init__(
        self,
        plan: Plan,
        archive: SnapshotArchive,
        report: Callable[[StoreReport], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan, self._archive, self._report, self._clock = plan, archive, report, clock
        self._kafka, self._name = plan.pipeline.settings.kafka, plan.pipeline.name
        #: the plans of batches: those of the ledger at the start, and those of the batches before snapshots
        self._plans: dict[int, Planned] = {}
        #: by bucket: the versions in the store, ascending, and the time of the last copy
        self._stored: dict[int, list[StoredSnapshot]] = {}
        self._copied: dict[int, float] = {}
        #: the first batch whose plan the ledger may still have
        self._oldest_plan = -1
        self._margins: Mapping[tuple[str, int], int] = {}
        self._owner: SnapshotOwner | None = None
        self._listed = self._looked = self._failed = float("-inf")
        #: the kind of the last failure (`_kind`), None if the last step had none
        self._failure: tuple[type, int | None] | None = None
        self._stopped = threading.Event()
        work = copy_context().run  # so that log lines of the thread name the pipeline
        self._thread = threading.Thread(target=work, args=(self._run,), name="sluice-snapshot-uploads", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(2.0)  # a request to a store that does not answer takes longer, and ends with the process

    def _run(self) -> None:
        pause = min(PAUSE_S, self._plan.pipeline.settings.snapshot_interval / SECOND / 4)
        while not self._stopped.wait(pause):
            self.step()

    def step(self) -> None:
        """Copies the snapshots that are due, and reports. A failure is logged and reported; it ends nothing."""
        written, reached = 0, True
        try:
            if not self._stored:
                self._begin()
            elif self._clock() - self._listed >= LIST_S:
                self._list_again()
            for bucket in range(self._plan.buckets):
                written += self._copy(bucket)
            self._remove_plans()
            self._remove_old_snapshots()  # last, because the user may lack the permission
        except Exception as error:  # noqa: BLE001 - whatever it is, the service goes on without the store
            reached = False
            self._log(error)
        else:
            if self._failure:
                LOGGER.info("state %s: snapshots are written again", self._archive.location())
            self._failure = None
        # While the store cannot be reached, no newer snapshot lessens what a restore needs of the inputs.
        self._watch_retention()
        since = self._plans.get(self._version() - 1)
        self._report(StoreReport(reached, written, since.time if since and self._version() else None, self._margins))

    def _begin(self) -> None:
        """Claims the store, which may not have been possible at the start, and lists what it has.

        Removes here what no restore can use: the snapshots of another number of buckets, and those of batches whose
        plans a change of the pipeline file has removed. Not the start that makes the change does so: if it was killed,
        no other one would remove them. Only snapshots that are older than those of this instance are removed, because
        another instance may have taken over. Its snapshots are not older: they begin at the ledger's last batch.
        """
        self._owner = owner_of(self._plan)
        self._archive.claim(self._owner)
        self._plans = ledger.plans(self._kafka, self._name, self._plan.query)
        self._oldest_plan = min(self._plans, default=-1)
        snapshots = self._archive.all_snapshots(self._plan.buckets)
        stored = {bucket: sorted(filter(self._known, listed)) for bucket, listed in snapshots.items()}
        self._archive.remove_unused(stored, _oldest_newest(stored))
        self._archive.remove_incomplete(_oldest_newest(stored))
        self._stored, self._listed = stored, self._clock()

    def _list_again(self) -> None:
        """Forgets the snapshots that are not in the store any more, so that the newest one is copied again.

        It keeps the names of snapshots that another instance has removed, which has taken over and has written newer
        ones.
        """
        self._archive.claim(self._owner or owner_of(self._plan))
        for bucket, snapshots in self._archive.all_snapshots(self._plan.buckets).items():
            names, stored = {snapshot.short for snapshot in snapshots}, self._stored[bucket]
            missing = [snapshot for snapshot in stored if snapshot.short not in names]
            if missing and max((snapshot.version for snapshot in snapshots), default=0) <= stored[-1].version:
                LOGGER.warning(
                    "state %s: another program has removed the snapshots of bucket %d, versions %s (a life cycle rule "
                    "of the store?); the newest one is copied again. They must stay until the service removes them",
                    self._archive.location(), bucket, ", ".join(str(snapshot.version) for snapshot in missing),
                )  # fmt: skip
                self._stored[bucket] = [snapshot for snapshot in stored if snapshot not in missing]
        self._listed = self._clock()

    def _known(self, snapshot: StoredSnapshot) -> bool:
        """Whether a snapshot belongs to the history in the ledger."""
        plan = self._plans.get(snapshot.version - 1)
        return plan is not None and plan.digest.startswith(snapshot.digest)

    def _copy(self, bucket: int) -> int:
        """Copies the newest snapshot of a bucket, if that is due. Returns the bytes that were written."""
        version = self._newest(bucket)
        stored = self._stored[bucket]
        if version is None or (stored and stored[-1].version >= version) or not self._due(bucket, version):
            return 0
        snapshot = StoredSnapshot(version, self._plans[version - 1].digest)
        try:
            size = self._archive.save(bucket, snapshot, self._plan.store)
        except FileNotFoundError:  # the state server has removed it because there are newer ones
            return 0
        self._copied[bucket] = self._clock()
        LOGGER.info("snapshot copied: pipeline=%s bucket=%d version=%d bytes=%d", self._name, bucket, version, size)
        stored.append(snapshot)
        return size

    def _remove_old_snapshots(self) -> None:
        for bucket, stored in self._stored.items():
            while len(stored) > RETAINED:
                self._archive.delete(bucket, stored[0])
                del stored[0]

    def _newest(self, bucket: int) -> int | None:
        """The newest snapshot in the folder whose batch was committed; None if there is none.

        Spark's log keeps a hundred plans, so the plan of a snapshot is noted at the first sight of it.
        """
        committed, _ = offset_log.batches(self._plan.store)
        names = self._plan.store.list(f"buckets/{bucket}/")
        versions = {int(name.split("/")[-1].partition(".")[0]) for name in names if name.endswith(".state")}
        for version in versions:
            if version - 1 not in self._plans and version - 1 <= (-1 if committed is None else committed):
                plan = offset_log.known(self._plan.store, version - 1)
                self._plans |= {} if plan is None else {version - 1: plan}
        return max((version for version in versions if version - 1 in self._plans), default=None)

    def _due(self, bucket: int, version: int) -> bool:
        settings, stored = self._plan.pipeline.settings, self._stored[bucket]
        if not stored:
            return True
        age = (self._clock() - self._copied.get(bucket, float("-inf"))) * SECOND
        before, now = self._plans[stored[-1].version - 1].offsets, self._plans[version - 1].offsets
        records = sum(end - before.get(place, 0) for place, end in now.items())
        return age >= settings.snapshot_interval / 2 or records >= settings.snapshot_records

    def _version(self) -> int:
        """The version from which a restore would have to repeat batches; 0 stands for the first batch."""
        return _oldest_newest(self._stored)

    def _remove_plans(self) -> None:
        """Removes the plans of the batches before all snapshots in the store.

        The plan of the batch before a snapshot is needed: the snapshot is recognised by it, and the next batch starts
        at its offsets. Before a bucket has two snapshots, all plans are needed.
        """
        oldest = min(held[-RETAINED].version if len(held) >= RETAINED else 0 for held in self._stored.values()) - 1
        if oldest > self._oldest_plan:
            ledger.remove_plans(self._kafka, self._name, self._plan.query, range(self._oldest_plan, oldest))
            self._oldest_plan = oldest
            self._plans = {batch: plan for batch, plan in self._plans.items() if batch >= oldest}

    def _watch_retention(self) -> None:
        if self._clock() - self._looked < RETENTION_S:
            return
        try:
            self._check_retention()
        except Exception as error:
            LOGGER.warning(
                "state %s: the retention of the inputs is unknown: %s",
                self._archive.location(), error, exc_info=_unexpected(error),
            )  # fmt: skip
            self._looked = self._clock()

    def _check_retention(self) -> None:
        start, last = self._plans.get(self._version() - 1), offset_log.last_planned(self._plan.store)
        end = offset_log.known(self._plan.store, last)
        if start is None or end is None:
            return
        self._looked = self._clock()
        needed = oldest_needed(self._kafka, start.offsets, end.offsets)
        # A restore reads nothing from the others. Without a value of theirs, an alert about an earlier one would stay.
        margins = {place: offset.needed - offset.oldest for place, offset in needed.items()}
        self._margins = dict.fromkeys(end.offsets, 0) | margins
        for (topic, partition), offset in needed.items():
            if offset.oldest > offset.needed:
                LOGGER.warning(
                    "state %s: a restore would need topic %s, topic partition %d, from offset %d on, but Kafka has "
                    "deleted the records before offset %d: if the checkpoint folder is lost now, it cannot be restored",
                    self._archive.location(), topic, partition, offset.needed, offset.oldest,
                )  # fmt: skip

    def _log(self, error: Exception) -> None:
        if _kind(error) == self._failure and self._clock() - self._failed < REPEAT_S:
            return
        self._failure, self._failed = _kind(error), self._clock()
        LOGGER.warning(
            "state %s: %s, and the service continues without writing snapshots there: %s",
            self._archive.location(), _trouble(error), error, exc_info=_unexpected(error),
        )  # fmt: skip


def _kind(error: Exception) -> tuple[type, int | None]:
    """The part of a failure that is equal when it happens again. Its text has the name of the file or object."""
    return type(error), getattr(error, "errno", None)


def _trouble(error: Exception) -> str:
    if isinstance(error, CheckpointError):
        return "refused"
    return "Kafka does not answer" if isinstance(error, SluiceError) else "it cannot be used now"


def _unexpected(error: Exception) -> Exception | None:
    """The error if its stack trace belongs into the log: the store or Kafka cannot be the cause."""
    return None if isinstance(error, OSError | SluiceError) else error


def _oldest_newest(stored: Mapping[int, list[StoredSnapshot]]) -> int:
    """The oldest of the newest versions of all buckets; 0 if a bucket has none."""
    return min((held[-1].version if held else 0 for held in stored.values()), default=0)
