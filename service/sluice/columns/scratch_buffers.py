"""Scratch arrays: memory for data that lasts one batch, reused by the next batch.

If a process returns memory to the operating system, the system fills it with zeros before it gives it out again. This
took a fifth of the run time of some windows.
"""

from __future__ import annotations

import numpy as np

#: an array of up to this many records is kept even if a batch needs far fewer
SMALL = 65_536


class Scratch:
    """The scratch arrays of one operator, one per record type.

    An array that is much larger than the present batch needs is replaced by a smaller one.
    """

    def __init__(self) -> None:
        self._kept: dict[np.dtype, np.ndarray] = {}

    def room(self, count: int, dtype: np.dtype) -> np.ndarray:
        """An array of `count` records with undefined content. It may share memory with the last one of its type."""
        kept = self._kept.get(dtype)
        if kept is None or not count <= len(kept) <= max(4 * count, SMALL):
            kept = self._kept[dtype] = np.empty(count, dtype)
        return kept[:count]


def grown(records: np.ndarray, used: int, count: int) -> np.ndarray:
    """The array itself if it has at least `count` records, otherwise a longer copy of its first `used` records.

    The copy has at least `count` and at least 2 * `used` records.
    """
    if len(records) >= count:
        return records
    longer = np.empty(max(count, 2 * used), records.dtype)
    longer[:used] = records[:used]
    return longer
