"""What aggregates over panes, over slidingTime windows and over sessions share.

A batch of tuples passes through three steps: the tuples get partitions, groups and slots; a kernel decides when windows
fire and writes window events; a second kernel follows these events and computes the results of the firings.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import to_words
from sluice.columns.interner import Interner
from sluice.columns.key_bytes import key_codes
from sluice.columns.scratch_buffers import grown
from sluice.columns.state_tables import intern_pairs
from sluice.engine.contents.firing_results import Rows
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.event_time_rows import StoredWords, TupleRows, slots_for
from sluice.engine.operators.aggregate.window_outputs import WindowOutputs
from sluice.engine.operators.timed_operator import TimedOperator, TimedState
from sluice.engine.stream.items import TUPLE, Items
from sluice.engine.windows.event_time.event_records import ARRIVAL, FIRING, INSERT, LATE
from sluice.engine.windows.event_time.timed_items import arrivals
from sluice.model.spec import Aggregate

#: the events, the firings and the late tuples of a batch, and the numbers of them that the kernel has written
Written = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class TimedAggregateState(TimedState, TupleRows, StoredWords, Protocol):
    """The part of a state that the base class uses."""

    keys: Interner
    groups: Interner
    pairs: Interner
    links: np.ndarray
    partitions: np.ndarray
    arrived: int

    def reserve_batch(self, count: int) -> None:
        """Makes room for what `count` tuples may add: partitions, groups and times."""


S = TypeVar("S", bound=TimedAggregateState)


class TimedAggregate(TimedOperator[S]):
    """Runs an Aggregate over time: the windows of a subclass, the results of a Program."""

    #: the records of the kernel of windows: its items and its events
    arrival: ClassVar[np.dtype] = ARRIVAL
    event: ClassVar[np.dtype]
    #: the field of an INSERT event with the slot of the tuple
    inserted: ClassVar[str] = "slot"
    #: the initial room for events and for firings, per item
    per_item: ClassVar[tuple[int, int]]

    spec: Aggregate
    program: Program
    _make_outputs: WindowOutputs

    @property
    def holding(self) -> bool:
        """Whether each tuple is stored, not only the summaries."""
        return self.program.listing

    def arrive(
        self, state: S, items: Items, read: pa.RecordBatch, times: np.ndarray, more: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Assigns each tuple its partition, its group and a slot, and stores its words. Gives the arrivals."""
        program, count = self.program, read.num_rows
        partition = self._partitions(state, items, read)
        group = partition
        if program.group_by:
            value = key_codes([read.column(i) for i in program.group_by], state.groups)
            group = intern_pairs(state.pairs, partition, value)
        state.reserve_batch(count)
        slot = slots_for(state, program, count)
        rows = slot if program.listing else slice(count)
        state.links["group"][rows] = group
        for column, type_ in enumerate(program.columns):
            state.words[rows, column] = to_words(read.column(column), type_, state.strings)
        state.words[rows, -1] = np.arange(state.arrived, state.arrived + count)
        state.arrived += count
        return arrivals(items, partition, slot, times, self.ticks, self._scratch, self.arrival, more)

    def _partitions(self, state: S, items: Items, read: pa.RecordBatch) -> np.ndarray:
        """The number of the window partition of each tuple: the code of its key."""
        del items
        by = self.program.partition_by
        return key_codes([read.column(i) for i in by], state.keys) if by else np.zeros(read.num_rows, np.int64)

    def _handle(
        self, state: S, items: Items, arrivals: np.ndarray, end: int, last: tuple[int, int] | None
    ) -> tuple[dict[str, Items], list[Items | None]]:
        del last
        events, firings, late = self.window_events(state, arrivals, end)
        outputs, unmade = self._make_outputs.outputs(self._fill(state, events, firings), firings, state.keys)
        self._compact(state)
        return outputs, [self._late(items, arrivals, late), *unmade]

    def window_events(self, state: S, arrivals: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Runs the windows over the arrivals, and what the clock causes until `end`. Gives the window events, the
        firings and the late tuples.

        The kernel stops where the room for events or firings runs out, and continues there after they have grown.
        """
        count = len(arrivals)
        rooms = zip(self.per_item, (self.event, FIRING), strict=True)
        events, firings = (self._scratch.room(each * count + 64, kind) for each, kind in rooms)
        late, used = np.empty(count, LATE), np.zeros(3, np.int64)
        first = self._run(state, (events, firings, late, used), arrivals, 0, end)
        while first <= count:
            most = 2 * int(state.partitions["size"].max(initial=0)) + 64
            events = grown(events, int(used[0]), 2 * len(events) + most)
            firings = grown(firings, int(used[1]), 2 * len(firings) + most)
            state.reserve_batch(count)
            first = self._run(state, (events, firings, late, used), arrivals, first, end)
        self._free_unused(state, arrivals, events[: used[0]])
        return events[: used[0]], firings[: used[1]], late[: used[2]]

    def _free_unused(self, state: S, arrivals: np.ndarray, events: np.ndarray) -> None:
        """Frees the slots of tuples that entered no window."""
        if self.program.listing:
            inserted = events[self.inserted][events["code"] == INSERT]
            slots = arrivals["slot"][arrivals["kind"] == TUPLE]
            if len(inserted) < len(slots):
                state.free.give(np.setdiff1d(slots, inserted))

    @abstractmethod
    def _run(self, state: S, written: Written, arrivals: np.ndarray, first: int, end: int) -> int:
        """Runs the kernel of windows from item `first` on. Returns the item at which room ran out, or the number of
        items + 1 if all were handled.
        """

    @abstractmethod
    def _fill(self, state: S, events: np.ndarray, firings: np.ndarray) -> Rows:
        """The output rows of all firings, computed from the contents of the windows at each firing."""

    @abstractmethod
    def _compact(self, state: S) -> None:
        """Compacts the tables that have many unused entries."""
