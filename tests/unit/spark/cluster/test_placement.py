from __future__ import annotations

from collections.abc import Mapping

import pytest

from sluice.spark import placement
from sluice.spark.cluster import is_cluster
from sluice.spark.placement import FIRST, INTERVAL, SETTLED, Executor, Placement
from tests.unit.test_processes import await_true

A, B, C = (Executor(str(number), "host") for number in range(3))


class Table:
    """Records the moves."""

    def __init__(self) -> None:
        self.moves: list[dict[int, Executor]] = []

    def move(self, owners: Mapping[int, Executor]) -> None:
        self.moves.append(dict(owners))


class Cluster:
    """A cluster whose executors a test chooses."""

    def __init__(self, *executors: Executor) -> None:
        self.present = list(executors)
        self.asked = 0
        self.fails = False
        self.tables: list[Table] = []
        self.placement = Placement(self._executors, self._table)  # type: ignore[arg-type]

    def _executors(self) -> list[Executor]:
        self.asked += 1
        if self.fails:
            message = "the JVM does not answer"
            raise OSError(message)
        return list(self.present)

    def _table(self, buckets: int) -> Table:
        self.tables.append(Table())
        return self.tables[-1]


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", False), ("local[*]", False), ("local[2,4]", False), ("spark://there:7077", True),
        ("local-cluster[2,1,1024]", True), ("k8s://https://there", True),
    ],
)  # fmt: skip
def test_only_masters_of_clusters_place_buckets(master, expected):
    assert is_cluster(master) == expected


def test_a_query_has_one_table_that_places_its_buckets():
    cluster = Cluster(A, B)
    cluster.placement.refresh()
    table = cluster.placement.table("query", 3)
    assert cluster.placement.table("query", 3) is table
    assert cluster.tables[0].moves == [{0: A, 1: B, 2: A}]


def test_buckets_of_a_lost_executor_move_and_come_to_a_new_one():
    cluster = Cluster(A, B)
    cluster.placement.refresh()
    cluster.placement.table("query", 4)
    cluster.present = [A]
    cluster.placement.refresh()
    cluster.present = [A, C]
    cluster.placement.refresh()
    assert cluster.tables[0].moves[1:] == [dict.fromkeys(range(4), A), {0: A, 1: A, 2: C, 3: C}]


def test_nothing_moves_while_the_executors_stay():
    cluster = Cluster(B, A)
    cluster.placement.refresh()
    cluster.placement.table("query", 4)
    cluster.present.reverse()
    cluster.placement.refresh()
    assert len(cluster.tables[0].moves) == 1


def test_the_start_waits_until_no_further_executor_comes():
    cluster = Cluster()
    seconds = [0.0]

    def pause(waited: float) -> None:
        seconds[0] += waited
        if seconds[0] == 10:
            cluster.present = [A]
        if seconds[0] == 11:
            cluster.present = [A, B]

    cluster.placement.wait_for_executors(pause)
    assert seconds[0] == 11 + SETTLED


def test_the_start_does_not_wait_for_ever():
    cluster = Cluster()
    cluster.placement.wait_for_executors(lambda _: None)
    assert cluster.asked == FIRST / INTERVAL


def test_a_failed_request_for_the_executors_changes_nothing(caplog, monkeypatch):
    monkeypatch.setattr(placement, "INTERVAL", 0.001)
    cluster = Cluster(A)
    with cluster.placement:
        cluster.placement.table("query", 1)
        cluster.fails = True
        await_true(lambda: "the JVM does not answer" in caplog.text)
        cluster.fails, cluster.present = False, [B]
        await_true(lambda: len(cluster.tables[0].moves) > 1)
    assert cluster.tables[0].moves == [{0: A}, {0: B}]
