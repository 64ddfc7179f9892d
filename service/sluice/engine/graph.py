"""Runs the operators of one pipeline as one pure function: `feed(state, inputs, clock)`.

It uses neither Spark nor Kafka, no wall clock and no random numbers. The outputs do not depend on how the input is cut
into batches.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.api import call_limit
from sluice.columns.arrow_types import arrow_schema
from sluice.columns.key_bytes import chosen_of_key, key_bytes
from sluice.columns.saved_columns import Data, Format, Saved, SavedColumns, StateError, column, load
from sluice.columns.state_tables import PartOfKey
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.library.handler_operator import HandlerOperator
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.barrier.barrier_operator import BarrierOperator
from sluice.engine.operators.dedup.dedup_operator import DedupOperator
from sluice.engine.operators.delay.delay_operator import DelayOperator
from sluice.engine.operators.delay.keyed_delay_operator import KeyedDelayOperator
from sluice.engine.operators.event_join.event_join_operator import EventJoinOperator
from sluice.engine.operators.join.join_operator import JoinOperator
from sluice.engine.operators.map_operator import MapOperator, SplitOperator
from sluice.engine.operators.operator import Operator, OperatorState
from sluice.engine.operators.previous.previous_operator import KeyedMapOperator
from sluice.engine.operators.union_operator import UnionOperator
from sluice.engine.operators.window_operators import windowed
from sluice.engine.state_invariants import check_ranges, check_states
from sluice.engine.stream import mark_alignment
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.expression_eval import evaluate
from sluice.engine.stream.items import (  # fmt: skip
    ALL,
    FINAL,
    MADE,
    MAX_TIME,
    STEP,
    TIMER,
    TUPLE,
    WATERMARK,
    WINDOW,
    Items,
    merged_items,
)
from sluice.engine.stream.mark_conditions import marked_by_key
from sluice.engine.stream.rejected_tuples import REJECTS, joined
from sluice.engine.stream.union_sources import source_count
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.engine.windows.event_time.watermark_hold import held_streams
from sluice.engine.windows.event_time.watermark_tracker import BEHIND, SOURCE, Progress, Watermarks, combined
from sluice.invariants import all_checked, require_watermarks, violated
from sluice.model.spec import (  # fmt: skip
    Aggregate,
    Barrier,
    Custom,
    Dedup,
    Delay,
    EventTime,
    Join,
    KeyedMap,
    Map,
    Pipeline,
    Sort,
    Split,
    Union,
    Windowed,
)
from sluice.model.spec import Operator as OperatorSpec
from sluice.model.spreading import barrier_apart, by_stream_time, equalities_apart, keys_apart, layout
from sluice.model.stages import spread_operators
from sluice.model.topology import follows_clock, partitioning_stream
from sluice.model.types import STRING, Schema
from sluice.time_units import SECOND, UNSET

#: format of the graph's own part of a saved state
FORMAT = Format("graph", 2)

__all__ = ["Clock", "Graph", "GraphState", "StateError"]

AnyOperator = Operator[Any]
#: called with an operator's name, the items of its ports, and the clock
Observer = Callable[[str, list[Items], Clock], None]


@dataclass(slots=True)
class GraphState:
    """The state of a pipeline: the state of each operator, and what the graph itself stores for each stream."""

    operators: list[OperatorState | None]
    #: by input stream: the topic partitions that have sent their final mark
    finals: dict[str, set[int]] = field(default_factory=dict)
    #: the operator clock from which periodic timers count, nanoseconds; UNSET before the first batch
    origin: int = UNSET
    #: the operator clock at the end of the last batch, nanoseconds
    now: int = UNSET
    #: by stream: its watermark and those of its topic partitions
    progress: dict[str, Progress] = field(default_factory=dict)
    #: by stream with aligned marks: the items that wait for a mark
    buffered: dict[str, Items] = field(default_factory=dict)


class Graph:
    """The operators of a pipeline, upstream before downstream."""

    def __init__(
        self, pipeline: Pipeline, topic_partitions: Mapping[str, int], *, observer: Observer | None = None
    ) -> None:
        """`topic_partitions` gives the number of topic partitions of each input stream.

        `observer` is called for each operator with the items of its ports, before the operator handles them.
        """
        self._observer = observer
        #: no output of these operators may depend on an order that exists in one bucket only
        self._spread = spread_operators(pipeline)
        self.pipeline, self._origin = pipeline, pipeline.settings.clock_origin
        self._partitions = dict(topic_partitions)
        self._schemas = {name: stream.row_schema for name, stream in pipeline.streams.items()}
        self._event_times = {n: s.event_time for n, s in pipeline.streams.items() if s.event_time is not None}
        self._inputs = [stream.name for stream in pipeline.inputs]
        self._aligned = [stream.name for stream in pipeline.inputs if stream.marks_in == "aligned"]
        #: also those with one topic partition: in a list of streams their marks close windows of other streams (R5)
        self._of_all = {stream.name for stream in pipeline.inputs if stream.marks_in in ("any", "aligned")}
        self.operators = [self._operator(spec) for spec in pipeline.operators]
        writers = {output.stream: spec for spec in pipeline.operators for output in spec.outputs}
        self._held = held_streams(pipeline)
        unions = {name for name, writer in writers.items() if isinstance(writer, Union)}
        #: whether a stream has watermarks that its tuples, or the clock, move
        self._computing = any(
            event_time.lag is not None or event_time.idle_after is not None for event_time in self._event_times.values()
        )
        #: the operators whose own time the tuples of all buckets move
        self._stepped = {spec.name for spec in pipeline.operators if by_stream_time(spec)}
        stepped = {name for spec in pipeline.operators if spec.name in self._stepped for name in spec.inputs}
        self._watermarks = {
            name: Watermarks(
                stream, self._sources_of(name, writers), written=name in writers, joined=name in unions,
                passes=name in stepped,
            )
            for name, stream in pipeline.streams.items()
        }  # fmt: skip

    def _sources_of(self, stream: str, written: Collection[str]) -> int:
        """How many sources the watermarks of a stream have: its topic partitions, or the operator that writes it."""
        return 1 if stream in written else self._partitions.get(stream, 1)

    def initial(self) -> GraphState:
        return GraphState([operator.initial() for operator in self.operators])

    def feed(self, state: GraphState, inputs: Mapping[str, Items], clock: Clock) -> dict[str, Items]:
        """Handles a batch and returns the items of every stream that an operator writes, and the rejected tuples as
        REJECTS. Changes `state` in place.

        `inputs` has the items of the input streams in the order in which they are handled; a stream may be missing.
        """
        if state.origin == UNSET:
            state.origin = clock.start if self._origin is None else self._origin
            state.now = clock.start
        clock, reached = Clock(state.origin, clock.end), self.watermarks(state)
        outputs: dict[str, Items] = {}
        streams = {
            name: self.with_watermarks(state, name, self._with_room(inputs.get(name)), clock, outputs)
            for name in self._inputs
        }
        for operator, remembered in zip(self.operators, state.operators, strict=True):
            items = [
                self._read_by(operator.spec, outputs.get(name) or streams.get(name) or no_items(self._schemas[name]))
                for name in operator.spec.inputs
            ]
            if self._observer is not None:
                self._observer(operator.spec.name, [self._as_given(stream_items) for stream_items in items], clock)
            call_limit.limit(operator.spec.name, self.pipeline.settings.class_timeout / SECOND)
            written = operator.feed(remembered, items, clock)
            outputs |= joined([outputs.get(REJECTS), written.pop(REJECTS, None)])
            for stream, stream_items in written.items():
                outputs[stream] = self.with_watermarks(state, stream, stream_items, clock, outputs)
                self._held[stream].check(outputs[stream], reached)
        self._check(state, clock, reached)
        state.now = max(state.now, clock.end)
        return {stream: self._as_given(items) for stream, items in outputs.items()}

    def _with_room(self, items: Items | None) -> Items | None:
        """The items with even numbers of events, between which there is room for watermarks (`BEHIND`)."""
        return items if items is None or not self._computing else replace(items, event=items.event << 1)

    def _as_given(self, items: Items) -> Items:
        """The items with the numbers of events that the inputs have, and apart from these which items were caused by a
        watermark that a tuple moved.
        """
        if not self._computing:
            return items
        return replace(items, event=items.event >> 1, behind=(items.event >= 0) & (items.event & BEHIND == BEHIND))

    def _read_by(self, spec: OperatorSpec, items: Items) -> Items:
        """The items of a stream that the operator reads: the steps only if its own time follows them."""
        if spec.name in self._stepped or not (steps := items.kind == STEP).any():
            return items
        return items.only(~steps)

    def _check(self, state: GraphState, clock: Clock, reached: Mapping[str, int]) -> None:
        """Raises InvariantError if the state after a batch violates an invariant. `reached`: watermarks before it."""
        require_watermarks(reached, self.watermarks(state))
        if not all_checked():
            return
        if clock.end < state.now:
            raise violated("clock never back", f"it was at {state.now}, and is at {clock.end}")
        if (due := self.due(state)) <= clock.end:
            raise violated("nothing held is due", f"a timer is due at {due}, and the clock is at {clock.end}")
        check_states(state.operators)

    def sizes(self, state: GraphState) -> dict[str, tuple[int, int]]:
        """By name of each operator that has state: the numbers of its window partitions and of the tuples in them."""
        pairs = zip(self.operators, state.operators, strict=True)
        return {operator.spec.name: remembered.sizes for operator, remembered in pairs if remembered is not None}

    def left_out(self, state: GraphState) -> dict[str, int]:
        """By name of each operator with results of empty panes: how many of them were left out so far (EP6)."""
        pairs = zip(self.operators, state.operators, strict=True)
        return {
            operator.spec.name: remembered.left_out
            for operator, remembered in pairs
            if isinstance(remembered, EventState) and len(remembered.fillings)
        }

    def due(self, state: GraphState) -> int:
        """The clock, in nanoseconds, at which the next output is due if no item arrives before; MAX_TIME if none is.
        The cost does not depend on the size of the state.
        """
        of_operators = [
            operator.due(operator_state)
            for operator, operator_state in zip(self.operators, state.operators, strict=True)
        ]
        of_streams = [self._watermarks[name].due(progress) for name, progress in state.progress.items()]
        return min([MAX_TIME, *of_operators, *of_streams])

    def inspect(self, state: GraphState, key: str | None) -> list[InspectedWindow]:
        """The contents of the windows of `key` and of windows without keys, by operator; None: only the latter."""
        pairs = zip(self.operators, state.operators, strict=True)
        return [window for operator, operator_state in pairs for window in operator.inspect(operator_state, key)]

    def ended(self, state: GraphState) -> bool:
        """Whether every topic partition of every input has sent its final mark."""
        return all(self.is_final(state, name) for name in self._inputs)

    def marks_of(self, state: GraphState, stream: str) -> Items:
        """The watermark of a stream, and its final mark if it has ended, as items at the operator clock. A new
        reader of the stream gets these in place of the marks that were sent before it.
        """
        watermark = state.progress[stream].watermark if stream in state.progress else NEVER
        kinds = [WATERMARK] * (watermark != NEVER) + [FINAL] * self.is_final(state, stream)
        count, empty = len(kinds), no_items(self._schemas[stream])
        return Items(
            np.full(count, TIMER, np.int64), np.full(count, state.now, np.int64), np.array(kinds, np.int8),
            np.full(count, MADE, np.int32), np.full(count, -1, np.int32), empty.keys, empty.tuples,
            np.array([watermark, 0][: count] if watermark != NEVER else [0] * count, np.int64),
        )  # fmt: skip

    def marks_alone(self, stream: str, items: Items) -> Items:
        """The items of an earlier form of the stream without its tuples. Each mark still counts as one that its topic
        partition has sent, so that the stream's marks stay aligned.
        """
        return replace(items.only(items.kind != TUPLE), tuples=no_items(self._schemas[stream]).tuples)

    def is_final(self, state: GraphState, stream: str) -> bool:
        """Whether nothing more comes in this stream."""
        if stream in self._inputs:
            return len(state.finals.get(stream, ())) == self._partitions[stream]
        (writer,) = (
            operator
            for operator in self.pipeline.operators
            if any(output.stream == stream for output in operator.outputs)
        )
        return all(self.is_final(state, name) for name in writer.inputs)

    def watermarks(self, state: GraphState) -> dict[str, int]:
        """The watermark of each stream that has one, in nanoseconds since 1970."""
        return {name: progress.watermark for name, progress in state.progress.items() if progress.watermark != NEVER}

    def with_watermarks(
        self, state: GraphState, name: str, items: Items | None, clock: Clock, outputs: dict[str, Items]
    ) -> Items:
        """Adds the watermarks of a stream to its items. In an input stream, also aligns marks and drops the items
        behind final marks. In a stream that an operator writes, holds the operator's watermarks back (Q7). Rejected
        tuples are added to `outputs`.
        """
        if items is None:
            items = no_items(self._schemas[name])
        elif name in self._inputs:
            if name in self._aligned:
                items = self._align(state, name, items)
            items = marked_by_key(self.pipeline.streams[name], self._until_final(state, name, items))
        else:
            items = self._held[name].held(items)
        progress = state.progress.setdefault(name, self._watermarks[name].initial())
        items, rejected = self._watermarks[name].feed(progress, items, state.now, clock.end)
        outputs |= joined([outputs.get(REJECTS), rejected])
        return of_all(items) if name in self._of_all else items

    def size(self, state: GraphState) -> int:
        """The number of bytes that `write` writes. O(columns)."""
        parts = self._parts(state)
        return 8 * len(parts) + sum(part.size for part in parts if part is not None)

    def write(self, state: GraphState, sink: pa.NativeFile) -> None:
        """Writes the state as bytes, which `load` reads. Columns are written without a copy."""
        parts = self._parts(state)
        sink.write(struct.pack(f"<{len(parts)}q", *(0 if part is None else part.size for part in parts)))
        for part in parts:
            if part is not None:
                part.write(sink)

    def save(self, state: GraphState) -> bytes:
        """Returns the bytes that `write` writes."""
        sink = pa.BufferOutputStream()
        self.write(state, sink)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _parts(self, state: GraphState) -> list[Saved | None]:
        """The graph's own part, then one part per operator and one per stream with aligned marks; None for an operator
        without state and for a stream of which no item waits.
        """
        final = [(name, source) for name, sources in sorted(state.finals.items()) for source in sorted(sources)]
        streams, progress = list(self._watermarks), state.progress
        head = SavedColumns({
            "origin": np.array([state.origin, state.now], np.int64),
            "progress": np.array(
                [(streams.index(n), p.watermark, p.steps, len(p.sources)) for n, p in progress.items()], int
            ),
            "sources": np.concatenate([np.zeros(0, SOURCE), *(p.sources for p in progress.values())]),
            "stream": np.array([list(self._partitions).index(name) for name, _ in final], np.int64),
            "source": np.array([source for _, source in final], np.int64),
        }, FORMAT)  # fmt: skip
        buffered = (mark_alignment.save(state.buffered.get(name)) for name in self._aligned)
        return [head, *(None if p is None else p.save() for p in state.operators), *buffered]

    def load(self, data: Data) -> GraphState:
        """Reads a state that `write` wrote. Raises StateError if a graph of another pipeline saved `data`."""
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
            buffered = mark_alignment.load(part, arrow_schema(self._schemas[name]))
            state.buffered |= {} if buffered is None else {name: buffered}
        streams = list(self._watermarks)
        for stream, watermark, steps, number_of_sources in np.reshape(columns["progress"], (-1, 4)).tolist():
            records = self._watermarks[streams[stream]].records(sources[:number_of_sources])
            state.progress[streams[stream]] = Progress(watermark, records, steps)
            sources = sources[number_of_sources:]
        for stream, source in zip(columns["stream"], columns["source"], strict=True):
            state.finals.setdefault(names[stream], set()).add(source)
        if all_checked():
            check_states(operators)
            check_ranges(operators)
        return state

    # ---- parts of a state -------------------------------------------------------------------------------------------

    def split(self, state: GraphState, parts: int, part_of_key: PartOfKey) -> list[GraphState]:
        """Divides a state into `parts` states. Together they give the outputs of this state if each is fed the tuples
        of its own keys, all marks and watermarks, and the clock. The parts may share memory with `state`, which must
        not be used afterwards.

        The keys are those by which `layout` spreads tuples over buckets; `part_of_key` gives the part of a key from its
        bytes. If the pipeline must be in one bucket, part 0 has the whole state, and inputs of the other parts do not
        change it.
        """
        spread = layout(self.pipeline).keys is not None
        part = part_of_key if spread else _first
        split_states = [
            operator.split(operator_state, parts, self._by_key_of(operator.spec, part) if spread else part)
            for operator, operator_state in zip(self.operators, state.operators, strict=True)
        ]
        buffered = {name: self._split_items(name, items, parts, part) for name, items in state.buffered.items()}
        return [
            GraphState(
                [states[number] for states in split_states],
                {name: set(finals) for name, finals in state.finals.items()},
                state.origin, state.now,
                {name: Progress(progress.watermark, progress.sources.copy(), progress.steps)
                 for name, progress in state.progress.items()},
                {name: items[number] for name, items in buffered.items()},
            )
            for number in range(parts)
        ]  # fmt: skip

    def merge(self, states: Sequence[GraphState]) -> GraphState:
        """Puts states together, in the order of their parts. No two of them may have tuples of the same key. The given
        states must not be used afterwards.

        Raises StateError if two of them hold a window partition of the same key.
        """
        first = states[0]
        per_operator = zip(self.operators, zip(*(state.operators for state in states), strict=True), strict=True)
        operators = [operator.merge(operator_states) for operator, operator_states in per_operator]
        buffered = {
            name: merged_items([state.buffered[name] for state in states if name in state.buffered])
            for name in first.buffered
        }
        now = max(state.now for state in states)
        streams = dict.fromkeys(name for state in states for name in state.progress)
        progress = {
            name: combined([state.progress[name] for state in states if name in state.progress]) for name in streams
        }
        return GraphState(operators, first.finals, first.origin, now, progress, buffered)

    def _by_key_of(self, spec: OperatorSpec, part_of_key: PartOfKey) -> PartOfKey:
        """The function that gives the part of an operator's key. In a join with several equalities, and in a dedup by
        several expressions, only the values of those by which its tuples are spread decide.
        """
        if isinstance(spec, Join):
            key, places = spec.left.equality, equalities_apart(self.pipeline, spec)
        elif isinstance(spec, Barrier):
            key, places = spec.partition_by, barrier_apart(self.pipeline, spec)
        elif isinstance(spec, Dedup | KeyedMap):
            key = spec.by if isinstance(spec, Dedup) else spec.partition_by
            places = keys_apart(self.pipeline, spec)
        else:
            return part_of_key
        if len(key) <= 1 or places == tuple(range(len(key))):
            return part_of_key
        text = len(places) == 1 and key[places[0]].type == STRING
        return lambda name: part_of_key(chosen_of_key(name, places, text=text))

    def _split_items(self, stream: str, items: Items, parts: int, part_of_key: PartOfKey) -> list[Items]:
        """Divides the items that wait for a mark: each tuple goes to the part of its key, every other item to all
        parts.
        """
        keys = (layout(self.pipeline).keys or {}).get(stream, ())
        part_of = np.zeros(items.tuples.num_rows, np.int64)
        if keys:
            names = key_bytes([evaluate(e, items.tuples) for e in keys])
            part_of = np.array([part_of_key(name) for name in names.to_pylist()], np.int64)
        is_tuple = items.kind == TUPLE
        divided = []
        for part in range(parts):
            kept = ~is_tuple
            kept[is_tuple] = part_of == part
            divided.append(items.only(kept))
        return divided

    def _operator(self, spec: OperatorSpec) -> AnyOperator:
        match spec:
            case Map() | Delay():
                return _of_delay(spec, self._schemas[spec.input]) if isinstance(spec, Delay) else _of_map(spec)
            case Union():
                schema = arrow_schema(self._schemas[spec.outputs[0].stream])
                return UnionOperator(spec, schema, [name in self._event_times for name in spec.inputs])
            case Dedup():
                return DedupOperator(spec, self._schemas[spec.input], self._event_times.get(spec.input))
            case Join() | Barrier():
                return self._of_several(spec)
            case Custom():
                return HandlerOperator(spec, self._schemas[spec.input], self._event_time(spec), self._sources(spec))
            case Aggregate() | Sort():
                return windowed(spec, self._schemas[spec.input], self._event_time(spec), self._sources(spec))

    def _of_several(self, spec: Join | Barrier) -> AnyOperator:
        if isinstance(spec, Join):
            return self._join(spec)
        schemas, timed = zip(*((self._schemas[name], name in self._event_times) for name in spec.inputs), strict=True)
        return BarrierOperator(spec, schemas, timed, spread=spec.name in self._spread)

    def _join(self, spec: Join) -> AnyOperator:
        left, right = spec.inputs
        schemas = self._schemas[left], self._schemas[right]
        if spec.window is not None:
            return EventJoinOperator(spec, schemas, (self._event_times[left], self._event_times[right]))
        timed = left in self._event_times, right in self._event_times
        return JoinOperator(spec, *schemas, timed, spread=spec.name in self._spread)

    def _event_time(self, spec: Windowed) -> EventTime | None:
        """The event time of the operator's input. `advance` says whether its watermark follows the clock (Q5)."""
        event_time = self._event_times.get(spec.input)
        return None if event_time is None else replace(event_time, advance=follows_clock(self.pipeline, spec.input))

    def _sources(self, spec: Windowed) -> int:
        """The number of topic partitions that the items of the operator's input may have as `source`.

        A slidingTime window has a stream time for each topic partition of a topic that it reads, by itself or through
        maps and dedups, and one for any other stream (KIP T2).
        """
        if spec.window.timed_by_topic_partition:
            return self._partitions.get(partitioning_stream(self.pipeline, spec.input), 1)
        return source_count(self.pipeline, spec.input, self._partitions)

    def _align(self, state: GraphState, stream: str, items: Items) -> Items:
        """The items that may be handled now. Items behind a mark that some topic partition has not sent yet are kept in
        `state`.
        """
        buffered, finals = state.buffered.pop(stream, None), state.finals.get(stream, set())
        items, buffered = mark_alignment.align(buffered, items, finals, self._partitions[stream])
        if buffered is not None:
            state.buffered[stream] = buffered
        return items

    def _until_final(self, state: GraphState, stream: str, items: Items) -> Items:
        """Keeps one final mark, that of the last topic partition to send one, and drops the items of a topic partition
        that stand behind its own final mark.

        So an operator is final when all topic partitions of all its inputs are (P12, E38, B7).
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


def _of_delay(spec: Delay, schema: Schema) -> AnyOperator:
    return KeyedDelayOperator(spec, schema) if spec.partition_by else DelayOperator(spec, schema)


def _of_map(spec: Map) -> AnyOperator:
    if isinstance(spec, KeyedMap):
        return KeyedMapOperator(spec)
    return SplitOperator(spec) if isinstance(spec, Split) else MapOperator(spec)


def of_all(items: Items) -> Items:
    """The items, with window marks that apply to all topic partitions (`marks_in`: `any` and `aligned`; B2 to B4)."""
    marks = items.kind == WINDOW
    if not marks.any():
        return items
    source = np.where(marks, ALL, items.source).astype(items.source.dtype)
    return replace(items, source=source, key=np.where(marks, -1, items.key).astype(items.key.dtype))


@lru_cache(maxsize=1000)
def no_items(schema: Schema) -> Items:
    """Items of a stream with this schema, of which there are none."""
    numbers = np.zeros(0, np.int64)
    tuples = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    return Items(
        numbers, numbers, numbers.astype(np.int8), numbers.astype(np.int32), numbers.astype(np.int32),
        pa.array([], pa.binary()), tuples,
    )  # fmt: skip


def _loaded(operator: AnyOperator, part: Data) -> OperatorState | None:
    """Reads the state of one operator. Raises StateError with the operator's name."""
    try:
        return operator.load(part)  # type: ignore[no-any-return]
    except StateError as error:
        msg = f"operator {operator.spec.name}: {error}"
        raise StateError(msg) from error


def _first(_: bytes) -> int:
    """Maps every key to part 0."""
    return 0
