"""The time from one batch to the next: the setting `latency`.

A batch has fixed work, however few records it takes: Spark plans and logs it, processes exchange messages, and Kafka
ends a transaction. So the shorter the interval, the lower the latency, and the more processor time goes into fixed
work. The word of the setting stands for a share of one processor, for the fixed work of all pipelines of the service:

    interval = fixed work of a batch (processor seconds) / share, at most LONGEST_S for each pipeline that runs
    on a busy machine: * (1 + stalled), at most MAX_S

Without the limit a service that has just started would wait for long: it pays ten times as much for a batch, and Java
compiles its code only while batches run. A batch that may have left records behind is followed at once.

Java handles no record of a batch without a job of Spark, so its processor time is fixed work, and by measurement half
of all fixed work; the kernel counts it, the same on a busy machine. `stalled` is the part of the time, by the kernel's
account of pressure, for which some process of the machine waits for a processor: on a busy machine the batches become
fewer and larger.

The interval decides when Spark may plan the next batch, and nothing else. What a batch reads is in the log of offsets.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from sluice.model.spec import LATENCIES, Settings
from sluice.spark.spark_internals import java_process
from sluice.time_units import MICROSECOND, SECOND

#: the fixed work of all processes, as a multiple of Java's
OF_JAVA = 2.0
#: seconds: the longest interval for each pipeline that runs
LONGEST_S = {"low": 0.0, "balanced": 0.05, "cheap": 0.3}
#: seconds: the longest interval of all pipelines, and the shortest time over which the fixed work is measured
MAX_S, WINDOW_S = 1.0, 1.0
#: a batch of this part of the largest one may have left records behind
FULL = 0.5
#: how much longer the interval is while some process always waits for a processor, as a part of the interval
STRETCH = 1.0
#: the weight of a new measurement in the moving average
WEIGHT = 0.3
TICKS = os.sysconf("SC_CLK_TCK")
PRESSURE = Path("/proc/pressure/cpu")


class Usage(NamedTuple):
    """Seconds so far: of Java's processor time, and for which some process of the machine waited for a processor."""

    java: float
    stalled: float


@dataclass(slots=True)
class FixedWork:
    """The processor seconds of the fixed work of a batch, and the part of the time for which some process of the
    machine waits for a processor: moving averages, 0 until they are measured.
    """

    usage: Callable[[], Usage]
    clock: Callable[[], float]
    seconds: float = 0.0
    stalled: float = 0.0
    _since: tuple[float, Usage] | None = None
    _batches: int = 0

    def batch_ended(self) -> None:
        now, self._batches = self.clock(), self._batches + 1
        if self._since is not None and now < self._since[0] + WINDOW_S:
            return
        usage = self.usage()
        if self._since is not None:
            self._add(now - self._since[0], self._since[1], usage)
        self._since, self._batches = (now, usage), 0

    def _add(self, elapsed: float, before: Usage, after: Usage) -> None:
        weight = WEIGHT if self.seconds else 1.0
        self.seconds += (OF_JAVA * (after.java - before.java) / self._batches - self.seconds) * weight
        self.stalled += (min(1.0, (after.stalled - before.stalled) / elapsed) - self.stalled) * weight


#: the intervals of the queries of this service, whose Java process does the fixed work of all
RUNNING: WeakSet[BatchInterval] = WeakSet()


class BatchInterval:
    """Lets a query wait between its batches."""

    def __init__(
        self, settings: Settings, largest: int, running: WeakSet[BatchInterval] = RUNNING, *,
        usage: Callable[[], Usage] | None = None, clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:  # fmt: skip
        """`largest` is the number of offsets of the largest batch. `running` are the intervals of all queries that run,
        to which this one is added. `usage`, `clock` (seconds) and `wait` (for so many seconds) are those of this
        process by default.
        """
        self._latency = "low" if settings.trigger_interval else settings.latency
        self._full, self._running = FULL * largest, running
        running.add(self)
        self._work = FixedWork(usage or used, clock)
        self._over = threading.Event()
        self._clock, self._wait = clock, wait or self._over.wait
        #: when the query was let go on last, and what the last batch took since then
        self._last = clock()

    def batch_ended(self, offsets: int) -> None:
        """Called in the thread of the query after each batch, with the number of its offsets. Waits until the next one
        may start.
        """
        now = self._clock()
        pause = self._last + self._seconds(now - self._last) - now
        if pause > 0 and offsets < self._full:
            self._wait(pause)
        self._last = self._clock()

    def end(self) -> None:
        """Ends the wait, and lets no batch wait any more."""
        self._over.set()
        self._running.discard(self)

    def _seconds(self, seconds: float) -> float:
        """The interval after a batch that ended `seconds` seconds after the query was let go on."""
        if isinstance(self._latency, int):  # a record that just misses a batch waits for one, and for the next one
            return self._latency / SECOND - seconds
        self._work.batch_ended()
        interval = min(LONGEST_S[self._latency] * len(self._running), self._work.seconds / LATENCIES[self._latency])
        return min(MAX_S, interval * (1 + STRETCH * self._work.stalled))


def used() -> Usage:
    """What the kernel has counted until now; 0 for what it does not count."""
    return Usage(_java_seconds(), _stalled_seconds())


def _java_seconds() -> float:
    process = java_process()
    with suppress(OSError):  # the process has ended
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split() if process else []
        return sum(map(int, fields[11:13])) / TICKS
    return 0.0


def _stalled_seconds() -> float:
    """Of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=<microseconds>`."""
    with suppress(OSError):  # not Linux, or a kernel without pressure stall information
        return int(PRESSURE.read_text().partition("total=")[2].split()[0]) * MICROSECOND / SECOND
    return 0.0
