"""Windows over event time of so many keys that their times are not near each other: what each key makes is simple."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.clock import Clock
from sluice.engine.windows.event_time.timeline_blocks import PREFETCH_THRESHOLD, TOP
from tests.spec.tuple_batches import items

KEYS, SECONDS, BATCH = 15_000, 7, 10_000
PIPELINE = """
pipeline: far
streams:
  readings:
    topic: readings
    schema: {{k: int64, t: timestamp, v: int64}}
    event_time: {{attribute: t{lag}}}
  sums: {{topic: sums}}
operators:
  - name: sum
    aggregate: readings
    window: {window}
    partition_by: [k]
    output:
      sums: {{k: k, n: Count(), sum: Sum(v), last: Max(v)}}
"""
#: a key, how many values, their sum and the greatest
Row = tuple[int, int, int, int]


@pytest.mark.parametrize(
    ("window", "lag", "length"),
    [
        # a pane of three seconds is complete when the first reading behind it comes
        ("timeInterval, intervalDuration(3.0), creationPeriod(1.0), partitioned", ", lag: 0.0", 3),
        # a window that ends where the key has a reading, three seconds long and closed on both sides
        ("slidingTime, timeDifference(3.0)\n    window_set: perTimestampBackward", "", 4),
    ],
)
def test_what_each_key_makes(window: str, lag: str, length: int):
    there = np.random.default_rng(5).random((SECONDS, KEYS)) < 0.9
    text = PIPELINE.format(window=window, lag=lag)
    graph = Graph(load_text(text, "far", environment=None), {"readings": 1})
    state, found = graph.initial(), Counter[Row]()
    for start, key, second in batches(there):
        batch = items(readings(key, second), start)
        made = graph.feed(state, {"readings": batch}, Clock(0, start))["sums"].tuples
        found.update(tuple(row.values()) for row in made.to_pylist())
    assert state.operators[0].node_room[TOP] > PREFETCH_THRESHOLD
    assert found == expected(there, length, own=window.startswith("slidingTime"))


def expected(there: np.ndarray, length: int, *, own: bool) -> Counter[Row]:
    """Of each key the windows of so many seconds that hold something, up to the last second but one; `own`: of those
    that end where the key has a reading.
    """
    rows: Counter[Row] = Counter()
    for key in range(KEYS):
        for last in range(SECONDS - 1):
            values = [value(key, s) for s in range(max(last - length + 1, 0), last + 1) if there[s, key]]
            if values and (there[last, key] or not own):
                rows[key, len(values), sum(values), max(values)] += 1
    return rows


def value(key: int, second: int) -> int:
    return (key + 1) * (31 * second % 7)


def batches(there: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Second by second the keys that are there, in any order: of each batch the number of its first reading."""
    second, key = np.nonzero(there)
    order = np.lexsort((np.random.default_rng(6).random(len(key)), second))
    second, key = second[order], key[order]
    return [(at, key[at : at + BATCH], second[at : at + BATCH]) for at in range(0, len(key), BATCH)]


def readings(key: np.ndarray, second: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch({
        "k": key, "t": pa.array((1000 + second) * 10**9).cast(pa.timestamp("ns", "UTC")),
        "v": [value(*pair) for pair in zip(key.tolist(), second.tolist(), strict=True)],
    })  # fmt: skip
