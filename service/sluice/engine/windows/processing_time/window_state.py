"""The tables of tumbling and sliding windows as a part of an operator's state.

Such a state has the row spaces "partition" (of the window), "slot" (of a stored tuple) and "queue" (tuples under time
eviction, in order of arrival), and may have more of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import FreeSlots, Maps, Table, Tables, rename, walked
from sluice.engine.windows import early_results
from sluice.engine.windows.processing_time import time_queue
from sluice.engine.windows.processing_time.window_records import (
    AGE,
    CHAIN,
    FIRST,
    GONE,
    GROUP,
    HEAD,
    LAST,
    LIVE,
    NUMBER,
    ORDER,
    PARTITION,
    QUEUE,
    STORED,
    TAIL,
    VALUES,
)
from sluice.engine.windows.processing_time.window_tables import scalars

SLOTS = dict.fromkeys(("younger", "older"), "slot")
TABLES: Mapping[str, Table] = {
    "partitions": Table("partition", PARTITION, refers={
        "oldest": "slot", "youngest": "slot", "following": "partition", "preceding": "partition",
    }),
    "ages": Table("partition", AGE),
    "earlies": early_results.table("partition"),
    "waits": early_results.table("partition"),
    "gone": Table("partition", GONE),
    "values": Table("partition", VALUES, refers=dict.fromkeys(("first", "last", "least"), "slot")),
    "chain": Table("slot", CHAIN, refers=SLOTS),
    "order": Table("slot", ORDER, refers=dict.fromkeys(("next", "below"), "slot")),
    "queue": Table("queue", QUEUE, refers={"partition": "partition", "slot": "slot"}),
}  # fmt: skip


class WindowTables(Tables):
    """A state with the tables of TABLES. Those that its window does not need are empty."""

    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {"scalars": np.dtype(np.int64)}

    partitions: np.ndarray
    ages: np.ndarray
    earlies: np.ndarray
    waits: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray
    words: np.ndarray

    def __init__(self) -> None:
        self.scalars = scalars()
        #: the ends of the queues of partitions that wait for an early result, and from their first tuple on
        self.early_queue = early_results.queue_of(early_results.table("partition").rows(0))
        self.wait_queue = self.early_queue.copy()
        #: the slots from 0 to `top`, exclusive, are in use, apart from those in `free`
        self.top = 0
        self.free = FreeSlots(np.int32)

    @property
    def queued(self) -> bool:
        """Whether tuples leave by time, so that there is a queue."""
        return "queue" in self.declared

    def reserve_queue(self, count: int) -> None:
        """Makes room for `count` more tuples in the queue."""
        if self.queued:
            self.queue = time_queue.roomy(self.queue, self.scalars, count)

    def stored_slots(self) -> np.ndarray:
        """The slots in use."""
        return self.free.used(self.top)

    def move_together(self) -> None:
        """Compacts the slots so that none is free. After a batch that is larger than the windows most slots are free,
        and all of them would be saved.
        """
        kept = self.stored_slots()
        self.compact("slot", kept, self.top)
        self.top, self.free = len(kept), FreeSlots(np.int32)

    def compact_partitions(self, kept: np.ndarray, count: int) -> None:
        """Keeps the partitions `kept` of the first `count` and gives them new numbers."""
        self.compact("partition", kept, count)
        renamed = np.full(count, NIL, np.int64)
        renamed[kept] = np.arange(len(kept))
        self.scalars[[FIRST, LAST]] = rename(self.scalars[[FIRST, LAST]], renamed)
        self._link_waiting()

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        columns = super().columns() | {"free": self.free.slots}
        return columns | {"queue": time_queue.in_order(self.queue, self.scalars)} if self.queued else columns

    def settle(self, free: np.ndarray) -> None:
        """Sets what follows from restored columns: the free slots and the queues."""
        self.free.give(free)
        self._link_waiting()
        if self.queued:
            self.queue = time_queue.restored(self.queue, self.scalars)

    # ---- from one state to another ----------------------------------------------------------------------------------

    def take_windows(self, sources: Sequence[tuple[Self, Maps]]) -> None:
        """Takes rows, timers and orders from other states. `sources` has each state with the maps of its partitions and
        slots.

        The tuples of all states are in one queue by time of arrival. Partitions are ordered by their last insertion
        within a state, and state after state. The order between states is not needed: partition eviction, which depends
        on it, requires that all partitions are in one state.
        """
        self.scalars[:] = sources[0][0].scalars
        for number in (GROUP, NUMBER):
            self.scalars[number] = max(int(source.scalars[number]) for source, _ in sources)
        for source, maps in sources:
            self.take(source, maps)
        self._link_partitions(sources)
        self._link_waiting()
        if self.queued:
            self._queue_up(sources)

    def _link_waiting(self) -> None:
        self.early_queue = early_results.queue_of(self.earlies)
        self.wait_queue = early_results.queue_of(self.waits)

    def _link_partitions(self, sources: Sequence[tuple[Self, Maps]]) -> None:
        orders = []
        for source, maps in sources:
            order, _ = walked(source.scalars[[FIRST]], source.partitions["following"])
            order = maps["partition"][order]
            orders.append(order[order != NIL])
        order = np.concatenate(orders)
        ends = np.concatenate([[NIL], order, [NIL]])
        self.partitions["preceding"][order], self.partitions["following"][order] = ends[:-2], ends[2:]
        self.scalars[FIRST], self.scalars[LAST] = ends[1], ends[-2]
        self.scalars[STORED], self.scalars[LIVE] = len(order), int(self.partitions["size"].sum())

    def _queue_up(self, sources: Sequence[tuple[Self, Maps]]) -> None:
        """Merges the queues. Entries of tuples that left with their partition are not taken, so all counts of such
        entries are 0.
        """
        entries = [self.entries(source, maps) for source, maps in sources]
        all_entries = np.concatenate(entries)
        self.scalars[HEAD], self.scalars[TAIL] = 0, len(all_entries)
        self.queue = time_queue.restored(all_entries[np.argsort(all_entries["at"], kind="stable")], self.scalars)
        self.gone["tuples"] = 0

    def entries(self, source: Self, maps: Maps) -> np.ndarray:
        """The entries of the source's queue that move, with their new numbers. If tuples have no slots, the field
        `slot` has no meaning.
        """
        entries = time_queue.in_order(source.queue, source.scalars)
        entries = entries[_there(entries["partition"], source.gone)]
        entries["partition"] = rename(entries["partition"], maps["partition"])
        if "slot" in maps:
            entries["slot"] = source.renamed(entries["slot"], "slot", maps["slot"])
        moving: np.ndarray = entries[entries["partition"] != NIL]
        return moving


def _there(partitions: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """A mask of the entries of a queue that belong to stored tuples. The first entries of a partition may belong to
    tuples that left with it.
    """
    is_stored: np.ndarray = partitions != NIL
    if not len(gone) or not gone["tuples"].any():
        return is_stored
    order = np.argsort(partitions, kind="stable")
    _, first, places = np.unique(partitions[order], return_index=True, return_inverse=True)
    rank = np.empty(len(partitions), np.int64)
    rank[order] = np.arange(len(partitions)) - first[places]
    is_stored &= rank >= gone["tuples"][np.maximum(partitions, 0)]
    return is_stored
