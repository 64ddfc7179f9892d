"""Which topic partitions the report of a batch names, and which keys an inspection finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sluice.engine.windows.event_time.watermark_tracker import SOURCE
from sluice.state import bucket_inspection
from sluice.state.bucket import Bucket
from sluice.state.bucket_inspection import inspect_bucket, slowest
from sluice.time_units import UNSET
from tests.unit.state.packed_rows import plan_of, rows_of


def sources(*rows: tuple[int, int, bool]) -> np.ndarray:
    """Topic partitions: the watermark, the operator clock when the last item came, and whether it is idle."""
    found = np.zeros(len(rows), SOURCE)
    for number, (watermark, heard, idle) in enumerate(rows):
        found[number] = (watermark, watermark, heard, idle)
    return found


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(5, 9, False)], [[0, 5, 9, False]]),
        ([(UNSET, 1, False), (5, 9, False)], [[0, None, 1, False], [1, 5, 9, False]]),
        ([(3, 4, True), (5, 9, False), (4, 8, False)], [[2, 4, 8, False], [1, 5, 9, False]]),
        ([(3, 4, True), (5, 9, True)], [[1, 5, 9, True]]),
        ([(n, n, False) for n in range(9)], [[n, n, n, False] for n in (0, 1, 2, 8)]),
    ],
    ids=["one", "one without a watermark", "one is idle", "all are idle", "many"],
)  # fmt: skip
def test_the_slowest_topic_partitions_and_the_furthest(rows: list[tuple[int, int, bool]], expected: list[list[object]]):
    assert slowest(sources(*rows)) == expected


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """A bucket that has got the keys `key 1`, `key 3`, `key 4` and `key 6`, in this order."""
    one = Bucket(plan_of(tmp_path), 1)
    one.feed(0, rows_of(0, 60, keys=7))
    return one


def test_an_inspection_has_the_newest_keys_of_those_that_contain_a_text(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
):
    every = inspect_bucket(bucket, {})["keys"]
    assert len(every) == 4
    assert inspect_bucket(bucket, {"keys": every[2]})["keys"] == [every[2]]
    assert inspect_bucket(bucket, {"keys": "no such key"})["keys"] == []
    monkeypatch.setattr(bucket_inspection, "MAX_KEYS", 3)
    assert inspect_bucket(bucket, {"keys": "key"})["keys"] == every[:3]
    monkeypatch.setattr(bucket_inspection, "MAX_SEARCHED", 1)
    assert inspect_bucket(bucket, {"keys": every[3]})["keys"] == []
