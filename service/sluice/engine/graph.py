"""The operators of one pipeline as one pure function over batches: `feed(state, inputs, clock)`.

No Spark, no Kafka, no wall clock, no randomness. What comes out does not depend on how events were cut into batches.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.key_bytes import chosen_of_key, key_bytes
from sluice.columns.state_tables import PartOfKey
from sluice.columns.tables import Data, Format, Saved, StateError, column, load, save
from sluice.engine.contents.window_snapshot import WindowSnapshot
from sluice.engine.library.handler_operator import HandlerOperator
from sluice.engine.operators.join.join_operator import JoinOperator
from sluice.engine.operators.map_operator import MapOperator
from sluice.engine.operators.operator import Operator, OperatorState
from sluice.engine.operators.window_operators import windowed
from sluice.engine.stream import mark_alignment
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.expression_eval import evaluate
from sluice.engine.stream.items import FINAL, MAX_TIME, TUPLE, Items, merged_items
from sluice.engine.stream.rejects import REJECTS, joined
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.engine.windows.event_time.watermark_tracker import SOURCE, Progress, Watermarks
from sluice.model.spec import Aggregate, Custom, Join, Map, Pipeline, Sort
from sluice.model.spec import Operator as OperatorSpec
from sluice.model.spreading import equalities_apart, layout
from sluice.model.types import STRING, Schema
from sluice.time_units import UNSET

#: of what a graph remembers beside its operators
FORMAT = Format("graph", 1)

__all__ = ["Clock", "Graph", "GraphState", "StateError"]

AnyOperator = Operator[Any]
#: is called with an operator's name, what its ports are fed, and the clock
Observer = Callable[[str, list[Items], Clock], None]


@dataclass(slots=True)
class GraphState:
    """What a pipeline remembers: its operators' states and, per input stream, the topic partitions that are final."""

    operators: list[OperatorState | None]
    finals: dict[str, set[int]] = field(default_factory=dict)
    origin: int = UNSET
    #: where the clock stood last
    now: int = UNSET
    #: of each stream with an event time
    progress: dict[str, Progress] = field(default_factory=dict)
    #: of the streams whose marks are aligned what waits for a mark
    held: dict[str, Items] = field(default_factory=dict)


class Graph:
    """The operators of a pipeline, upstream before downstream."""

    def __init__(
        self, pipeline: Pipeline, topic_partitions: Mapping[str, int], *, spread: bool = True,
        observer: Observer | None = None,
    ) -> None:  # fmt: skip
        """`topic_partitions` gives the number of each input stream's topic partitions.

        `spread`: the tuples may be spread over buckets, so nothing may come in an order that one bucket alone knows.
        `observer` is told what each operator is fed, before it is.
        """
        self._spread, self._observer = spread, observer
        self._pipeline, self._origin = pipeline, pipeline.settings.clock_origin
        self._partitions = dict(topic_partitions)
        self._schemas = {name: stream.schema for name, stream in pipeline.streams.items()}
        self._event_times = {n: s.event_time for n, s in pipeline.streams.items() if s.event_time is not None}
        self._inputs = [stream.name for stream in pipeline.inputs]
        self._aligned = [stream.name for stream in pipeline.inputs if stream.marks_in == "aligned"]
        self.operators = [self._operator(spec) for spec in pipeline.operators]
        written = {output.stream for spec in pipeline.operators for output in spec.outputs}
        self._watermarks = {
            name: Watermarks(stream, self._partitions.get(name, 1), made=name in written)
            for name, stream in pipeline.streams.items()
        }

    def initial(self) -> GraphState:
        return GraphState([operator.initial() for operator in self.operators])

    def feed(self, state: GraphState, inputs: Mapping[str, Items], clock: Clock) -> dict[str, Items]:
        """The items of every stream that an operator writes, and the REJECTS. `state` is changed in place.

        `inputs` has the items of the input streams in the order in which they are handled; a stream may be missing.
        """
        if state.origin == UNSET:
            state.origin = clock.start if self._origin is None else self._origin
            state.now = clock.start
        clock = Clock(state.origin, clock.end)
        made: dict[str, Items] = {}
        streams = {name: self._with_watermarks(state, name, inputs.get(name), clock, made) for name in self._inputs}
        for operator, remembered in zip(self.operators, state.operators, strict=True):
            items = [
                made.get(name) or streams.get(name) or nothing(self._schemas[name]) for name in operator.spec.inputs
            ]
            if self._observer is not None:
                self._observer(operator.spec.name, items, clock)
            found = operator.feed(remembered, items, clock)
            made |= joined([made.get(REJECTS), found.pop(REJECTS, None)])
            made |= {stream: self._with_watermarks(state, stream, some, clock, made) for stream, some in found.items()}
        state.now = max(state.now, clock.end)
        return made

    def sizes(self, state: GraphState) -> dict[str, tuple[int, int]]:
        """By operator that remembers anything: the window partitions that it knows, and the tuples that it stores."""
        pairs = zip(self.operators, state.operators, strict=True)
        return {operator.spec.name: remembered.sizes for operator, remembered in pairs if remembered is not None}

    def due(self, state: GraphState) -> int:
        """When time alone will bring something out next, if nothing comes before; MAXIMUM: never. O(1)."""
        of_operators = [operator.due(one) for operator, one in zip(self.operators, state.operators, strict=True)]
        of_streams = [self._watermarks[name].due(progress) for name, progress in state.progress.items()]
        return min([MAX_TIME, *of_operators, *of_streams])

    def snapshot(self, state: GraphState, key: str | None) -> list[WindowSnapshot]:
        """What the windows of this key hold, and those without keys, operator by operator."""
        pairs = zip(self.operators, state.operators, strict=True)
        return [found for operator, one in pairs for found in operator.snapshot(one, key)]

    def ended(self, state: GraphState) -> bool:
        """Whether every topic partition of every input has sent its final mark."""
        return all(len(state.finals.get(name, ())) == self._partitions[name] for name in self._inputs)

    def watermarks(self, state: GraphState) -> dict[str, int]:
        """The watermark of each stream that has had one, nanoseconds since 1970."""
        return {name: of.watermark for name, of in state.progress.items() if of.watermark != NEVER}

    def _with_watermarks(
        self, state: GraphState, name: str, items: Items | None, clock: Clock, made: dict[str, Items]
    ) -> Items:
        """The items of a stream with its watermarks, until its final mark; rejected tuples go to `made`."""
        if items is None:
            items = nothing(self._schemas[name])
        elif name in self._inputs:
            if name in self._aligned:
                items = self._align(state, name, items)
            items = self._until_final(state, name, items)
        progress = state.progress.setdefault(name, self._watermarks[name].initial())
        items, rejected = self._watermarks[name].feed(progress, items, state.now, clock.end)
        made |= joined([made.get(REJECTS), rejected])
        return items

    def size(self, state: GraphState) -> int:
        """Bytes that `write` would write. O(columns)."""
        parts = self._parts(state)
        return 8 * len(parts) + sum(part.size for part in parts if part is not None)

    def write(self, state: GraphState, sink: pa.NativeFile) -> None:
        """The state as bytes, for `load`; its columns go there without a copy."""
        parts = self._parts(state)
        sink.write(struct.pack(f"<{len(parts)}q", *(0 if part is None else part.size for part in parts)))
        for part in parts:
            if part is not None:
                part.write(sink)

    def save(self, state: GraphState) -> bytes:
        """What `write` writes."""
        sink = pa.BufferOutputStream()
        self.write(state, sink)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _parts(self, state: GraphState) -> list[Saved | None]:
        """The graph's own part, then that of each operator, None where it remembers nothing."""
        final = [(name, source) for name, sources in sorted(state.finals.items()) for source in sorted(sources)]
        places, progress = list(self._watermarks), state.progress
        head = save({
            "origin": np.array([state.origin, state.now], np.int64),
            "progress": np.array([(places.index(n), p.watermark, len(p.sources)) for n, p in progress.items()], int),
            "sources": np.concatenate([np.zeros(0, SOURCE), *(p.sources for p in progress.values())]),
            "stream": np.array([list(self._partitions).index(name) for name, _ in final], np.int64),
            "source": np.array([source for _, source in final], np.int64),
        }, FORMAT)  # fmt: skip
        held = (mark_alignment.save(state.held.get(name)) for name in self._aligned)
        return [head, *(None if p is None else p.save() for p in state.operators), *held]

    def load(self, data: Data) -> GraphState:
        """Raises StateError where `data` was not saved by a graph of this shape."""
        count = 1 + len(self.operators) + len(self._aligned)
        try:
            lengths = struct.unpack_from(f"<{count}q", data)
        except struct.error as error:
            msg = "the saved state is too short"
            raise StateError(msg) from error
        ends = np.cumsum([8 * count, *lengths]).tolist()
        if ends[-1] != len(data):
            msg = "the saved state belongs to another pipeline, or is damaged"
            raise StateError(msg)
        head, *parts = (data[start:end] for start, end in pairwise(ends))
        saved, names = load(head, FORMAT), list(self._partitions)
        sources = column(saved.pop("sources"), SOURCE)
        columns = {name: column(part, np.int64).tolist() for name, part in saved.items()}
        origin, now = columns["origin"]
        operators = [_loaded(operator, part) for operator, part in zip(self.operators, parts, strict=False)]
        state = GraphState(operators, origin=origin, now=now)
        for name, part in zip(self._aligned, parts[len(self.operators) :], strict=True):
            held = mark_alignment.load(part, arrow_schema(self._schemas[name]))
            state.held |= {} if held is None else {name: held}
        streams = list(self._watermarks)
        for stream, watermark, known in np.reshape(columns["progress"], (-1, 3)).tolist():
            state.progress[streams[stream]] = Progress(watermark, sources[:known])
            sources = sources[known:]
        for stream, source in zip(columns["stream"], columns["source"], strict=True):
            state.finals.setdefault(names[stream], set()).add(source)
        return state

    # ---- parts of a state -------------------------------------------------------------------------------------------

    def split(self, state: GraphState, parts: int, part_of_key: PartOfKey) -> list[GraphState]:
        """So many states, which together give what this one gives, if each is fed the tuples of its keys, all marks and
        watermarks, and the clock. This state is used up: the parts may share memory with it.

        A key is that by which `layout` spreads tuples over buckets; `part_of_key` gives its part, by its bytes. A
        pipeline that must be in one bucket is whole in part 0, and what other parts are fed changes nothing in it.
        """
        spread = layout(self._pipeline).keys is not None
        part = part_of_key if spread else _first
        made = [
            operator.split(of, parts, self._by_key_of(operator.spec, part) if spread else part)
            for operator, of in zip(self.operators, state.operators, strict=True)
        ]
        held = {name: self._split_items(name, items, parts, part) for name, items in state.held.items()}
        return [
            GraphState(
                [of[number] for of in made], {name: set(of) for name, of in state.finals.items()},
                state.origin, state.now,
                {name: Progress(of.watermark, of.sources.copy()) for name, of in state.progress.items()},
                {name: of[number] for name, of in held.items()},
            )
            for number in range(parts)
        ]  # fmt: skip

    def merge(self, states: Sequence[GraphState]) -> GraphState:
        """One state in the place of several, in the order of their parts. No two of them may have tuples of one key.

        Raises StateError where two hold a window partition of the same key. The states are used up.
        """
        first = states[0]
        per_operator = zip(self.operators, zip(*(state.operators for state in states), strict=True), strict=True)
        operators = [operator.merge(of) for operator, of in per_operator]
        held = {name: merged_items([state.held[name] for state in states if name in state.held]) for name in first.held}
        now = max(state.now for state in states)
        return GraphState(operators, first.finals, first.origin, now, first.progress, held)

    def _by_key_of(self, spec: OperatorSpec, part_of_key: PartOfKey) -> PartOfKey:
        """The part of a key of an operator: in a join, of the equalities by which its tuples are spread."""
        if not isinstance(spec, Join) or len(spec.left.equality) <= 1:
            return part_of_key
        places = equalities_apart(self._pipeline, spec)
        text = len(places) == 1 and spec.left.equality[places[0]].type == STRING
        return lambda key: part_of_key(chosen_of_key(key, places, text=text))

    def _split_items(self, stream: str, items: Items, parts: int, part_of_key: PartOfKey) -> list[Items]:
        """The items that wait for a mark: each tuple in its part, everything else in all parts."""
        keys = (layout(self._pipeline).keys or {}).get(stream, ())
        of = np.zeros(items.tuples.num_rows, np.int64)
        if keys:
            names = key_bytes([evaluate(e, items.tuples) for e in keys])
            of = np.array([part_of_key(name) for name in names.to_pylist()], np.int64)
        is_tuple = items.kind == TUPLE
        made = []
        for part in range(parts):
            kept = ~is_tuple
            kept[is_tuple] = of == part
            made.append(items.only(kept))
        return made

    def _operator(self, spec: OperatorSpec) -> AnyOperator:
        match spec:
            case Map():
                return MapOperator(spec)
            case Join():
                left, right = spec.inputs
                timed = left in self._event_times, right in self._event_times
                schemas = self._schemas[left], self._schemas[right]
                return JoinOperator(spec, *schemas, timed, spread=self._spread)
            case Custom():
                event_time = self._event_times.get(spec.input)
                sources = self._partitions.get(spec.input, 1)
                return HandlerOperator(spec, self._schemas[spec.input], event_time, sources)
            case Aggregate() | Sort():
                sources = self._partitions.get(spec.input, 1)
                return windowed(spec, self._schemas[spec.input], self._event_times.get(spec.input), sources)

    def _align(self, state: GraphState, stream: str, items: Items) -> Items:
        """The items with marks that all topic partitions have sent, and what waited for these."""
        held, finals = state.held.pop(stream, None), state.finals.get(stream, set())
        items, held = mark_alignment.align(held, items, finals, self._partitions[stream])
        if held is not None:
            state.held[stream] = held
        return items

    def _until_final(self, state: GraphState, stream: str, items: Items) -> Items:
        """One final mark where the last of the topic partitions has sent its own, and nothing of one behind its own.

        So an operator is final when all of its inputs are, every topic partition of them (P12, E38).
        """
        finals = state.finals.get(stream, set())
        ends = np.flatnonzero(items.kind == FINAL)
        if not finals and not len(ends):
            return items
        finals = state.finals.setdefault(stream, finals)
        kept = np.ones(len(items), np.bool_)
        for source in finals:
            kept &= items.source != source
        for end in ends.tolist():
            source = int(items.source[end])
            if source in finals:
                continue
            finals.add(source)
            kept[end + 1 :] &= items.source[end + 1 :] != source
            kept[end] = len(finals) == self._partitions[stream]
        return items.only(kept)


def nothing(schema: Schema) -> Items:
    """No items of a stream with these attributes."""
    numbers = np.zeros(0, np.int64)
    tuples = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    return Items(
        numbers, numbers, numbers.astype(np.int8), numbers.astype(np.int32), numbers.astype(np.int32),
        pa.array([], pa.binary()), tuples,
    )  # fmt: skip


def _loaded(operator: AnyOperator, part: Data) -> OperatorState | None:
    """Raises StateError, which names the operator."""
    try:
        return operator.load(part)  # type: ignore[no-any-return]
    except StateError as error:
        msg = f"operator {operator.spec.name}: {error}"
        raise StateError(msg) from error


def _first(_: bytes) -> int:
    """All keys are in part 0."""
    return 0
