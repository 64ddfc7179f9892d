"""What a stage did lately, in memory: its last batches with their phases, its rates, and its offsets.

The threads that receive the ledger's entries and Spark's progress reports write it; the page reads it. Its size is
bounded by MAX_BATCHES.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sluice.kafka.batch_report import Counts, Entry, Report
from sluice.kafka.range_reader import Offsets

#: number of batches that are kept
MAX_BATCHES = 200
#: seconds over which rates are averages
RATE_S = 60.0


class Batch(NamedTuple):
    """A batch that has ended: when it was planned (ISO 8601), its records, and the seconds of its phases."""

    number: int
    at: str
    records: int
    phases: Mapping[str, float]


class Written(NamedTuple):
    """The counts of a batch that the ledger has. `at`: seconds since 1970."""

    at: float
    read: Counts
    written: Counts
    dead_letters: Counts
    operators: Counts


@dataclass(frozen=True, slots=True)
class Lag:
    """A topic partition: the offset of the next record to read, and the end of its log, both of the last batch."""

    topic: str
    partition: int
    next: int
    end: int

    @property
    def unread(self) -> int:
        return max(0, self.end - self.next)


class History:
    """The history of a stage. All methods may be called from any thread."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """`now` gives the seconds since 1970."""
        self._now, self._began = now, now()
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque(maxlen=MAX_BATCHES)
        self._written: deque[Written] = deque(maxlen=MAX_BATCHES)
        self._offsets: tuple[Offsets, Offsets] = ({}, {})
        self._last: Entry | None = None

    def restored(self, entry: Entry) -> None:
        """The last batch of an earlier start."""
        with self._lock:
            self._last = entry

    def batch_written(self, entry: Entry) -> None:
        """A batch is in the ledger, so readers see its outputs."""
        report = entry.report
        counts = Written(entry.at / 1000, report.read, report.written, report.dead_letters, report.operators)
        with self._lock:
            self._last = entry
            self._written.append(counts)

    def batch_ended(self, batch: Batch, read: Offsets, ends: Offsets) -> None:
        """A batch has ended. `read` and `ends` are as in `Metrics.offsets`, and do not change after that."""
        with self._lock:
            self._batches.append(batch)
            self._offsets = (read, ends) if read else self._offsets

    @property
    def batches(self) -> list[Batch]:
        """The last batches, oldest first."""
        with self._lock:
            return list(self._batches)

    @property
    def lags(self) -> tuple[Lag, ...]:
        """By topic, then by topic partition. Computed here, so that a batch without a page costs no time for it."""
        read, ends = self._offsets
        return tuple(Lag(topic, p, offset, ends.get((topic, p), offset)) for (topic, p), offset in sorted(read.items()))

    @property
    def last(self) -> Entry | None:
        """The newest entry of the ledger; None if there is none yet."""
        return self._last

    @property
    def report(self) -> Report:
        return self._last.report if self._last is not None else Report()

    def rates(self) -> Rates:
        """Counts per second of the last RATE_S seconds, or since the start or since the oldest batch that is kept, if
        that is less.
        """
        now = self._now()
        with self._lock:
            kept = list(self._written)
        since = max(now - RATE_S, self._began)
        if len(kept) == MAX_BATCHES and kept[0].at > since:  # those before it are forgotten
            since = kept.pop(0).at
        seconds = max(1.0, now - since)
        recent = [one for one in kept if one.at >= now - seconds]
        return Rates(
            _rates([one.read for one in recent], seconds), _rates([one.written for one in recent], seconds),
            _rates([one.dead_letters for one in recent], seconds), _rates([one.operators for one in recent], seconds),
        )  # fmt: skip


class Rates(NamedTuple):
    """By stream or operator, and then by kind: counts per second."""

    read: Mapping[str, Mapping[str, float]]
    written: Mapping[str, Mapping[str, float]]
    dead_letters: Mapping[str, Mapping[str, float]]
    operators: Mapping[str, Mapping[str, float]]


def _rates(counts: list[Counts], seconds: float) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for one in counts:
        for name, by_kind in one.items():
            mine = found.setdefault(name, {})
            for kind, count in by_kind.items():
                mine[kind] = mine.get(kind, 0.0) + count / seconds
    return found
