"""The tuples that a window holds, as columns: their slots, their partitions, and the bytes of all that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import from_words, to_words
from sluice.columns.interner import Strings
from sluice.columns.slot_allocator import Free
from sluice.columns.tables import StateError, column, grown
from sluice.engine.operators import compaction
from sluice.engine.windows import processing_time
from sluice.engine.windows.policies import Clause
from sluice.engine.windows.processing_time import time_queue
from sluice.model.types import Kind, Type


class Held:
    """What windows work on, for a consumer that has further tables: a class that extends the four dictionaries.

    A tuple is known by its slot, a partition by the code of its key. The first `reserved` slots are never given away.
    """

    #: tables with a row per partition, with a row per slot, and others
    PER_PARTITION: ClassVar[dict[str, np.dtype]] = processing_time.PER_PARTITION
    PER_SLOT: ClassVar[dict[str, np.dtype]] = processing_time.PER_SLOT
    OTHER: ClassVar[dict[str, type | np.dtype]] = processing_time.OTHER | {"scalars": np.int64}
    #: table -> its fields that are slots
    SLOTS: ClassVar[dict[str, tuple[str, ...]]] = processing_time.SLOTS
    #: each tuple has a row of its own
    block = 1

    def __init__(self, types: tuple[Type, ...], clause: Clause, reserved: int = 0) -> None:
        """`types` are those of a tuple's words."""
        self.types, self.reserved = types, reserved
        self.scalars = processing_time.scalars()
        needed = processing_time.needed(clause)
        unneeded = {*processing_time.PER_PARTITION, *processing_time.PER_SLOT} - needed
        self.per_partition = [name for name in self.PER_PARTITION if name not in unneeded]
        self.per_slot = [*(name for name in self.PER_SLOT if name not in unneeded), "words"]
        self.free = Free(np.int32)
        self.words = np.zeros((reserved, len(types)), np.int64)
        for name, dtype in self.PER_PARTITION.items():
            setattr(self, name, np.zeros(1 if name in self.per_partition else 0, dtype))
        for name, dtype in self.PER_SLOT.items():
            setattr(self, name, np.zeros(reserved if name in self.per_slot else 0, dtype))
        self.queue = np.zeros(0, processing_time.OTHER["queue"])
        self.queued = "queue" in needed
        self.keys = Strings()
        self.top = reserved
        self.kept_keys = 0

    partitions: np.ndarray
    ages: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """How many partitions are known, which is at least those that hold something, and how many tuples are stored.

        O(1): no table is looked through.
        """
        stored = self.top - self.reserved - len(self.free)
        return self.keys.count or min(1, stored), stored

    # ---- slots ------------------------------------------------------------------------------------------------------

    def slots(self, count: int) -> np.ndarray:
        """Slots for the tuples of a batch. What leaves in it stays readable: its slot is free for the next batch."""
        slots, self.top = self.free.take(count, self.top)
        for names, size in ((self.per_slot, self.top), (self.per_partition, max(1, self.keys.count))):
            for name in names:
                setattr(self, name, grown(getattr(self, name), size))
        if self.queued:
            self.queue = time_queue.roomy(self.queue, self.scalars, count)
        return slots

    def release(self, freed: np.ndarray) -> None:
        """Makes the slots of what left in a batch free; moves the tuples together where most slots are."""
        self.free.give(freed)
        if compaction.outgrown(self.top, self.top - len(self.free)):
            compaction.move_together(self)

    # ---- forgetting -------------------------------------------------------------------------------------------------

    def forget_partitions(self) -> None:
        """Keeps the partitions that hold tuples, where many keys came since."""
        count = self.keys.count
        if not compaction.outgrown(count, self.kept_keys, self.top):
            return
        kept = np.flatnonzero(self.partitions["size"][:count] > 0)
        renamed = self.keys.keep(kept)
        for name in self.per_partition:
            compaction.move(getattr(self, name), kept, count)
        compaction.rename_partitions(self, renamed)
        self.kept_keys = self.keys.count

    def intern_anew(self, old: Strings, new: Strings) -> None:
        """Moves the texts and lists of the stored tuples from one table to another."""
        slots = compaction.stored(self)
        for place, kind in enumerate(self.types):
            if kind.kind in (Kind.STRING, Kind.LIST):
                self.words[slots, place] = to_words(from_words(self.words[slots, place], kind, old), kind, new)

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, np.ndarray]:
        partitions = max(1, self.keys.count)
        tables = {name: getattr(self, name) for name in (*self.PER_PARTITION, *self.PER_SLOT)}
        tables |= {name: getattr(self, name)[:partitions] for name in self.per_partition}
        tables |= {name: getattr(self, name)[: self.top] for name in self.per_slot}
        tables |= {name: getattr(self, name) for name in self.OTHER} | {"free": self.free.slots}
        tables["queue"] = time_queue.in_order(self.queue, self.scalars)
        tables |= {f"keys.{part}": values for part, values in self.keys.save().items()}
        return tables | {"rest": np.array([self.top, self.kept_keys, len(self.types)], np.int64)}

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        """Puts what `tables` gave in the place of what is here. Raises StateError where it does not fit."""
        self.top, self.kept_keys, width = column(saved["rest"], np.int64).tolist()
        if width != len(self.types):
            msg = "the saved state belongs to another operator"
            raise StateError(msg)
        for name, dtype in (self.PER_PARTITION | self.PER_SLOT | self.OTHER).items():
            setattr(self, name, column(saved[name], dtype))
        self.queue = time_queue.restored(self.queue, self.scalars)
        self.free.give(column(saved["free"], np.int32))
        self.words = column(saved["words"], np.int64, width) if width else np.zeros((self.top, 0), np.int64)
        self.keys = Strings.load({part: saved[f"keys.{part}"] for part in Strings.PARTS})
