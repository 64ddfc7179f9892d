"""The items of a batch as records for the event-time kernels."""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import inlined, kernel, read_only
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.columns.scratch_buffers import Scratch
from sluice.engine.stream.items import TUPLE, WATERMARK, Items
from sluice.engine.windows.event_time.event_records import ARRIVAL, Window


def arrivals(
    items: Items, partition: np.ndarray, slot: np.ndarray, times: np.ndarray, marks: np.ndarray, scratch: Scratch
) -> np.ndarray:
    """Builds one record per item. `partition`, `slot` and `times` have one entry per tuple, `marks` the time of each
    watermark.
    """
    made = scratch.room(len(items), ARRIVAL)
    columns = (items.kind, items.at, items.event, items.watermark, partition, slot, times, marks)
    _write(made, *map(read_only, columns))
    return made


@kernel
def _write(
    made: np.ndarray, kind: np.ndarray, at: np.ndarray, event: np.ndarray, watermark: np.ndarray,
    partition: np.ndarray, slot: np.ndarray, times: np.ndarray, marks: np.ndarray,
) -> None:  # fmt: skip
    row, mark = 0, 0
    for i in range(len(made)):
        one = made[i]
        one.kind, one.at, one.event, one.watermark = kind[i], at[i], event[i], watermark[i]
        one.partition = one.slot = one.time = 0
        if kind[i] == TUPLE:
            one.partition, one.slot, one.time = partition[row], slot[row], times[row]
            row += 1
        elif kind[i] == WATERMARK:
            one.time = marks[mark]
            mark += 1


@inlined
def look_ahead(w: Window, arrivals: np.ndarray, i: int) -> None:
    """Prefetches for later items: the partition of item `i` + 2 AHEAD, and the youngest node in the partition of item
    `i` + AHEAD.
    """
    if i + 2 * AHEAD < len(arrivals):
        prefetch(w.partitions, arrivals[i + 2 * AHEAD].partition)
        p = arrivals[i + AHEAD].partition
        if w.partitions[p].size:
            prefetch(w.nodes, w.partitions[p].youngest)
