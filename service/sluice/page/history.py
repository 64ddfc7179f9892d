"""The recent past of a stage, in memory: its last batches with their phases, its rates, and its offsets.

The threads that receive the ledger's entries and Spark's progress reports write it; the page reads it. Its size is
bounded by MAX_BATCHES.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sluice.kafka.batch_report import Counts, Entry, Report
from sluice.kafka.range_reader import Offsets
from sluice.ops.metrics import WHOLE
from sluice.time_units import SECOND

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
    """The counts of a batch that the ledger has. `at`: seconds since 1970. `latency`: seconds from the timestamp of the
    oldest record until now; None without records.
    """

    at: float
    read: Counts
    written: Counts
    dead_letters: Counts
    operators: Counts
    latency: float | None = None


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
        self._dead_letters = 0
        #: by stream with aligned marks that wait: since when, seconds since 1970
        self._waiting: Mapping[str, float] = {}
        self._last: Entry | None = None
        self._report = Report()

    def restored(self, entry: Entry) -> None:
        """The last batch of an earlier start."""
        with self._lock:
            self._last, self._report = entry, entry.report

    def batch_written(self, entry: Entry) -> None:
        """A batch is in the ledger, so readers see its outputs."""
        report = entry.report
        at = entry.at / 1000
        latency = None if report.oldest is None else max(0.0, self._now() - report.oldest / SECOND)
        counts = Written(at, report.read, report.written, report.dead_letters, report.operators, latency)
        with self._lock:
            self._last = entry
            self._report = report if report.operators else self._report
            self._written.append(counts)
            self._dead_letters += sum(count for by_kind in report.dead_letters.values() for count in by_kind.values())
            self._waiting = {name: self._waiting.get(name, at) for name in report.waiting}

    def batch_ended(self, batch: Batch, read: Offsets, ends: Offsets) -> None:
        """Notes a batch that has ended. `read` and `ends` are as in `Metrics.offsets`, and do not change after that."""
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
        """The newest report that has the sizes and times of operators: one of a batch without any item has none."""
        return self._report

    @property
    def began(self) -> float:
        """When the history begins, seconds since 1970."""
        return self._began

    @property
    def dead_letters(self) -> int:
        """The number of dead letters since the history begins."""
        return self._dead_letters

    def waiting_s(self) -> dict[str, float]:
        """By stream with aligned marks that wait for marks of other topic partitions: for how many seconds."""
        return {name: max(0.0, self._now() - since) for name, since in self._waiting.items()}

    def means(self) -> tuple[float | None, float | None]:
        """Of the batches of the last RATE_S seconds: the mean duration, and the mean latency of their records, in
        seconds; None without such batches.
        """
        since = self._now() - RATE_S
        with self._lock:
            written = [counts for counts in self._written if counts.at >= since]
            durations = [batch.phases.get(WHOLE, 0.0) for batch in self._batches][-len(written) :] if written else []
        return _mean(durations), _mean([counts.latency for counts in written if counts.latency is not None])

    def rates(self) -> Rates:
        """Counts per second of the last RATE_S seconds, or since the start or since the oldest batch that is kept, if
        that is less.
        """
        now = self._now()
        with self._lock:
            kept = list(self._written)
        since = max(now - RATE_S, self._began)
        if len(kept) == MAX_BATCHES and kept[0].at > since:  # the batches before it are forgotten
            since = kept.pop(0).at
        seconds = max(1.0, now - since)
        recent = [counts for counts in kept if counts.at >= now - seconds]

        def rates(kind: str) -> dict[str, dict[str, float]]:
            return _rates([getattr(counts, kind) for counts in recent], seconds)

        return Rates(rates("read"), rates("written"), rates("dead_letters"), rates("operators"), len(recent) / seconds)


class Rates(NamedTuple):
    """By stream or operator, and then by kind: counts per second."""

    read: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    written: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    dead_letters: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    operators: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    #: batches per second
    batches: float = 0.0


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _rates(counts: list[Counts], seconds: float) -> dict[str, dict[str, float]]:
    rates: dict[str, dict[str, float]] = {}
    for by_name in counts:
        for name, by_kind in by_name.items():
            sums = rates.setdefault(name, {})
            for kind, count in by_kind.items():
                sums[kind] = sums.get(kind, 0.0) + count / seconds
    return rates
