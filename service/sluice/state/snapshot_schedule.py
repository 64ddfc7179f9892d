"""When a bucket writes a snapshot, and which of the older ones, and which part of the log, it still needs.

A snapshot is due when the log after the newest one is about as large as the state, or when computing the state from it
would take long; with a store of `state:` also after so many records, or after so much time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable

from sluice.batch.query_plan import Plan
from sluice.time_units import SECOND

#: minimum number of versions before the newest that can still be computed, because a start repeats the last batch and
#: readers of the checkpoint may use an older version
REPEATABLE_VERSIONS = 3
#: number of snapshots that are kept, including the newest; the initial state (version 0) counts as one
RETAINED_SNAPSHOTS = 2
#: maximum duration of a replay of the log, in seconds, before a new snapshot is written
MAX_REPLAY_S = 20.0


class SnapshotSchedule:
    """The snapshots of the bucket with this number, and its log after the newest one."""

    def __init__(self, plan: Plan, number: int, clock: Callable[[], float]) -> None:
        """`clock` gives seconds, after which a snapshot for the store of `state:` is due."""
        self._settings, self._buckets = plan.pipeline.settings, plan.buckets
        #: the fraction of the maximum log length at which this bucket writes a snapshot: more than 0.5, at most 1. It
        #: differs from bucket to bucket, so that not all of them write their snapshots in the same batch.
        self.share = (1 + (number + 1) / plan.buckets) / 2
        #: bytes of the log after the newest snapshot, and the seconds that the batches in it took
        self._behind, self._took = 0, 0.0
        #: when the newest snapshot was begun, and the number of records since then
        self._clock = clock
        self._snapshot_at, self._records = clock(), 0
        #: versions of the existing snapshots that are not known to be damaged, in ascending order
        self._covered = [0]

    # ---- the log ----------------------------------------------------------------------------------------------------

    def applied(self, seconds: float, records: int) -> None:
        """A part of a batch took so long, and had so many records."""
        self._took += seconds
        self._records += records

    def logged(self, size: int) -> None:
        """The log has an entry of `size` bytes more after the newest snapshot."""
        self._behind += size

    def loaded(self) -> None:
        """The state is that of a snapshot; the log after it is not applied yet."""
        self._behind, self._took = 0, 0.0

    def begins(self) -> None:
        """A snapshot is written now, and what follows is behind it."""
        self.loaded()
        self._snapshot_at, self._records = self._clock(), 0

    def failed(self) -> None:
        """No snapshot was written, so that the next batch starts another attempt."""
        self._took = 2 * MAX_REPLAY_S

    def due(self, held: int, times: int) -> bool:
        """Whether the log is longer than `times` its maximum length, in bytes or in seconds of a replay. `held` is the
        size of the state in bytes.
        """
        most = times * self.share
        return self._behind > most * held or self._took > most * MAX_REPLAY_S or self._due_in_store(most)

    def _due_in_store(self, most: float) -> bool:
        """Whether the store of `state:` needs another snapshot, because of the records or the time since the last."""
        settings = self._settings
        if settings.state is None or not self._behind:
            return False
        age = (self._clock() - self._snapshot_at) * SECOND
        return (
            self._records * self._buckets > most * settings.snapshot_records or age > most * settings.snapshot_interval
        )

    # ---- the snapshots ----------------------------------------------------------------------------------------------

    def exist(self, versions: Iterable[int]) -> None:
        """The snapshots of these versions exist, and no newer ones that are undamaged."""
        self._covered = [0, *sorted(versions)]

    def cover(self, version: int) -> None:
        """Records that a snapshot of this version exists. A repeated batch may have recorded it before."""
        if version not in self._covered:
            insort(self._covered, version)

    def needless_before(self, version: int) -> int:
        """The version up to which the log, and before which the snapshots, are not needed any more if the state has
        `version`; 0 if all of them are.
        """
        needless = 0
        while (
            len(self._covered) > RETAINED_SNAPSHOTS
            and version >= self._covered[RETAINED_SNAPSHOTS] + REPEATABLE_VERSIONS
        ):
            needless = self._covered[1]
            del self._covered[0]
        return needless
