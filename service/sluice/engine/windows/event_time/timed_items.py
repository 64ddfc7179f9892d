"""The items of a batch as records for the event-time kernels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from sluice.columns.kernel import inlined, kernel, read_only
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.columns.scratch_buffers import Scratch
from sluice.engine.stream.items import STEP, TUPLE, WATERMARK, Items
from sluice.engine.windows.event_time.event_records import ARRIVAL, Window
from sluice.engine.windows.event_time.event_ticks import Ticks


def arrivals(
    items: Items, partition: np.ndarray, slot: np.ndarray, times: np.ndarray, ticks: Ticks, scratch: Scratch,
    kind: np.dtype = ARRIVAL, more: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> np.ndarray:  # fmt: skip
    """Builds one record per item, of `kind`: ARRIVAL, or ARRIVAL with further fields. `partition`, `slot`, `times` and
    the further fields in `more` have one entry per tuple. The `slot` of a STEP is its topic partition.
    """
    timed = (items.kind == WATERMARK) | (items.kind == STEP)
    records, marks = scratch.room(len(items), kind), ticks.of_watermarks(items.watermark[timed])
    columns = (items.kind, items.at, items.event, items.watermark, items.source, partition, slot, times, marks)
    _write(records, *map(read_only, columns))
    for name, values in more.items():
        records[name][items.kind == TUPLE] = values
    return records


@kernel
def _write(
    records: np.ndarray, kind: np.ndarray, at: np.ndarray, event: np.ndarray, watermark: np.ndarray, source: np.ndarray,
    partition: np.ndarray, slot: np.ndarray, times: np.ndarray, marks: np.ndarray,
) -> None:  # fmt: skip
    row, mark = 0, 0
    for i in range(len(records)):
        record = records[i]
        record.kind, record.at, record.event, record.watermark = kind[i], at[i], event[i], watermark[i]
        record.partition = record.slot = record.time = 0
        if kind[i] == TUPLE:
            record.partition, record.slot, record.time = partition[row], slot[row], times[row]
            row += 1
        elif kind[i] == WATERMARK or kind[i] == STEP:
            record.time, record.slot = marks[mark], max(source[i], 0)
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
