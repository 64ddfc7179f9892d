"""What aggregates over panes, over slidingTime windows and over sessions share.

A batch of tuples passes through three steps: the tuples get partitions, groups and slots; a kernel decides when windows
fire and writes window events; a second kernel follows these events and computes the results of the firings.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.key_bytes import partition_codes
from sluice.columns.scratch_buffers import grown
from sluice.columns.state_tables import FreeSlots
from sluice.engine.contents.fired_contents import FiredContents, FiringDetails
from sluice.engine.contents.firing_results import FREED, KINDS, Results, Rows, Run, run_kernel
from sluice.engine.contents.multisets import PAIR
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.group_pairs import Grouped, groups_of
from sluice.engine.operators.aggregate.window_outputs import Outputs, WindowOutputs
from sluice.engine.operators.one_input import FinishedState, TimedOperator
from sluice.engine.stream.items import TUPLE, Items
from sluice.engine.windows.event_time.event_records import ARRIVAL, FIRING, INSERT, LATE
from sluice.engine.windows.event_time.timed_items import arrivals
from sluice.model.spec import Aggregate

#: the events, the firings and the late tuples of a batch, and the numbers of them that the kernel has written
Written = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class TimedAggregateState(FinishedState, Grouped, Protocol):
    """The part of a state that the base class uses. `top` is the number of slots, of which some are `free`."""

    keys: Interner
    strings: Interner
    words: np.ndarray
    free: FreeSlots
    top: int
    links: np.ndarray
    partitions: np.ndarray
    arrived: int

    def reserve_batch(self, count: int) -> None:
        """Makes room for what `count` tuples may add: partitions, groups and times."""

    def reserve(self, space: str, count: int) -> None: ...


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
        self, state: S, items: Items, values: pa.RecordBatch, times: np.ndarray, more: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Assigns each tuple its partition, its group and a slot, and stores its words. Returns the arrivals."""
        program, count = self.program, values.num_rows
        partition = self._partitions(state, items, values)
        group = groups_of(state, program.group_by, values, partition)
        state.reserve_batch(count)
        slot = self._slots(state, count)
        rows = slot if program.listing else slice(count)
        state.links["group"][rows] = group
        program.columns.write(state.words, rows, values.columns[: len(program.columns.types)], state.strings)
        state.words[rows, -1] = np.arange(state.arrived, state.arrived + count)
        state.arrived += count
        return arrivals(items, partition, slot, times, self.ticks, self._scratch, self.arrival, more)

    def _slots(self, state: S, count: int) -> np.ndarray:
        """Slots for the tuples of a batch. Tuples stay stored only if a function lists them."""
        slots = np.arange(count)
        if self.program.listing:
            slots, state.top = state.free.take(count, state.top)
        state.reserve("slot", state.top if self.program.listing else count)
        return slots

    def _partitions(self, state: S, items: Items, values: pa.RecordBatch) -> np.ndarray:
        """The number of the window partition of each tuple: the code of its key."""
        del items
        return partition_codes(values, self.program.partition_by, state.keys)

    def _pass(
        self, state: S, items: Items, arrivals: np.ndarray, end: int, last: tuple[int, int] | None
    ) -> tuple[dict[str, Items], np.ndarray, list[Items | None]]:
        del items, last
        events, firings, late = self.window_events(state, arrivals, end)
        outputs, unmade = self._outputs(state, self._rows(state, events, firings), firings)
        self._compact(state)
        return outputs, late, unmade

    def _outputs(self, state: S, rows: Rows, firings: np.ndarray) -> Outputs:
        """The outputs of the firings."""
        return self._make_outputs.outputs(rows, firings, state.keys)

    def window_events(self, state: S, arrivals: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Runs the windows over the arrivals, and what the clock causes until `end`. Gives the window events, the
        firings and the late tuples.

        The kernel stops where the room for events or firings runs out, and continues there after they have grown.
        """
        count = len(arrivals)
        rooms = zip(self.per_item, (self.event, FIRING), strict=True)
        events, firings = (self._scratch.room(per_item * count + 64, kind) for per_item, kind in rooms)
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

    def _rows(self, state: S, events: np.ndarray, firings: np.ndarray) -> Rows:
        """The output rows of all firings, computed from the contents of the windows at each firing. The slots of listed
        tuples that left their last window are given back.
        """
        program, count, parts = self.program, len(firings), list[Rows]()
        stored = self._stored(state, events, firings)
        results = Results(
            np.empty(count, np.int64), np.empty(count, np.int64), np.empty((count, program.summary), np.int64),
            np.empty(len(events) if program.listing else 0, np.int64),
            np.empty(state.top + 1, np.int64), np.zeros(KINDS, np.int64), np.zeros(KINDS, np.int64),
            np.zeros((count, 0), np.int64), np.zeros(0, PAIR),
        )  # fmt: skip

        def take(results: Results) -> None:
            rows, listed, _, _ = results.used
            size, firing = results.size[:rows], results.firing[:rows]
            parts.append(self._make_outputs.rows(FiredContents(
                size, firing, tuples_per_firing(results, count) if stored is None else stored, bool(program.group_by),
                results.summary[:rows], by_arrival(state.words.take(results.tuples[:listed], axis=0), size),
                state.strings, FiringDetails(firings, firing, self.ticks.to_units),
            )))  # fmt: skip

        take(results := run_kernel(*self._contents(state), events, results, take, program.limits.listed))
        if program.listing:
            state.free.give(results.freed[: results.used[FREED]])
        return self._with_empty(state, Rows.joined(parts), firings, stored)

    def _with_empty(self, state: S, rows: Rows, firings: np.ndarray, stored: np.ndarray | None) -> Rows:
        """The rows of firings, with rows for empty panes. `stored`: see `_stored`."""
        del state, firings, stored
        return rows

    @abstractmethod
    def _contents(self, state: S) -> tuple[Run, tuple[Any, ...]]:
        """The kernel that follows the window events, and its tables."""

    def _stored(self, state: S, events: np.ndarray, firings: np.ndarray) -> np.ndarray | None:
        """The value of CountAll for each firing; None: the number of its tuples (G13)."""
        del state, events, firings
        return None

    @abstractmethod
    def _compact(self, state: S) -> None:
        """Compacts the tables that have many unused entries."""


def tuples_per_firing(results: Results, firings: int) -> np.ndarray:
    """The number of tuples of each firing, all groups together."""
    rows = results.used[0]
    return np.bincount(results.firing[:rows], results.size[:rows], firings).astype(np.int64)


def by_arrival(words: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Sorts the listed tuples of each result by arrival (KIP R2). The last word of a tuple is its arrival number."""
    arrival = words[:, -1]
    row = np.repeat(np.arange(len(size)), size) if len(words) else arrival
    if not ((np.diff(arrival) > 0) | (np.diff(row) > 0)).all():
        words = words.take(np.lexsort((arrival, row)), axis=0)
    return words
