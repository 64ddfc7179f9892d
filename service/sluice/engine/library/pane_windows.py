"""The events of windows over event time, one item at a time: of timeInterval panes, and of slidingTime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.saved_columns import Data, Saved
from sluice.columns.state_tables import PartOfKey
from sluice.engine.library.window_events import (
    AFTER_EVICTION,
    AFTER_INSERTION,
    BEFORE_EVICTION,
    BEFORE_INSERTION,
    INITIAL_FULL,
    LATE,
    PANE_CLOSE,
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
from sluice.engine.operators.aggregate.event_time_aggregate import EventAggregateOperator
from sluice.engine.operators.aggregate.event_time_compaction import compact
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.stream.items import TIMER, TUPLE, WATERMARK, Items
from sluice.engine.windows.event_time import panes
from sluice.engine.windows.event_time.event_records import EMPTY, FIRE, FORGET, INSERT
from sluice.model.expressions import AggregateCall, Expression
from sluice.model.spec import Aggregate, EventTime, Output, Windowed
from sluice.model.types import INT64, Schema

#: what identifies a window: the end of a pane, or, for slidingTime, the topic partition whose stream time counts; and
#: the key's bytes
WindowKey = tuple[int, bytes]


class PaneState(LibraryState):
    """The state of the windows. `contents` has the content of each window by its key; `inserted` counts
    inserted tuples.
    """

    windows: EventState
    contents: dict[WindowKey, Content]

    def __init__(self, windows: EventState, contents: dict[WindowKey, Content], inserted: int) -> None:
        self.windows, self.contents, self.inserted = windows, contents, inserted

    def save(self) -> Saved:
        return packed(
            self.windows.save(), saved(((window[0], self.inserted), c) for window, c in self.contents.items())
        )

    def split(self, parts: int, part_of_key: PartOfKey) -> list[PaneState]:
        states = [PaneState(windows, {}, self.inserted) for windows in self.windows.split(parts, part_of_key)]
        for window, content in self.contents.items():
            part = part_of_key(window[1]) if self.windows.keyed else 0
            states[part].contents[window] = content
        return states

    def merge(self, others: Sequence[PaneState]) -> PaneState:
        windows = self.windows.merge([other.windows for other in others])
        contents = {window: content for state in (self, *others) for window, content in state.contents.items()}
        return PaneState(windows, contents, max(state.inserted for state in (self, *others)))


class PaneLibrary:
    """Produces the window events of an operator, whatever the operator does with them."""

    def __init__(self, spec: Windowed, schema: Schema, event_time: EventTime, sources: int) -> None:
        """`schema` and `event_time` are those of the input, `sources` the number of its topic partitions."""
        outputs = (Output("", (("n", AggregateCall("Count", (), INT64)),)),)
        empty = spec.empty_panes if isinstance(spec, Aggregate) else None
        counting = Aggregate(
            spec.name, spec.input, spec.window, outputs, spec.partition_by, limits=spec.limits,
            empty_panes=None if empty is None else replace(empty, previous=()),
        )  # fmt: skip
        self._windows = EventAggregateOperator(counting, schema, event_time, sources)
        self._ticks, self._when, self._program = self._windows.ticks, self._windows.when, self._windows.program
        self._of_keys = event_time.per_key is not None

    def started(self) -> PaneState:
        return PaneState(self._windows.initial(), {}, 0)

    def resumed(self, data: Data) -> PaneState:
        windows, contents = unpacked(data)
        entries = restored(contents)
        inserted = max((inserted for (_, inserted), _ in entries), default=0)
        return PaneState(self._windows.load(windows), {(window, c.name): c for (window, _), c in entries}, inserted)

    def due(self, state: PaneState) -> int:
        """When the next key is idle or forgotten (KT3). Else never: only watermarks and tuples advance event time."""
        return self._windows.due(state.windows)

    @property
    def reads(self) -> tuple[Expression, ...]:
        """The expressions whose values `events` needs."""
        return self._program.reads

    def events(
        self, state: PaneState, items: Items, values: pa.RecordBatch, rows: list[Row], start: int, end: int
    ) -> Iterator[WindowEvent]:
        """The events of these items, which have no final mark. `values` are those of `reads`, `rows` has the tuples.
        The operator clock, which is at `end` then, closes the panes of keys alone (KT3).
        """
        times, bad = self._ticks.of(items.tuples)
        arrivals = self._windows.arrive(
            state.windows, items, values, np.where(bad, 0, times) if bad is not None else times, {}
        )
        keys = [values_of(values.column(i)) for i in self._program.partition_by]
        row = 0
        for i, (kind, event, at) in enumerate(
            zip(items.kind.tolist(), items.event.tolist(), items.at.tolist(), strict=True)
        ):
            yield from self._passed(state, arrivals[:0], at)
            if kind == TUPLE:
                new = ([column[row] for column in keys], rows[row])
                if bad is None or not bad[row]:
                    yield from self._inserted(state, arrivals[i : i + 1], event, at, new)
                else:
                    why = self._ticks.refusal("window")
                    yield WindowEvent(LATE, event, at, row=new[1], reason=why)
                row += 1
            elif kind == WATERMARK:
                yield from self._advanced(state, arrivals[i : i + 1], event, at)
                yield WindowEvent(WATERMARK, event, at, watermark=int(items.watermark[i]))
        yield from self._passed(state, arrivals[:0], end)
        compact(state.windows)

    # ---- the clock --------------------------------------------------------------------------------------------------

    def _passed(self, state: PaneState, nothing: np.ndarray, now: int) -> Iterator[WindowEvent]:
        """The events of the panes of keys that are idle or forgotten by `now` (inclusive). `nothing`: no arrivals."""
        while self._of_keys and (due := self._windows.due(state.windows)) <= now:
            events, firings, _ = self._windows.window_events(state.windows, nothing, due)
            yield from self._of_all_keys(state, events, firings, TIMER, due)

    def _of_all_keys(
        self, state: PaneState, events: np.ndarray, firings: np.ndarray, event: int, at: int
    ) -> Iterator[WindowEvent]:
        for k in self._in_order(state, events, firings):
            yield from self._of_key(state, events[k], firings, event, at)

    # ---- a tuple ----------------------------------------------------------------------------------------------------

    def _inserted(
        self, state: PaneState, arrival: np.ndarray, event: int, at: int, new: tuple[list[Any], Row]
    ) -> Iterator[WindowEvent]:
        """The events of a tuple. It is inserted; for slidingTime, where tuples advance time, windows fire (E1, E2) and
        tuples leave.
        """
        events, firings, late = self._windows.window_events(state.windows, arrival, at)
        for behind in late["behind"].tolist():
            why = self._windows.reason(int(arrival["time"][0]), behind)
            yield WindowEvent(LATE, event, at, row=new[1], reason=why)
        for k in self._in_order(state, events, firings):
            begin, last, slot, partition, code, *_ = events[k].item()
            if code == INSERT and isinstance(self._when, panes.Grid):
                yield from self._into_panes(state, partition, begin, event, at, new)
            elif isinstance(self._when, panes.Grid):
                yield from self._of_key(state, events[k], firings, event, at)
            elif code == FIRE:
                yield WindowEvent(TRIGGER, event, at, self._at(state, partition, begin, last, firings[slot]))
            elif code == FORGET:
                yield from self._evicted_up_to(state, partition, last, event, at)
            else:
                content = self._content(state, self._window_key(state, partition), new[0])
                yield from self._into(state, content, begin, event, at, new[1])

    def _of_key(
        self, state: PaneState, record: np.void, firings: np.ndarray, event: int, at: int
    ) -> Iterator[WindowEvent]:
        """A pane of a key with a time of its own fires, or closes (KT2, KT3)."""
        grid, (_, name) = self._when, self._window_key(state, int(record["partition"]))
        assert isinstance(grid, panes.Grid)  # noqa: S101 - the caller has checked
        if record["code"] == FIRE:
            firing = firings[record["slot"]]
            window = int(firing["end"]), name
            self._empty(state, {window: firing})
            content = state.contents[window]
            if not content.full:
                content.full = True
                yield WindowEvent(INITIAL_FULL, event, at, content)
            content.index = 0 if content.index is None else content.index + 1
            yield WindowEvent(TRIGGER, event, at, content)
            return
        last = panes.last_end(grid, int(record["begin"]), panes.phase_of(grid, int(record["begin"])))
        for window in sorted(w for w in state.contents if w[1] == name and w[0] <= last):
            yield WindowEvent(PANE_CLOSE, event, at, state.contents.pop(window))

    def _in_order(self, state: PaneState, events: np.ndarray, firings: np.ndarray) -> list[int]:
        """The order of the kernel's events: insertions, then firings by group and key, then removals."""

        def window(k: int) -> tuple[int, int, WindowKey]:
            code, partition = int(events["code"][k]), int(events["partition"][k])
            group = int(firings["group"][events["slot"][k]]) if code == FIRE else 0
            return code, group, self._window_key(state, partition)

        return sorted(range(len(events)), key=window) if len(events) > 1 else list(range(len(events)))

    def _into_panes(
        self, state: PaneState, partition: int, begin: int, event: int, at: int, new: tuple[list[Any], Row]
    ) -> Iterator[WindowEvent]:
        """Inserts the tuple into every pane that contains the slice that starts at `begin` (E11)."""
        grid = self._when
        assert isinstance(grid, panes.Grid)  # noqa: S101 - the caller has checked
        _, name = self._window_key(state, partition)
        phase = panes.phase_of(grid, begin)
        for end in range(panes.first_end(grid, begin, phase), panes.last_end(grid, begin, phase) + 1, grid.period):
            content = self._content(state, (end, name), new[0])
            content.start, content.end = self._units(panes.start_of(grid, end)), self._units(end)
            yield from self._into(state, content, 0, event, at, new[1])

    def _into(
        self, state: PaneState, content: Content, time: int, event: int, at: int, row: Row
    ) -> Iterator[WindowEvent]:
        yield WindowEvent(BEFORE_INSERTION, event, at, content, row)
        state.inserted += 1
        content.stored[state.inserted] = row
        content.times[state.inserted] = time
        yield WindowEvent(AFTER_INSERTION, event, at, content, row)

    def _content(self, state: PaneState, window: WindowKey, key: list[Any]) -> Content:
        return state.contents.setdefault(window, Content(window[1], key))

    def _window_key(self, state: PaneState, partition: int) -> WindowKey:
        """The key in `contents` of a partition of the kernel."""
        record = state.windows.partitions[partition]
        name = state.windows.keys.take(record["key"].reshape(1).astype(np.int64))[0].as_py() if self._keyed else b""
        return int(record["source"]), name

    @property
    def _keyed(self) -> bool:
        return bool(self._program.partition_by)

    def _units(self, ticks: int) -> int:
        return int(self._ticks.to_units(np.array([ticks]))[0])

    # ---- timeInterval: a watermark ----------------------------------------------------------------------------------

    def _advanced(self, state: PaneState, arrival: np.ndarray, event: int, at: int) -> Iterator[WindowEvent]:
        """The events of a watermark."""
        before, now = int(state.windows.clocks[0]), int(arrival["time"][0])
        events, firings, _ = self._windows.window_events(state.windows, arrival, at)
        if not isinstance(self._when, panes.Grid):
            yield from self._closed(state, events, firings, event, at)
        elif self._of_keys:  # KT5
            yield from self._of_all_keys(state, events, firings, event, at)
        elif now > before:  # E22
            yield from self._completed(state, firings, (before, now), event, at)

    def _completed(
        self, state: PaneState, firings: np.ndarray, watermarks: tuple[int, int], event: int, at: int
    ) -> Iterator[WindowEvent]:
        """Each pane becomes complete, fires and is closed (E23), in order of ends, then of keys. `watermarks`: the one
        before, and the new one.
        """
        before, now = watermarks
        fired = {(int(f["end"]), self._name(state, int(f["partition"]))): f for f in firings if f["kind"] != WATERMARK}
        self._empty(state, fired)
        for end in sorted({end for end, _ in state.contents if end <= now}):
            pane = sorted(((p, c) for p, c in state.contents.items() if p[0] == end), key=lambda entry: entry[0])
            indices = [fired[window]["index"] for window, _ in pane if window in fired]
            if end > before or 0 in indices:  # E30: also a pane created late
                for _, content in pane:
                    content.full = True
                    yield WindowEvent(INITIAL_FULL, event, at, content)
            for window, content in pane:
                if window in fired:
                    content.full, content.index = True, max(int(fired[window]["index"]), 0)
                    yield WindowEvent(TRIGGER, event, at, content)
            if end <= self._windows.late_before(state.windows):
                for window, content in pane:
                    yield WindowEvent(PANE_CLOSE, event, at, content)
                    del state.contents[window]

    def _empty(self, state: PaneState, fired: Mapping[WindowKey, np.void]) -> None:
        """Adds contents without tuples for empty panes that come out (EP1)."""
        for window, firing in fired.items():
            if firing["index"] == EMPTY:
                content = self._content(state, window, [])
                content.start, content.end = self._units(int(firing["start"])), self._units(window[0])

    def _name(self, state: PaneState, key: int) -> bytes:
        return state.windows.keys.take(np.array([key]))[0].as_py() if self._keyed else b""

    # ---- slidingTime ------------------------------------------------------------------------------------------------

    def _at(self, state: PaneState, partition: int, begin: int, last: int, firing: np.ndarray) -> Content:
        """The content of a slidingTime window that closes or changes."""
        content = state.contents[self._window_key(state, partition)]
        stored = {number: row for number, row in content.stored.items() if begin <= content.times[number] <= last}
        start, end = self._units(int(firing["start"])), self._units(int(firing["end"]))
        return replace(content, stored=stored, start=start, end=end, full=True)

    def _closed(
        self, state: PaneState, events: np.ndarray, firings: np.ndarray, event: int, at: int
    ) -> Iterator[WindowEvent]:
        """The events of slidingTime windows that a watermark closes, if it advances stream time."""
        for k in self._in_order(state, events, firings):
            begin, last, slot, partition, code, *_ = events[k].item()
            if code == FIRE:
                yield WindowEvent(TRIGGER, event, at, self._at(state, partition, begin, last, firings[slot]))
            else:
                yield from self._evicted_up_to(state, partition, last, event, at)

    def _evicted_up_to(self, state: PaneState, partition: int, last: int, event: int, at: int) -> Iterator[WindowEvent]:
        """The evictions of the tuples up to `last`, inclusive, which no open window can contain any more."""
        window = self._window_key(state, partition)
        content = state.contents.get(window)
        if content is None:
            return
        for number in [number for number, time in content.times.items() if time <= last]:
            row = content.stored[number]
            yield WindowEvent(BEFORE_EVICTION, event, at, content, row)
            del content.stored[number], content.times[number]
            yield WindowEvent(AFTER_EVICTION, event, at, content, row)
        if not content.needed:
            del state.contents[window]
