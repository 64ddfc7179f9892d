"""The events of tumbling and sliding windows, one item at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Data, Saved
from sluice.columns.state_tables import Maps, PartOfKey
from sluice.engine.library.window_events import (
    AFTER_EVICTION,
    AFTER_INSERTION,
    BEFORE_EVICTION,
    BEFORE_INSERTION,
    INITIAL_FULL,
    PARTITION_EVICTION,
    TRIGGER,
    Content,
    LibraryState,
    Row,
    WindowEvent,
    packed,
    restored,
    saved,
    unpacked,
    values_of,
)
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.compaction import evict_unused
from sluice.engine.stream.items import EMPTY_FIRING, MAX_TIME, TIMER, TUPLE, WATERMARK, Items
from sluice.engine.windows import processing_time
from sluice.engine.windows.processing_time import CLEAR, EVENT, EVICT, FIRE, FULL, INSERT, TICK
from sluice.model.expressions import AggregateCall, Expression
from sluice.model.spec import Aggregate, Output, Windowed
from sluice.model.types import INT64, Schema
from sluice.time_units import UNSET


class ClockState(LibraryState):
    """The state of the windows. `contents` has the content of each window partition by the bytes of its key."""

    windows: AggregateState
    contents: dict[bytes, Content]

    def __init__(self, windows: AggregateState, contents: dict[bytes, Content]) -> None:
        self.windows, self.contents = windows, contents

    def save(self) -> Saved:
        return packed(self.windows.save(), saved((None, content) for content in self.contents.values()))

    def split(self, parts: int, part_of_key: PartOfKey) -> list[ClockState]:
        gathered = [
            self.windows.gathered([(self.windows, portion)]) for portion in self.windows.divided(parts, part_of_key)
        ]
        states = [ClockState(windows, {}) for windows, _ in gathered]
        for name, content in self.contents.items():
            part = part_of_key(name) if self.windows.keyed else 0
            states[part].contents[name] = self._moved(content, gathered[part][1][0])
        return states

    def merge(self, others: Sequence[ClockState]) -> ClockState:
        windows, maps = self.windows.merged([other.windows for other in others])
        contents = {
            name: self._moved(content, numbers)
            for state, numbers in zip((self, *others), maps, strict=True)
            for name, content in state.contents.items()
        }
        return ClockState(windows, contents)

    def _moved(self, content: Content, maps: Maps) -> Content:
        """The content with its tuples under their new slots. If the windows have no slots, its tuples are numbered by
        count and keep their numbers.
        """
        if not self.windows.holding:
            return content
        return replace(content, stored={int(maps["slot"][slot]): row for slot, row in content.stored.items()})


class ClockLibrary:
    """Produces the window events of an operator, whatever the operator does with them."""

    def __init__(self, spec: Windowed, schema: Schema, sources: int) -> None:
        """`schema` is that of the input, `sources` the number of its topic partitions."""
        self._windows = AggregateOperator(_counting(spec), schema, sources, by_slot=True)
        self._program = self._windows.program
        self._tumbling = spec.window.tumbling

    def started(self) -> ClockState:
        return ClockState(self._windows.initial(), {})

    def resumed(self, data: Data) -> ClockState:
        windows, contents = unpacked(data)
        return ClockState(self._windows.load(windows), {c.name: c for _, c in restored(contents)})

    @property
    def reads(self) -> tuple[Expression, ...]:
        """The expressions whose values `events` needs."""
        return self._program.reads

    def due(self, state: ClockState) -> int:
        """The operator clock at which the next tuple expires or the timer ticks; MAX_TIME if neither happens."""
        return MAX_TIME if state.finished else min(self._next(state.windows))

    def events(
        self, state: ClockState, items: Items, values: pa.RecordBatch, rows: list[Row], start: int, end: int
    ) -> Iterator[WindowEvent]:
        """The events of these items, which have no final mark, and of the time until `end`.

        `values` has the values of `reads`, `rows` has the tuples, and `start` is the time from which the timer counts.
        """
        window = state.windows
        if self._windows.timer is not None and window.scalars[TICK] == UNSET:
            window.scalars[TICK] = self._windows.timer.after(start)
        arrivals = self._windows.arrive(window, items, values)
        keys = [values_of(values.column(i)) for i in self._program.partition_by]
        freed: list[int] = []
        row = 0
        for i, (kind, event, at) in enumerate(
            zip(items.kind.tolist(), items.event.tolist(), items.at.tolist(), strict=True)
        ):
            yield from self._passing(state, at, freed)
            if kind == WATERMARK:
                yield WindowEvent(WATERMARK, event, at, watermark=int(items.watermark[i]))
                continue
            new = ([column[row] for column in keys], rows[row]) if kind == TUPLE else None
            yield from self._events_of(state, self._brought(window, arrivals[i : i + 1], at), event, at, freed, new)
            row += kind == TUPLE
        yield from self._passing(state, end, freed)
        window.free.give(np.array(freed, np.int64))
        evict_unused(window, self._program)

    # ---- time -------------------------------------------------------------------------------------------------------

    def _passing(self, state: ClockState, until: int, freed: list[int]) -> Iterator[WindowEvent]:
        """The events that are due by `until`: tuples that expire, and ticks. At equal times, tuples expire first."""
        window = state.windows
        nothing = np.zeros(0, processing_time.ARRIVAL)
        while True:
            self._pass_over(window, until)
            leaves, tick = self._next(window)
            now = min(leaves, tick)
            if now > until:
                return
            leaving = (self._leaving(window, now), np.zeros(0, processing_time.FIRING)) if leaves <= tick else None
            yield from self._events_of(state, leaving or self._brought(window, nothing, now), TIMER, now, freed, None)

    def _next(self, window: AggregateState) -> tuple[int, int]:
        """When the next tuple expires, and when the next tick is due."""
        return processing_time.leaves(self._program.clause, window), self._windows.due(window)

    def _pass_over(self, window: AggregateState, until: int) -> None:
        """Skips ticks that find nothing stored, if too many are due (MAX_EMPTY_TICKS)."""
        clause = self._program.clause
        if (
            self._windows.timer is not None
            and until - int(window.scalars[TICK]) > int(clause.period) * processing_time.MAX_EMPTY_TICKS
        ):
            no_room = np.zeros(0, EVENT), np.zeros(0, processing_time.FIRING), np.zeros(2, np.int64)
            instants = self._windows.instants(window, until)
            processing_time.skip_empty_ticks(
                processing_time.window_of(clause, window, window.sources, *no_room, instants), until
            )

    def _brought(self, window: AggregateState, arrivals: np.ndarray, now: int) -> tuple[np.ndarray, np.ndarray]:
        """All window events and firings of one item, or of the timer at one time."""
        batches = [(events.copy(), firings) for events, firings in self._windows.window_events(window, arrivals, now)]
        return np.concatenate([events for events, _ in batches]), batches[-1][1]

    def _leaving(self, window: AggregateState, now: int) -> np.ndarray:
        """The evictions of tuples that expire at this time (S5)."""
        evictions = []
        while True:
            events, used = np.zeros(64, EVENT), np.zeros(2, np.int64)
            kernel = processing_time.window_of(
                self._program.clause, window, window.sources, events, np.zeros(64, processing_time.FIRING), used
            )
            is_complete = processing_time.expire_tuples(kernel, now)
            evictions.append(events[: used[0]])
            if is_complete:
                return np.concatenate(evictions)

    # ---- events -----------------------------------------------------------------------------------------------------

    def _events_of(
        self, state: ClockState, written: tuple[np.ndarray, np.ndarray], event: int, at: int, freed: list[int],
        new: tuple[list[object], Row] | None,
    ) -> Iterator[WindowEvent]:  # fmt: skip
        """Converts what the kernel wrote for one item, or for the timer at one time. `new` is the tuple of the item,
        with the values of its key.
        """
        events, firings = written
        names = state.windows.keys.take(events["partition"].astype(np.int64)).to_pylist() if self._keyed else None
        order = range(len(events)) if new is not None else _by_key(events, names)
        fired = NIL
        for k in order:
            slot, partition, code = events[k].item()
            name = names[k] if names is not None else b""
            content = state.contents.get(name)
            if content is None:
                content = state.contents[name] = Content(name, new[0] if new else [])
            if code == INSERT:
                assert new is not None  # noqa: S101 - only a tuple is inserted
                yield WindowEvent(BEFORE_INSERTION, event, at, content, new[1])
                content.stored[slot if self._program.holding else len(content.stored)] = new[1]
                yield WindowEvent(AFTER_INSERTION, event, at, content, new[1])
            elif code == EVICT:
                row = content.stored[slot]
                yield WindowEvent(BEFORE_EVICTION, event, at, content, row)
                del content.stored[slot]
                freed.append(slot)
                yield WindowEvent(AFTER_EVICTION, event, at, content, row)
            elif code == FULL:
                content.full = True
                yield WindowEvent(INITIAL_FULL, event, at, content)
            elif code == FIRE:
                yield WindowEvent(TRIGGER, event, at, content)
            elif code == CLEAR:
                yield from self._cleared(content, event, at, freed, flushed=fired == partition)
            fired = partition if code == FIRE else NIL
            if not content.needed:
                del state.contents[name]
        yield from (WindowEvent(EMPTY_FIRING, event, at) for kind in firings["kind"].tolist() if kind == EMPTY_FIRING)

    @property
    def _keyed(self) -> bool:
        return bool(self._program.partition_by)

    def _cleared(
        self, content: Content, event: int, at: int, freed: list[int], *, flushed: bool
    ) -> Iterator[WindowEvent]:
        """A tumbling window is emptied after it fired. In all other cases the partition is evicted with its record
        (V3).
        """
        if not (flushed and self._tumbling):
            yield WindowEvent(PARTITION_EVICTION, event, at, content)
            content.full = False
            content.memory.clear()
        if self._program.holding:
            freed.extend(content.stored)
        content.stored.clear()


def _by_key(events: np.ndarray, names: list[bytes] | None) -> list[int]:
    """The order of the events that a mark or the timer caused: first the events of evicted partitions, in their order,
    then the events of other partitions, partition after partition in order of their keys.
    """
    order = list(range(len(events)))
    fires = np.flatnonzero(np.isin(events["code"], (FIRE, EVICT)))
    if names is None or not len(fires):
        return order
    first = int(fires[0])
    return order[:first] + sorted(order[first:], key=lambda index: names[index])


def _counting(spec: Windowed) -> Aggregate:
    """An Aggregate with this window. A sliding one fires from the start, because the content in each event shows
    whether the window was full.
    """
    outputs = (Output("", (("n", AggregateCall("Count", (), INT64)),)),)
    return Aggregate(
        spec.name, spec.input, spec.window, outputs, spec.partition_by,
        aggregate_incomplete_windows=spec.window.sliding, limits=spec.limits,
    )  # fmt: skip
