"""Packed rows as a bucket gets them, and a plan to feed them to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from sluice.batch.packed_rows import IDLE_CLOCK, RECORDS, Packed, ordinal, pack
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.engine.stream.items import TUPLE

SECOND = 1_000_000_000
FILE = """
pipeline: held
buckets: 2
streams:
  in: {topic: in, schema: {k: string, v: int64}}
  out: {topic: out}
operators:
  - name: sums
    aggregate: in
    window: sliding, %s, count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {out: {k: k, n: Count(), s: Sum(v), longest: Max(k)}}
"""


def plan_of(checkpoint: Path, window: str = "count(10)", *, buckets: int = 2) -> Plan:
    pipeline = load_text(FILE % window, "held.yaml")
    return Plan(pipeline, "query", "start", str(checkpoint), buckets, {"in": 1, "out": 1})


def rows_of(first: int, count: int, keys: int = 50, topic_partition: int = 0) -> list[Packed]:
    """Tuples number `first` and on, one a second."""
    number = np.arange(first, first + count)
    batch = pa.record_batch({
        "@number": pa.array((number - first).astype(np.uint32) * 2), "@stamp": pa.array(number * SECOND),
        "@kind": pa.array(np.full(count, TUPLE, np.int8)),
        "k": pa.array([f"key {n * n % keys}" for n in number.tolist()]), "v": pa.array(number),
    })  # fmt: skip
    about = {
        "stream": "in",
        "first": ordinal(0, topic_partition),
        "number": 0,
        "offset": 0,
        "start": first * SECOND,
        "end": (first + count - 1) * SECOND,
    }
    return [(RECORDS, pack(batch, about))]


def idle_clock_rows(second: int) -> list[Packed]:
    return [(IDLE_CLOCK, (second * SECOND).to_bytes(8, "big"))]
