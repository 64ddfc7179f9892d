"""The Join operator over event time: interval joins and as-of joins.

A batch of both inputs is merged in order of arrival. A kernel finds candidate pairs and tuples that leave, and writes
them to a log as slots. The condition `match` is evaluated for all candidates at once. The entries of the log that hold
become the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Data
from sluice.columns.scratch_buffers import grown
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.event_join import as_of_kernel, event_join_outputs, interval_kernel
from sluice.engine.operators.event_join.event_join_outputs import Port, pair_items
from sluice.engine.operators.event_join.event_join_records import (
    ARRIVAL,
    KINDS,
    LATE_ARRIVAL,
    LEFT,
    LEFT_FINAL,
    LEFT_FREED,
    LEFT_REACHED,
    LIVE,
    LOGGED,
    RIGHT,
    TOO_LATE,
    JoinSettings,
    JoinTables,
    TimedSide,
)
from sluice.engine.operators.event_join.event_join_state import EventJoinState
from sluice.engine.operators.join import join_kernel
from sluice.engine.operators.join.join_input import JoinInput, of_interest, place, until_finished
from sluice.engine.operators.join.join_outputs import PairExpressions, PairItems, StoredPairs
from sluice.engine.operators.join.join_state import SIDES
from sluice.engine.operators.one_input import with_times
from sluice.engine.operators.operator import Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.event_times import units
from sluice.engine.stream.items import FINAL, MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import joined, readable, rejected_late
from sluice.engine.windows.event_time.event_records import ENDLESS, LATE, NEVER
from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.model.spec import EventTime, Join
from sluice.model.types import Schema
from sluice.model.unparse import seconds
from sluice.model.windows.join_windows import AsOf, Interval
from sluice.time_units import SECOND

Run = Callable[[JoinTables, JoinSettings, np.ndarray, int], int]


class TimesInNanoseconds(Ticks):
    """The event times of one side, in nanoseconds since 1970 whatever the unit of the attribute."""

    def __init__(self, event_time: EventTime, schema: Schema, sizes: Sequence[int]) -> None:
        """`sizes` are the sizes of the window. All sums of times and sizes stay within int64."""
        self.attribute, self._tick = event_time.attribute, event_time.tick
        self.type = dict(schema)[event_time.attribute]
        self.most = MAX_TIME - 4 * (sum(map(abs, sizes)) + 1)

    def of(self, tuples: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
        times, bad = units(tuples.column(self.attribute), self.type)
        most = self.most // self._tick
        outside = (times > most) | (times < -most)
        if bad is not None:
            outside |= bad
        return np.where(outside, 0, times) * self._tick, outside if outside.any() else None

    def refusal(self, counter: str) -> str:
        return f"{self.attribute} is no event time that a {counter} can count"


class EventJoinOperator(Stateful[EventJoinState]):
    """Runs one `Join` with a window over event time. All data is in the state, which `feed` changes in place."""

    def __init__(self, spec: Join, schemas: tuple[Schema, Schema], event_times: tuple[EventTime, EventTime]) -> None:
        """`schemas` and `event_times` are those of the inputs, left first."""
        window = spec.window
        assert window is not None  # noqa: S101 - the graph chooses the operator
        self.spec, self._window = spec, window
        self._ports = (JoinInput.of(spec, LEFT, schemas[LEFT]), JoinInput.of(spec, RIGHT, schemas[RIGHT]))
        pairs = zip(event_times, schemas, strict=True)
        self._times = tuple(TimesInNanoseconds(event_time, schema, window.sizes) for event_time, schema in pairs)
        self._expressions = PairExpressions(spec, self._ports)
        self._apart = [side.unmatched is not None for side in (spec.left, spec.right)]
        self._run, self._rule = _kernel(window)
        #: scratch memory for the log
        self._log = event_join_outputs.empty_log(0)

    def initial(self) -> EventJoinState:
        state = self._empty()
        for port, words in zip(self._ports, state.words, strict=True):
            port.store_default(words, state.strings)
        return state

    def _empty(self) -> EventJoinState:
        left, right = self._ports
        return EventJoinState((left.columns, right.columns), self.spec.limits)

    def load(self, data: Data) -> EventJoinState:
        return self._empty().read(data)

    def feed(self, state: EventJoinState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The outputs of these items by output stream, and the rejected tuples under REJECTS. The clock plays no part.

        After the final marks of both inputs there are no outputs; tuples that still wait are not emitted (I8).
        """
        del clock
        if state.finished:
            return {}
        ports = [self._arrive(state, number, items) for number, items in enumerate(inputs)]
        arrivals = np.empty(sum(len(arrived) for arrived, _, _ in ports), ARRIVAL)
        self_join = self.spec.left.stream == self.spec.right.stream
        join_kernel.merge(ports[LEFT][0], ports[RIGHT][0], self_join, arrivals)
        running = [number for number in (LEFT, RIGHT) if not state.scalars[LEFT_FINAL + number]]
        arrivals = self._with_watermarks(state, until_finished(arrivals, running))
        state.reserve_keys()
        pairs, late = self._handle(state, arrivals)
        outputs, unmade = self._expressions.outputs(_stored(state), pairs)
        dropped = [self._late(number, items, arrivals, late) for number, (_, items, _) in enumerate(ports)]
        if state.compactable:
            state.compact_all()
        if state.finished:
            last = arrivals[arrivals["kind"] == FINAL][-1]
            event, at = int(last["event"]), int(last["at"])
            outputs = {stream: emit.final(items, event, at) for stream, items in outputs.items()}
        return outputs | joined([*(reject for _, _, rejects in ports for reject in rejects), *dropped, *unmade])

    def due(self, state: EventJoinState) -> int:
        """Never: the clock alone causes no output."""
        del state
        return MAX_TIME

    def inspect(self, state: EventJoinState, key: str | None) -> list[InspectedWindow]:
        """The stored tuples of each side with this key, in order of event time, and how many there are at each time;
        without equalities all of them.
        """
        p = window_inspection.code_of(state.keys, key) if self._ports[LEFT].equality else 0
        windows = []
        for name, port, words in zip(SIDES, self._ports, state.words, strict=True):
            lists, nodes = getattr(state, f"{name}_lists"), getattr(state, f"{name}_nodes")
            if 0 <= p < len(lists) and lists["size"][p]:
                slots = window_inspection.chained(lists[p], nodes)
                held = window_inspection.tuples(port.names, port.columns, words[slots], state.strings)
                times, counts = np.unique(nodes["time"][slots], return_counts=True)
                at = [{"time": int(time) / SECOND, "tuples": int(n)} for time, n in zip(times, counts, strict=True)]
                windows.append(InspectedWindow(self.spec.name, len(slots), held, name, {"at": at}))
        return windows

    # ---- input ------------------------------------------------------------------------------------------------------

    def _arrive(self, state: EventJoinState, number: int, items: Items) -> tuple[np.ndarray, Items, list[Items | None]]:
        """Gives each tuple of a port a slot, and stores its words; `number` is LEFT or RIGHT.

        Returns the arrivals up to the port's final mark and all watermarks, the items that they are, and the rejected
        tuples: tuples without a time (I3), and tuples for which a key has no value.
        """
        port, name = self._ports[number], self.spec.name
        items = of_interest(items, final=bool(state.scalars[LEFT_FINAL + number]))
        items, values, unread = readable(items, port.reads, name)
        items, values, times, untimed = with_times(self._times[number], "join", items, values, name)
        is_tuple = items.kind == TUPLE
        arrivals = np.zeros(len(items), ARRIVAL)
        slots = state.slots(number, len(times))
        port.store(state.words[number], slots, values, state.strings)
        for field in ("at", "event", "kind", "watermark"):
            arrivals[field] = getattr(items, field)
        arrivals["port"], arrivals["place"], arrivals["item"] = number, place(items), np.arange(len(items))
        arrivals["slot"][is_tuple], arrivals["time"][is_tuple] = slots, times
        key, bucket = port.keys(values, state.keys)
        arrivals["key"][is_tuple] = key
        arrivals["lone"][is_tuple] = np.asarray(bucket) < 0
        return arrivals, items, [unread, untimed]

    def _with_watermarks(self, state: EventJoinState, arrivals: np.ndarray) -> np.ndarray:
        """Replaces the watermarks of both sides by those of the join, which are the minimum of both (I4). A watermark
        that does not raise the minimum is dropped.

        The `time` of a watermark is that of the join less the grace, before which tuples are late.
        """
        positions = np.flatnonzero(arrivals["kind"] == WATERMARK)
        if not len(positions):
            return arrivals
        marks = arrivals[positions]
        reached = []
        before = int(state.scalars[LEFT_REACHED:].min())
        for number in (LEFT, RIGHT):
            received = np.where(marks["port"] == number, marks["watermark"], NEVER)
            reached.append(np.maximum(np.maximum.accumulate(received), state.scalars[LEFT_REACHED + number]))
            state.scalars[LEFT_REACHED + number] = reached[-1][-1]
        least = np.minimum(*reached)
        most, grace = self._times[LEFT].most, self._window.grace
        clock = np.where(least == MAX_TIME, MAX_TIME, np.clip(least, -most, most) - grace)
        marks["time"], marks["watermark"] = clock, least
        arrivals[positions] = marks
        dropped = positions[least <= np.append(before, least[:-1])]
        return np.delete(arrivals, dropped) if len(dropped) else arrivals

    # ---- through ----------------------------------------------------------------------------------------------------

    def _handle(self, state: EventJoinState, arrivals: np.ndarray) -> tuple[list[PairItems], np.ndarray]:
        """Runs the kernel over the arrivals. Returns the outputs of the joint port, then those of each side's own port;
        and the late tuples.
        """
        stored = [len(state.left_nodes), len(state.right_nodes)]
        freed = [np.empty(count + len(arrivals), np.int64) for count in stored]
        left = TimedSide(state.left_lists, state.left_nodes, freed[LEFT], self.spec.left.outer, self._apart[LEFT])
        right = TimedSide(state.right_lists, state.right_nodes, freed[RIGHT], self.spec.right.outer, self._apart[RIGHT])
        late, used = np.empty(len(arrivals), LATE_ARRIVAL), np.zeros(KINDS, np.int64)
        log, pieces, first = grown(self._log, 0, len(arrivals) + 64), [], 0
        while True:
            tables = JoinTables(
                left, right, state.keys_due, state.agenda.matches, state.agenda.found, state.scalars, log, late, used
            )
            first = self._run(tables, self._rule, arrivals, first)
            pieces.append(self._written(state, tables, log[: used[LOGGED]], arrivals))
            if first == len(arrivals):
                break
            if not used[LOGGED] or len(log) < self.spec.limits.candidates:
                log = grown(log, 0, max(2 * len(log), int(state.scalars[LIVE]) + 1))
            used[LOGGED] = 0
        self._log = log
        for port, free in enumerate(state.free):
            free.give(freed[port][: used[LEFT_FREED + port]])
        outputs = [pair_items(list(port_pieces), state.keys) for port_pieces in zip(*pieces, strict=True)]
        return outputs, late[: used[TOO_LATE]]

    def _written(self, state: EventJoinState, w: JoinTables, log: np.ndarray, arrivals: np.ndarray) -> list[Port]:
        """The outputs that follow from the log: those of the joint port, then those of each side's own port."""
        if not self._ports[LEFT].equality:  # the only list has number 0, which is the code of no key
            log["key"] = NIL
        log = event_join_outputs.in_order(log, (w.left.nodes, w.right.nodes), arrivals, state.keys)
        holds = self._expressions.holds(_stored(state), log)
        return event_join_outputs.written(w.left, w.right, arrivals, log, holds)

    # ---- late tuples ------------------------------------------------------------------------------------------------

    def _late(self, number: int, items: Items, arrivals: np.ndarray, late: np.ndarray) -> Items | None:
        """The late tuples of a port as rejects, each with a reason that says how late it was; None if none is late."""
        of_port = late[arrivals["port"][late["arrival"]] == number]
        late_items = np.empty(len(of_port), LATE)
        late_items["item"], late_items["behind"] = arrivals["item"][of_port["arrival"]], of_port["behind"]
        name, less = self._times[number].attribute, " less grace" if self._window.grace else ""

        def reason(_: int, behind: int) -> str:
            return f"late: {name} is {seconds(behind)} s before the watermark of the join{less}"

        return rejected_late(items, self.spec.name, late_items, arrivals["time"][of_port["arrival"]], reason)


def _kernel(window: object) -> tuple[Run, JoinSettings]:
    """The kernel that runs the window, and the sizes that it reads."""
    match window:
        case Interval(before=before, after=after):
            return interval_kernel.run, JoinSettings(before, after, ENDLESS)
        case AsOf(age=age):
            return as_of_kernel.run, JoinSettings(0, 0, ENDLESS if age is None else age)
    raise AssertionError(window)


def _stored(state: EventJoinState) -> StoredPairs:
    return StoredPairs(state.words, state.strings)
