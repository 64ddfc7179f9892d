"""Batches and fetches are planned by the sizes of the records that come next."""

from __future__ import annotations

import pytest

from sluice.spark.pace import POLL, POLL_RECORDS, Pace, measured, pace
from sluice.spark.query import prepare

PIPELINE = """
streams:
  in: {schema: {n: int64}}
  out: {}
operators:
  - {name: all, map: in, output: [out]}
max_records_per_batch: 5000
max_bytes_per_batch: 1000000
"""


def test_small_records_and_unknown_ones_are_bounded_by_their_number():
    for size in (0, 10):
        assert pace(5000, 1_000_000, size) == Pace(5000, POLL_RECORDS)


def test_large_ones_are_bounded_by_their_bytes():
    assert pace(5000, 1_000_000, 10_000) == Pace(100, POLL // 10_000)


def test_there_is_always_one():
    assert pace(5000, 1_000_000, 1 << 30) == Pace(1, 1)


@pytest.mark.kafka
@pytest.mark.spark
def test_sizes_are_measured_where_the_next_batch_reads(service):
    """Few large records behind small ones count, and so do those of any topic partition."""
    service.create("in", 3)
    plan = prepare(service.pipeline(PIPELINE))
    assert measured(plan) == Pace(5000, POLL_RECORDS), "an empty topic"
    service.send("in", [{"value": b"x" * 10, "partition": 0}] * 1000)
    assert measured(plan) == Pace(5000, POLL_RECORDS)
    service.send("in", [{"value": b"x" * 100_000, "partition": 2}] * 20)
    assert measured(plan) == Pace(10, POLL // 100_000)
