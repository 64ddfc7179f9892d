"""The Aggregate operator over session windows.

A batch of tuples passes through three steps: the tuples get partitions, groups and slots; a kernel decides when
sessions begin, merge and are over, and writes window events; a second kernel follows these events and computes the
results of the firings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import to_words
from sluice.columns.key_bytes import key_codes
from sluice.columns.scratch_buffers import Scratch, grown
from sluice.columns.state_tables import intern_pairs
from sluice.columns.tables import Data
from sluice.engine.contents import window_inspection
from sluice.engine.contents.firing_results import Results, Rows
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_operator import until_final
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.event_time_rows import (
    computed_rows,
    fired_contents,
    slots_for,
    tuples_per_firing,
)
from sluice.engine.operators.aggregate.window_outputs import AggregateOutputs
from sluice.engine.operators.operator import Stateful
from sluice.engine.operators.session import session_contents, session_kernel
from sluice.engine.operators.session.session_records import ARRIVAL, EVENT, INSERT, Sessions, SessionSettings
from sluice.engine.operators.session.session_state import SessionState
from sluice.engine.operators.session.session_times import ClockTimes, gaps
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import joined, readable, rejected, rejected_late
from sluice.engine.windows import early_results
from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.event_time.event_records import ENDLESS, FIRING, LATE
from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.engine.windows.event_time.timer_queue import ROOT
from sluice.model.spec import Aggregate, EventTime
from sluice.model.types import Schema
from sluice.model.windows.session_window import Session

#: the initial room for window events and for firings, per item
EVENTS_PER_ITEM, FIRINGS_PER_ITEM = 4, 2


class SessionOperator(Stateful[SessionState]):
    """Runs one `Aggregate` over sessions. The operator has no state: `feed` changes the state that is its argument."""

    def __init__(self, spec: Aggregate, schema: Schema, event_time: EventTime | None) -> None:
        """`schema` and `event_time` belong to the input. Without event time, sessions are over the operator clock."""
        window = spec.window
        assert isinstance(window, Session)  # noqa: S101 - window_operators.py chooses the operator
        self.spec, self._window = spec, window
        self._program = Program.of(spec, schema)
        self._making = AggregateOutputs(self._program, spec.name)
        self._scratch = Scratch()
        of = event_time
        self._ticks = ClockTimes() if of is None else Ticks(of, dict(schema)[of.attribute], window)
        self._tick = 1 if of is None else of.tick
        self._gap, longest, grace = self._ticks.sizes(window)
        self._sized = None if isinstance(window.gap, int) else self._program.reads.index(window.gap)
        limit = ENDLESS if window.longest is None else longest
        self._rule = SessionSettings(limit, grace, window.emit == "updates", event_time is None)

    @property
    def holding(self) -> bool:
        """Whether each tuple is stored, not only the summaries."""
        return self._program.listing

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The spaces with rows per window partition (with one open session), and with rows per listed tuple; no rows
        per time.
        """
        return ("partition", "group", "session", "content"), ["slot"] * self.holding, ()

    def initial(self) -> SessionState:
        return SessionState(self._program)

    def load(self, data: Data) -> SessionState:
        return self.initial().read(data)

    def feed(self, state: SessionState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The outputs of these items and, over the clock, of the sessions that are over by `clock.end`, by output
        stream.
        """
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        items, read, unread = readable(items, self._program.reads, self.spec.name)
        items, read, times, gap, unsound = self._with_valid_times(items, read)
        arrivals = self._arrive(state, items, read, times, gap)
        events, firings, late = self._window_events(state, arrivals, end)
        outputs, unmade = self._making.outputs(self._fill(state, events, firings), firings, state.keys)
        if state.compactable:
            state.compact_all()
        if last is not None:
            state.finished = True
            outputs = {stream: emit.final(output, *last) for stream, output in outputs.items()}
        return outputs | joined([unread, *unsound, self._dropped(items, late), *unmade])

    def due(self, state: SessionState) -> int:
        """When the next early result is due (F2). Over the clock also 1 ns after the reach of the session that is over
        next (G12). MAX_TIME if neither comes.
        """
        if state.finished:
            return MAX_TIME
        early = early_results.next_due(state.earlies, state.early_queue)
        if not self._rule.clock or not len(state.agenda.matches):
            return early
        due = int(state.agenda.matches[state.agenda.starts[0] + ROOT]["due"])
        return early if due == ENDLESS else min(early, due + 1)

    def inspect(self, state: SessionState, key: str | None) -> list[InspectedWindow]:
        """The open sessions of this key, oldest first; without `partition_by` all open sessions."""
        p = window_inspection.code_of(state.keys, key) if self._program.partition_by else 0
        if not 0 <= p < len(state.partitions) or not state.partitions["size"][p]:
            return []
        sessions = []
        for s in window_inspection.chained(state.partitions[p], state.sessions).tolist():
            count = int(state.contents["count"][self._contents(state, s)].sum())
            start, end = (float(self._ticks.seconds(int(state.sessions[name][s]))) for name in ("first", "last"))
            sessions.append({"start": start, "end": end, "tuples": count})
        policy = {"sessions": sessions} | early_results.shown_due(state.earlies, p)
        return [InspectedWindow(self.spec.name, sum(int(s["tuples"]) for s in sessions), policy=policy)]

    def _contents(self, state: SessionState, session: int) -> list[int]:
        found, at = [], int(state.chains["oldest"][session])
        while at >= 0:
            found.append(at)
            at = int(state.contents["following"][at])
        return found

    # ---- in ---------------------------------------------------------------------------------------------------------

    def _with_valid_times(
        self, items: Items, read: pa.RecordBatch
    ) -> tuple[Items, pa.RecordBatch, np.ndarray, np.ndarray, list[Items | None]]:
        """Splits off the tuples without a usable time or gap. Gives the other items, their part of `read`, their times
        and gaps in ticks, and the rejected tuples.
        """
        times, bad = items.at[items.kind == TUPLE], None
        if isinstance(self._ticks, Ticks):
            times, bad = self._ticks.of(items.tuples)
        gap, wrong = np.full(len(times), self._gap), None
        if self._sized is not None:
            gap, wrong = gaps(read.column(self._sized), self._tick)
        outside = np.zeros(len(times), np.bool_) if bad is None else bad
        refused = outside if wrong is None else outside | wrong
        if not refused.any():
            return items, read, times, gap, []
        reasons = [self._refusal(time=bool(one)) for one in outside[refused].tolist()]
        kept = items.kind != TUPLE
        kept[~kept] = ~refused
        letters = rejected(items.only(~kept), self.spec.name, reasons)
        return items.only(kept), read.filter(pa.array(~refused)), times[~refused], gap[~refused], [letters]

    def _refusal(self, *, time: bool) -> str:
        if time and isinstance(self._ticks, Ticks):
            return self._ticks.refusal("window")
        return "its inactivityGap is no number of seconds above 0, of at most 3,650 days (G4)"

    def _arrive(
        self, state: SessionState, items: Items, read: pa.RecordBatch, times: np.ndarray, gap: np.ndarray
    ) -> np.ndarray:
        """Assigns each tuple its partition, its group and a slot, and stores its words. Gives the arrivals."""
        program, count = self._program, read.num_rows
        partition = np.zeros(count, np.int64)
        if program.partition_by:
            partition = key_codes([read.column(i) for i in program.partition_by], state.keys)
        group = partition
        if program.group_by:
            value = key_codes([read.column(i) for i in program.group_by], state.groups)
            group = intern_pairs(state.pairs, partition, value)
        state.reserve_partitions()
        state.reserve_sessions(count)
        slot = slots_for(state, self._program, count)
        rows = slot if program.listing else slice(count)
        state.links["group"][rows] = group
        for column, type_ in enumerate(program.columns):
            state.words[rows, column] = to_words(read.column(column), type_, state.strings)
        state.words[rows, -1] = np.arange(state.arrived, state.arrived + count)
        state.arrived += count
        arrivals = self._scratch.room(len(items), ARRIVAL)
        for name in ("at", "event", "kind", "watermark"):
            arrivals[name] = getattr(items, name)
        is_tuple = items.kind == TUPLE
        for name, values in (("time", times), ("gap", gap), ("slot", slot), ("partition", partition)):
            arrivals[name][is_tuple] = values
        marks = items.kind == WATERMARK
        if marks.any():
            arrivals["time"][marks] = self._ticks.of_watermarks(items.watermark[marks])
        return arrivals

    # ---- through ----------------------------------------------------------------------------------------------------

    def _window_events(
        self, state: SessionState, arrivals: np.ndarray, end: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Runs the sessions over the arrivals. Gives the window events, the firings and the late tuples."""
        events = self._scratch.room(EVENTS_PER_ITEM * len(arrivals) + 64, EVENT)
        firings = self._scratch.room(FIRINGS_PER_ITEM * len(arrivals) + 64, FIRING)
        late, used = np.empty(len(arrivals), LATE), np.zeros(3, np.int64)
        first = 0
        while True:
            sessions = Sessions(
                state.scalars, state.partitions, state.sessions, state.agenda.matches, state.agenda.starts,
                state.clocks, events, firings, late, used,
                EarlyResults(self._program.clause.early, state.earlies, state.early_queue),
            )  # fmt: skip
            first = session_kernel.run(sessions, self._rule, arrivals, first, end)
            if first > len(arrivals):
                break
            most = int(state.partitions["size"].max(initial=0)) + 64
            events = grown(events, int(used[0]), 2 * len(events) + most)
            firings = grown(firings, int(used[1]), 2 * len(firings) + 64)
        if self._program.listing:
            entered = events["other"][: used[0]][events["code"][: used[0]] == INSERT]
            slots = arrivals["slot"][arrivals["kind"] == TUPLE]
            if len(entered) < len(slots):
                state.free.give(np.setdiff1d(slots, entered))
        return events[: used[0]], firings[: used[1]], late[: used[2]]

    def _fill(self, state: SessionState, events: np.ndarray, firings: np.ndarray) -> Rows:
        """The output rows of all firings, computed from the contents of the sessions at each firing."""
        program = self._program
        kernel = session_contents.SessionArrays(
            state.scalars, program.layout, state.strings.text, state.words, state.links, state.group_records,
            state.chains, state.contents, state.sums, bool(program.group_by), program.listing,
            np.zeros((1, program.summary), np.int64), state.held,
        )  # fmt: skip

        def rows(results: Results) -> Rows:
            stored = tuples_per_firing(results, len(firings))  # CountAll counts all tuples of the session (G13)
            return self._making.rows(fired_contents(program, state, firings, stored, results, self._ticks.to_units))

        return computed_rows(session_contents.run, kernel, program, state, events, len(firings), rows)

    # ---- out --------------------------------------------------------------------------------------------------------

    def _dropped(self, items: Items, late: np.ndarray) -> Items | None:
        """The late tuples as rejects, each with a reason that says how late it was (G7); None if there are none."""
        reasons = (
            f"late: its session was over {self._ticks.seconds(behind)} s before the watermark less grace"
            for behind in late["behind"].tolist()
        )
        return rejected_late(items, self.spec.name, late, reasons)
