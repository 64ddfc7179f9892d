"""The Aggregate operator over event-time windows.

A batch of tuples passes through three steps: the tuples get partitions, groups and slots; a kernel decides when windows
fire and writes window events; a second kernel follows these events and computes the results of the firings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import to_words
from sluice.columns.key_bytes import key_codes
from sluice.columns.scratch_buffers import Scratch, grown
from sluice.columns.state_tables import intern_pairs
from sluice.columns.tables import Data
from sluice.engine.contents import slices, window_inspection
from sluice.engine.contents.firing_results import Results, Rows
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_operator import until_final
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.event_time_compaction import compact
from sluice.engine.operators.aggregate.event_time_rows import (
    computed_rows,
    fired_contents,
    slots_for,
    tuples_per_firing,
)
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.aggregate.window_outputs import AggregateOutputs, WindowOutputs
from sluice.engine.operators.operator import Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import joined, readable, rejected, rejected_late
from sluice.engine.windows import early_results
from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.event_time import event_records, panes, sliding_time
from sluice.engine.windows.event_time.calendar_ticks import ticks_of
from sluice.engine.windows.event_time.event_records import EVENT, FIRING, INSERT, LATE, NEVER, Window
from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.engine.windows.event_time.pane_totals import totals
from sluice.engine.windows.event_time.timed_items import arrivals
from sluice.engine.windows.event_time.timeline_blocks import NodeAllocation
from sluice.model.spec import Aggregate, EventTime, SlidingTime, TimeInterval
from sluice.model.spreading import sees_all
from sluice.model.types import Schema

#: the initial room for window events and for firings, per item
EVENTS_PER_ITEM, FIRINGS_PER_ITEM = 5, 3


class EventAggregateOperator(Stateful[EventState]):
    """Runs one `Aggregate` over event time, or the windows of another operator (see AggregateOperator)."""

    def __init__(
        self, spec: Aggregate, schema: Schema, event_time: EventTime, sources: int, *,
        make_outputs: Callable[[Program], WindowOutputs] | None = None,
    ) -> None:  # fmt: skip
        """`schema` and `event_time` belong to the input; `sources` is the number of its topic partitions.

        `make_outputs` makes the object that computes the outputs; None: the results of an Aggregate.
        """
        self.spec = spec
        window = spec.window
        assert isinstance(window, TimeInterval | SlidingTime)  # noqa: S101 - graph.py chooses the operator
        self.program = Program.of(spec, schema)
        self._make_outputs = (
            AggregateOutputs(self.program, spec.name) if make_outputs is None else make_outputs(self.program)
        )
        self._scratch = Scratch()
        self.ticks = ticks_of(event_time, dict(schema)[event_time.attribute], window)
        self._nodes = event_records.SLICE if isinstance(window, TimeInterval) else event_records.TIME
        self.when = _when(window, self.ticks, follows=event_time.advance)
        #: whether a function counts the tuples of all partitions, and for how many ticks the count of a slice is needed
        self._counting = bool(sees_all(spec))
        self._longest = sum(self.ticks.sizes(window)[:3:2]) if isinstance(window, TimeInterval) else 0
        #: the number of clocks: with slidingTime each topic partition has a stream time of its own
        self._apart = sources if window.timed_by_topic_partition else 1

    @property
    def holding(self) -> bool:
        """Whether each tuple is stored, not only the summaries."""
        return self.program.listing

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The row spaces of a window partition, of a tuple, which is stored only if tuples are listed, and of a time,
        which tuples share: a slice of a pane, or with slidingTime an event time.
        """
        return ("partition", "group"), ["slot"] * self.holding, ("node", "slice")

    def initial(self) -> EventState:
        return EventState(self.program, self._apart, self._nodes)

    def load(self, data: Data) -> EventState:
        return self.initial().read(data)

    def feed(self, state: EventState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The output items by stream, and the rejected tuples under REJECTS, among them the late ones."""
        program = self.program
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        items, read, unread = readable(items, program.reads, self.spec.name)
        items, read, times, untimed = self._timed(items, read)
        events, firings, late = self.window_events(state, self.arrive(state, items, read, times), end)
        outputs, unmade = self._make_outputs.outputs(self._fill(state, events, firings), firings, state.keys)
        compact(state)
        if last is not None:
            state.finished = True
            outputs = {stream: emit.final(output, *last) for stream, output in outputs.items()}
        return outputs | joined([unread, untimed, self._dropped(items, times, late), *unmade])

    def due(self, state: EventState) -> int:
        """When the next early result is due (F2). The clock causes no other results, only watermarks do (E1)."""
        return MAX_TIME if state.finished else early_results.next_due(state.earlies, state.early_queue)

    def inspect(self, state: EventState, key: str | None) -> list[InspectedWindow]:
        """How many tuples the window of this key holds at each event time; without `partition_by` `key` is ignored.

        With slidingTime each topic partition has an entry of its own.
        """
        code = window_inspection.code_of(state.keys, key) if self.program.partition_by else 0
        own = state.partitions[: state.rows["partition"]]["key"] == code
        found = []
        for p in np.flatnonzero(own).tolist():
            times = self._times(state, p)
            if times:
                at = [{"time": time, "tuples": count} for time, count in sorted(times.items())]
                policy = {"at": at} | early_results.shown_due(state.earlies, p)
                found.append(InspectedWindow(self.spec.name, sum(times.values()), policy=policy))
        return found

    def _times(self, state: EventState, p: int) -> dict[float, int]:
        """Event time in seconds -> the number of tuples that partition `p` holds at this time."""
        times: dict[float, int] = {}
        for group in window_inspection.chained(state.ends[p], state.group_records).tolist():
            nodes = window_inspection.chained(state.group_records[group], state.slices)
            for time, count in state.slices[["time", "count"]][nodes].tolist():
                seconds = float(self.ticks.seconds(time))
                times[seconds] = times.get(seconds, 0) + count
        return times

    # ---- input ------------------------------------------------------------------------------------------------------

    def _timed(self, items: Items, read: pa.RecordBatch) -> tuple[Items, pa.RecordBatch, np.ndarray, Items | None]:
        """Splits off the tuples without a usable event time.

        Gives the other items, their part of `read`, their event times in ticks, and the rejected tuples or None.
        """
        times, bad = self.ticks.of(items.tuples)
        if bad is None:
            return items, read, times, None
        kept = items.kind != TUPLE
        kept[~kept] = ~bad
        reasons = [self.ticks.refusal("window")] * int(np.count_nonzero(bad))
        return items.only(kept), read.filter(pa.array(~bad)), times[~bad], rejected(
            items.only(~kept), self.spec.name, reasons
        )  # fmt: skip

    def arrive(self, state: EventState, items: Items, read: pa.RecordBatch, times: np.ndarray) -> np.ndarray:
        """Assigns each tuple its partition, its group and a slot, and stores its words. Gives the arrivals.

        `read` has the columns of the program's `reads`; `times` has the event times of the tuples in ticks.
        """
        program, count = self.program, read.num_rows
        is_tuple = items.kind == TUPLE
        partition = self._partitions(state, items, read, is_tuple)
        state.agenda.enter(state.partitions[: state.rows["partition"]])
        group = partition
        if program.group_by:
            value = key_codes([read.column(i) for i in program.group_by], state.groups)
            group = intern_pairs(state.pairs, partition, value)
        state.reserve_groups(state.rows["group"])
        slot = slots_for(state, self.program, count)
        rows = slot if program.listing else slice(count)
        state.links["group"][rows] = group
        for column, type_ in enumerate(program.columns):
            state.words[rows, column] = to_words(read.column(column), type_, state.strings)
        state.words[rows, -1] = np.arange(state.arrived, state.arrived + count)
        state.arrived += count
        state.reserve_times(count)
        marks = self.ticks.of_watermarks(items.watermark[items.kind == WATERMARK])
        return arrivals(items, partition, slot, times, marks, self._scratch)

    def _partitions(self, state: EventState, items: Items, read: pa.RecordBatch, is_tuple: np.ndarray) -> np.ndarray:
        """The number of the window partition of each tuple.

        A partition is a key (KIP W11); where each topic partition has a stream time of its own, it is the pair of
        topic partition and key (KIP T2).
        """
        program = self.program
        key = np.zeros(read.num_rows, np.int64)
        if program.partition_by:
            key = key_codes([read.column(i) for i in program.partition_by], state.keys)
        if self._apart == 1:
            state.reserve_partitions(state.rows["partition"])
            return key
        if not state.places.count:  # existing partitions belong to the first topic partition
            known = np.arange(len(state.partitions), dtype=np.int64)
            intern_pairs(state.places, np.zeros(len(known), np.int64), known)
        source = np.maximum(items.source[is_tuple], 0).astype(np.int64)
        partition = intern_pairs(state.places, source, key)
        state.reserve_partitions(state.rows["partition"])
        state.partitions["source"][partition], state.partitions["key"][partition] = source, key
        return partition

    # ---- windows ----------------------------------------------------------------------------------------------------

    def window_events(
        self, state: EventState, arrivals: np.ndarray, end: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Runs the windows over the arrivals, and the early results that are due by `end` (operator clock). Gives the
        window events, the firings and the late tuples.

        The kernel stops where the room for events or firings runs out, and continues there after they have grown.
        """
        events = self._scratch.room(EVENTS_PER_ITEM * len(arrivals) + 64, EVENT)
        firings = self._scratch.room(FIRINGS_PER_ITEM * len(arrivals) + 64, FIRING)
        late, used = np.empty(len(arrivals), LATE), np.zeros(3, np.int64)
        first = 0
        while True:
            window = Window(
                state.scalars, state.partitions, state.nodes, NodeAllocation(state.node_blocks, state.node_room),
                state.agenda.matches, state.agenda.starts, state.clocks, state.panes, events, firings, late, used,
                EarlyResults(self.program.clause.early, state.earlies, state.early_queue),
            )  # fmt: skip
            first = _run(window, self.when, arrivals, end, first)
            if first > len(arrivals):
                break
            if len(events) - used[0] < len(events) // 4 or len(firings) - used[1] < len(firings) // 4:
                more = len(events), len(firings)
            else:
                most = 2 * int(state.partitions["size"].max(initial=0)) + 64
                more = most, most
            events = grown(events, int(used[0]), len(events) + more[0])
            firings = grown(firings, int(used[1]), len(firings) + more[1])
            state.reserve_times(len(arrivals))
        self._free_unused(state, arrivals, events[: used[0]])
        return events[: used[0]], firings[: used[1]], late[: used[2]]

    def _free_unused(self, state: EventState, arrivals: np.ndarray, events: np.ndarray) -> None:
        """Frees the slots of tuples that entered no window."""
        if self.program.listing:
            inserted = events["slot"][events["code"] == INSERT]
            slots = arrivals["slot"][arrivals["kind"] == TUPLE]
            if len(inserted) < len(slots):
                state.free.give(np.setdiff1d(slots, inserted))

    def _fill(self, state: EventState, events: np.ndarray, firings: np.ndarray) -> Rows:
        """The output rows of all firings, computed from the contents of the windows at each firing."""
        program = self.program
        kernel = slices.Slices(
            program.layout, state.strings.text, state.words, state.group_records, state.back, state.slices,
            NodeAllocation(state.slice_blocks, state.slice_room), state.sums, state.stack, state.links, state.ends,
            state.held, bool(program.group_by), program.listing, np.zeros((1, program.summary), np.int64),
        )  # fmt: skip
        counted = self._stored(state, events, firings)

        def rows(results: Results) -> Rows:
            stored = counted
            if self._counting and self.spec.window.timed_by_topic_partition:  # CountAll counts the partition
                stored = tuples_per_firing(results, len(firings))
            return self._make_outputs.rows(
                fired_contents(program, state, firings, stored, results, self.ticks.to_units)
            )

        return computed_rows(slices.run, kernel, program, state, events, len(firings), rows)

    # ---- outputs ----------------------------------------------------------------------------------------------------

    def _dropped(self, items: Items, times: np.ndarray, late: np.ndarray) -> Items | None:
        """The late tuples as rejects, each with a reason that says how late it was; None if there are none."""
        row = np.cumsum(items.kind == TUPLE)[late["item"]] - 1
        pairs = zip(times[row].tolist(), late["behind"].tolist(), strict=True)
        return rejected_late(items, self.spec.name, late, (self.reason(*pair) for pair in pairs))

    def reason(self, time: int, behind: int) -> str:
        name = self.ticks.attribute
        if behind == panes.NO_PANE:
            return f"{name} is in no pane: none reaches across 1970"
        if isinstance(self.spec.window, TimeInterval):
            return f"late: {name} is {self.ticks.distance(time, behind)}before the watermark less discardAge"
        if time < 0:
            return f"{name} is before 1970, where slidingTime has no windows"
        late = f"late: {name} is {self.ticks.seconds(behind)} s before stream time less grace"
        return f"{late}, and no open window holds it"

    def _stored(self, state: EventState, events: np.ndarray, firings: np.ndarray) -> np.ndarray:
        """The value of CountAll for each firing of a pane: the tuples of all partitions in the pane (A18).

        Empty if no function needs it, and with slidingTime, which has no panes.
        """
        if not self._counting or self.spec.window.timed_by_topic_partition:
            return np.zeros(0, np.int64)
        found, known = totals(state.totals.reshape(2, -1), events, len(firings))
        needed = known[0] > max(int(state.clocks[0]) - self._longest, NEVER)
        state.totals = known[:, needed].ravel()
        return found


def _when(window: TimeInterval | SlidingTime, ticks: Ticks, *, follows: bool) -> panes.Grid | sliding_time.SlidingSizes:
    """The parameters of the window for its kernel. `window_set` selects which windows exist (KIP P2)."""
    if isinstance(window, TimeInterval):
        duration, period, discard_age, offset = ticks.sizes(window)
        part = math.gcd(duration, period) if period < duration else duration
        return panes.Grid(duration, period, discard_age, offset, part, duration % period)
    difference, grace = ticks.sizes(window)
    left, right = window.window_set != "perTimestampForward", window.window_set != "perTimestampBackward"
    gap = 1 if left and right else 0
    return sliding_time.SlidingSizes(difference, grace, left, right, gap, window.emit == "updates", follows)


def _run(
    window: Window, when: panes.Grid | sliding_time.SlidingSizes, arrivals: np.ndarray, end: int, first: int
) -> int:
    """Runs the kernel from item `first` on. The result is the number of items + 1 if all were handled."""
    if isinstance(when, panes.Grid):
        return panes.run(window, when, arrivals, end, first)
    done = sliding_time.run(window, when, arrivals, first)
    return done + 1 if done == len(arrivals) else done
