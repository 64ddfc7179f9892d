"""Runs a pipeline over recorded events, without Spark or Kafka, and yields the outputs as records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from decimal import Decimal
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_type
from sluice.columns.json_columns import json_values
from sluice.engine.graph import Clock, Graph, GraphState, Observer
from sluice.engine.library.trace import tracers
from sluice.engine.stream.items import EMPTY_FIRING, FINAL, KEY_MARK, TIMER, TUPLE, WATERMARK, WINDOW, Items
from sluice.engine.stream.mark_conditions import marked
from sluice.engine.stream.rejected_tuples import REJECTS
from sluice.engine.stream.watermark_text import NUMBER, to_text
from sluice.model.errors import SluiceError
from sluice.model.spec import Operator, Pipeline, Stream, Windowed
from sluice.model.stream_marks import require_scope
from sluice.model.topology import external_inputs, returning
from sluice.model.types import JSON, TIMESTAMP, Schema, Type
from sluice.replayer.event_batches import Batch, Cutter
from sluice.replayer.event_file import (
    EXPECTED,
    Event,
    EventError,
    LocatedEvent,
    clock_time,
    numbered,
    read,
    read_plain,
    topic_partitions,
)
from sluice.replayer.replay_summary import Summary
from sluice.time_units import MAX_TIME, MILLISECOND
from sluice.wire.output_timestamps import UNUSABLE, of_attribute, of_clock

Record = dict[str, Any]
#: converts a column to Python values
Values = Callable[[pa.Array, Type], list[Any]]

BATCH = 10_000
#: the most timer ticks between the clock's origin and the first event; more are reported as a mistake
MAX_TICKS = 1_000_000
#: how often the tuples of one event may return
MAX_RETURNS = 10_000
PUNCT = {WINDOW: "window", EMPTY_FIRING: "window", FINAL: "final"}


def replay(
    pipeline: Pipeline,
    events: Path | Iterable[Event],
    *,
    name: str | None = None,
    clock_origin: str | float | None = None,
    batch: int = BATCH,
    trace: bool = False,
    at: str | None = None,
    stream: str | None = None,
    partitions: int | None = None,
    ended: Callable[[str], object] | None = None,
    values: Values = json_values,
) -> Iterator[Record]:
    """Yields the outputs of the pipeline for these events, as records that `sluice replay` prints.

    `events` is a file of JSON lines (`name` is its name in error messages) or the events themselves. `batch` is the
    number of events that are processed at a time. With `trace` the window events of all operators are among the
    records, each before the outputs that it causes. `ended` is called after the last record with each line of the
    summary. Raises EventError for an event that cannot be used.

    Periodic timers count from `clock_origin`: seconds, an ISO 8601 text, or "first" for the time of the first event.
    None: the origin in the pipeline file; if it has none, "first" if the time of the first event is a text, else 0.

    With `at`, the file has plain records of the input `stream` (optional if there is one input), one JSON object per
    line; `at` is the attribute of their time, and timers count from the first record. `partitions` is the number of
    topic partitions of each input, over which events without a `topic_partition` are spread by their keys. `values`
    makes the values in the records.
    """
    run = prepared(pipeline, events, name=name, clock_origin=clock_origin, at=at, stream=stream, partitions=partitions)
    player = Player(run.pipeline, run.counts, values, trace=trace)
    state = player.graph.initial()
    for events_of_batch in run.cutter.batches(from_origin(run.placed(), run.pipeline), batch):
        yield from player.feed(state, events_of_batch)
    if ended is not None:
        for line in player.summary.lines(player.graph, state):
            ended(line)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The pipeline, the events and the batches of a replay.

    pipeline   the pipeline, with the origin of its clock
    placed     gives the events from the first one on
    counts     the number of topic partitions of each input
    cutter     makes batches of the events
    """

    pipeline: Pipeline
    placed: Callable[[], Iterator[LocatedEvent]]
    counts: Mapping[str, int]
    cutter: Cutter


def prepared(
    pipeline: Pipeline,
    events: Path | Iterable[Event],
    *,
    name: str | None = None,
    clock_origin: str | float | None = None,
    at: str | None = None,
    stream: str | None = None,
    partitions: int | None = None,
) -> Prepared:
    """Prepares a replay with these arguments (see `replay`). Raises SluiceError if they contradict the pipeline."""
    kept = events if isinstance(events, Path) else list(events)
    plain = None if at is None else _plain_stream(pipeline, stream)

    def placed(naming: bytes = b"") -> Iterator[LocatedEvent]:
        if plain is not None and at is not None and isinstance(kept, Path):
            return read_plain(kept, at, plain, name)
        return read(kept, name, naming=naming) if isinstance(kept, Path) else numbered(kept)

    if clock_origin is None and pipeline.settings.clock_origin is None and _since_1970(placed(), at):
        clock_origin = "first"
    pipeline = with_origin(pipeline, clock_origin)
    counts = dict.fromkeys([input_stream.name for input_stream in pipeline.inputs], 1)
    if plain is None:
        counts = topic_partitions(placed(b"topic_partition"), [*counts])
    counts = {stream_name: max(count, partitions or 1) for stream_name, count in counts.items()}
    require_scope(pipeline, counts)
    return Prepared(pipeline, placed, counts, Cutter(external_inputs(pipeline), pipeline.settings.registry, partitions))


def _since_1970(events: Iterator[LocatedEvent], at: str | None) -> bool:
    """Whether the events have real times for certain: they are plain records, or the first time is a text."""
    return at is not None or any(isinstance(event.get("at"), str) for _, event in islice(events, 1))


def _plain_stream(pipeline: Pipeline, name: str | None) -> Stream:
    """The input stream of plain records. Raises SluiceError if `name` is none of several inputs."""
    inputs = {stream.name: stream for stream in external_inputs(pipeline)}
    if name is None and len(inputs) == 1:
        return next(iter(inputs.values()))
    if name not in inputs:
        message = f"plain records need their input stream (--stream): one of {', '.join(inputs)}"
        raise SluiceError(message)
    return inputs[name]


class Timed(NamedTuple):
    """One record of a replay.

    after      the number of the event that caused it
    at         the operator clock, nanoseconds
    by_event   False if a timer caused it
    record     the record without its key `after`
    """

    after: int
    at: int
    by_event: bool
    record: Record


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records in order.

    Each has the number of the event that caused it, its time in nanoseconds, and False in `by_event` if a timer caused
    it.
    """

    after: np.ndarray
    at: np.ndarray
    by_event: np.ndarray
    rows: list[Record]


class Player:
    """Runs batches of events through a graph and puts the outputs of all streams in order."""

    def __init__(
        self, pipeline: Pipeline, partitions: Mapping[str, int], values: Values = json_values, *, trace: bool = False,
        observer: Observer | None = None,
    ) -> None:  # fmt: skip
        """`trace`: the records include window events. `observer` is called with the items of each operator's ports."""
        self.graph = Graph(pipeline, partitions, observer=self._observe)
        self.summary = Summary(pipeline)
        self._observer = observer
        self._tracers = tracers(pipeline, partitions) if trace else {}
        self._happened: list[tuple[int, int, Record]] = []
        self._inputs = {stream.name: stream for stream in pipeline.inputs}
        self._values = values
        self._streams = shown(pipeline)
        self._returning = returning(pipeline)
        self._stamped = {stream.name: stream for stream in pipeline.outputs if stream.record_timestamp is not None}
        self._watermarks = {stream.name for stream in pipeline.outputs if stream.watermarks}

    def feed(self, state: GraphState, batch: Batch) -> Iterator[Record]:
        """The output records of a batch, ordered by the event that caused them, then time, then operator.

        At the same time the outputs of timers come before the outputs of the event.
        """
        return ({"after": timed.after} | timed.record for timed in self.timed(state, batch))

    def timed(self, state: GraphState, batch: Batch) -> Iterator[Timed]:
        """The records of `feed` in the same order, each with its time and its cause."""
        if self._returning:
            return chain.from_iterable(self._around(state, event) for event in single_events(batch))
        return self._fed(state, batch)[0]

    def _around(self, state: GraphState, event: Batch) -> Iterator[Timed]:
        """The records of a single event and of the tuples that return because of it, until none returns any more: each
        event and each return is a batch of its own (M16). Raises EventError if they return MAX_RETURNS times.
        """
        records, outputs = self._fed(state, event)
        yield from records
        for _ in range(MAX_RETURNS):
            inputs = {self._returning[name]: again(outputs[name], event) for name in self._returning if name in outputs}
            if not any(len(items) for items in inputs.values()):
                return
            records, outputs = self._fed(state, changed(event, inputs=inputs, rejected=()))
            yield from records
        around = ", ".join(self._returning)
        raise EventError(f"event {event.first}", f"its tuples return by {around} more than {MAX_RETURNS:,} times")

    def _fed(self, state: GraphState, batch: Batch) -> tuple[Iterator[Timed], Mapping[str, Items]]:
        """The records of a batch, and the items that the operators wrote."""
        if batch.now is None:
            return iter(()), {}
        origin = int(batch.at[0]) if len(batch.at) else batch.now
        inputs = {name: marked(self._inputs[name], items) for name, items in batch.inputs.items()}
        outputs = self.graph.feed(state, inputs, Clock(origin, batch.now))
        self.summary.take(inputs, origin, batch.now)
        self.summary.give(outputs, self._streams)
        streams = [stream for stream in [*self._streams, REJECTS] if stream in outputs]
        parts = [self._columns_of(stream, outputs[stream], batch) for stream in streams]
        return self._merged([*self._rejected(batch), *parts], batch), outputs

    def _rejected(self, batch: Batch) -> Iterator[RecordColumns]:
        """The dead letters of records that could not be decoded."""
        if batch.rejected:
            self.summary.reject(record.letter["dead_letter"]["stream"] for record in batch.rejected)
            numbers, times, rows = zip(*batch.rejected, strict=True)
            yield RecordColumns(np.array(numbers), np.array(times), np.ones(len(rows), np.bool_), list(rows))

    def _columns_of(self, stream: str, items: Items, batch: Batch) -> RecordColumns:
        after = _causes(items.event, items.at, batch)
        return RecordColumns(after, items.at, items.event != TIMER, list(self._records(stream, items)))

    def _merged(self, parts: list[RecordColumns], batch: Batch) -> Iterator[Timed]:
        parts = [*self._traced(batch), *parts]
        if not parts:
            return iter(())
        after, at, by_event = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("after", "at", "by_event")
        )
        order = np.lexsort((by_event, at, after))  # stable: then by operator, then in order of output
        rows = list(chain.from_iterable(part.rows for part in parts))
        columns = (order, after[order], at[order], by_event[order])
        ordered = zip(*(column.tolist() for column in columns), strict=True)
        return (Timed(n, time, cause, rows[row]) for row, n, time, cause in ordered if rows[row])

    # ---- the trace ---------------------------------------------------------------------------------------------------

    def _observe(self, operator: str, ports: list[Items], clock: Clock) -> None:
        self.summary.reach(operator, ports)
        if self._observer is not None:
            self._observer(operator, ports, clock)
        if not self._tracers:
            return
        for tracer, items in zip(self._tracers[operator], ports, strict=True):
            if tracer is not None:
                self._happened += tracer.feed(items, self._rows, clock)

    def _rows(self, items: Items, schema: Schema) -> list[Record]:
        names = [name for name, _ in schema]
        columns = [self._values(items.tuples.column(name), type_) for name, type_ in schema]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _traced(self, batch: Batch) -> Iterator[RecordColumns]:
        """The window events of the batch as trace records, upstream operators first."""
        happened, self._happened = self._happened, []
        if happened:
            events, times, rows = zip(*happened, strict=True)
            event, at = np.array(events, np.int64), np.array(times, np.int64)
            yield RecordColumns(_causes(event, at, batch), at, event != TIMER, list(rows))

    def _records(self, stream: str, items: Items) -> Iterator[Record]:
        if stream == REJECTS:
            return map(self._dead_letter, items.tuples.to_pylist())
        records = self._tuples_and_marks(stream, items, self._streams[stream])
        return _stamped(self._stamped[stream], items, records) if stream in self._stamped else records

    def _dead_letter(self, row: Record) -> Record:
        """The record of a tuple that an operator rejected, with the reason."""
        (values,) = self._values(pa.array([row["tuple"]], arrow_type(JSON)), JSON)
        return {"dead_letter": row | {"tuple": values}}

    def _tuples_and_marks(self, stream: str, items: Items, schema: Schema) -> Iterator[Record]:
        columns = [self._values(items.tuples.column(name), type_) for name, type_ in schema]
        names = [name for name, _ in schema]
        tuples = iter(zip(*columns, strict=True)) if columns else repeat(())
        for kind, time in zip(items.kind.tolist(), items.watermark.tolist(), strict=True):
            if kind == WATERMARK:
                yield {"stream": stream, "watermark": to_text(time)} if stream in self._watermarks else {}
            elif kind == KEY_MARK:
                yield {}
            elif kind == TUPLE:
                yield {"stream": stream, "tuple": dict(zip(names, next(tuples), strict=True))}
            else:
                yield {"stream": stream, "punct": PUNCT[kind]}


def _stamped(stream: Stream, items: Items, records: Iterator[Record]) -> Iterator[Record]:
    """The records; a record with a tuple also has the timestamp that its Kafka record gets."""
    is_tuple = items.kind == TUPLE
    stamps = of_attribute(stream, items.tuples)
    times = np.where(stamps == UNUSABLE, of_clock(items.at[is_tuple]), stamps)
    times = np.minimum(times, MAX_TIME // MILLISECOND) * MILLISECOND  # rounded up, it may be beyond the last time
    texts = iter(json_values(pa.array(times).cast(arrow_type(TIMESTAMP)), TIMESTAMP))
    return (record | {"timestamp": next(texts)} if "tuple" in record else record for record in records)


def single_events(batch: Batch) -> Iterator[Batch]:
    """The events of a batch, each as a batch of its own."""
    for number, at in enumerate(batch.at.tolist(), batch.first):
        inputs = {name: items.only(items.event == number) for name, items in batch.inputs.items()}
        rejected = [record for record in batch.rejected if record.number == number]
        yield Batch(number, at, batch.at[number - batch.first :][:1], inputs, rejected)


def again(items: Items, event: Batch) -> Items:
    """The tuples among the items that an event has caused, as an input at the time of the event."""
    tuples = items.only(items.kind == TUPLE)
    count = len(tuples)
    number, at = np.full(count, event.first, np.int64), np.full(count, event.at[-1], np.int64)
    return Items(
        number, at, tuples.kind, np.zeros(count, np.int32), np.full(count, -1, np.int32), pa.array([], pa.binary()),
        tuples.tuples,
    )  # fmt: skip


def _causes(event: np.ndarray, at: np.ndarray, batch: Batch) -> np.ndarray:
    """The number of the event that caused each item.

    An output of a timer is caused by the event that advanced the clock: the first one at or after the timer's due time.
    """
    moved = batch.first + np.searchsorted(batch.at, at)
    return np.where(event == TIMER, moved, event)


def shown(pipeline: Pipeline) -> dict[str, Schema]:
    """The output streams of a replay and their schemas, in the order of the operators.

    These are the streams with a topic, and the streams that no operator reads.
    """
    read_inside = {name for operator in pipeline.operators for name in operator.inputs}
    written = [output.stream for operator in pipeline.operators for output in operator.outputs]
    streams = [pipeline.streams[name] for name in dict.fromkeys(written)]
    return {s.name: s.schema for s in streams if s.topic or s.name not in read_inside}


# ---- the clock's origin ----------------------------------------------------------------------------------------------


def with_origin(pipeline: Pipeline, clock_origin: str | float | None) -> Pipeline:
    origin: int | None
    if clock_origin is None:
        origin = pipeline.settings.clock_origin or 0
    else:
        origin = None if clock_origin == "first" else _origin(clock_origin)
    return changed(pipeline, settings=changed(pipeline.settings, clock_origin=origin))


def _origin(origin: str | float) -> int:
    try:
        text = str(origin)
        return clock_time(Decimal(text) if NUMBER.fullmatch(text) else text)
    except (ArithmeticError, TypeError, ValueError):
        msg = f'clock_origin is {EXPECTED}, between the years 1677 and 2262, or "first"; got "{origin}"'
        raise SluiceError(msg) from None


def from_origin(events: Iterator[LocatedEvent], pipeline: Pipeline) -> Iterator[LocatedEvent]:
    """Yields the events. Raises EventError if more than MAX_TICKS timer ticks lie before the first event."""
    first = list(islice(events, 1))
    origin = pipeline.settings.clock_origin
    periods = [p for p in map(period, pipeline.operators) if p]
    if first and periods and origin is not None:
        _check_ticks(*first[0], origin, min(periods))
    return chain(first, events)


def _check_ticks(location: str, event: Event, origin: int, shortest: int) -> None:
    try:
        at = clock_time(event.get("at"))
    except (ArithmeticError, TypeError, ValueError):
        return  # it is reported where the event is read
    if (at - origin) // shortest > MAX_TICKS:
        problem = (
            f"the first event is more than {MAX_TICKS:,} timer periods of {shortest / 1e9:g} s after the clock's "
            "origin; set clock_origin (`--clock-origin first` lets the clock start at the first event)"
        )
        raise EventError(location, problem)


def period(operator: Operator) -> int | None:
    """The period of an operator's timer in nanoseconds; None if it has no periodic timer."""
    if not isinstance(operator, Windowed):
        return None
    timer = operator.window.timer
    return timer.nanoseconds if timer else None
