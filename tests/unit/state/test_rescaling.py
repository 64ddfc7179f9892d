"""A change of the number of buckets: the outputs are those of a number that stays, whatever waits for other records."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.batch.packed_rows import labels, ordinal, split_pass_through
from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.batch.usable_records import RECEIVED
from sluice.config.load import load_text
from sluice.state.bucket import Bucket
from sluice.state.restore import rescaled

FILE = """
pipeline: rescaled
merge: %s
streams:
  in: {topic: in, schema: {k: string, v: int64}}
  out: {topic: out}
operators:
  - name: sums
    aggregate: in
    window: sliding, count(3), count(1), partitioned
    partition_by: [k]
    output: {out: {k: k, all: Collect(v)}}
"""
#: records of a batch, by topic partition: (second, key, value)
BATCHES = [
    {0: [(1, "a", 1), (3, "b", 2), (9, "c", 3)], 1: [(2, "a", 4)]},
    {1: [(4, "b", 5), (5, "c", 6)]},
    {0: [(10, "a", 7)], 1: [(6, "a", 8), (8, "d", 9), (11, "e", 10)]},
    {0: [(12, "b", 11), (13, "a", 12)], 1: [(14, "a", 13)]},
]


def plan_of(merge: str, buckets: int) -> Plan:
    pipeline = load_text(FILE % merge, "rescaled.yaml")
    return Plan(pipeline, "query", "start", "", buckets, {"in": 2, "out": 1})


def received(partition: int, records: list[tuple[int, str, int]]) -> pa.RecordBatch:
    columns = [
        [None] * len(records), [orjson.dumps({"k": key, "v": value}) for _, key, value in records],
        [None] * len(records), [ordinal(0, partition)] * len(records),
        [second * 10 for second, _, _ in records], [second * 1_000_000 for second, _, _ in records],
    ]  # fmt: skip
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RECEIVED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RECEIVED)


def fed(plan: Plan, buckets: list[Bucket], batch: dict[int, list[tuple[int, str, int]]]) -> list[str]:
    """The outputs of a batch, in the order of their keys and texts."""
    arrived = defaultdict(list)
    for partition, records in batch.items():
        for rows in route_records(plan, 10**18, [received(partition, records)]):
            for label, kind, body in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                arrived[label].append((kind, body))
    made = []
    for label, bucket in zip(labels(plan.buckets), buckets, strict=True):
        _, rows = split_pass_through(plan.topic_partitions, arrived[label])
        for _, outputs in bucket.try_rows(rows):
            made += map(str, outputs["out"].tuples.to_pylist())
    return sorted(made)


def outputs(merge: str, numbers: list[int]) -> list[list[str]]:
    """The outputs of the batches, of which batch n has `numbers[n]` buckets."""
    plan = plan_of(merge, numbers[0])
    buckets, found = [Bucket(plan, number) for number in range(plan.buckets)], []
    for version, (number, batch) in enumerate(zip(numbers, BATCHES, strict=True)):
        if number != plan.buckets:
            plan = replace(plan, buckets=number)
            buckets = rescaled(plan, buckets, version)
        found.append(fed(plan, buckets, batch))
    return found


@pytest.mark.parametrize("merge", ["arrival", "timestamp"])
@given(st.lists(st.integers(1, 16), min_size=len(BATCHES), max_size=len(BATCHES)))
@settings(max_examples=15, derandomize=True, deadline=None)
def test_any_sequence_of_numbers_gives_the_outputs_of_one_bucket(merge: str, numbers: list[int]):
    assert outputs(merge, numbers) == outputs(merge, [1] * len(BATCHES))


def test_what_waits_for_an_earlier_record_of_another_topic_partition_is_divided_too():
    waiting, _, released, _ = outputs("timestamp", [3, 3, 5, 2])
    assert waiting == ["{'k': 'a', 'all': [1, 4]}", "{'k': 'a', 'all': [1]}"]
    assert "{'k': 'c', 'all': [6, 3]}" in released
