"""The state of a KeyedMap: the values of the last tuples of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.saved_columns import Format
from sluice.columns.state_tables import PartOfKey, Table, Tables, added_keys, keep_texts, moved_to, parts_of, words_of
from sluice.engine.operators.compaction import should_compact
from sluice.model.engine_limits import EngineLimits

#: what is known of a key. next: the place among its slots of the tuple that comes; size: how many tuples are stored;
#: last: the operator clock when the last one came, nanoseconds
PARTITION = np.dtype([("next", np.int64), ("size", np.int64), ("last", np.int64)])


class PreviousState(Tables):
    """The last tuples of each key, at most `longest`, in slots that are used in turn.

    The number of a key is its code in `keys`; its slots are those from `longest` times this number on:

        key 0: slot 0 1 2     key 1: slot 3 4 5            longest = 3; the next tuple of key 1 goes to slot 3 + next
    """

    FORMAT: ClassVar[Format] = Format("previous", 1)
    NUMBERS: ClassVar[tuple[str, ...]] = ("kept", "kept_strings")
    STRINGS: ClassVar[tuple[str, ...]] = ("keys", "strings")

    partitions: np.ndarray
    words: np.ndarray

    def __init__(self, columns: WordColumns, longest: int, limits: EngineLimits) -> None:
        """`columns` has the values of a tuple that are stored."""
        self.layout, self.longest, self.limits = columns, longest, limits
        self.declare({"partitions": Table("partition", PARTITION), "words": words_of("slot", columns)})
        self.keys, self.strings = Interner(), Interner()
        #: the numbers of keys and of texts that the last compaction left
        self.kept = self.kept_strings = 0
        #: the number of stored tuples; not saved, because the keys have it
        self.stored = 0

    @property
    def rows(self) -> Mapping[str, int]:
        return {"partition": self.keys.count, "slot": self.keys.count * self.longest}

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of keys and of stored tuples. O(1)."""
        return self.keys.count, self.stored

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        super().restore(saved)
        self.count()

    def count(self) -> None:
        self.stored = int(self.partitions["size"][: self.keys.count].sum())

    def make_room(self) -> None:
        """Makes room for all keys."""
        for space, count in self.rows.items():
            self.reserve(space, count)

    def compact_all(self, forgotten: np.ndarray) -> None:
        """Removes these keys if enough keys came since the last compaction, and unused texts likewise."""
        if should_compact(self.limits, self.keys.count, self.kept):
            self._keep(np.flatnonzero(~forgotten))
        if should_compact(self.limits, self.strings.count, self.kept_strings, self.stored):
            keep_texts(self.strings, self.texts())
            self.kept_strings = self.strings.count

    def _keep(self, kept: np.ndarray) -> None:
        count = self.keys.count
        self.keys.keep(kept)
        self.compact("partition", kept, count)
        self.compact("slot", self.slots_of(kept), count * self.longest)
        self.kept = self.keys.count
        self.count()

    def slots_of(self, keys: np.ndarray) -> np.ndarray:
        """The slots of these keys, key by key."""
        slots: np.ndarray = (keys[:, None] * self.longest + np.arange(self.longest)).reshape(-1)
        return slots

    # ---- from one state to another ----------------------------------------------------------------------------------

    def split(self, parts: int, part_of_key: PartOfKey) -> Sequence[Self]:
        part_of = parts_of(self.keys, part_of_key)
        return [self._gathered([(self, np.flatnonzero(part_of == part))]) for part in range(parts)]

    def merge(self, others: Sequence[Self]) -> Self:
        return self._gathered([(state, np.arange(state.keys.count)) for state in (self, *others)])

    def _gathered(self, chosen: Sequence[tuple[Self, np.ndarray]]) -> Self:
        """A new state with these keys of other states."""
        target = type(self)(self.layout, self.longest, self.limits)
        for state, keys in chosen:
            numbers = added_keys(target.keys, state.keys, keys)
            target.make_room()
            target.take(state, {
                "partition": moved_to(keys, numbers, state.keys.count),
                "slot": moved_to(state.slots_of(keys), target.slots_of(numbers), state.rows["slot"]),
            })  # fmt: skip
        target.count()
        return target
