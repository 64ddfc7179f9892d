"""The Aggregate operator over windows of processing time.

A batch of tuples passes through three steps: the tuples get partitions, groups and slots; a kernel applies the window
policies and writes window events; a second kernel follows these events and computes the results of the firings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.key_bytes import partition_codes
from sluice.columns.saved_columns import Data
from sluice.columns.scratch_buffers import grown
from sluice.engine.contents import multisets, window_inspection
from sluice.engine.contents.blocks import TAKEN
from sluice.engine.contents.fired_contents import CountedValues, FiredContents, FiringDetails
from sluice.engine.contents.firing_results import FREED, KINDS, Results, Rows, run_kernel
from sluice.engine.contents.summaries import NONE
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.aggregate.group_pairs import groups_of
from sluice.engine.operators.aggregate.resized_windows import places, resized
from sluice.engine.operators.aggregate.storage_strategy import strategy
from sluice.engine.operators.aggregate.window_outputs import AggregateOutputs, WindowOutputs
from sluice.engine.operators.compaction import compact
from sluice.engine.operators.one_input import BatchOperator, Handled
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import KEY_MARK, MAX_TIME, WINDOW, Items
from sluice.engine.windows import early_results, processing_time
from sluice.engine.windows.policies import NONE as NO_POLICY
from sluice.engine.windows.processing_time.window_records import HEAD, STORED, TAIL
from sluice.engine.windows.timers import WallClock, timer
from sluice.model.spec import Aggregate
from sluice.model.types import Schema
from sluice.model.unparse import expression
from sluice.time_units import SECOND, UNSET

#: the initial room for window events, per item
EVENTS_PER_ITEM = 4
#: the numbers of the marks for one key, where there are none
NO_MARKS = np.zeros(0, np.int64)


class AggregateOperator(BatchOperator[AggregateState]):
    """Runs one `Aggregate`, or the windows of another operator.

    Another operator passes an Aggregate as `spec` that lists what its windows keep, and a `make_outputs` that computes
    its outputs. Or it calls `arrive` and `window_events` instead of `feed`, and handles the window events itself.
    """

    spec: Aggregate

    def __init__(
        self, spec: Aggregate, schema: Schema, sources: int, *, by_slot: bool = False,
        make_outputs: Callable[[Program], WindowOutputs] | None = None,
    ) -> None:  # fmt: skip
        """`schema` belongs to the input; `sources` is the number of its topic partitions. `by_slot`: eviction events
        name the slot of the tuple. `make_outputs` makes the object that computes the outputs; None: the results of an
        Aggregate.
        """
        super().__init__()
        self.spec = spec
        self.program = Program.of(spec, schema, by_slot=by_slot)
        self.reads = self.program.reads
        self._make_outputs = (
            AggregateOutputs(self.program, spec.name) if make_outputs is None else make_outputs(self.program)
        )
        self._sources, self._emits_rest = sources, spec.emit_rest
        self.timer = timer(spec.window)

    @property
    def holding(self) -> bool:
        """Whether tuples are stored after their batch."""
        return self.program.holding

    def initial(self) -> AggregateState:
        return AggregateState(self.program, self._sources)

    def load(self, data: Data) -> AggregateState:
        return self.initial().read(data)

    def feed(self, state: AggregateState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        if self.timer is not None and state.scalars[processing_time.TICK] == UNSET:
            state.scalars[processing_time.TICK] = self.timer.after(clock.start)
        return super().feed(state, inputs, clock)

    def _handle(
        self, state: AggregateState, items: Items, values: pa.RecordBatch, end: int, last: tuple[int, int] | None
    ) -> Handled:
        rest = last if self._emits_rest else None
        rows, firings = self.run_windows(state, self.arrive(state, items, values), end, rest)
        outputs, unmade = self._make_outputs.outputs(rows, firings, state.keys)
        compact(state, self.program)
        return outputs, [*unmade]

    def due(self, state: AggregateState) -> int:
        """When the timer ticks next or the next early result is due; MAX_TIME if neither happens, and after the final
        mark.
        """
        if state.finished:
            return MAX_TIME
        tick = MAX_TIME if self.timer is None else int(state.scalars[processing_time.TICK])
        early = early_results.next_due(state.earlies, state.early_queue)
        return min(tick, early, early_results.next_due(state.waits, state.wait_queue))

    def inspect(self, state: AggregateState, key: str | None) -> list[InspectedWindow]:
        """The window of this key, if it holds tuples; without `partition_by` the only window.

        `now` has the outputs that the window would make if it fired now.
        """
        program = self.program
        p = window_inspection.code_of(state.keys, key) if program.partition_by else 0
        if not 0 <= p < len(state.partitions) or not state.partitions["size"][p]:
            return []
        partition = state.partitions[p]
        events, firings = np.zeros(1, processing_time.EVENT), np.zeros(1, processing_time.FIRING)
        events["code"], events["partition"] = processing_time.FIRE, p
        firings["partition"], firings["kind"], firings["stored"] = p, WINDOW, partition["size"]
        firings["reason"] = NO_POLICY
        run, kernel = strategy(self.program, state, np.zeros(0, np.int64))
        contents = self._found(state, firings, run_kernel(run, kernel, events, self._room(state, 0)))
        names = [expression(e) for e in program.reads[: len(program.columns.types)]]
        outputs, _ = self._make_outputs.outputs(self._make_outputs.rows(contents), firings, state.keys)
        outputs_now = {stream: items.tuples for stream, items in outputs.items()}
        policy: dict[str, Any] = (
            {"since_trigger": int(partition["counter"]), "full": bool(partition["full"])}
            if program.clause.sliding
            else {}
        )
        held = window_inspection.tuples(names, program.columns, self._stored_words(state, p, contents), state.strings)
        policy |= self._times(state, p)
        return [InspectedWindow(self.spec.name, int(partition["size"]), held, policy=policy, now=outputs_now)]

    def _times(self, state: AggregateState, p: int) -> dict[str, float]:
        """In seconds since 1970: `due`, when the timer or the wait of partition `p` is due; `early_due`, when its early
        result is due; and under time eviction `oldest_at`, when its oldest tuple was inserted.
        """
        times = early_results.shown_due(state.earlies, p)
        tick = MAX_TIME if self.timer is None else int(state.scalars[processing_time.TICK])
        due = min([tick if tick != UNSET else MAX_TIME, *state.waits[p : p + 1]["due"].tolist()])
        if due != MAX_TIME and not state.finished:
            times["due"] = due / SECOND
        if state.queued:
            head, tail = state.scalars[HEAD], state.scalars[TAIL]
            queue = state.queue[np.arange(head, tail) & (len(state.queue) - 1)]
            queued = queue["at"][queue["partition"] == p]
            gone = int(state.gone["tuples"][p]) if len(state.gone) else 0
            if len(queued) > gone:
                times["oldest_at"] = int(queued[gone]) / SECOND
        return times

    def _stored_words(self, state: AggregateState, p: int, contents: FiredContents) -> np.ndarray:
        """The words of the stored tuples of partition `p`, oldest first."""
        return state.tuples.take(places(state, p), axis=0) if self.program.clause.sliding else contents.listed

    # ---- input ------------------------------------------------------------------------------------------------------

    def arrive(self, state: AggregateState, items: Items, values: pa.RecordBatch) -> np.ndarray:
        """Assigns each tuple its partition (W3), its group and a slot, and stores its words. Gives the arrivals.

        `values` has the columns of the program's `reads`. Where tuples are not addressed by slot after their batch, the
        slot is the tuple's number in the batch.
        """
        program, count = self.program, values.num_rows
        partition = partition_codes(values, program.partition_by, state.keys)
        marked = np.flatnonzero(items.kind == KEY_MARK) if program.clause.marked and program.partition_by else NO_MARKS
        closed = state.keys.intern_arrow(items.keys.take(pa.array(items.key[marked]))) if len(marked) else NO_MARKS
        slot = self.admit(state, partition, groups_of(state, program.group_by, values, partition))
        rows = slot if program.by_slot else slice(count)
        program.columns.write(state.words, rows, values.columns[: len(program.columns.types)], state.strings)
        if program.arrival != NONE:
            state.words[rows, program.arrival] = state.scalars[processing_time.NUMBER] + 1 + np.arange(count)
        arrivals = processing_time.arrivals(items, partition, slot, self._scratch)
        arrivals["partition"][marked] = closed
        return arrivals

    def admit(self, state: AggregateState, partition: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Makes room for tuples of these partitions and groups, and gives their slots."""
        state.reserve_partitions(max(1, state.keys.count))
        state.reserve_groups(max(1, state.keys.count, state.pairs.count))
        slot = self._slots(state, len(partition))
        if self.program.group_by:
            state.group_of[slot if self.program.by_slot else slice(len(partition))] = group
        return slot

    def resized(self, state: AggregateState, now: int) -> AggregateState:
        """The state with the tuples of the same operator with a sliding count window of another size."""
        return resized(self, state, now)

    def _slots(self, state: AggregateState, count: int) -> np.ndarray:
        """Slots for the tuples of a batch.

        A tuple that leaves during this batch stays readable: its slot is reused from the next batch on.
        """
        state.reserve_queue(count)
        if self.program.by_slot:
            slots, state.top = state.free.take(count, state.top)
            state.reserve_slots(state.top)
            return slots
        if not self.program.holding:
            state.reserve_slots(count)
        state.reserve_words(count)
        return np.arange(count)

    # ---- windows ----------------------------------------------------------------------------------------------------

    def run_windows(
        self, state: AggregateState, arrivals: np.ndarray, end: int, rest: tuple[int, int] | None = None
    ) -> tuple[Rows, np.ndarray]:
        """Runs the windows over the arrivals. Gives the output rows of the firings, and the firings. `rest`: the
        (event, time) of the final mark that flushes what the windows then hold.
        """
        state.counted.reserve(max(1, state.keys.count, state.pairs.count), len(arrivals))
        blocks = state.free.next(len(arrivals) if self.program.packed else 0, state.top)
        state.reserve_slots(state.top + len(blocks))
        (run, kernel), results = strategy(self.program, state, blocks), self._room(state, len(arrivals))
        parts: list[Rows] = []
        for events, firings in self.window_events(state, arrivals, end, rest):
            take = partial(self._take, parts, state, firings)
            results = run_kernel(run, kernel, events, results, take, self.program.limits.listed)
        take(results)
        state.top = state.free.taken(int(state.used[TAKEN]), state.top)
        state.used[TAKEN] = 0
        if self.program.holding:
            state.free.give(results.freed[: results.used[FREED]])
        return Rows.joined(parts), firings

    def _take(self, parts: list[Rows], state: AggregateState, firings: np.ndarray, results: Results) -> None:
        """Computes the output rows of `results` and appends them to `parts`."""
        parts.append(self._make_outputs.rows(self._found(state, firings, results)))

    def window_events(
        self, state: AggregateState, arrivals: np.ndarray, end: int, rest: tuple[int, int] | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the window events of the arrivals, of the timers due by `end` and of the `rest`, in parts, and the
        firings so far.

        The events of a part are valid until the next part is requested.
        """
        room = min(EVENTS_PER_ITEM * len(arrivals) + 64, self.program.limits.events)
        events = self._scratch.room(room, processing_time.EVENT)
        firings = self._scratch.room(len(arrivals) + len(events), processing_time.FIRING)
        used = np.zeros(2, np.int64)
        first, instants = 0, self.instants(state, max([end, *arrivals["at"][-1:].tolist()]))
        while True:
            window = processing_time.window_of(
                self.program.clause, state, state.sources, events, firings, used, instants
            )
            first = processing_time.run(window, arrivals, end, first)
            yield events[: used[0]], firings[: used[1]]
            if first > len(arrivals):
                break
            if used[0] < len(events) // 2:  # the next item may need more room than there is
                events = np.empty(2 * len(events), processing_time.EVENT)
            firing_count = int(used[1])
            # at most one firing for each event or item
            firings = grown(firings, firing_count, firing_count + len(events))
            used[0] = 0
        if rest is not None:
            yield self._rest_events(state, rest, firings[: used[1]])

    def _rest_events(
        self, state: AggregateState, rest: tuple[int, int], firings: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The events and the firings of a final mark that flushes all partitions, behind the firings before it."""
        event, at = rest
        stored, firing_count = int(state.scalars[STORED]), len(firings)
        events = np.empty(2 * stored, processing_time.EVENT)
        firings = grown(firings, firing_count, firing_count + stored)
        used = np.array([0, firing_count])
        window = processing_time.window_of(self.program.clause, state, state.sources, events, firings, used)
        processing_time.flush_rest(window, at, event)
        return events[: used[0]], firings[: used[1]]

    def _found(self, state: AggregateState, firings: np.ndarray, results: Results) -> FiredContents:
        rows, listed, _, pairs = results.used
        words = state.tuples.take(results.tuples[:listed], axis=0)
        return FiredContents(
            results.size[:rows], results.firing[:rows], firings["stored"], bool(self.program.group_by),
            results.summary[:rows], words, state.strings, FiringDetails(firings, results.firing[:rows]),
            counted=CountedValues(results.counts[:rows], results.pairs[:pairs], self.program.series["rounded"]),
        )  # fmt: skip

    def instants(self, state: AggregateState, end: int) -> np.ndarray:
        """The times until `end` at which a wall-clock timer is due, and the first one after that.

        For other timers PERIODIC: the kernel adds up periods.
        """
        if not isinstance(self.timer, WallClock):
            return processing_time.PERIODIC
        state.scalars[processing_time.INSTANT] = 0
        return self.timer.through(int(state.scalars[processing_time.TICK]), end)

    def _room(self, state: AggregateState, arrivals: int) -> Results:
        """Results with the initial room for this number of arrivals."""
        program, rows = self.program, arrivals + 1
        return Results(
            np.empty(rows, np.int64), np.empty(rows, np.int64),
            np.empty((rows, program.summary + len(program.edges)), np.int64),
            np.empty(rows if program.listing else 0, np.int64),
            np.empty(state.top + arrivals, np.int32), np.zeros(KINDS, np.int64), np.zeros(KINDS, np.int64),
            np.zeros((rows, 2 * len(state.counted.series)), np.int64), np.zeros(0, multisets.PAIR),
        )  # fmt: skip
