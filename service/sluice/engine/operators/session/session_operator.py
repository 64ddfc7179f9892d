"""The Aggregate operator over session windows, with the way of a batch of TimedAggregate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.saved_columns import Data
from sluice.engine.contents import window_inspection
from sluice.engine.contents.firing_results import Run
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.timed_aggregate import TimedAggregate, Written
from sluice.engine.operators.aggregate.window_outputs import AggregateOutputs
from sluice.engine.operators.one_input import Usable
from sluice.engine.operators.session import session_contents, session_kernel
from sluice.engine.operators.session.session_records import ARRIVAL, EVENT, Sessions, SessionSettings
from sluice.engine.operators.session.session_state import SessionState
from sluice.engine.stream.event_times import exact_nanoseconds
from sluice.engine.stream.items import MAX_TIME, Items
from sluice.engine.stream.rejected_tuples import without
from sluice.engine.windows import early_results
from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.event_time import key_times
from sluice.engine.windows.event_time.event_records import ENDLESS
from sluice.engine.windows.event_time.event_ticks import ClockTicks, Ticks
from sluice.engine.windows.event_time.timer_queue import ROOT
from sluice.model.spec import Aggregate, EventTime
from sluice.model.types import Schema
from sluice.model.windows.session_window import MAX_GAP, Session


class SessionOperator(TimedAggregate[SessionState]):
    """Runs one `Aggregate` over sessions."""

    arrival, event, inserted, per_item = ARRIVAL, EVENT, "other", (4, 2)

    def __init__(self, spec: Aggregate, schema: Schema, event_time: EventTime | None) -> None:
        """`schema` and `event_time` belong to the input. Without event time, sessions are over the operator clock."""
        window = Session.narrowed(spec.window)
        super().__init__()
        self.spec, self._window = spec, window
        self.program = Program.of(spec, schema)
        self.reads = self.program.reads
        self._make_outputs = AggregateOutputs(self.program, spec.name)
        self.ticks = (
            ClockTicks() if event_time is None else Ticks(event_time, dict(schema)[event_time.attribute], window)
        )
        self._event_time, self._of_keys = event_time, event_time.per_key if event_time is not None else None
        self._tick = 1 if event_time is None else event_time.tick
        self._gap, longest, grace = self.ticks.sizes(window)
        self._sized = None if isinstance(window.gap, int) else self.program.reads.index(window.gap)
        limit = ENDLESS if window.longest is None else longest
        self._rule = SessionSettings(
            limit, grace, window.emit == "updates", event_time is None, self._of_keys is not None
        )

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The spaces with rows per window partition (with one open session), and with rows per listed tuple; no rows
        per time.
        """
        return ("partition", "group", "session", "content"), ["slot"] * self.holding, ()

    def initial(self) -> SessionState:
        return SessionState(self.program, self._of_keys)

    def load(self, data: Data) -> SessionState:
        return self.initial().read(data)

    def due(self, state: SessionState) -> int:
        """When the next early result is due (F2), or the next key is idle or forgotten (KT3). Over the clock also 1 ns
        after the reach of the session that is over next (G12). MAX_TIME if none of these comes.
        """
        if state.finished:
            return MAX_TIME
        early = min(early_results.next_due(state.earlies, state.early_queue), key_times.next_due(state))
        if not self._rule.clock or not len(state.agenda.matches):
            return early
        due = int(state.agenda.matches[state.agenda.starts[0] + ROOT]["due"])
        return early if due == ENDLESS else min(early, due + 1)

    def inspect(self, state: SessionState, key: str | None) -> list[InspectedWindow]:
        """The open sessions of this key, oldest first; without `partition_by` all open sessions."""
        p = window_inspection.code_of(state.keys, key) if self.program.partition_by else 0
        if not 0 <= p < len(state.partitions) or not state.partitions["size"][p]:
            return []
        sessions = []
        for s in window_inspection.chained(state.partitions[p], state.sessions).tolist():
            count = int(state.contents["count"][self._contents_of(state, s)].sum())
            start, end = (float(self.ticks.seconds(int(state.sessions[name][s]))) for name in ("first", "last"))
            sessions.append({"start": start, "end": end, "tuples": count})
        policy = {"sessions": sessions} | early_results.shown_due(state.earlies, p)
        policy |= key_times.shown(state, p, self.ticks)
        return [InspectedWindow(self.spec.name, sum(int(s["tuples"]) for s in sessions), policy=policy)]

    def _contents_of(self, state: SessionState, session: int) -> list[int]:
        contents, at = [], int(state.chains["oldest"][session])
        while at >= 0:
            contents.append(at)
            at = int(state.contents["following"][at])
        return contents

    # ---- a batch ----------------------------------------------------------------------------------------------------

    def _usable(self, items: Items, values: pa.RecordBatch) -> Usable:
        """Rejects the tuples without a usable time or gap."""
        items, values, times, _, rejects = super()._usable(items, values)
        if self._sized is None:
            return items, values, times, {"gap": np.full(len(times), self._gap)}, rejects
        gap, wrong = gaps(values.column(self._sized), self._tick)
        if wrong is None:
            return items, values, times, {"gap": gap}, rejects
        reason = "its inactivityGap is no number of seconds above 0, of at most 3,650 days (G4)"
        items, values, ungapped = without(wrong, items, values, self.spec.name, [reason] * int(wrong.sum()))
        return items, values, times[~wrong], {"gap": gap[~wrong]}, [*rejects, ungapped]

    def _run(self, state: SessionState, written: Written, arrivals: np.ndarray, first: int, end: int) -> int:
        sessions = Sessions(
            state.scalars, state.partitions, state.sessions, state.agenda.matches, state.agenda.starts, state.clocks,
            *written, EarlyResults(self.program.clause.early, state.earlies, state.early_queue),
            key_times.of_batch(state, self._event_time, self.ticks, arrivals),
        )  # fmt: skip
        return session_kernel.run(sessions, self._rule, arrivals, first, end)

    def _contents(self, state: SessionState) -> tuple[Run, tuple[Any, ...]]:
        program = self.program
        return session_contents.run, session_contents.SessionArrays(
            state.scalars, program.layout, state.strings.text, state.words, state.links, state.group_records,
            state.chains, state.contents, state.sums, bool(program.group_by), program.listing,
            np.zeros((1, program.summary), np.int64), state.held,
        )  # fmt: skip

    def _compact(self, state: SessionState) -> None:
        if state.compactable:
            state.compact_all()

    def reason(self, time: int, behind: int) -> str:
        """(G7)"""
        del time
        of_key = " of its key" if self._of_keys is not None else ""
        return f"late: its session was over {self.ticks.seconds(behind)} s before the watermark{of_key} less grace"


def gaps(column: pa.Array, tick: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The gaps in ticks of `tick` ns, rounded down, and a mask of the invalid ones (G4); None if all are valid."""
    lengths, bad = exact_nanoseconds(column.to_numpy(zero_copy_only=False))
    wrong = (lengths <= 0) | (lengths > MAX_GAP)
    if bad is not None:
        wrong |= bad
    return lengths // tick, wrong if wrong.any() else None
