"""The state of a Delay with a key: the tuples that wait, and when the last tuple of each key leaves (DL8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.saved_columns import Data, Format, Saved, SavedRecord, grown
from sluice.columns.state_tables import PartOfKey, added_keys, parts_of
from sluice.engine.operators.compaction import should_compact
from sluice.engine.operators.delay.delay_state import of_this_operator, read_table
from sluice.engine.stream.items import MAX_TIME
from sluice.model.engine_limits import LIMITS
from sluice.time_units import UNSET

#: format of the saved state
FORMAT = Format("delay-by-key", 1)
#: the columns of a saved row: the time at which the tuple leaves, its topic partition, the bytes of its key, and
#: whether the row is a tuple. Each key has another row, without attributes: the time at which its last tuple leaves
DUE, SOURCE, KEY, IS_TUPLE = COLUMNS = ("@due", "@source", "@key", "@tuple")


class Waiting(NamedTuple):
    """Tuples that wait, in order of the times at which they leave; those of one key are in order of arrival."""

    tuples: pa.RecordBatch
    due: np.ndarray
    source: np.ndarray
    #: the numbers of their keys
    key: np.ndarray

    @staticmethod
    def sorted(tuples: pa.RecordBatch, due: np.ndarray, source: np.ndarray, key: np.ndarray) -> Waiting:
        order = np.argsort(due, kind="stable")
        return Waiting(tuples.take(pa.array(order)), due[order], source[order], key[order])

    def part(self, start: int, end: int) -> Waiting:
        arrays = (column[start:end] for column in self[1:])
        return Waiting(self.tuples.slice(start, end - start), *arrays)

    def only(self, kept: np.ndarray) -> Waiting:
        return Waiting(self.tuples.filter(pa.array(kept)), *(column[kept] for column in self[1:]))


def joined(parts: Sequence[Waiting], schema: pa.Schema) -> Waiting:
    """The tuples of all parts, of which the earlier ones came earlier."""
    nothing = np.zeros(0, np.int64)
    empty = Waiting(pa.RecordBatch.from_pylist([], schema=schema), nothing, nothing, nothing)
    batches, *arrays = zip(empty, *parts, strict=True)
    return Waiting.sorted(pa.concat_batches(batches), *map(np.concatenate, arrays))


@dataclass(slots=True)
class KeyedDelayState:
    """The tuples that wait, in pieces, each in order of time. A piece is at least twice as long as the next one, so
    that a tuple is sorted again only as often as the pieces around it double.
    """

    schema: pa.Schema
    pieces: list[Waiting] = field(default_factory=list)
    keys: Interner = field(default_factory=Interner)
    #: by key: the time at which its last tuple leaves, and how many of its tuples wait
    last: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    #: whether the final mark was received
    finished: bool = False
    #: how many tuples wait
    waiting: int = 0
    #: the number of keys that the last compaction left
    kept: int = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of known keys, and how many tuples wait. O(1)."""
        return self.keys.count, self.waiting

    @property
    def partitions(self) -> np.ndarray:
        """By key: how many of its tuples wait, for pictures."""
        waiting = np.zeros(self.keys.count, [("size", np.int64)])
        waiting["size"] = self.counts[: self.keys.count]
        return waiting

    @property
    def due(self) -> int:
        """The time at which the next tuple leaves; MAX_TIME if none waits."""
        return min((int(piece.due[0]) for piece in self.pieces), default=MAX_TIME)

    def make_room(self) -> None:
        """Makes room for all keys."""
        rows_before = len(self.last)
        if rows_before < self.keys.count:
            self.last, self.counts = grown(self.last, self.keys.count), grown(self.counts, self.keys.count)
            self.last[rows_before:], self.counts[rows_before:] = UNSET, 0

    def add(self, more: Waiting) -> None:
        if not len(more.due):
            return
        self.waiting += len(more.due)
        np.add.at(self.counts, more.key, 1)
        while self.pieces and len(self.pieces[-1].due) < 2 * len(more.due):
            more = joined([self.pieces.pop(), more], self.schema)
        self.pieces.append(more)

    def leave(self, now: int) -> Waiting:
        """Removes the tuples that leave by `now`, in order of their times."""
        leaves, staying = list[Waiting](), list[Waiting]()
        for piece in self.pieces:
            count = int(np.searchsorted(piece.due, now, "right"))
            leaves += [piece.part(0, count)] * (count > 0)
            staying += [piece.part(count, len(piece.due))] * (count < len(piece.due))
        self.pieces = staying
        leaving = joined(leaves, self.schema)
        self.waiting -= len(leaving.due)
        np.subtract.at(self.counts, leaving.key, 1)
        return leaving

    def times_of(self, key: int) -> np.ndarray:
        """The times at which the waiting tuples of a key leave, in order."""
        return np.sort(np.concatenate([np.zeros(0, np.int64), *(piece.due[piece.key == key] for piece in self.pieces)]))

    def forget(self, gap: int, now: int) -> None:
        """Removes the keys that hold no later tuple back, if enough keys came since the last time."""
        if not should_compact(LIMITS, self.keys.count, self.kept, self.waiting):
            return
        count = self.keys.count
        kept = np.flatnonzero((self.counts[:count] > 0) | (self.last[:count] > now - gap))
        codes = self.keys.keep(kept)
        self.last, self.counts, self.kept = self.last[kept], self.counts[kept], len(kept)
        self.pieces = [piece._replace(key=codes[piece.key]) for piece in self.pieces]

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def save(self) -> Saved:
        metadata = {"format": str(FORMAT), "finished": str(int(self.finished))}
        return SavedRecord(self._record().replace_schema_metadata(metadata))

    def _record(self) -> pa.RecordBatch:
        waiting, count = joined(self.pieces, self.schema), self.keys.count
        nothing = pa.array(np.zeros(count, np.int64), mask=np.ones(count, np.bool_))
        rows = pa.concat_arrays([pa.array(np.arange(self.waiting)), nothing])
        columns = [
            pa.array(np.concatenate([waiting.due, self.last[:count]])),
            pa.array(np.concatenate([waiting.source, np.zeros(count, np.int64)])),
            self.keys.take(np.concatenate([waiting.key, np.arange(count)])),
            pa.array(np.arange(self.waiting + count) < self.waiting),
        ]
        columns += [column.take(rows) for column in waiting.tuples.columns]
        return pa.record_batch(columns, names=[*COLUMNS, *self.schema.names])

    def read(self, data: Data) -> KeyedDelayState:
        """Replaces the content by what `save` returned. Raises StateError if `data` does not fit."""
        with of_this_operator():
            metadata, record = read_table(data, FORMAT)
            self.finished = metadata["finished"] == "1"
            self._restore(record.combine_chunks())
        return self

    def _restore(self, record: pa.Table) -> None:
        is_tuple = record.column(IS_TUPLE).to_numpy()
        due, source = (record.column(name).to_numpy() for name in (DUE, SOURCE))
        names = record.column(KEY).combine_chunks()
        key = self.keys.intern_arrow(names) if len(names) else np.zeros(0, np.int64)
        self.make_room()
        self.last[key[~is_tuple]] = due[~is_tuple]
        columns = [record.column(name).filter(pa.array(is_tuple)) for name in self.schema.names]
        tuples = pa.Table.from_arrays(columns, schema=self.schema).combine_chunks().to_batches()
        if tuples:
            self.add(Waiting.sorted(tuples[0], due[is_tuple], source[is_tuple], key[is_tuple]))

    # ---- from one state to another ----------------------------------------------------------------------------------

    def split(self, parts: int, part_of_key: PartOfKey) -> list[KeyedDelayState]:
        part_of = parts_of(self.keys, part_of_key)
        return [self._gathered([(self, part_of == part)]) for part in range(parts)]

    def merge(self, others: Sequence[KeyedDelayState]) -> KeyedDelayState:
        return self._gathered([(state, np.ones(state.keys.count, np.bool_)) for state in (self, *others)])

    def _gathered(self, chosen: Sequence[tuple[KeyedDelayState, np.ndarray]]) -> KeyedDelayState:
        """A new state with these keys of other states."""
        target = KeyedDelayState(self.schema, finished=self.finished)
        for state, moves in chosen:
            codes, numbers = np.zeros(state.keys.count, np.int64), np.flatnonzero(moves)
            codes[numbers] = added_keys(target.keys, state.keys, numbers) if len(numbers) else numbers
            target.make_room()
            target.last[codes[numbers]] = state.last[numbers]
            waiting = joined(state.pieces, self.schema)
            waiting = waiting.only(moves[waiting.key])
            target.add(waiting._replace(key=codes[waiting.key]))
        return target
