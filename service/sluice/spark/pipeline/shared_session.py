"""The Spark session that all pipelines of a service share. It starts in a thread, beside the first of them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Self

from pyspark.sql import SparkSession

from sluice.batch.kernel_warm_up import VARIABLE, to_text
from sluice.model.spec import Pipeline
from sluice.spark.cluster import is_cluster
from sluice.spark.failures import JavaEndedError, result_within, stopped
from sluice.spark.pipeline.early_processes import EarlyProcesses
from sluice.spark.placement import Placement
from sluice.spark.spark_session import session

LOGGER = logging.getLogger("sluice")
#: Spark's properties for several queries: tasks of all queries take turns. By default the tasks of an earlier batch
#: come first, so that a long batch of one pipeline would stop all others.
SEVERAL = {"spark.scheduler.mode": "FAIR"}
#: seconds within which Spark must be up. The bounds of its own waits are shorter: two minutes for Java, one for a Spark
#: master, one for the first executor
MAX_START_S = 600.0
#: the session and, on a cluster, the placement of buckets on executors
Opened = tuple[SparkSession, Placement | None]


class SharedSession:
    """A Spark session, which ends with the context."""

    def __init__(self, name: str, master: str, early: EarlyProcesses | None, *, several: bool = False) -> None:
        """`early`: what runs already; None on a cluster. `several`: whether more than one pipeline may use it."""
        self._name, self._master, self._early = name, master, early
        self._extra = SEVERAL if several else {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sluice-spark")
        self._lock = threading.Lock()
        self._open: Future[Opened] | None = None
        self._stack = ExitStack()

    @property
    def on_cluster(self) -> bool:
        """Whether the session is one of a cluster."""
        return is_cluster(self._master)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        self._stack.close()

    def begin(self, pipelines: Sequence[Pipeline], pause: Callable[[float], object]) -> Future[Opened]:
        """Starts Spark, in a thread, unless it was called before.

        Its Python processes then compile the kernels of these pipelines in advance; those of other pipelines are
        compiled at their first use. `pause` waits for the given number of seconds.
        """
        with self._lock:
            if self._open is None:
                self._open = self._thread.submit(self._started, pipelines, pause)
            return self._open

    def opened(self, pipelines: Sequence[Pipeline], pause: Callable[[float], object]) -> Opened:
        """The session, once Spark is up. Begins its start if nothing has; the arguments are those of `begin`.

        Raises the error that ended the start, as `session` does; JavaEndedError after MAX_START_S.
        """
        overdue = JavaEndedError(
            f"Spark has not started for {MAX_START_S:.0f} seconds: Java hangs, or the Spark master does not answer"
        )
        return result_within(self.begin(pipelines, pause), MAX_START_S, overdue)

    def _started(self, pipelines: Sequence[Pipeline], pause: Callable[[float], object]) -> Opened:
        early, text = self._early, to_text(pipelines)
        if early is None:
            os.environ[VARIABLE] = text  # Java, which starts now, passes it on to the daemons of executors
        elif early.fork_server is not None:
            early.fork_server.begin(text)
        spark = session(self._name, self._master, self._extra, None if early is None else early.java)
        LOGGER.info("Spark is up", extra={"master": self._master})
        self._stack.callback(stopped, spark.stop)
        placed = Placement.of(spark)
        if placed is not None:
            placed.wait_for_executors(pause)
            self._stack.enter_context(placed)
        return spark, placed
