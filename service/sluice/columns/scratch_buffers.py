"""Room for what lasts no longer than a batch, kept for the next one.

What a process gives back, the system wipes before it hands it out again: for some windows a fifth of all their time.
"""

from __future__ import annotations

import numpy as np

#: records that are kept however few are asked for
SMALL = 65_536


class Scratch:
    """Of one operator, which asks for records of a kind once at a time. After one large batch room is given back."""

    def __init__(self) -> None:
        self._kept: dict[np.dtype, np.ndarray] = {}

    def room(self, count: int, dtype: np.dtype) -> np.ndarray:
        """So many records, whatever they hold; those that were asked for before are gone."""
        kept = self._kept.get(dtype)
        if kept is None or not count <= len(kept) <= max(4 * count, SMALL):
            kept = self._kept[dtype] = np.empty(count, dtype)
        return kept[:count]


def grown(records: np.ndarray, used: int, count: int) -> np.ndarray:
    """The records themselves where they are `count`, else room for so many, and for twice as many as are in use, behind
    the first `used`.
    """
    if len(records) >= count:
        return records
    made = np.empty(max(count, 2 * used), records.dtype)
    made[:used] = records[:used]
    return made
