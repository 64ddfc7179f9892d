"""Spark's logs of a lost checkpoint are written again from the plans in the ledger."""

from __future__ import annotations

import pytest

from sluice.checkpoint import offset_log
from sluice.checkpoint.checkpoint_store import get_bytes, put_bytes
from sluice.checkpoint.offset_log import write_first_plan, write_logs
from sluice.kafka.batch_report import Planned
from sluice.time_units import MILLISECOND
from tests.unit.checkpoint.memory_store import MemoryStore


def plan(batch):
    return Planned((1_700_000_000_000 + batch) * MILLISECOND, {("a", 0): batch, ("b", 10): 7}, 5 * batch)


FIRST = Planned(0, {("a", 0): 3}, 0)
PLANS = {-1: FIRST, **{batch: plan(batch) for batch in range(10)}}


@pytest.mark.parametrize("batch", [0, 1, 9])
def test_the_logs_are_at_the_batch_and_have_its_plan(batch):
    store = MemoryStore()
    write_logs(store, PLANS, batch, idle_clock=True)
    offset_log.verify(store)
    assert offset_log.batches(store) == (batch, batch)
    assert offset_log.planned(store, batch) == plan(batch)
    assert offset_log.digest(store, batch) == plan(batch).digest
    assert offset_log.before_all(store) == FIRST


def test_the_start_of_batch_0_is_not_needed_later():
    store = MemoryStore()
    write_logs(store, {8: plan(8), 9: plan(9)}, 9, idle_clock=True)
    offset_log.verify(store)
    assert sorted(store.objects) == ["commits/9", "metadata", "offsets/8", "offsets/9"]


def test_the_plan_of_the_batch_before_may_be_unknown():
    """Spark needs its file, and none of its offsets."""
    store = MemoryStore()
    write_logs(store, {9: plan(9)}, 9, idle_clock=True)
    offset_log.verify(store)
    assert offset_log.batches(store) == (9, 9)


def test_a_query_without_the_idle_clock_has_one_source():
    store = MemoryStore()
    write_logs(store, PLANS, 2, idle_clock=False)
    assert get_bytes(store, "offsets/2").decode().splitlines() == [
        "v1",
        '{"batchWatermarkMs":0,"batchTimestampMs":1700000000002,"conf":{"spark.sql.shuffle.partitions":"200"}}',
        '{"a":{"0":2},"b":{"10":7}}',
    ]


def test_the_time_of_the_idle_clock_is_written_as_its_source_writes_it():
    """Spark compares the texts, and would run a batch without input if they differed."""
    store = MemoryStore()
    write_logs(store, PLANS, 2, idle_clock=True)
    assert get_bytes(store, "offsets/2").decode().splitlines()[3] == '{"pulse": 10}'


def test_the_plan_of_the_first_batch_is_planned_and_not_committed():
    store = MemoryStore()
    write_first_plan(store, FIRST, plan(0), idle_clock=True)
    offset_log.verify(store)
    assert offset_log.batches(store) == (None, 0)
    assert offset_log.planned(store, 0) == plan(0)
    assert offset_log.before_all(store) == FIRST


def test_the_plan_of_the_first_batch_is_written_last():
    """Until then the logs are those of a query that has not begun."""
    store = MemoryStore()
    write_first_plan(store, FIRST, plan(0), idle_clock=False)
    assert [*store.objects][-1] == "offsets/0"


def test_the_plan_of_the_first_batch_replaces_what_spark_wrote_at_an_earlier_start():
    """Spark has written its id and its start, with checksums beside them, and ended before it planned a batch."""
    store = MemoryStore()
    for name in ("metadata", "sources/0/0"):
        put_bytes(store, name, b"of an earlier start")
        folder, slash, file = name.rpartition("/")
        put_bytes(store, f"{folder}{slash}.{file}.crc", b"crc\0\0\0\2\0sums")
    write_first_plan(store, FIRST, plan(0), idle_clock=False)
    offset_log.verify(store)
    assert offset_log.before_all(store) == FIRST
