"""The Dedup operator: the first or the last tuple of each key and period of time.

A kernel decides which tuples are duplicates. With `keep: first` the operator is a filter: tuples and marks pass at
once. With `keep: last` the newest tuple of each period is stored until the period is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.encoding import from_words, to_words
from sluice.columns.key_bytes import canonical, key_codes
from sluice.columns.scratch_buffers import Scratch
from sluice.columns.tables import Data
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_operator import until_final
from sluice.engine.operators.dedup import dedup_kernel
from sluice.engine.operators.dedup.dedup_kernel import EMITTED_COUNT, FREED_COUNT, LATE_COUNT
from sluice.engine.operators.dedup.dedup_records import ARRIVAL, EMITTED, PERIODS, DedupSettings, Periods
from sluice.engine.operators.dedup.dedup_state import DedupState, StoredWords
from sluice.engine.operators.operator import Stateful
from sluice.engine.operators.session.session_times import ClockTimes
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME, TIMER, TUPLE, WATERMARK, Items, concatenated_keys
from sluice.engine.stream.rejected_tuples import joined, readable, rejected, rejected_late
from sluice.engine.windows.event_time.event_records import ENDLESS, LATE
from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.engine.windows.event_time.timer_queue import ROOT
from sluice.model.expressions import Attribute
from sluice.model.spec import Dedup, EventTime
from sluice.model.types import INT64, Schema
from sluice.time_units import later


class DedupOperator(Stateful[DedupState]):
    """Runs one `Dedup` (Z1). The operator has no state: `feed` changes the state that is its argument."""

    def __init__(self, spec: Dedup, schema: Schema, event_time: EventTime | None) -> None:
        """`schema` and `event_time` belong to the input. The event time is needed if the period is one of it."""
        self.spec, self._scratch = spec, Scratch()
        self._schema = arrow_schema(schema)
        self._holding = spec.keep == "last"
        self._reads = [*spec.by, *(Attribute(name, kind) for name, kind in schema)] if self._holding else [*spec.by]
        #: the types of a stored tuple's words: its attributes, and the topic partition from which it came
        self._stored = StoredWords((*(kind for _, kind in schema), INT64) if self._holding else (), spec.limits)
        of = event_time if spec.over == "event_time" else None
        self._ticks = ClockTimes() if of is None else Ticks(of, dict(schema)[of.attribute], spec)
        (size,) = self._ticks.sizes(spec)
        self._rule = DedupSettings(size, self._holding, of is None)

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The spaces with rows per key (with one period), and with rows per stored tuple; no rows per time."""
        return ("partition", "period"), ["slot"] * self._holding, ()

    def initial(self) -> DedupState:
        return DedupState(self._stored)

    def load(self, data: Data) -> DedupState:
        return self.initial().read(data)

    def due(self, state: DedupState) -> int:
        """With `keep: last` over the clock: the end of the period that is over next. Otherwise MAX_TIME."""
        if not (self._holding and self._rule.clock) or state.finished or not len(state.agenda.matches):
            return MAX_TIME
        return int(state.agenda.matches[state.agenda.starts[0] + ROOT]["due"])

    def inspect(self, state: DedupState, key: str | None) -> list[InspectedWindow]:
        """The periods of this key, oldest first; each counts as one tuple. With `keep: last` also the tuple of each."""
        p = window_inspection.code_of(state.keys, key)
        if p < 0 or not state.partitions["size"][p]:
            return []
        periods = window_inspection.chained(state.partitions[p], state.periods)
        starts = state.periods["time"][periods].tolist()
        bounds = [{"start": start, "end": later(start, self._rule.size)} for start in starts]
        open_periods = [{name: float(self._ticks.seconds(time)) for name, time in one.items()} for one in bounds]
        held = []
        if self._holding:
            rows = state.words[state.periods["slot"][periods]]
            held = window_inspection.tuples(self._schema.names, self._stored.types, rows, state.strings)
        return [InspectedWindow(self.spec.name, len(periods), held, policy={"periods": open_periods})]

    # ---- a batch ----------------------------------------------------------------------------------------------------

    def feed(self, state: DedupState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The output items by stream, and the rejected tuples under REJECTS."""
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        items, read, unread = readable(items, self._reads, self.spec.name)
        items, read, times, unsound = self._with_valid_times(items, read)
        arrivals = self._arrive(state, items, read, times)
        tables = self._tables(state, arrivals)
        dedup_kernel.run(tables, self._rule, arrivals, end)
        count = len(arrivals)
        if last is not None and self._holding:
            dedup_kernel.drain(tables, self._rule, state.keys.count, count + 1)
        emitted, freed, late = (
            rows[: tables.used[number]]
            for rows, number in (
                (tables.emitted, EMITTED_COUNT), (tables.freed, FREED_COUNT), (tables.late, LATE_COUNT)
            )
        )  # fmt: skip
        made = self._held(state, items, emitted, last) if self._holding else items.only(tables.passes)
        state.free.give(np.concatenate([freed, emitted["slot"]]) if self._holding else freed)
        dropped = self._dropped(items, late)
        if state.compactable:
            dedup_kernel.prune(tables, self._rule, state.keys.count)
            state.compact_all()
        if last is not None:
            state.finished = True
            made = emit.final(made, *last)
        return {output.stream: made for output in self.spec.outputs} | joined([unread, unsound, dropped])

    def _with_valid_times(
        self, items: Items, read: pa.RecordBatch
    ) -> tuple[Items, pa.RecordBatch, np.ndarray, Items | None]:
        """Splits off the tuples without a usable time. Gives the other items, their part of `read`, their times in
        ticks, and the rejected tuples.
        """
        if not isinstance(self._ticks, Ticks):
            return items, read, items.at[items.kind == TUPLE], None
        times, bad = self._ticks.of(items.tuples)
        if bad is None:
            return items, read, times, None
        kept = items.kind != TUPLE
        kept[~kept] = ~bad
        reasons = [self._ticks.refusal("period")] * int(bad.sum())
        letters = rejected(items.only(~kept), self.spec.name, reasons)
        return items.only(kept), read.filter(pa.array(~bad)), times[~bad], letters

    def _arrive(self, state: DedupState, items: Items, read: pa.RecordBatch, times: np.ndarray) -> np.ndarray:
        """Assigns each tuple its key and, with `keep: last`, a slot with its words. Gives the arrivals."""
        count, is_tuple = read.num_rows, items.kind == TUPLE
        partition = key_codes([read.column(i) for i in range(len(self.spec.by))], state.keys)
        slot = np.zeros(count, np.int64)
        if self._holding:
            slot, state.top = state.free.take(count, state.top)
        state.reserve_batch(count)
        if self._holding:
            for column, type_ in enumerate(self._stored.types[:-1]):
                state.words[slot, column] = to_words(read.column(len(self.spec.by) + column), type_, state.strings)
            state.words[slot, -1] = items.source[is_tuple]
        arrivals = self._scratch.room(len(items), ARRIVAL)
        arrivals["at"], arrivals["kind"] = items.at, items.kind
        for name, values in (("time", times), ("slot", slot), ("partition", partition)):
            arrivals[name][is_tuple] = values
        marks = items.kind == WATERMARK
        if marks.any():
            arrivals["time"][marks] = self._ticks.of_watermarks(items.watermark[marks])
        return arrivals

    def _tables(self, state: DedupState, arrivals: np.ndarray) -> Periods:
        count, periods = len(arrivals), int(state.scalars[PERIODS]) if self._holding else 0
        return Periods(
            state.scalars, state.partitions, state.periods, state.agenda.matches, state.agenda.starts, state.clocks,
            np.zeros(count, np.bool_), np.empty(periods + count, EMITTED), np.empty(count, np.int64),
            np.empty(count, LATE), state.held, np.zeros(3, np.int64),
        )  # fmt: skip

    # ---- out --------------------------------------------------------------------------------------------------------

    def _held(self, state: DedupState, items: Items, emitted: np.ndarray, last: tuple[int, int] | None) -> Items:
        """The emitted tuples between the marks that pass. Tuples that one item caused are in order of the ends of their
        periods, then of their keys (Z6). Marks keep their keys (B9).
        """
        passing = np.flatnonzero(items.kind != TUPLE)
        key, keys = emit.named(emitted["partition"], state.keys)
        emitted, key = self._in_order(emitted, key, keys, draining=len(items) + 1)
        # the events of the causes len(items) (a timer after the last item) and len(items) + 1 (the final mark drains)
        event, at = np.append(items.event, [TIMER, 0]), np.append(items.at, [0, 0])
        if last is not None:
            event[-1], at[-1] = last
        cause = emitted["cause"]
        event_of, at_of = event[cause], at[cause]
        if self._rule.clock:
            timed = cause <= len(items)
            event_of, at_of = np.where(timed, TIMER, event_of), np.where(timed, emitted["due"], at_of)
        # What item n causes comes before the mark that is item n.
        order = np.argsort(np.concatenate([2 * cause, 2 * passing + 1]), kind="stable")
        words = state.words.take(emitted["slot"], axis=0)
        columns = [from_words(words[:, n], kind, state.strings) for n, kind in enumerate(self._stored.types[:-1])]

        def both(of_emitted: np.ndarray, of_passing: np.ndarray) -> np.ndarray:
            return np.concatenate([of_emitted, of_passing])[order]

        ends = np.zeros(len(emitted), np.int64) if self._rule.clock else emitted["due"]
        marked = items.key[passing]
        keyed = marked >= 0
        names = items.keys.take(pa.array(marked[keyed]))
        key, keys = concatenated_keys(key, keys, np.where(keyed, np.cumsum(keyed) - 1, -1), names)
        return Items(
            both(event_of, items.event[passing]), both(at_of, items.at[passing]),
            both(np.full(len(emitted), TUPLE, np.int8), items.kind[passing]),
            both(words[:, -1].astype(np.int32), items.source[passing]),
            key[order], keys,
            pa.record_batch(columns, schema=self._schema),
            both(ends, items.watermark[passing]),
        )  # fmt: skip

    def _in_order(
        self, emitted: np.ndarray, key: np.ndarray, keys: pa.BinaryArray, draining: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sorts the emitted tuples (Z6). What the final mark drains over the clock is in order of the keys alone,
        because its time is the same.
        """
        rank = np.empty(len(keys), np.int64)
        rank[canonical(keys)] = np.arange(len(keys))
        due = emitted["due"]
        if self._rule.clock:
            due = np.where(emitted["cause"] == draining, 0, due)
        order = np.lexsort((rank[key], due, emitted["cause"]))
        return emitted[order], key[order]

    def _dropped(self, items: Items, late: np.ndarray) -> Items | None:
        """The late tuples as rejects, each with a reason that says how late it was (Z5); None if there are none."""
        reasons = (f"late: {self._ticks.seconds(behind)} s before the watermark" for behind in late["behind"].tolist())
        return rejected_late(items, self.spec.name, late, reasons)


assert ENDLESS == MAX_TIME  # noqa: S101 - an empty queue is due at MAX_TIME
