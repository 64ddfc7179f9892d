"""Items: consecutive tuples, marks and watermarks of a stream, as they pass from operator to operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice import time_units

#: kinds of an item
TUPLE, WINDOW, FINAL, EMPTY_FIRING, WATERMARK, KEY_MARK = range(6)
#: the kind of a firing that gives an early result: tuples without a mark (F4). No item has this kind
EARLY_FIRING = 6
#: the kind of an item that empties a table: all its rows are deleted (EN4)
CLEAR = 7
#: the kind of an item that stands for a tuple of another bucket: only its event time counts, which is its `watermark`
STEP = 8
#: the largest time; as a watermark it is behind every tuple (E36)
MAX_TIME = time_units.MAX_TIME
#: `event` of an item that a timer caused
TIMER = -1
#: `source` of an item that a windowed operator emitted
MADE = -1
#: `source` of a mark that applies to all topic partitions
ALL = -2


@dataclass(frozen=True, slots=True)
class Items:
    """Consecutive items of one stream: tuples and marks in one order (P1).

    All arrays have one entry per item, `tuples` has one row per TUPLE item.

    event   number of the event that caused the item, or TIMER for a timer; never decreases, apart from TIMER
    at      the operator clock when the item was created, nanoseconds; never decreases
    kind    TUPLE, WINDOW (window mark), FINAL (final mark), WATERMARK, or EMPTY_FIRING: the window mark of a firing
            that found nothing stored. If an operator is spread over buckets, an EMPTY_FIRING is written only if all
            buckets have it. KEY_MARK: a window mark for the window partition with the key of the item alone; it stays
            inside the service. CLEAR: all rows of a table are deleted. STEP: the time of a tuple of another bucket
    source  topic partition of the item, MADE if a windowed operator emitted it, ALL for an aligned mark
    key     index into `keys`, -1 without a key
    keys    key bytes of the Kafka record or of the window partition (columns/key_bytes.py); not null
    tuples  attributes of the TUPLE items
    watermark   of a WATERMARK or STEP item its event time, nanoseconds since 1970. Of an item from a window over event
                time the end of that window, in ticks, which distinguishes the windows that one event fired. May be
                left out if it is 0 for all items
    behind  only of the outputs of a pipeline with computed watermarks: whether the item was caused not by the tuple of
            its event itself, but by the watermark that the tuple moved
    """

    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    source: np.ndarray
    key: np.ndarray
    keys: pa.BinaryArray
    tuples: pa.RecordBatch
    watermark: np.ndarray = None  # type: ignore[assignment]
    behind: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.watermark is None:
            object.__setattr__(self, "watermark", np.zeros(len(self.event), np.int64))

    def __len__(self) -> int:
        return len(self.event)

    def only(self, kept: np.ndarray) -> Items:
        """The items where `kept` is true."""
        rows = kept[self.kind == TUPLE]
        tuples = self.tuples if rows.all() else self.tuples.filter(pa.array(rows))
        return self._each(lambda column: column[kept], tuples)

    def first(self, count: int) -> Items:
        """The first `count` items."""
        rows = int(np.count_nonzero(self.kind[:count] == TUPLE))
        return self._each(lambda column: column[:count], self.tuples.slice(0, rows))

    def take(self, numbers: np.ndarray) -> Items:
        """The items with these numbers, in this order."""
        is_tuple = self.kind == TUPLE
        rows = (np.cumsum(is_tuple) - 1)[numbers][is_tuple[numbers]]
        return self._each(lambda column: column[numbers], self.tuples.take(pa.array(rows)))

    def with_tuples(self, tuples: pa.RecordBatch) -> Items:
        """The same items with other attributes. `tuples` has one row per TUPLE item."""
        return self._each(lambda column: column, tuples)

    def _each(self, apply: Callable[[np.ndarray], np.ndarray], tuples: pa.RecordBatch) -> Items:
        return Items(
            apply(self.event),
            apply(self.at),
            apply(self.kind),
            apply(self.source),
            apply(self.key),
            self.keys,
            tuples,
            apply(self.watermark),
        )


def merged_items(parts: Sequence[Items]) -> Items:
    """Merges parts that have the same marks, final marks and watermarks, but different tuples.

    Each tuple stays between the same marks. Between two marks, the tuples of one part follow those of the part before.
    """
    all_items, place = parts[0], 2 * np.cumsum(parts[0].kind != TUPLE) + (parts[0].kind == TUPLE)
    for part in parts[1:]:
        is_tuple = part.kind == TUPLE
        all_items = concatenated(all_items, part.only(is_tuple))
        place = np.append(place, 2 * np.cumsum(~is_tuple)[is_tuple] + 1)
    return all_items.take(np.argsort(place, kind="stable"))


def concatenated(first: Items, second: Items) -> Items:
    """The items of `first`, followed by those of `second`."""
    columns = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("event", "at", "kind", "source", "watermark")
    }
    key, keys = concatenated_keys(first.key, first.keys, second.key, second.keys)
    pairs = zip(first.tuples.columns, second.tuples.columns, strict=True)
    tuples = pa.RecordBatch.from_arrays([pa.concat_arrays(pair) for pair in pairs], schema=first.tuples.schema)
    return Items(key=key, keys=keys, tuples=tuples, **columns)


def concatenated_keys(
    key: np.ndarray, keys: pa.BinaryArray, more: np.ndarray, more_keys: pa.BinaryArray
) -> tuple[np.ndarray, pa.BinaryArray]:
    """The columns `key` and `keys` of items that are followed by further items.

    `more` are indices into `more_keys`, -1 for an item without a key.
    """
    shifted = np.where(more < 0, -1, more + len(keys)).astype(np.int32)
    return np.concatenate([key, shifted]), pa.concat_arrays([keys, more_keys.cast(keys.type)])
