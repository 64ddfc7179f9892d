"""The Aggregate operator over event-time windows, with the way of a batch of TimedAggregate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.saved_columns import Data
from sluice.columns.state_tables import intern_pairs
from sluice.engine.contents import slices, window_inspection
from sluice.engine.contents.fired_contents import FiredContents, FiringDetails
from sluice.engine.contents.firing_results import Rows, Run
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.empty_pane_outputs import FilledOutputs, are_empty
from sluice.engine.operators.aggregate.event_time_compaction import compact
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.aggregate.timed_aggregate import TimedAggregate, Written
from sluice.engine.operators.aggregate.window_outputs import AggregateOutputs, Outputs, WindowOutputs
from sluice.engine.stream.items import MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.windows import early_results
from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.event_time import event_records, key_times, panes, sliding_time
from sluice.engine.windows.event_time.calendar_ticks import CalendarTicks, ticks_of
from sluice.engine.windows.event_time.event_records import ENDLESS, EVENT, NEVER, Window
from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.engine.windows.event_time.pane_totals import totals
from sluice.engine.windows.event_time.timeline_blocks import NodeAllocation
from sluice.model.spec import Aggregate, EmptyPanes, EventTime, SlidingTime
from sluice.model.spec import Window as WindowKind
from sluice.model.spreading import sees_all
from sluice.model.types import Schema
from sluice.model.windows import empty_panes


class EventAggregateOperator(TimedAggregate[EventState]):
    """Runs one `Aggregate` over event time, or the windows of another operator (see AggregateOperator)."""

    event, per_item = EVENT, (5, 3)

    def __init__(
        self, spec: Aggregate, schema: Schema, event_time: EventTime, sources: int, *,
        make_outputs: Callable[[Program], WindowOutputs] | None = None,
    ) -> None:  # fmt: skip
        """`schema` and `event_time` belong to the input; `sources` is the number of its topic partitions.

        `make_outputs` makes the object that computes the outputs; None: the results of an Aggregate.
        """
        super().__init__()
        self.spec = spec
        window = spec.window
        self.program = Program.of(spec, schema)
        self.reads = self.program.reads
        self._make_outputs = (
            AggregateOutputs(self.program, spec.name) if make_outputs is None else make_outputs(self.program)
        )
        self.ticks = ticks_of(event_time, dict(schema)[event_time.attribute], window)
        self._nodes = event_records.SLICE if window.paned else event_records.TIME
        self.when = _when(
            window, self.ticks, spec.empty_panes, follows=event_time.advance, keyed=event_time.per_key is not None
        )
        #: whether the watermarks at which panes close are computed from the calendar
        self._dated = isinstance(self.when, panes.Grid) and self.when.dated
        self._filled = None if spec.empty_panes is None else FilledOutputs(spec, self.program)
        filled = self._filled is not None
        self._event_time, self._keyed = event_time, event_time.per_key is not None
        #: which tables only some windows need
        self._more = {
            "closings": self._dated, "fillings": filled, "carried": filled,
            "spans": filled and window.calendar is not None, **key_times.needed(event_time.per_key),
        }  # fmt: skip
        #: whether a function counts the tuples of all partitions, and for how many ticks behind the time before which
        #: tuples are late the count of a slice is needed
        self._counting = bool(sees_all(spec))
        self._longest = self.ticks.sizes(window)[0]
        #: the number of clocks: with slidingTime each topic partition has a stream time of its own
        self._apart = sources if window.timed_by_topic_partition else 1

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The row spaces of a window partition, of a tuple, which is stored only if tuples are listed, and of a time,
        which tuples share: a slice of a pane, or with slidingTime an event time.
        """
        return ("partition", "group"), ["slot"] * self.holding, ("node", "slice")

    def initial(self) -> EventState:
        return EventState(self.program, self._apart, self._nodes, self._more)

    def load(self, data: Data) -> EventState:
        return self.initial().read(data)

    def due(self, state: EventState) -> int:
        """When the next early result is due (F2), or the next key is idle or forgotten (KT3). The clock causes no other
        results, only watermarks do (E1).
        """
        early = early_results.next_due(state.earlies, state.early_queue)
        return MAX_TIME if state.finished else min(early, key_times.next_due(state))

    def inspect(self, state: EventState, key: str | None) -> list[InspectedWindow]:
        """How many tuples the window of this key holds at each event time; without `partition_by` `key` is ignored.

        With slidingTime each topic partition has an entry of its own.
        """
        code = window_inspection.code_of(state.keys, key) if self.program.partition_by else 0
        is_key = state.partitions[: state.rows["partition"]]["key"] == code
        windows = []
        for p in np.flatnonzero(is_key).tolist():
            times = self._times(state, p)
            if times or self._life(state, p):
                at = [{"time": time, "tuples": count} for time, count in sorted(times.items())]
                policy = {"at": at} | early_results.shown_due(state.earlies, p) | self._life(state, p)
                policy |= key_times.shown(state, p, self.ticks)
                windows.append(InspectedWindow(self.spec.name, sum(times.values()), policy=policy))
        return windows

    def _life(self, state: EventState, p: int) -> dict[str, float]:
        """`empty_until`: the end of the last empty pane that the key has if no tuple comes, in seconds (EP2)."""
        if self._filled is None or state.fillings["until"][p] == NEVER:
            return {}
        return {"empty_until": float(self.ticks.seconds(int(state.fillings["until"][p])))}

    def _times(self, state: EventState, p: int) -> dict[float, int]:
        """Event time in seconds -> the number of tuples that partition `p` holds at this time."""
        times: dict[float, int] = {}
        for group in window_inspection.chained(state.ends[p], state.group_records).tolist():
            nodes = window_inspection.chained(state.group_records[group], state.slices)
            for time, count in state.slices[["time", "count"]][nodes].tolist():
                seconds = float(self.ticks.seconds(time))
                times[seconds] = times.get(seconds, 0) + count
        return times

    # ---- a batch ----------------------------------------------------------------------------------------------------

    def arrive(
        self, state: EventState, items: Items, values: pa.RecordBatch, times: np.ndarray, more: dict[str, np.ndarray]
    ) -> np.ndarray:
        arrivals = super().arrive(state, items, values, times, more)
        if isinstance(self.ticks, CalendarTicks) and self._dated:
            tuples, marks = items.kind == TUPLE, items.kind == WATERMARK
            arrivals["drop"][tuples] = self.ticks.closings(times)
            arrivals["drop"][marks] = self.ticks.late_before(arrivals["time"][marks])
        return arrivals

    def late_before(self, state: EventState) -> int:
        """The time in ticks before which a tuple of a pane is late (E18)."""
        if isinstance(self.ticks, CalendarTicks) and self._dated:
            return int(self.ticks.late_before(state.clocks)[0])
        assert isinstance(self.when, panes.Grid)  # noqa: S101 - the callers have panes
        return max(int(state.clocks[0]) - self.when.discard_age, NEVER)

    def _partitions(self, state: EventState, items: Items, values: pa.RecordBatch) -> np.ndarray:
        """The number of the window partition of each tuple.

        A partition is a key (KIP W11); where each topic partition has a stream time of its own, it is the pair of
        topic partition and key (KIP T2).
        """
        key = super()._partitions(state, items, values)
        if self._apart == 1:
            return key
        if not state.places.count:  # existing partitions belong to the first topic partition
            partitions = np.arange(len(state.partitions), dtype=np.int64)
            intern_pairs(state.places, np.zeros(len(partitions), np.int64), partitions)
        source = np.maximum(items.source[items.kind == TUPLE], 0).astype(np.int64)
        partition = intern_pairs(state.places, source, key)
        state.reserve("partition", state.rows["partition"])
        state.partitions["source"][partition], state.partitions["key"][partition] = source, key
        return partition

    def _run(self, state: EventState, written: Written, arrivals: np.ndarray, first: int, end: int) -> int:
        window = Window(
            state.scalars, state.partitions, state.nodes, NodeAllocation(state.node_blocks, state.node_room),
            state.agenda.matches, state.agenda.starts, state.clocks, state.panes, *written,
            EarlyResults(self.program.clause.early, state.earlies, state.early_queue), state.closings,
            np.array([self.late_before(state)] if self._dated else [], np.int64),
            state.fillings, self._lives(arrivals), state.spans,
            key_times.of_batch(state, self._event_time, self.ticks, arrivals, dated=self._dated),
        )  # fmt: skip
        if isinstance(self.when, panes.Grid):
            return panes.run(window, self.when, arrivals, end, first)
        done = sliding_time.run(window, self.when, arrivals, first)
        return done + 1 if done == len(arrivals) else done

    def _lives(self, arrivals: np.ndarray) -> np.ndarray:
        """For panes of the calendar: until when the pane of each tuple makes its key live (EP2). Else empty."""
        if not (self._more["spans"] and isinstance(self.ticks, CalendarTicks) and self.spec.empty_panes is not None):
            return np.zeros(0, np.int64)
        lives, tuples = np.zeros(len(arrivals), np.int64), arrivals["kind"] == TUPLE
        forget = self.spec.empty_panes.forget_after // self.ticks.nanoseconds
        lives[tuples] = self.ticks.behind_panes(arrivals["time"][tuples], forget)
        return lives

    def _contents(self, state: EventState) -> tuple[Run, tuple[Any, ...]]:
        program = self.program
        return slices.run, slices.Slices(
            program.layout, state.strings.text, state.words, state.group_records, state.back, state.slices,
            NodeAllocation(state.slice_blocks, state.slice_room), state.sums, state.stack, state.links, state.ends,
            state.held, bool(program.group_by), program.listing, np.zeros((1, program.summary), np.int64),
        )  # fmt: skip

    def _compact(self, state: EventState) -> None:
        compact(state, ENDLESS if self._keyed else self.late_before(state) if self._filled is not None else NEVER)

    def _outputs(self, state: EventState, rows: Rows, firings: np.ndarray) -> Outputs:
        if self._filled is None:
            return super()._outputs(state, rows, firings)
        exists = self._there(firings)
        if not exists.all():
            kept = exists[rows.firing]
            columns = [column.filter(pa.array(kept)) for column in rows.columns]
            rows, firings = Rows((np.cumsum(exists) - 1)[rows.firing[kept]], columns), firings[exists]
        return self._filled.outputs_of(state, rows, firings)

    def _there(self, firings: np.ndarray) -> np.ndarray:
        """A mask of the firings of panes that exist: a day has fewer hours than ticks (calendar_ticks.py)."""
        exists = np.ones(len(firings), np.bool_)
        empty = are_empty(firings)
        if self._more["spans"]:
            bounds = [self.ticks.to_units(firings[name][empty]) for name in ("start", "end")]
            exists[empty] = bounds[0] < bounds[1]
        return exists

    def _with_empty(self, state: EventState, rows: Rows, firings: np.ndarray, stored: np.ndarray | None) -> Rows:
        if self._filled is None or not (empty := are_empty(firings)).any():
            return rows
        firing = np.flatnonzero(empty)
        assert stored is not None  # noqa: S101 - panes have no stream time
        more = self._filled.of_empty(FiredContents(
            np.zeros(len(firing), np.int64), firing, stored, grouped=False,
            summary=np.zeros((len(firing), self.program.summary), np.int64), listed=state.words[:0],
            strings=state.strings, details=FiringDetails(firings, firing, self.ticks.to_units),
        ))  # fmt: skip
        return Rows.joined([rows, more]).in_order()

    def reason(self, time: int, behind: int) -> str:
        name = self.ticks.attribute
        if behind == panes.NO_PANE:
            return f"{name} is in no pane: none reaches across 1970"
        if self.spec.window.paned:
            if self._keyed and self._dated:
                time = int(self.ticks.aged(np.array([time]))[0])
            of_key = " of its key" if self._keyed else ""
            return f"late: {name} is {self.ticks.distance(time, behind)}before the watermark{of_key} less discardAge"
        if time < 0:
            return f"{name} is before 1970, where slidingTime has no windows"
        late = f"late: {name} is {self.ticks.seconds(behind)} s before stream time less grace"
        return f"{late}, and no open window holds it"

    def _stored(self, state: EventState, events: np.ndarray, firings: np.ndarray) -> np.ndarray | None:
        """The value of CountAll for each firing of a pane: the tuples of all partitions in the pane (A18).

        Empty if no function needs it. With slidingTime, which has no panes, the tuples of the partition.
        """
        if not self._counting:
            return np.zeros(0, np.int64)
        if self.spec.window.timed_by_topic_partition:
            return None
        counts, slice_totals = totals(state.totals.reshape(2, -1), events, len(firings))
        needed = slice_totals[0] > max(self.late_before(state) - self._longest, NEVER)
        state.totals = slice_totals[:, needed].ravel()
        return counts


def _when(
    window: WindowKind, ticks: Ticks, empty: EmptyPanes | None, *, follows: bool, keyed: bool
) -> panes.Grid | sliding_time.SlidingSizes:
    """The parameters of the window for its kernel. `window_set` selects which windows exist (KIP P2)."""
    if window.panes is not None:
        duration, period, discard_age, offset = ticks.sizes(window)
        part = math.gcd(duration, period) if period < duration else duration
        dated = isinstance(ticks, CalendarTicks) and discard_age > 0
        rest = duration % period
        forget = -1 if empty is None else empty.forget_after // ticks.nanoseconds
        return panes.Grid(
            duration, period, discard_age, offset, part, rest, window.panes.cumulating, dated, forget,
            spanned=empty is not None and window.calendar is not None, latest=ticks.latest, most=empty_panes.MOST,
            keyed=keyed,
        )  # fmt: skip
    difference, grace = ticks.sizes(window)
    window = SlidingTime.narrowed(window)
    left, right = window.window_set != "perTimestampForward", window.window_set != "perTimestampBackward"
    gap = 1 if left and right else 0
    return sliding_time.SlidingSizes(difference, grace, left, right, gap, window.emit == "updates", follows)
