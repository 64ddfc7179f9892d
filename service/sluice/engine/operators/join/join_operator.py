"""The Join operator: emits pairs of tuples from the windows of two streams.

A batch of both inputs is merged in order of time. A kernel finds the candidate pairs as pairs of slots, the condition
`match` is evaluated for all candidates at once, and a second kernel writes the matching pairs and the unmatched tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema, arrow_type
from sluice.columns.encoding import from_words, to_words
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.key_bytes import key_codes
from sluice.columns.ordering import canonical
from sluice.columns.scratch_buffers import grown
from sluice.columns.tables import Data
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.join import join_kernel
from sluice.engine.operators.join.join_kernel import FROZEN, LEFT, MATCH_STATE, NOTHING, REACHED, RIGHT
from sluice.engine.operators.join.join_state import SIDES, JoinState, SideState
from sluice.engine.operators.operator import Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.expression_eval import evaluate
from sluice.engine.stream.items import FINAL, MADE, MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejects import complete, readable
from sluice.engine.stream.rejects import joined as together
from sluice.engine.windows import policies, processing_time
from sluice.engine.windows.processing_time import LIVE, STORED
from sluice.model.expressions import Attribute, Expression, walk
from sluice.model.spec import Count, Join, Side, Time
from sluice.model.spreading import independent
from sluice.model.types import Schema, Type
from sluice.time_units import UNSET

ALL = np.ones(1, np.bool_)


@dataclass(frozen=True, slots=True)
class JoinInput:
    """The compiled form of one side of a join.

    reads         the distinct expressions over the side's tuples: those that are stored as words, then keys
    names         for each stored word the name of its attribute; "" for the size of a delta, which has no name
    types, default           the types of the stored words, and their values in the default tuple
    equality, partition_by   indices into `reads`
    """

    spec: Side
    clause: policies.KernelClause
    reads: tuple[Expression, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    default: tuple[pa.Array, ...]
    equality: tuple[int, ...]
    partition_by: tuple[int, ...]

    @classmethod
    def of(cls, join: Join, port: int, schema: Schema) -> JoinInput:
        side = (join.left, join.right)[port]
        deltas = policies.deltas(side.window)
        read = {
            a.name for e in _over_pairs(join) for a in walk(e) if isinstance(a, Attribute) and a.port == SIDES[port]
        }
        attributes = [Attribute(name, kind) for name, kind in schema if name in read or name in deltas]
        kept: list[Expression] = list(dict.fromkeys([*attributes, *policies.sizes(side.window)]))
        names = tuple(e.name if isinstance(e, Attribute) else "" for e in kept)
        reads = list(dict.fromkeys([*kept, *side.equality, *_partition_by(side)]))
        values = dict(zip((name for name, _ in schema), side.default, strict=True))
        positions = {e: (place, e.type) for place, e in enumerate(kept)}
        clause = policies.clause(side.window, positions | {e.name: positions[e] for e in attributes})
        return cls(
            spec=side,
            clause=clause._replace(trigger=policies.Policy(policies.NONE, 0), period=0),
            reads=tuple(reads),
            names=names,
            types=tuple(e.type for e in kept),
            default=tuple(pa.array([values.get(n, 0)], arrow_type(e.type)) for n, e in zip(names, kept, strict=True)),
            equality=tuple(reads.index(e) for e in side.equality),
            partition_by=tuple(reads.index(e) for e in _partition_by(side)),
        )

    def initial(self, state: SideState, strings: Interner) -> None:
        for place, (value, kind) in enumerate(zip(self.default, self.types, strict=True)):
            state.words[NOTHING, place] = to_words(value, kind, strings)[0]

    def side(self, state: SideState, arrivals: int) -> join_kernel.Side:
        room = int(state.scalars[LIVE] + 2 * state.scalars[STORED]) + 4 * arrivals + 64
        events, firings = np.empty(room, processing_time.EVENT), np.zeros(0, processing_time.FIRING)
        window = processing_time.window_of(self.clause, state, None, events, firings, np.zeros(2, np.int64))
        return join_kernel.Side(
            window, state.stored_tuples, state.buckets, np.empty(room, np.int32), state.state,
            self.spec.window.eviction != Count(0), self.spec.outer, self.spec.unmatched is not None,
        )  # fmt: skip


class JoinOperator(Stateful[JoinState]):
    """Runs one `Join`. All data is in the state, which `feed` changes in place."""

    def __init__(self, spec: Join, left: Schema, right: Schema, timed: tuple[bool, bool], *, spread: bool) -> None:
        """`left` and `right` are the schemas of the inputs; `timed` says which inputs have an event time.

        `spread`: the tuples are spread over several buckets.
        """
        self.spec = spec
        self._timed = timed
        self._ports = (JoinInput.of(spec, LEFT, left), JoinInput.of(spec, RIGHT, right))
        self._types = (self._ports[LEFT].types, self._ports[RIGHT].types)
        self._clauses = (self._ports[LEFT].clause, self._ports[RIGHT].clause)
        self._in_key_order = spread and bool(independent(spec))
        #: scratch memory for the log of candidates
        self._log = np.empty(0, join_kernel.ENTRY)

    def initial(self) -> JoinState:
        state = self._empty()
        for port, side in zip(self._ports, state.sides, strict=True):
            port.initial(side, state.strings)
        return state

    def _empty(self) -> JoinState:
        return JoinState(self._types, self._clauses, self.spec.limits)

    def load(self, data: Data) -> JoinState:
        return self._empty().read(data)

    def feed(self, state: JoinState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The outputs of these items and of the tuples that expire by `clock.end` (inclusive), by output stream.

        Rejected tuples are under REJECTS. After the final marks of both inputs there are no outputs.
        """
        if state.finished:
            return {}
        left, right = inputs
        of_left, left_unread = self._arrive(state, LEFT, left)
        of_right, right_unread = self._arrive(state, RIGHT, right)
        arrivals = np.empty(len(of_left) + len(of_right), MATCH_STATE)
        join_kernel.merge(of_left, of_right, self.spec.left.stream == self.spec.right.stream, arrivals)
        arrivals = self._with_watermarks(state, arrivals)
        state.reserve_keys()
        sides = [port.side(side, len(arrivals)) for port, side in zip(self._ports, state.sides, strict=True)]
        outputs, unmade = self._outputs(state, self._run(state, sides[LEFT], sides[RIGHT], arrivals, clock.end))
        for side, kernel in zip(state.sides, sides, strict=True):
            side.leave(kernel.freed)
        state.clean()
        if state.finished:
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
        telling = [(port, side) for port, side in sides if port.spec.outer and not side.state[FROZEN]]
        return min((processing_time.leaves(port.clause, side) for port, side in telling), default=MAX_TIME)

    def inspect(self, state: JoinState, key: str | None) -> list[InspectedWindow]:
        """The stored tuples of each side with this key; without equalities all stored tuples."""
        p = window_inspection.place_of(state.keys, key) if self._ports[LEFT].equality else 0
        found = []
        for name, port, side in zip(SIDES, self._ports, state.sides, strict=True):
            if 0 <= p < len(side.buckets) and side.buckets["count"][p]:
                slots = window_inspection.chained(side.buckets[p], side.stored_tuples)
                held = window_inspection.tuples(port.names, port.types, side.words[slots], state.strings)
                found.append(InspectedWindow(self.spec.name, len(slots), held, name))
        return found

    # ---- input ------------------------------------------------------------------------------------------------------

    def _arrive(self, state: JoinState, number: int, items: Items) -> tuple[np.ndarray, Items | None]:
        """Gives each tuple of a port a slot, and stores its words; `number` is LEFT or RIGHT.

        Gives the arrivals up to the port's final mark, with the codes of their keys, and the rejected tuples.
        """
        port, side = self._ports[number], state.sides[number]
        items = items.first(0) if side.state[FROZEN] else _until_final(items)
        items, read, unread = readable(items, port.reads, self.spec.name)
        is_tuple = items.kind == TUPLE
        arrivals = np.zeros(len(items), MATCH_STATE)
        if port.partition_by:
            arrivals["partition"][is_tuple] = key_codes([read.column(i) for i in port.partition_by], side.keys)
        slots = side.slots(read.num_rows)
        for place, kind in enumerate(port.types):
            side.words[slots, place] = to_words(read.column(place), kind, state.strings)
        arrivals["at"], arrivals["event"], arrivals["kind"] = items.at, items.event, items.kind
        arrivals["port"], arrivals["place"], arrivals["watermark"] = number, _place(items), items.watermark
        arrivals["slot"][is_tuple] = slots
        arrivals["key"][is_tuple], arrivals["bucket"][is_tuple] = self._keys(state, port, read)
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
                came = np.where(is_watermark & (arrivals["port"] == number), arrivals["watermark"], UNSET)
                reached = np.maximum(np.maximum.accumulate(came), side.state[REACHED])
                least, before = np.minimum(least, reached), min(before, int(side.state[REACHED]))
                side.state[REACHED] = reached[-1]
        arrivals["watermark"] = least
        kept: np.ndarray = arrivals[~is_watermark | (least > np.append(before, least[:-1]))]
        return kept

    def _keys(
        self, state: JoinState, port: JoinInput, read: pa.RecordBatch
    ) -> tuple[np.ndarray | int, np.ndarray | int]:
        """The codes of the tuples' keys, and the lists of equal keys in which they are stored.

        Without equalities there is no key, and one list. A key with NaN equals no other key, so it has no list (J16).
        """
        if not port.equality:
            return NIL, 0
        columns = [read.column(i) for i in port.equality]
        key = key_codes(columns, state.keys)
        bucket = key
        for column in columns:
            if pa.types.is_floating(column.type):
                bucket = np.where(pc.is_nan(column).to_numpy(zero_copy_only=False), NIL, bucket)
        return key, bucket

    # ---- windows ----------------------------------------------------------------------------------------------------

    def _run(
        self, state: JoinState, left: join_kernel.Side, right: join_kernel.Side, arrivals: np.ndarray, end: int
    ) -> list[JoinOutputs]:
        """Runs both windows over the arrivals. Gives the outputs of the joint port, then those of each side's own port.

        A side's own port has its unmatched tuples if the pipeline file names a stream for them.
        """
        state.batch += 1
        room = len(arrivals) + int(left.window.scalars[LIVE] + right.window.scalars[LIVE])
        found = np.empty(room, np.int64)
        names = join_kernel.KeyNumbers(state.names, found, np.array([state.batch, 0]))
        log, used = grown(self._log, 0, max(2, min(2 * room, self.spec.limits.candidates))), np.zeros(1, np.int64)
        pieces: list[list[join_kernel.Port]] = [[], [], []]
        first = 0
        while first <= len(arrivals):
            first = join_kernel.probe(left, right, arrivals, end, first, log, used)
            entries, used[0] = log[: used[0]], 0
            joint, left_alone, right_alone = (_port(len(entries), marks) for marks in (len(entries), 0, 0))
            holds = self._holds(state, entries)
            join_kernel.emit_matches(left, right, arrivals, entries, holds, names, joint, left_alone, right_alone)
            for piece, port in zip(pieces, (joint, left_alone, right_alone), strict=True):
                piece.append(port)
            if first <= len(arrivals) and (not len(entries) or len(log) < self.spec.limits.candidates):
                log = grown(log, 0, 2 * len(log))
        self._log = log
        keys = state.keys.take(found[: names.used[1]])
        watermarks = arrivals["watermark"][arrivals["kind"] == WATERMARK]
        return [JoinOutputs.of(piece, keys, watermarks, in_key_order=self._in_key_order) for piece in pieces]

    def _holds(self, state: JoinState, log: np.ndarray) -> np.ndarray:
        """Whether each candidate pair in the log matches (J3). A condition that is null does not match.

        Gives ALL, an array of one True, if every candidate matches.
        """
        if self.spec.match is None:
            return ALL
        pairs = log[(log["left"] != NOTHING) & (log["right"] != NOTHING)]
        if not len(pairs):
            return ALL
        columns = self._columns(state, [self.spec.match], pairs["left"], pairs["right"])
        holds = pc.fill_null(evaluate(self.spec.match, columns), False)  # noqa: FBT003
        return holds.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def _columns(self, state: JoinState, over: list[Expression], left: np.ndarray, right: np.ndarray) -> pa.RecordBatch:
        """The attributes that the expressions in `over` use, for pairs of slots `left` and `right`."""
        named = dict.fromkeys(a for e in over for a in walk(e) if isinstance(a, Attribute))
        columns = {"#": pa.array(np.zeros(len(left), np.int8))}
        for name, kind, side in ((a.name, a.type, SIDES.index(str(a.port))) for a in named):
            words = state.sides[side].words[:, self._ports[side].names.index(name)].take((left, right)[side])
            columns[f"{SIDES[side]}.{name}"] = from_words(words, kind, state.strings)
        return pa.RecordBatch.from_pydict(columns)

    # ---- outputs ----------------------------------------------------------------------------------------------------

    def _outputs(self, state: JoinState, made: list[JoinOutputs]) -> tuple[dict[str, Items], list[Items | None]]:
        """The items of each output stream, and the rejected pairs: those for which an expression has no value."""
        joint, *alone = made
        written = [(output, joint) for output in self.spec.matched]
        written += [(port.spec.unmatched, m) for port, m in zip(self._ports, alone, strict=True) if port.spec.unmatched]
        outputs, rejected = {}, []
        for output, whole in written:
            expressions = [e for _, e in output.attributes]
            columns = self._columns(state, expressions, whole.left, whole.right)
            schema = arrow_schema(tuple((name, e.type) for name, e in output.attributes))
            items = whole.items(pa.record_batch([evaluate(e, columns) for e in expressions], schema=schema))
            outputs[output.stream], _, bad = complete(items, items.tuples, self.spec.name, output.stream)
            rejected.append(bad)
        return outputs, rejected


@dataclass(frozen=True, slots=True)
class JoinOutputs:
    """The outputs on one port: the columns of `Items`, the slots of the pair behind each tuple, and the watermarks."""

    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    keys: pa.BinaryArray
    left: np.ndarray
    right: np.ndarray
    watermarks: np.ndarray

    @classmethod
    def of(
        cls, pieces: list[join_kernel.Port], keys: pa.BinaryArray, watermarks: np.ndarray, *, in_key_order: bool
    ) -> JoinOutputs:
        items = [piece.used[join_kernel.ITEMS] for piece in pieces]
        rows = [piece.used[join_kernel.ROWS] for piece in pieces]
        event, at, kind, key = (_joined(pieces, name, items) for name in ("event", "at", "kind", "key"))
        left, right = (_joined(pieces, name, rows) for name in ("left", "right"))
        made = cls(event, at, kind, key, keys, left, right, watermarks)
        tied = any(piece.used[join_kernel.TIED] for piece in pieces) or len(pieces) > 1
        return made.in_key_order() if tied and in_key_order else made

    def in_key_order(self) -> JoinOutputs:
        """Sorts the outputs of one event, or of one point in time, by key, so that their order does not depend on
        buckets. Watermarks keep their positions, and no tuple moves across one.
        """
        apart = self.kind == WATERMARK
        new = (np.diff(self.event) != 0) | (np.diff(self.at) != 0) | apart[1:] | apart[:-1]
        group = np.concatenate([[0], np.cumsum(new)])
        mixed = np.zeros(group[-1] + 1, np.bool_)
        mixed[group[1:][~new & (np.diff(self.key) != 0)]] = True
        if not mixed.any():
            return self
        places = np.flatnonzero(mixed[group])
        rank = np.empty(len(self.keys), np.int64)
        rank[canonical(self.keys)] = np.arange(len(self.keys))
        order = np.arange(len(self.event))
        order[places] = places[np.lexsort((rank[self.key[places]], group[places]))]
        is_tuple = self.kind == TUPLE
        rows = (np.cumsum(is_tuple) - 1)[order][is_tuple[order]]
        event, at, kind, key = (column[order] for column in (self.event, self.at, self.kind, self.key))
        return JoinOutputs(event, at, kind, key, self.keys, self.left[rows], self.right[rows], self.watermarks)

    def items(self, tuples: pa.RecordBatch) -> Items:
        source, watermark = np.full(len(self.event), MADE, np.int32), np.zeros(len(self.event), np.int64)
        watermark[self.kind == WATERMARK] = self.watermarks
        return Items(self.event, self.at, self.kind, source, self.key, self.keys, tuples, watermark)


def _port(rows: int, marks: int) -> join_kernel.Port:
    """An empty port with room for this number of rows, and of marks beside them."""
    of = rows + marks
    return join_kernel.Port(
        np.empty(of, np.int64), np.empty(of, np.int64), np.empty(of, np.int8), np.empty(of, np.int32),
        np.empty(rows, np.int32), np.empty(rows, np.int32), np.array([0, 0, 0, -2]),
    )  # fmt: skip


def _joined(pieces: list[join_kernel.Port], name: str, lengths: list[int]) -> np.ndarray:
    columns = [getattr(piece, name)[:length] for piece, length in zip(pieces, lengths, strict=True)]
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _until_final(items: Items) -> Items:
    """The tuples and watermarks up to the final mark, and the final mark. Window marks are dropped (P6)."""
    ends = np.flatnonzero(items.kind == FINAL)
    if len(ends):
        items = items.first(int(ends[0]) + 1)
    kept = (items.kind == TUPLE) | (items.kind == FINAL) | (items.kind == WATERMARK)
    return items if kept.all() else items.only(kept)


def _place(items: Items) -> np.ndarray:
    """The number of each item among the neighbouring items with the same event and time, from 0."""
    number = np.arange(len(items), dtype=np.int32)
    first = np.ones(len(items), np.bool_)
    first[1:] = (np.diff(items.event) != 0) | (np.diff(items.at) != 0)
    return number - np.maximum.accumulate(np.where(first, number, 0))


def _over_pairs(join: Join) -> list[Expression]:
    """The expressions over pairs, or over an unmatched tuple and the default tuple: outputs and condition."""
    made = [e for output in join.outputs for _, e in output.attributes]
    return made if join.match is None else [*made, join.match]


def _partition_by(side: Side) -> tuple[Expression, ...]:
    """The `partition_by` of the side; empty where it has no effect on the window.

    It has no effect if each tuple expires by its own time and there is no partition eviction, or if no tuple is stored.
    """
    alone = isinstance(side.window.eviction, Time) and side.window.partition_eviction is None
    return () if alone or side.window.eviction == Count(0) else side.partition_by
