"""The Dedup operator: the first or the last tuple of each key and period of time.

A kernel decides which tuples are duplicates. With `keep: first` the operator is a filter: tuples and marks pass at
once. With `keep: last` the newest tuple of each period is stored until the period is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.encoding import WordColumns
from sluice.columns.key_bytes import canonical, key_codes
from sluice.columns.saved_columns import Data
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.dedup import dedup_kernel
from sluice.engine.operators.dedup.dedup_kernel import EMITTED_COUNT, FREED_COUNT, LATE_COUNT
from sluice.engine.operators.dedup.dedup_records import EMITTED, PERIODS, DedupSettings, Periods
from sluice.engine.operators.dedup.dedup_state import DedupState, StoredWords
from sluice.engine.operators.one_input import TimedOperator
from sluice.engine.stream import emit
from sluice.engine.stream.items import MAX_TIME, TIMER, TUPLE, Items, concatenated_keys
from sluice.engine.windows.event_time.event_records import ARRIVAL, ENDLESS, LATE
from sluice.engine.windows.event_time.event_ticks import ClockTicks, Ticks, ValueTicks
from sluice.engine.windows.event_time.timed_items import arrivals as arrivals_of
from sluice.engine.windows.event_time.timer_queue import ROOT
from sluice.model.expressions import Attribute
from sluice.model.spec import Dedup, EventTime
from sluice.model.types import INT64, Schema, TimeForm
from sluice.time_units import later


class DedupOperator(TimedOperator[DedupState]):
    """Runs one `Dedup` (Z1)."""

    spec: Dedup
    sized = "period"

    def __init__(self, spec: Dedup, schema: Schema, event_time: EventTime | None) -> None:
        """`schema` and `event_time` belong to the input. The event time is needed if the period is one of it."""
        super().__init__()
        self.spec = spec
        self._schema = arrow_schema(schema)
        self._holding = spec.keep == "last"
        self.reads = (*spec.by, *((Attribute(name, kind) for name, kind in schema) if self._holding else ()))
        #: the columns of a stored tuple: its attributes, and the topic partition from which it came
        self._columns = WordColumns((*(kind for _, kind in schema), INT64) if self._holding else ())
        self._stored = StoredWords(self._columns, spec.limits)
        used_time = event_time if spec.over == "event_time" else None
        self.ticks = ClockTicks() if used_time is None else Ticks(used_time, dict(schema)[used_time.attribute], spec)
        if spec.over == "delta":
            self.ticks = ValueTicks(spec.attribute, dict(schema)[spec.attribute])
        (size,) = self.ticks.sizes(spec)
        self._rule = DedupSettings(
            size + spec.by_tuples, self._holding, clock=spec.over == "clock", by_tuples=spec.by_tuples,
            by_value=spec.over == "delta", extending=spec.reset_on_duplicate, flushing=spec.flush_on_mark,
        )  # fmt: skip

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The spaces with rows per key (with one period), and with rows per stored tuple; no rows per time."""
        return ("partition", "period"), ["slot"] * self._holding, ()

    def initial(self) -> DedupState:
        return DedupState(self._stored)

    def load(self, data: Data) -> DedupState:
        state = self.initial().read(data)
        if self._rule.by_value:
            dedup_kernel.queue(self._tables(state, np.zeros(0, ARRIVAL)), self._rule, state.keys.count)
        return state

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
        open_periods = [{name: self._shown(time) for name, time in period.items()} for period in bounds]
        held = []
        if self._holding:
            rows = state.words[state.periods["slot"][periods]]
            held = window_inspection.tuples(self._schema.names, self._columns, rows, state.strings)
        return [InspectedWindow(self.spec.name, len(periods), held, policy={"periods": open_periods})]

    def _shown(self, time: int) -> float:
        """A time in seconds, the number of a tuple, or a value."""
        is_counted = self.spec.over == "count" or (self.spec.over == "delta" and self.ticks.type.time is TimeForm.COUNT)
        return float(time) if is_counted else float(self.ticks.seconds(time))

    # ---- a batch ----------------------------------------------------------------------------------------------------

    def _pass(
        self, state: DedupState, items: Items, arrivals: np.ndarray, end: int, last: tuple[int, int] | None
    ) -> tuple[dict[str, Items], np.ndarray, list[Items | None]]:
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
        passed = self._held(state, items, emitted, last) if self._holding else items.only(tables.passes)
        state.free.give(np.concatenate([freed, emitted["slot"]]) if self._holding else freed)
        if state.compactable:
            dedup_kernel.prune(tables, self._rule, state.keys.count)
            state.compact_all()
        return {output.stream: passed for output in self.spec.outputs}, late, []

    def arrive(
        self, state: DedupState, items: Items, values: pa.RecordBatch, times: np.ndarray, more: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Assigns each tuple its key and, with `keep: last`, a slot with its words. Gives the arrivals, whose
        times are the numbers of the tuples if the period counts these (Z9).
        """
        del more
        count = values.num_rows
        if self.spec.over == "count":
            times = max(int(state.clocks[0]), 0) + 1 + np.arange(count)
        partition = key_codes([values.column(i) for i in range(len(self.spec.by))], state.keys)
        slot = np.zeros(count, np.int64)
        if self._holding:
            slot, state.top = state.free.take(count, state.top)
        state.reserve_batch(count)
        if self._holding:
            sources = pa.array(items.source[items.kind == TUPLE].astype(np.int64))
            self._columns.write(state.words, slot, [*values.columns[len(self.spec.by) :], sources], state.strings)
        return arrivals_of(items, partition, slot, times, self.ticks, self._scratch)

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
        *columns, sources = self._columns.read(words, state.strings)

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
            both(sources.to_numpy().astype(np.int32), items.source[passing]),
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

    def reason(self, time: int, behind: int) -> str:
        """(Z5)"""
        del time
        return f"late: {self.ticks.seconds(behind)} s before the watermark"


assert ENDLESS == MAX_TIME  # noqa: S101 - an empty queue is due at MAX_TIME
