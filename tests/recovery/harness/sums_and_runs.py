"""A pipeline for tests of any fault: each tuple changes the state of its key, and an error of it would be visible."""

from __future__ import annotations

from itertools import count

KEYS = 10
FILE = """
max_records_per_batch: 400
clock: records
streams:
  in: {schema: {k: string, v: int64}}
  sums: {marks: none}
  runs: {}
operators:
  - name: sums
    aggregate: in
    window: sliding, count(20), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {sums: {k: k, n: Count(), s: Sum(v), last: Last(v)}}
  - name: runs
    aggregate: in
    window: tumbling, count(7), partitioned
    partition_by: [k]
    output: {runs: {k: k, all: Collect(v)}}
"""
OUTPUTS = ("sums", "runs")
_numbers = count()


def tuples(size: int) -> list[dict]:
    """The next tuples of the stream `in`; each has another number than all tuples before it."""
    return [{"k": f"key {number % KEYS}", "v": number} for number in (next(_numbers) for _ in range(size))]
