"""The Join operator: emits pairs of tuples from the windows of two streams.

A batch of both inputs is merged in order of time. A kernel finds the candidate pairs as pairs of slots, the condition
`match` is evaluated for all candidates at once, and a second kernel writes the matching pairs and the unmatched tuples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sluice.columns.key_bytes import partition_codes
from sluice.columns.saved_columns import Data
from sluice.columns.scratch_buffers import grown
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.join import join_kernel
from sluice.engine.operators.join.join_input import JoinInput, of_interest, place, until_finished
from sluice.engine.operators.join.join_kernel import FROZEN, LEFT, MATCH_STATE, REACHED, RIGHT
from sluice.engine.operators.join.join_outputs import JoinOutputs, PairExpressions, StoredPairs, empty_port
from sluice.engine.operators.join.join_state import SIDES, JoinState, SideState
from sluice.engine.operators.operator import Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import CLEAR, FINAL, MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import joined as together
from sluice.engine.stream.rejected_tuples import readable
from sluice.engine.windows import processing_time
from sluice.engine.windows.processing_time import LIVE, STORED
from sluice.model.spec import Join
from sluice.model.types import Schema
from sluice.time_units import UNSET


class JoinOperator(Stateful[JoinState]):
    """Runs one `Join`. All data is in the state, which `feed` changes in place."""

    def __init__(self, spec: Join, left: Schema, right: Schema, timed: tuple[bool, bool], *, spread: bool) -> None:
        """`left` and `right` are the schemas of the inputs; `timed` says which inputs have an event time.

        `spread`: the tuples may be spread over several buckets, so the outputs of one event or moment are in order of
        their keys. Otherwise they are in their order of arrival.
        """
        self.spec = spec
        self._timed = timed
        self._ports = (JoinInput.of(spec, LEFT, left), JoinInput.of(spec, RIGHT, right))
        self._columns = (self._ports[LEFT].columns, self._ports[RIGHT].columns)
        self._clauses = (self._ports[LEFT].clause, self._ports[RIGHT].clause)
        self._expressions = PairExpressions(spec, self._ports)
        self._in_key_order = spread
        #: the sides whose final marks end the join
        self._ending = (LEFT,) if spec.table else (LEFT, RIGHT)
        #: scratch memory for the log of candidates
        self._log = np.empty(0, join_kernel.ENTRY)

    def initial(self) -> JoinState:
        state = self._empty()
        for port, side in zip(self._ports, state.sides, strict=True):
            port.store_default(side.words, state.strings)
        return state

    def _empty(self) -> JoinState:
        return JoinState(self._columns, self._clauses, self.spec.limits)

    def load(self, data: Data) -> JoinState:
        return self._empty().read(data)

    def feed(self, state: JoinState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The outputs of these items and of the tuples that expire by `clock.end` (inclusive), by output stream.

        Rejected tuples are under REJECTS. After the final marks of both inputs there are no outputs; if the right input
        is a table, after that of the left input (M6).
        """
        if self._finished(state):
            return {}
        left, right = inputs
        of_left, left_unread = self._arrive(state, LEFT, left)
        of_right, right_unread = self._arrive(state, RIGHT, right)
        arrivals = np.empty(len(of_left) + len(of_right), MATCH_STATE)
        join_kernel.merge(of_left, of_right, self.spec.left.stream == self.spec.right.stream, arrivals)
        running = [number for number in self._ending if not state.sides[number].state[FROZEN]]
        arrivals = self._with_watermarks(state, until_finished(arrivals, running))
        state.reserve_keys()
        sides = [_side(port, side, len(arrivals)) for port, side in zip(self._ports, state.sides, strict=True)]
        pairs = self._run(state, sides[LEFT], sides[RIGHT], arrivals, clock.end)
        outputs, unmade = self._expressions.outputs(_stored(state), pairs)
        for side, kernel in zip(state.sides, sides, strict=True):
            side.leave(kernel.freed)
        state.clean()
        if self._finished(state):
            last = arrivals[arrivals["kind"] == FINAL][-1]
            outputs = {
                stream: emit.final(items, int(last["event"]), int(last["at"])) for stream, items in outputs.items()
            }
        return outputs | together([left_unread, right_unread, *unmade])

    def due(self, state: JoinState) -> int:
        """The next time at which a tuple of an outer side expires; MAX_TIME if none does.

        Tuples of other sides expire without an output. A side that got its final mark keeps its tuples.
        """
        sides = zip(self._ports, state.sides, strict=True)
        outer = [(port, side) for port, side in sides if port.spec.outer and not side.state[FROZEN]]
        return min((processing_time.leaves(port.clause, side) for port, side in outer), default=MAX_TIME)

    def inspect(self, state: JoinState, key: str | None) -> list[InspectedWindow]:
        """The stored tuples of each side with this key; without equalities all stored tuples."""
        p = window_inspection.code_of(state.keys, key) if self._ports[LEFT].equality else 0
        windows = []
        for name, port, side in zip(SIDES, self._ports, state.sides, strict=True):
            if 0 <= p < len(side.buckets) and side.buckets["count"][p]:
                slots = window_inspection.chained(side.buckets[p], side.stored_tuples)
                held = window_inspection.tuples(port.names, port.columns, side.words[slots], state.strings)
                windows.append(InspectedWindow(self.spec.name, len(slots), held, name))
        return windows

    def _finished(self, state: JoinState) -> bool:
        """Whether the final marks of the inputs that end the join were received (J18, M6)."""
        return all(state.sides[number].state[FROZEN] for number in self._ending)

    # ---- input ------------------------------------------------------------------------------------------------------

    def _arrive(self, state: JoinState, number: int, items: Items) -> tuple[np.ndarray, Items | None]:
        """Gives each tuple of a port a slot, and stores its words; `number` is LEFT or RIGHT.

        Gives the arrivals up to the port's final mark and all watermarks, with the codes of their keys, and the
        rejected tuples.
        """
        port, side = self._ports[number], state.sides[number]
        items = of_interest(items, final=bool(side.state[FROZEN]))
        if number not in self._ending:  # a final mark of a table has no effect (M6)
            items = items.only((items.kind == TUPLE) | (items.kind == CLEAR))
        items, values, unread = readable(items, port.reads, self.spec.name)
        is_tuple = items.kind == TUPLE
        arrivals = np.zeros(len(items), MATCH_STATE)
        arrivals["partition"][is_tuple] = partition_codes(values, port.partition_by, side.keys)
        slots = side.slots(values.num_rows)
        port.store(side.words, slots, values, state.strings)
        arrivals["at"], arrivals["event"], arrivals["kind"] = items.at, items.event, items.kind
        arrivals["port"], arrivals["place"], arrivals["watermark"] = number, place(items), items.watermark
        arrivals["slot"][is_tuple] = slots
        arrivals["key"][is_tuple], arrivals["bucket"][is_tuple] = port.keys(values, state.keys)
        if port.deletes is not None:
            arrivals["deletes"][is_tuple] = values.column(port.deletes).to_numpy(zero_copy_only=False)
        return arrivals, unread

    def _with_watermarks(self, state: JoinState, arrivals: np.ndarray) -> np.ndarray:
        """Replaces the watermarks of both sides by those of the join, which are the minimum of both.

        A watermark that does not raise the minimum is dropped (E4).
        """
        is_watermark = arrivals["kind"] == WATERMARK
        if not is_watermark.any():
            return arrivals
        least = np.full(len(arrivals), MAX_TIME)
        before = MAX_TIME
        for number, side in enumerate(state.sides):
            if self._timed[number]:
                received = np.where(is_watermark & (arrivals["port"] == number), arrivals["watermark"], UNSET)
                reached = np.maximum(np.maximum.accumulate(received), side.state[REACHED])
                least, before = np.minimum(least, reached), min(before, int(side.state[REACHED]))
                side.state[REACHED] = reached[-1]
        arrivals["watermark"] = least
        kept: np.ndarray = arrivals[~is_watermark | (least > np.append(before, least[:-1]))]
        return kept

    # ---- windows ----------------------------------------------------------------------------------------------------

    def _run(
        self, state: JoinState, left: join_kernel.Side, right: join_kernel.Side, arrivals: np.ndarray, end: int
    ) -> list[JoinOutputs]:
        """Runs both windows over the arrivals. Gives the outputs of the joint port, then those of each side's own port.

        A side's own port has its unmatched tuples if the pipeline file names a stream for them.
        """
        state.batch += 1
        room = len(arrivals) + int(left.window.scalars[LIVE] + right.window.scalars[LIVE])
        codes = np.empty(room, np.int64)
        names = join_kernel.KeyNumbers(state.names, codes, np.array([state.batch, 0]))
        log, used = grown(self._log, 0, max(2, min(2 * room, self.spec.limits.candidates))), np.zeros(1, np.int64)
        pieces: list[list[join_kernel.Port]] = [[], [], []]
        first = 0
        while first <= len(arrivals):
            first = join_kernel.probe(left, right, arrivals, end, first, log, used)
            entries, used[0] = log[: used[0]], 0
            joint, left_alone, right_alone = (empty_port(len(entries), marks) for marks in (len(entries), 0, 0))
            holds = self._expressions.holds(_stored(state), entries)
            join_kernel.emit_matches(left, right, arrivals, entries, holds, names, joint, left_alone, right_alone)
            for piece, port in zip(pieces, (joint, left_alone, right_alone), strict=True):
                piece.append(port)
            if first <= len(arrivals) and (not len(entries) or len(log) < self.spec.limits.candidates):
                log = grown(log, 0, 2 * len(log))
        self._log = log
        keys = state.keys.take(codes[: names.used[1]])
        watermarks = arrivals["watermark"][arrivals["kind"] == WATERMARK]
        return [JoinOutputs.of(piece, keys, watermarks, in_key_order=self._in_key_order) for piece in pieces]


def _side(port: JoinInput, state: SideState, arrivals: int) -> join_kernel.Side:
    room = int(state.scalars[LIVE] + 2 * state.scalars[STORED]) + 4 * arrivals + 64
    events, firings = np.empty(room, processing_time.EVENT), np.zeros(0, processing_time.FIRING)
    window = processing_time.window_of(port.clause, state, None, events, firings, np.zeros(2, np.int64))
    return join_kernel.Side(
        window, state.stored_tuples, state.buckets, np.empty(room, np.int32), state.state,
        not port.spec.window.eviction.keeps_nothing, port.spec.outer, port.spec.unmatched is not None,
    )  # fmt: skip


def _stored(state: JoinState) -> StoredPairs:
    left, right = state.sides
    return StoredPairs((left.words, right.words), state.strings)
