"""The time from one batch to the next: the setting `latency`.

A batch has fixed work, however few records it takes: Spark plans and logs it, processes exchange messages, and Kafka
ends a transaction. So the shorter the interval, the lower the latency, and the more processor time goes into fixed
work. The word of the setting stands for a share of one processor, for the fixed work of all pipelines of the service:

    interval = fixed work of a batch (processor seconds) * crowding / share,  at most MAX_S

Java handles no record of a batch without a job of Spark, so its processor time is fixed work, and by measurement half
of all fixed work; the kernel counts it, the same on a busy machine. `crowding` is the time that threads of this process
wait and run, divided by the time that they run: on a busy machine the batches become fewer and larger.

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

from sluice.model.spec import LATENCIES, Settings
from sluice.spark.spark_internals import java_process
from sluice.time_units import SECOND

#: the fixed work of all processes, as a multiple of Java's
OF_JAVA = 2.0
#: seconds: the longest interval, and the shortest time over which the fixed work is measured
MAX_S, WINDOW_S = 1.0, 1.0
#: the weight of a new measurement in the moving average
WEIGHT = 0.3
TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Seconds so far: of Java's processor time, and in which threads of this process ran and waited for a processor."""

    java: float
    ran: float
    waited: float


@dataclass(slots=True)
class FixedWork:
    """The processor seconds of the fixed work of a batch, stretched by the crowding: a moving average."""

    usage: Callable[[], Usage]
    clock: Callable[[], float]
    #: 0 until it is measured
    seconds: float = 0.0
    _since: tuple[float, Usage] | None = None
    _batches: int = 0

    def batch_ended(self) -> None:
        now, self._batches = self.clock(), self._batches + 1
        if self._since is not None and now < self._since[0] + WINDOW_S:
            return
        usage = self.usage()
        if self._since is not None:
            self._add(self._since[1], usage)
        self._since, self._batches = (now, usage), 0

    def _add(self, before: Usage, after: Usage) -> None:
        java, ran, waited = (new - old for new, old in zip(after, before, strict=True))
        crowding = 1 + waited / ran if ran > 0 else 1.0
        cost = OF_JAVA * java / self._batches * crowding
        self.seconds += (cost - self.seconds) * (WEIGHT if self.seconds else 1.0)


class BatchInterval:
    """Lets a query wait between its batches."""

    def __init__(
        self, settings: Settings, usage: Callable[[], Usage] | None = None,
        clock: Callable[[], float] = time.monotonic, wait: Callable[[float], object] | None = None,
    ) -> None:  # fmt: skip
        """`usage`, `clock` (seconds) and `wait` (for so many seconds) are those of this process by default."""
        self._latency = "low" if settings.trigger_interval else settings.latency
        self._work = FixedWork(usage or used, clock)
        self._over = threading.Event()
        self._clock, self._wait = clock, wait or self._over.wait
        #: when the query was let go on last, and what the last batch took since then
        self._last = clock()

    def batch_ended(self) -> None:
        """Called in the thread of the query after each batch. Waits until the next one may start."""
        now = self._clock()
        pause = self._last + self._seconds(now - self._last) - now
        if pause > 0:
            self._wait(pause)
        self._last = self._clock()

    def end(self) -> None:
        """Ends the wait, and lets no batch wait any more."""
        self._over.set()

    def _seconds(self, took: float) -> float:
        """The interval after a batch that ended `took` seconds after the query was let go on."""
        if isinstance(self._latency, int):  # a record that just misses a batch waits for one, and for the next one
            return self._latency / SECOND - took
        self._work.batch_ended()
        return min(MAX_S, self._work.seconds / LATENCIES[self._latency])


def used() -> Usage:
    """What the kernel has counted until now; 0 for what it does not count."""
    ran, waited = 0.0, 0.0
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError, ValueError):  # the thread has ended
            own, queued, *_ = (task / "schedstat").read_text().split()
            ran, waited = ran + int(own) / SECOND, waited + int(queued) / SECOND
    return Usage(_java_seconds(), ran, waited)


def _java_seconds() -> float:
    process = java_process()
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split() if process else []
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / TICKS
