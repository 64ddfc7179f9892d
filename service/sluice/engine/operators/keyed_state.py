"""The base of states that keep their keys in a queue by the time at which each is due, and free slots in lists.

Compaction, splitting and merging are the same operation for such a state: a new state gets the open keys of others,
with all rows that belong to these keys. A subclass says which keys are open, and which rows belong to a key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.saved_columns import column
from sluice.columns.state_tables import FreeSlots, Maps, PartOfKey, Tables, parts_of
from sluice.engine.operators.compaction import should_compact
from sluice.engine.windows.event_time.timer_queue import TournamentTree
from sluice.model.engine_limits import EngineLimits


class KeyedState(Tables):
    """A state whose key number is the code of the key in `keys`. Without keys there is one row for all tuples.

    agenda   the queue of keys by the time at which they are due
    kept     the number of entries of all tables after the last compaction
    """

    keys: Interner
    agenda: TournamentTree
    kept: int

    @property
    @abstractmethod
    def limits(self) -> EngineLimits:
        """The sizes at which the state is compacted."""

    @property
    @abstractmethod
    def queued(self) -> np.ndarray:
        """The rows of all keys in the table that has the time `due` of each."""

    @property
    @abstractmethod
    def free_lists(self) -> Mapping[str, FreeSlots]:
        """The lists of free slots, by the names under which they are saved."""

    @abstractmethod
    def open_keys(self) -> np.ndarray:
        """The numbers of the keys that hold something."""

    @abstractmethod
    def new(self, states: Sequence[Self]) -> Self:
        """A state without keys. Its values that belong to no key, such as the clock, come from `states`."""

    @abstractmethod
    def numbered(self, state: Self, keys: np.ndarray) -> Maps:
        """Gives new numbers in this state to these keys of another state, and to the rows that belong to them."""

    @property
    def entries(self) -> int:
        """The number of entries that a compaction may remove or keeps."""
        return sum(self.rows.values()) + self.strings.count

    def plan(self) -> None:
        """Builds the queue of the times at which keys are due."""
        self.agenda = TournamentTree(1)
        self.agenda.enter(self.queued)

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        return super().columns() | {name: free.slots for name, free in self.free_lists.items()}

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        super().restore(saved)
        for name, free in self.free_lists.items():
            free.give(column(saved[name], np.int64))
        self.plan()

    # ---- from one state to another ----------------------------------------------------------------------------------

    @property
    def compactable(self) -> bool:
        """Whether most entries may be unused."""
        return should_compact(self.limits, self.entries, self.kept)

    def compact_all(self) -> None:
        """Removes keys that hold nothing, and unused entries. O(1) amortised, if called only where `compactable`."""
        self.__dict__.update(self._gathered([self]).__dict__)
        self.kept = self.entries

    def split(self, parts: int, part_of_key: PartOfKey) -> list[Self]:
        """Divides the state by the keys. Without keys everything is in part 0."""
        open_ones = self.open_keys()
        part_of = parts_of(self.keys, part_of_key)[open_ones] if self.keys.count else np.zeros(len(open_ones), np.int64)
        return [self._gathered([self], open_ones[part_of == part]) for part in range(parts)]

    def merge(self, others: Sequence[Self]) -> Self:
        return self._gathered([self, *others])

    def _gathered(self, states: Sequence[Self], keys: np.ndarray | None = None) -> Self:
        """A new state with the given keys of other states; None: all their open keys."""
        target = self.new(states)
        for state in states:
            chosen = state.open_keys() if keys is None else keys
            if len(chosen):
                maps = target.numbered(state, chosen)
                for space, count in target.rows.items():
                    target.reserve(space, count)
                target.take(state, maps)
        target.plan()
        return target


class PartitionedState(KeyedState):
    """A state whose keys are window partitions, with one kind of slots."""

    partitions: np.ndarray
    free: FreeSlots
    #: slots from this one on were never used
    top: int
    #: the number of what the keys hold (one element); not saved, because the tables have it
    held: np.ndarray
    #: whether the final mark was received
    finished: bool

    def begin(self) -> None:
        """Sets what all these states have, for a state without keys."""
        self.agenda, self.free, self.top = TournamentTree(1), FreeSlots(np.int64), 0
        self.held = np.zeros(1, np.int64)
        self.keys, self.strings = Interner(), Interner()
        self.finished, self.kept = False, 0

    @property
    def queued(self) -> np.ndarray:
        return self.partitions[: self.rows["partition"]]

    @property
    def free_lists(self) -> Mapping[str, FreeSlots]:
        return {"free": self.free}
