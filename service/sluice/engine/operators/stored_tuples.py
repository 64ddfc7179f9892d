"""The stored tuples of a window as columns: the base of the states of Join and of progressive Sort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import column
from sluice.columns.state_tables import Table, walked, words_of
from sluice.engine.operators import compaction
from sluice.engine.windows import processing_time
from sluice.engine.windows.policies import KernelClause
from sluice.engine.windows.processing_time import window_state
from sluice.engine.windows.processing_time.window_state import WindowTables
from sluice.model.engine_limits import EngineLimits


class StoredTuples(WindowTables):
    """A state that stores each tuple in a slot and numbers each window partition by the code of its key.

    The first `reserved` slots are never given to tuples.
    """

    #: the tables that a subclass adds to those of the window
    OWN_TABLES: ClassVar[Mapping[str, Table]] = {}
    NUMBERS: ClassVar[tuple[str, ...]] = ("top", "kept_keys")
    STRINGS: ClassVar[tuple[str, ...]] = ("keys",)

    def __init__(self, layout: WordColumns, clause: KernelClause, limits: EngineLimits, reserved: int = 0) -> None:
        """`layout` has the columns of a tuple."""
        super().__init__()
        self.layout, self.clause, self.limits, self.reserved = layout, clause, limits, reserved
        all_tables = {**self.OWN_TABLES, "words": words_of("slot", layout)}
        self.declare({**window_state.TABLES, **all_tables}, processing_time.needed(clause) | all_tables.keys())
        self.keys = Interner()
        self.top = reserved
        #: the number of entries that the last compaction of `keys` left
        self.kept_keys = 0
        self.reserve("partition", 1)
        self.reserve("slot", reserved)

    @property
    def rows(self) -> Mapping[str, int]:
        return {"partition": max(1, self.keys.count), "slot": self.top, "queue": len(self.queue)}

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of window partitions in memory, including empty ones, and the number of stored tuples. O(1)."""
        stored = self.top - self.reserved - len(self.free)
        return self.keys.count or min(1, stored), stored

    def slots(self, count: int) -> np.ndarray:
        """Allocates slots for the tuples of a batch, and room in the tables of partitions and in the queue.

        A tuple that leaves during this batch stays readable: its slot is reused from the next batch on.
        """
        slots, self.top = self.free.take(count, self.top)
        self.reserve("slot", self.top)
        self.reserve("partition", max(1, self.keys.count))
        self.reserve_queue(count)
        return slots

    def release(self, freed: np.ndarray) -> None:
        """Frees the slots of the tuples that left in a batch. Moves the tuples together where most slots are free."""
        self.free.give(freed)
        if compaction.should_compact(self.limits, self.top, self.top - len(self.free)):
            self.move_together()

    def remove_empty_partitions(self) -> None:
        """Removes the empty partitions if enough keys were added since the last compaction."""
        count = self.keys.count
        if not compaction.should_compact(self.limits, count, self.kept_keys, self.top):
            return
        kept = np.flatnonzero(self.partitions["size"][:count] > 0)
        self.keys.keep(kept)
        self.compact_partitions(kept, count)
        self.kept_keys = self.keys.count

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        super().restore(saved)
        self.settle(column(saved["free"], np.int32))


def stored_in(state: StoredTuples, partitions: np.ndarray) -> np.ndarray:
    """The slots of the tuples in the partitions for which `partitions` is true, in order of arrival within each."""
    count = state.rows["partition"]
    holding = partitions & (state.partitions["size"][:count] > 0)
    slots, _ = walked(np.where(holding, state.partitions["oldest"][:count], NIL), state.chain["younger"])
    return slots
