"""The items of a batch as records for the kernel."""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import kernel, read_only
from sluice.columns.scratch_buffers import Scratch
from sluice.engine.stream.items import EMPTY_FIRING, MADE, TUPLE, WINDOW, Items
from sluice.engine.windows.processing_time.window_records import ARRIVAL


def arrivals(items: Items, partition: np.ndarray, slot: np.ndarray, scratch: Scratch) -> np.ndarray:
    """Builds one record per item. `partition` and `slot` have one entry per tuple."""
    records = scratch.room(len(items), ARRIVAL)
    columns = (items.kind, items.at, items.event, items.watermark, items.source, partition, slot)
    _write(records, *map(read_only, columns))
    return records


@kernel
def _write(
    records: np.ndarray, kind: np.ndarray, at: np.ndarray, event: np.ndarray, watermark: np.ndarray, source: np.ndarray,
    partition: np.ndarray, slot: np.ndarray,
) -> None:  # fmt: skip
    row = 0
    for i in range(len(records)):
        record = records[i]
        record.kind = WINDOW if kind[i] == EMPTY_FIRING else kind[i]
        record.at, record.event, record.watermark = at[i], event[i], watermark[i]
        record.source = 0 if source[i] == MADE else source[i]
        record.partition = record.slot = 0
        if kind[i] == TUPLE:
            record.partition, record.slot = partition[row], slot[row]
            row += 1
