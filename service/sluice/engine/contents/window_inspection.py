"""Snapshots of windows for display: the stored tuples, and the results that a firing at this moment would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.json_columns import shown_values
from sluice.columns.key_bytes import NULL, key_text

#: the attribute (or the text of the expression) -> its value as JSON represents it
Tuple = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InspectedWindow:
    """The present content of a window partition.

    side     "left" or "right" for a side of a join, otherwise empty
    tuples   the number of tuples in the window
    held     the stored tuples, oldest first; empty if the window keeps only a summary
    policy   the values by which the window's policies decide, by name
    now      output stream -> the tuples that the window would emit if it fired now
    """

    operator: str
    tuples: int
    held: list[Tuple] = field(default_factory=list)
    side: str = ""
    policy: dict[str, Any] = field(default_factory=dict)
    now: dict[str, pa.RecordBatch] = field(default_factory=dict)


def code_of(keys: Interner, key: str | None) -> int:
    """The code of a key. NIL if `key` is None or is not interned; the text `null` is also that of the key null. Costs
    O(number of keys).
    """
    if key is None:
        return NIL
    all_keys = keys.take(np.arange(keys.count))
    codes = (int(pc.index(all_keys, pa.scalar(text, pa.binary())).as_py()) for text in (key.encode(), NULL))
    code, of_null = codes
    return of_null if code == NIL and key == key_text(NULL) else code


def chained(ends: np.void, links: np.ndarray, block: int = 1) -> np.ndarray:
    """The places of a list's tuples from the oldest to the youngest. `block`: tuples per block (see blocks.py)."""
    slots: list[int] = []
    slot, youngest = int(ends["oldest"]), int(ends["youngest"])
    while slot != NIL:
        last = youngest if slot // block == youngest // block else slot | (block - 1)
        slots.extend(range(slot, last + 1))
        slot = int(links["younger"][slot // block])
    return np.array(slots, np.int64)


def tuples(names: Sequence[str], layout: WordColumns, words: np.ndarray, strings: Interner) -> list[Tuple]:
    """Stored tuples as JSON values. `words` has one row per tuple; columns whose name is empty are left out."""
    named = [(place, name) for place, name in enumerate(names) if name]
    columns = [shown_values(layout.column(place, words, strings), layout.types[place]) for place, _ in named]
    return [dict(zip([name for _, name in named], row, strict=True)) for row in zip(*columns, strict=True)]
