"""The items of a batch as records for the kernel."""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import kernel, read_only
from sluice.columns.scratch_buffers import Scratch
from sluice.engine.stream.items import EMPTY_FIRING, MADE, TUPLE, WINDOW, Items
from sluice.engine.windows.processing_time.window_records import ARRIVAL


def arrivals(items: Items, partition: np.ndarray, slot: np.ndarray, scratch: Scratch) -> np.ndarray:
    """Builds one record per item. `partition` and `slot` have one entry per tuple."""
    made = scratch.room(len(items), ARRIVAL)
    columns = (items.kind, items.at, items.event, items.watermark, items.source, partition, slot)
    _write(made, *map(read_only, columns))
    return made


@kernel
def _write(
    made: np.ndarray, kind: np.ndarray, at: np.ndarray, event: np.ndarray, watermark: np.ndarray, source: np.ndarray,
    partition: np.ndarray, slot: np.ndarray,
) -> None:  # fmt: skip
    row = 0
    for i in range(len(made)):
        one = made[i]
        one.kind = WINDOW if kind[i] == EMPTY_FIRING else kind[i]
        one.at, one.event, one.watermark = at[i], event[i], watermark[i]
        one.source = 0 if source[i] == MADE else source[i]
        one.partition = one.slot = 0
        if kind[i] == TUPLE:
            one.partition, one.slot = partition[row], slot[row]
            row += 1
