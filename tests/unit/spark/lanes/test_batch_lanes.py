"""Which lane does a batch, who writes it, and what is waited for before the clients of a query are closed."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.spark.lanes import batch_lanes
from sluice.spark.lanes.batch_lanes import BatchLanes, HungBatchError, OpenLanes

FILE = """
pipeline: lanes
kafka: {bootstrap.servers: nowhere}
buckets: 1
streams:
  in: {topic: in, schema: {k: string}}
  out: {topic: out}
operators:
  - {name: counted, aggregate: in, window: "tumbling, count(2)", output: {out: {k: k}}}
"""
#: bound on the waits of these tests, in seconds; none of them takes as long
LONG = 30.0
#: what the two lanes make of a batch
DIRECT, JOB = ["of the direct lane"], ["of a job of Spark"]


class Direct:
    """A direct lane that does the batches of `small`, each as soon as the test lets it end."""

    offsets = 1

    def __init__(self, small):
        self._small, self.began, self.may_end, self.closed = small, threading.Event(), threading.Event(), False

    def outputs(self, batch):
        self.began.set()
        assert self.may_end.wait(LONG)
        return DIRECT if batch in self._small else None

    def close(self):
        self.closed = True


class World:
    """The lanes of a query, and what they write."""

    def __init__(self, folder, small):
        self.offsets, self.written, self.direct = folder / "offsets", [], Direct(small)
        plan = Plan(load_text(FILE, "lanes.yaml"), "query", "start", str(folder), 1, {"in": 1, "out": 1})
        spark = SimpleNamespace(outputs=lambda *_: JOB)
        self.topics = MagicMock()
        self.lanes = BatchLanes(plan, spark, self.direct, self.topics, self._write)

    def _write(self, plan, batch, rows, observe):
        self.written.append((batch, rows))

    def plan(self, batch):
        """Writes the entry of a batch as Spark does."""
        for name in (batch, f".{batch}.crc"):
            (self.offsets / f".{name}.tmp").write_text("v1")
            (self.offsets / f".{name}.tmp").rename(self.offsets / name)

    def call(self, batch):
        """What Spark calls with the batch."""
        self.lanes(MagicMock(), batch)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path, small={4})
    yield made
    made.direct.may_end.set()
    made.lanes.close()


def test_a_small_batch_is_written_once_by_the_direct_lane_before_spark_calls(world):
    world.plan("4")
    assert world.direct.began.wait(LONG)
    world.direct.may_end.set()
    world.call(4)
    assert world.written == [(4, DIRECT)]


def test_a_batch_that_the_direct_lane_does_not_do_is_written_by_a_job_when_spark_calls(world):
    world.plan("5")
    assert world.direct.began.wait(LONG)
    world.direct.may_end.set()
    assert world.written == []
    world.call(5)
    assert world.written == [(5, JOB)]


def test_the_clients_stay_open_while_a_batch_that_spark_never_calls_is_in_progress(world):
    opened = OpenLanes()
    opened.add(world.lanes)
    world.plan("4")
    assert world.direct.began.wait(LONG)
    assert not opened.end(0.0)
    closing = threading.Thread(target=opened.close)
    closing.start()
    assert not world.direct.closed
    world.direct.may_end.set()
    closing.join(LONG)
    assert world.direct.closed
    assert world.written == [(4, DIRECT)]


def test_the_wait_for_a_batch_that_hangs_has_a_bound(world, monkeypatch):
    world.plan("4")
    assert world.direct.began.wait(LONG)
    monkeypatch.setattr(batch_lanes, "MAX_WORK_S", 0.01)
    with pytest.raises(HungBatchError, match="the last batch has not ended"):
        world.lanes.close()
    assert not world.direct.closed, "the batch uses it"
    monkeypatch.undo()


def test_an_error_of_lanes_that_are_closed_keeps_no_others_open():
    opened, (broken, whole) = OpenLanes(), (MagicMock(), MagicMock())
    broken.close.side_effect = ValueError("it cannot be closed")
    for lanes in (whole, broken, whole):
        opened.add(lanes)
    with pytest.raises(ValueError, match="it cannot be closed"):
        opened.close()
    assert whole.close.call_count == 2
    opened.close()
    assert whole.close.call_count == 2


def test_the_connection_through_which_java_called_is_closed_with_the_lanes_and_so_is_what_else_is_open(world):
    closed = []
    ours, javas = socket.socketpair()
    client = SimpleNamespace(get_thread_connection=lambda: SimpleNamespace(socket=ours))
    gateway = SimpleNamespace(_gateway_client=client)  # as spark_internals.py finds it
    with ours, javas:
        world.lanes.called(SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway)))
        world.lanes.also_close(lambda: closed.append("the client of the idle clock"))
        world.lanes.close()
        assert javas.recv(1) == b""
    assert closed == ["the client of the idle clock"]


def test_what_follows_each_batch_is_called_when_it_is_written(world):
    seen = []
    world.lanes.also_after_batch(lambda: seen.append([batch for batch, _ in world.written]))
    world.direct.may_end.set()
    world.call(4)
    world.call(5)
    assert seen == [[4], [4, 5]]
