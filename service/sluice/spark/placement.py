"""Binds the task of each bucket to one executor, and moves buckets when executors come or go.

Spark chooses the executor of a task by the preferred locations of the data that the task reads. The rows of a bucket
come from a shuffle, which prefers none. So they are joined with a table that has one row and one partition for each
bucket, and whose partitions have preferred locations:

    rows of the batch -- shuffle by bucket --.
                                              >-- join, partition by partition --> the bucket's task
    table: label of bucket 0 @ executor 1 ---'
           label of bucket 1 @ executor 2
           ...

The table declares that it is partitioned by the label's hash, as the shuffled rows are. So Spark joins the partitions
of equal numbers without another shuffle. Spark reads the preferred locations in each batch. They are elements of
Java arrays that `move` overwrites, so buckets move between two batches of a running query. Spark's public interface has
no such table (`located_rows` of spark_internals.py).

Each executor gets a share of the buckets by its number of cores (`assign`). The new executor of a bucket reads its
state from the checkpoint. So an assignment keeps each bucket where it is, unless its executor is gone or another
executor has too few buckets.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from sluice.batch.packed_rows import labels
from sluice.spark.cluster import is_cluster
from sluice.spark.spark_internals import block_managers, executor_cores, located_rows

LOGGER = logging.getLogger("sluice")

#: seconds between two checks whether executors came or went
INTERVAL = 0.5
#: maximum seconds to wait at the start for the first executor, and seconds without a new executor that end the wait
FIRST, SETTLED = 60.0, 2.0

#: Spark properties with which tasks keep to the preferred locations.
PROPERTIES = {
    # How long Spark leaves a core unused before it runs a task on an executor that the task does not prefer.
    "spark.locality.wait.process": "3s",
    # A shuffle must not prefer the hosts that wrote most of its rows: its preferences would hide the table's
    # preferences.
    "spark.shuffle.reduceLocality.enabled": "false",
}

#: the text of a block manager in Spark: id of the executor, host, port
_BLOCK_MANAGER = re.compile(r"BlockManagerId\(([^,]+), ([^,]+), \d+, ")
DRIVER = "driver"
LABEL = "label"


class PlacementTable:
    """The table whose partition of a bucket's number prefers the bucket's executor."""

    def __init__(self, spark: SparkSession, buckets: int) -> None:
        self._table, self._places = located_rows(spark, LABEL, labels(buckets))
        self.move({})

    @property
    def rows(self) -> DataFrame:
        """The table itself: the partition of a bucket's number has one row, and its task runs where the bucket is."""
        return self._table

    def joined(self, rows: DataFrame) -> DataFrame:
        """The same rows, which are spread by their column `bucket` over as many partitions as the table has rows."""
        table = self._table.hint("shuffle_hash")
        return rows.join(table, rows["bucket"] == table[LABEL]).drop(LABEL)

    def move(self, owners: Mapping[int, Executor]) -> None:
        """Makes each bucket prefer its executor in `owners`. It takes effect with the next stage that Spark starts."""
        for bucket, place in enumerate(self._places):
            place[0] = _place(owners.get(bucket))


def _place(executor: Executor | None) -> str:
    """A preferred location as Spark reads it. A bucket without an executor prefers an executor that does not exist."""
    return f"executor_{executor.host}_{executor.id}" if executor else "executor_nowhere_none"


class Placement:
    """The executors of all queries' buckets. While the context is open, a thread adapts them to the executors."""

    def __init__(self, executors: Callable[[], Sequence[Executor]], table: Callable[[int], PlacementTable]) -> None:
        """`executors` returns the present executors, and `table` makes a table for a number of buckets."""
        self._executors, self._new_table = executors, table
        self._present: list[Executor] = []
        self._tables: dict[tuple[str, int], PlacementTable] = {}
        self._owners: dict[tuple[str, int], dict[int, Executor]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sluice-placement", daemon=True)

    @classmethod
    def of(cls, spark: SparkSession) -> Placement | None:
        """The placement of a session on a cluster; None in local mode."""
        if not is_cluster(str(spark.sparkContext.master)):
            return None
        return cls(lambda: executors_of(spark), lambda buckets: PlacementTable(spark, buckets))

    def __enter__(self) -> Self:
        self.refresh()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10 * INTERVAL)

    def wait_for_executors(self, pause: Callable[[float], object]) -> None:
        """Returns when no executor has come for SETTLED seconds, or without any executor after FIRST seconds.

        A query that starts earlier would have all buckets on the first executor, and would soon move half of them.
        `pause` waits for the given number of seconds.
        """
        count, settled, waited = 0, 0.0, 0.0
        while waited < FIRST and (not count or settled < SETTLED):
            pause(INTERVAL)
            waited += INTERVAL
            now = len(self._executors())
            settled = settled + INTERVAL if now == count else 0.0
            count = now

    @property
    def cores(self) -> int:
        """The number of cores of all present executors together; 1 if there are none."""
        return max(1, sum(executor.cores for executor in self._executors()))

    def present_cores(self) -> int:
        """As `cores`, at the last look at the executors: without a call to Java."""
        with self._lock:
            return max(1, sum(executor.cores for executor in self._present))

    def table(self, query: str, buckets: int) -> PlacementTable:
        """The table of a query with this number of buckets."""
        with self._lock:
            key = query, buckets
            if key not in self._tables:
                self._tables[key] = self._new_table(buckets)
                self._assign(key)
            return self._tables[key]

    def refresh(self) -> None:
        """Moves buckets if executors came or went since the last call."""
        executors = sorted(self._executors())
        with self._lock:
            if executors != self._present:
                self._present = executors
                for key in self._tables:
                    self._assign(key)

    def _assign(self, key: tuple[str, int]) -> None:
        before = self._owners.get(key, {})
        owners = assign(key[1], self._present, before, first=list(self._tables).index(key))
        self._owners[key] = owners
        self._tables[key].move(owners)
        moved = sum(owners[bucket].key != owner.key for bucket, owner in before.items() if bucket in owners)
        LOGGER.info("buckets of %s on executors: %s; moved: %d", key[0], _described(owners), moved)

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            try:
                self.refresh()
            except (Py4JError, OSError) as error:
                LOGGER.warning("the executors of the cluster are unknown: %s", error)


def _described(owners: Mapping[int, Executor]) -> str:
    by_executor: dict[Executor, list[int]] = {}
    for bucket, owner in owners.items():
        by_executor.setdefault(owner, []).append(bucket)
    return (
        ", ".join(
            f"{executor.id} ({executor.host}) has {' '.join(map(str, buckets))}"
            for executor, buckets in sorted(by_executor.items())
        )
        or "none"
    )


def executors_of(spark: SparkSession) -> list[Executor]:
    """The present executors. An executor is present from its registration until Spark has detected its end."""
    managers = [(name, host) for name, host in _BLOCK_MANAGER.findall(block_managers(spark)) if name != DRIVER]
    return [Executor(name, host, _cores(spark, name)) for name, host in managers]


def _cores(spark: SparkSession, executor: str) -> int:
    try:
        return max(1, executor_cores(spark, executor))
    except Py4JError:  # the executor has registered just now, or has ended just now
        return 1


class Executor(NamedTuple):
    """An executor of a Spark application: its id, its host as Spark names it, and the number of its cores."""

    id: str
    host: str
    cores: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the executor, without the number of its cores, which may become known later."""
        return self.id, self.host


def assign(
    buckets: int, executors: Sequence[Executor], before: Mapping[int, Executor], first: int = 0
) -> dict[int, Executor]:
    """The executor of each bucket; no bucket has one if there are no executors.

    `before` is the previous assignment. It may lack buckets, and may contain executors that no longer exist. `first` is
    the position of the executor that gets the first bucket if all have equally many: with another value for each query,
    the single buckets of several queries are on different executors.

    The loads (buckets per core) are balanced: no move of a bucket to another executor would lower the largest load of
    the two. An executor that has a bucket keeps at least one.
    """
    if not executors:
        return {}
    order = sorted(executors)
    shift = first % len(order)
    order = order[shift:] + order[:shift]
    present = {executor.key: executor for executor in order}
    owners = {bucket: present[owner.key] for bucket, owner in before.items() if owner.key in present}
    counts = Counter(owners.values())

    def load_with(executor: Executor, more: int) -> float:
        return (counts[executor] + more) / executor.cores

    for bucket in range(buckets):
        if bucket not in owners:
            owners[bucket] = min(order, key=lambda executor: load_with(executor, 1))
            counts[owners[bucket]] += 1
    while True:
        giver = max(order, key=lambda executor: load_with(executor, 0))
        taker = min(order, key=lambda executor: load_with(executor, 1))
        if load_with(taker, 1) >= load_with(giver, 0):
            return dict(sorted(owners.items()))
        bucket = max(bucket for bucket, owner in owners.items() if owner == giver)
        owners[bucket] = taker
        counts[giver] -= 1
        counts[taker] += 1
