"""The tables of tumbling and sliding windows as a part of an operator's state.

A state of this kind has the row spaces "partition" (of the window), "slot" (of a stored tuple) and "queue" (tuples
under time eviction, in order of arrival), and further ones of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import Free, Maps, Table, Tables, rename, walked
from sluice.engine.windows.processing_time import time_queue
from sluice.engine.windows.processing_time.window_records import (  # fmt: skip
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
    "gone": Table("partition", GONE),
    "values": Table("partition", VALUES, refers=dict.fromkeys(("first", "last", "least"), "slot")),
    "chain": Table("slot", CHAIN, refers=SLOTS),
    "order": Table("slot", ORDER, refers=dict.fromkeys(("next", "below"), "slot")),
    "queue": Table("queue", QUEUE, refers={"partition": "partition", "slot": "slot"}),
}  # fmt: skip


class WindowTables(Tables):
    """A state with the tables of TABLES, of which those that its window does not need are empty."""

    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {"scalars": np.dtype(np.int64)}

    partitions: np.ndarray
    ages: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray
    words: np.ndarray

    def __init__(self) -> None:
        self.scalars = scalars()
        #: slots from 0 to `top` are in use, but for those that are free
        self.top = 0
        self.free = Free(np.int32)

    @property
    def queued(self) -> bool:
        """Whether tuples leave by time."""
        return "queue" in self.declared

    def reserve_queue(self, count: int) -> None:
        """Room for so many more tuples in the queue."""
        if self.queued:
            self.queue = time_queue.roomy(self.queue, self.scalars, count)

    def stored_slots(self) -> np.ndarray:
        """The slots in use."""
        used = np.ones(self.top, np.bool_)
        used[self.free.slots] = False
        return np.flatnonzero(used)

    def move_together(self) -> None:
        """So that no slot or block is free. Most are after a batch larger than the windows, and all would be saved."""
        kept = self.stored_slots()
        self.compact("slot", kept, self.top)
        self.top, self.free = len(kept), Free(np.int32)

    def compact_partitions(self, kept: np.ndarray, count: int) -> None:
        """Keeps these of the first `count` partitions."""
        self.compact("partition", kept, count)
        renamed = np.full(count, NIL, np.int64)
        renamed[kept] = np.arange(len(kept))
        self.scalars[[FIRST, LAST]] = rename(self.scalars[[FIRST, LAST]], renamed)

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        columns = super().columns() | {"free": self.free.slots}
        return columns | {"queue": time_queue.in_order(self.queue, self.scalars)} if self.queued else columns

    def settle(self, free: np.ndarray) -> None:
        """What follows from the restored columns."""
        self.free.give(free)
        if self.queued:
            self.queue = time_queue.restored(self.queue, self.scalars)

    # ---- from one state to another ----------------------------------------------------------------------------------

    def take_windows(self, sources: Sequence[tuple[Self, Maps]]) -> None:
        """Takes over rows, timers and orders of other states; their maps have the partitions and the slots.

        Tuples are in one queue by the time of their arrival, and partitions in the order in which they were inserted
        into least recently, those of one state behind those of another: which of several leaves first is asked only
        where all partitions are in one state (partition eviction).
        """
        self.scalars[:] = sources[0][0].scalars
        for number in (GROUP, NUMBER):
            self.scalars[number] = max(int(source.scalars[number]) for source, _ in sources)
        for source, maps in sources:
            self.take(source, maps)
        self._link_partitions(sources)
        if self.queued:
            self._queue_up(sources)

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
        """Entries of tuples that left with their partition are not taken over, so no partition has any of them."""
        entries = [self.entries(source, maps) for source, maps in sources]
        whole = np.concatenate(entries)
        self.scalars[HEAD], self.scalars[TAIL] = 0, len(whole)
        self.queue = time_queue.restored(whole[np.argsort(whole["at"], kind="stable")], self.scalars)
        self.gone["tuples"] = 0

    def entries(self, source: Self, maps: Maps) -> np.ndarray:
        """The entries of the source's queue that move, under their new numbers. Where tuples have no slots, theirs mean
        nothing.
        """
        entries = time_queue.in_order(source.queue, source.scalars)
        entries = entries[_there(entries["partition"], source.gone)]
        entries["partition"] = rename(entries["partition"], maps["partition"])
        if "slot" in maps:
            entries["slot"] = source.renamed(entries["slot"], "slot", maps["slot"])
        found: np.ndarray = entries[entries["partition"] != NIL]
        return found


def _there(partitions: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Which entries of a queue are of tuples that are still there: the first ones of a partition may not be."""
    there: np.ndarray = partitions != NIL
    if not len(gone) or not gone["tuples"].any():
        return there
    order = np.argsort(partitions, kind="stable")
    _, first, places = np.unique(partitions[order], return_index=True, return_inverse=True)
    rank = np.empty(len(partitions), np.int64)
    rank[order] = np.arange(len(partitions)) - first[places]
    there &= rank >= gone["tuples"][np.maximum(partitions, 0)]
    return there
