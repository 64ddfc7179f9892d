"""Which topic partitions a report of a batch names: those that hold the watermark of a stream back."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.engine.windows.event_time.watermark_tracker import SOURCE
from sluice.state.bucket_inspection import slowest
from sluice.time_units import UNSET


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
