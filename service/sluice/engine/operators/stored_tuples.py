"""The tuples that a window stores, as columns: the state that Join and Sort extend by tables of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import Table, walked, words
from sluice.columns.tables import column
from sluice.engine.operators import compaction
from sluice.engine.windows import processing_time
from sluice.engine.windows.policies import Clause
from sluice.engine.windows.processing_time import window_state
from sluice.engine.windows.processing_time.window_state import WindowTables
from sluice.model.types import Kind, Type


class StoredTuples(WindowTables):
    """A tuple is known by its slot, a partition by the code of its key. The first `reserved` slots are never free."""

    #: tables beside those of the window, all of which are in use
    OWN: ClassVar[Mapping[str, Table]] = {}
    NUMBERS: ClassVar[tuple[str, ...]] = ("top", "kept_keys")
    STRINGS: ClassVar[tuple[str, ...]] = ("keys",)

    def __init__(self, types: tuple[Type, ...], clause: Clause, reserved: int = 0) -> None:
        """`types` are those of a tuple's words."""
        super().__init__()
        self.types, self.clause, self.reserved = types, clause, reserved
        texts = [place for place, kind in enumerate(types) if kind.kind in (Kind.STRING, Kind.LIST)]
        own = {**self.OWN, "words": words("slot", len(types), texts)}
        self.declare({**window_state.TABLES, **own}, processing_time.needed(clause) | own.keys())
        self.keys = Interner()
        self.top = reserved
        #: entries of `keys` after they were last compacted
        self.kept_keys = 0
        self.reserve("partition", 1)
        self.reserve("slot", reserved)

    @property
    def rows(self) -> Mapping[str, int]:
        return {"partition": max(1, self.keys.count), "slot": self.top, "queue": len(self.queue)}

    @property
    def sizes(self) -> tuple[int, int]:
        """How many partitions are known, which is at least those that hold something, and how many tuples are stored.

        O(1): no table is looked through.
        """
        stored = self.top - self.reserved - len(self.free)
        return self.keys.count or min(1, stored), stored

    def slots(self, count: int) -> np.ndarray:
        """Slots for the tuples of a batch. What leaves in it stays readable: its slot is free for the next batch."""
        slots, self.top = self.free.take(count, self.top)
        self.reserve("slot", self.top)
        self.reserve("partition", max(1, self.keys.count))
        self.reserve_queue(count)
        return slots

    def release(self, freed: np.ndarray) -> None:
        """Makes the slots of what left in a batch free; moves the tuples together where most slots are."""
        self.free.give(freed)
        if compaction.should_compact(self.top, self.top - len(self.free)):
            self.move_together()

    def forget_partitions(self) -> None:
        """Keeps the partitions that hold tuples, where many keys came since."""
        count = self.keys.count
        if not compaction.should_compact(count, self.kept_keys, self.top):
            return
        kept = np.flatnonzero(self.partitions["size"][:count] > 0)
        self.keys.keep(kept)
        self.compact_partitions(kept, count)
        self.kept_keys = self.keys.count

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        super().restore(saved)
        self.settle(column(saved["free"], np.int32))


def stored_in(state: StoredTuples, partitions: np.ndarray) -> np.ndarray:
    """The slots of the tuples of these partitions, in order of arrival in each."""
    count = state.rows["partition"]
    holding = partitions & (state.partitions["size"][:count] > 0)
    slots, _ = walked(np.where(holding, state.partitions["oldest"][:count], NIL), state.chain["younger"])
    return slots
