"""Aligns the window marks of topic partitions (`marks_in: aligned`), as the barriers of an aligned checkpoint.

The first mark of the stream occurs when each topic partition has sent its first mark, the second one when each has sent
its second, and so on. An item that follows a mark of its topic partition is buffered until all other topic partitions
have sent that mark; it is handled directly behind the stream's mark. So a window that a mark closes holds exactly the
tuples that each topic partition sent before that mark. A topic partition that is final counts as having sent every
mark.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sluice.columns.saved_columns import Data, Saved, SavedRecord, StateError
from sluice.engine.stream.items import ALL, FINAL, TUPLE, WINDOW, Items, concatenated


def align(buffered: Items | None, items: Items, finals: AbstractSet[int], sources: int) -> tuple[Items, Items | None]:
    """Returns the items that may be handled now, in order, and the items that are buffered, in order of arrival, or
    None. `buffered` are the items that were buffered before.

    `finals` are the topic partitions that were final before these items; `sources` is the number of topic partitions.
    """
    if sources == 1 or (buffered is None and not (items.kind == WINDOW).any()):
        return items, buffered
    all_items = items if buffered is None else concatenated(buffered, items)
    turns = AlignmentRounds.of(all_items, finals, sources)
    return turns.going(all_items), turns.staying(all_items)


class AlignmentRounds:
    """For each item the mark of the stream that it waits for: the last mark that its topic partition sent before it.

    mark          whether the item is a mark that counts; a mark behind a final mark does not
    turn          number of the mark that the item waits for, from 1; 0: none. The turn of a mark is its own number
    completed_at  by number, the index of the item at which each mark of the stream occurs; entry 0 is -1
    """

    def __init__(self, mark: np.ndarray, round_of: np.ndarray, completed_at: np.ndarray) -> None:
        self.mark, self.turn, self.completed_at = mark, round_of, completed_at

    @classmethod
    def of(cls, items: Items, finals: AbstractSet[int], sources: int) -> AlignmentRounds:
        mark, turn = items.kind == WINDOW, np.zeros(len(items), np.int64)
        places: list[np.ndarray] = []
        ends: list[tuple[int, int] | None] = []
        for source in range(sources):
            of_source = np.flatnonzero(items.source == source)
            end = of_source[items.kind[of_source] == FINAL][:1]
            if source in finals or len(end):
                mark[of_source[of_source > (-1 if source in finals else end[0])]] = False
            turn[of_source] = np.cumsum(mark[of_source])
            places.append(of_source[mark[of_source]])
            ends.append((-1, 0) if source in finals else (int(end[0]), int(turn[end[0]])) if len(end) else None)
        return cls(mark, turn, _completed_at(places, ends))

    def going(self, items: Items) -> Items:
        """The items that need not wait any more (B5), and the marks of the stream, each at the item that completed
        it.
        """
        ready = np.flatnonzero((self.turn < len(self.completed_at)) & ~self.mark)
        numbers = np.arange(1, len(self.completed_at))
        template = np.flatnonzero(self.mark)[:1].repeat(
            len(numbers)
        )  # any mark can be the template of the stream's mark
        taken, round_of = np.concatenate([ready, template]), np.concatenate([self.turn[ready], numbers])
        place = np.maximum(np.concatenate([ready, self.completed_at[1:]]), self.completed_at[round_of])
        is_mark = np.arange(len(taken)) >= len(ready)
        order = np.lexsort((taken, ~is_mark, round_of, place))  # a mark precedes the items that waited for it
        place, is_mark = place[order], is_mark[order]
        released = items.take(taken[order])
        source = np.where(is_mark, ALL, released.source).astype(released.source.dtype)
        key = np.where(is_mark, -1, released.key).astype(released.key.dtype)
        return replace(released, event=items.event[place], at=items.at[place], source=source, key=key)

    def staying(self, items: Items) -> Items | None:
        """The items that still wait for a mark, or None."""
        stays = self.turn >= len(self.completed_at)
        return items.take(np.flatnonzero(stays)) if stays.any() else None


def _completed_at(places: list[np.ndarray], ends: list[tuple[int, int] | None]) -> np.ndarray:
    """The index of the item at which each mark of the stream occurs (B4). `places` has the indices of the marks of each
    topic partition; `ends` has the index of its final mark and the number of its marks before that, or None.
    """
    completed_at = [-1]
    while any(len(of_source) >= len(completed_at) for of_source in places):
        number, latest = len(completed_at), completed_at[-1]
        for of_source, end in zip(places, ends, strict=True):
            if len(of_source) >= number:
                latest = max(latest, int(of_source[number - 1]))
            elif end is not None:  # a final mark counts when the marks before it have occurred
                latest = max(latest, end[0], completed_at[end[1]])
            else:
                return np.array(completed_at)
        completed_at.append(latest)
    return np.array(completed_at)


# ---- bytes -----------------------------------------------------------------------------------------------------------

COLUMNS = ("@kind", "@source", "@watermark", "@key")


def save(buffered: Items | None) -> Saved | None:
    """The items that are buffered; None if there are none."""
    return None if buffered is None else SavedRecord(record_of(buffered))


def record_of(buffered: Items) -> pa.RecordBatch:
    """Items that wait, as a record batch, without the events that caused them. Marks have null attributes."""
    is_tuple = buffered.kind == TUPLE
    rows = pa.array(np.cumsum(is_tuple) - 1, mask=~is_tuple)
    keys = buffered.keys.take(pa.array(buffered.key, mask=buffered.key < 0))
    columns = [pa.array(buffered.kind), pa.array(buffered.source), pa.array(buffered.watermark), keys]
    columns += [column.take(rows) for column in buffered.tuples.columns]
    return pa.record_batch(columns, names=[*COLUMNS, *buffered.tuples.schema.names])


def load(data: Data, schema: pa.Schema) -> Items | None:
    """Reads what `save` wrote. `schema` has the attributes of the stream. Raises StateError if `data` is something
    else.
    """
    if not len(data):
        return None
    try:
        with pa.ipc.open_stream(data) as reader:
            return items_of(reader.read_next_batch(), schema)
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        msg = "what was buffered belongs to another stream, or is damaged"
        raise StateError(msg) from error


def items_of(batch: pa.RecordBatch, schema: pa.Schema) -> Items:
    """The items that `record_of` made this record batch of. Raises an error of Arrow, KeyError or ValueError for
    another one.
    """
    kind, source, watermark = (batch.column(name).to_numpy() for name in COLUMNS[:3])
    names = batch.schema.names[len(COLUMNS) :]
    columns = [batch.column(name).filter(pa.array(kind == TUPLE)) for name in names]
    tuples = pa.RecordBatch.from_arrays(columns, schema=schema)
    keys = batch.column("@key")
    key = np.where(keys.is_valid().to_numpy(zero_copy_only=False), np.arange(len(kind)), -1).astype(np.int32)
    before = np.zeros(len(kind), np.int64)
    return Items(before, before, kind, source, key, keys.fill_null(b""), tuples, watermark)
