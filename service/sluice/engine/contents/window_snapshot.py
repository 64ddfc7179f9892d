"""What a window holds at the moment, for people: the tuples themselves, and what a firing would tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.encoding import from_words
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.json_columns import json_values
from sluice.model.types import Type

#: attributes, or expressions as the file has them, to their values as JSON has them
Tuple = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WindowSnapshot:
    """A window partition.

    side     "left" or "right", of a join
    tuples   how many it holds; `held` are those that are stored, oldest first: a window that keeps no more than a
             summary has none
    policy   what its policies go by
    now      by output stream, what would come out if it fired now
    """

    operator: str
    tuples: int
    held: list[Tuple] = field(default_factory=list)
    side: str = ""
    policy: dict[str, Any] = field(default_factory=dict)
    now: dict[str, pa.RecordBatch] = field(default_factory=dict)


def place_of(keys: Interner, key: str | None) -> int:
    """The code of a key; NOBODY where there is none, or it is not known."""
    if key is None:
        return NIL
    return int(pc.index(keys.take(np.arange(keys.count)), pa.scalar(key.encode(), pa.binary())).as_py())


def chained(ends: np.void, links: np.ndarray, block: int = 1) -> np.ndarray:
    """The slots of a list from its oldest to its youngest; `block` is how many of them a link is for (packing.py)."""
    slots: list[int] = []
    slot, youngest = int(ends["oldest"]), int(ends["youngest"])
    while slot != NIL:
        last = youngest if slot // block == youngest // block else slot | (block - 1)
        slots.extend(range(slot, last + 1))
        slot = int(links["younger"][slot // block])
    return np.array(slots, np.int64)


def tuples(names: Sequence[str], types: Sequence[Type], words: np.ndarray, strings: Interner) -> list[Tuple]:
    """Stored tuples as JSON has them; words without a name are left out."""
    named = [(place, name, type_) for place, (name, type_) in enumerate(zip(names, types, strict=False)) if name]
    columns = [json_values(from_words(words[:, place], type_, strings), type_) for place, _, type_ in named]
    return [dict(zip([name for _, name, _ in named], row, strict=True)) for row in zip(*columns, strict=True)]
