"""Runs a pipeline over recorded events, without Spark or Kafka, and tells what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace as changed
from decimal import Decimal
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from service.engine.events import Batch, Cutter, Event, EventError, Placed, numbered, read, topic_partitions
from service.engine.graph import Clock, Graph, GraphState
from service.engine.items import FINAL, LONE, TIMER, TUPLE, WATERMARK, WINDOW, Items
from service.engine.marking import marked
from service.engine.rejects import REJECTS
from service.engine.values import json_values, nanoseconds
from service.pipeline.errors import SluiceError
from service.pipeline.spec import Aggregate, Operator, Pipeline, Sort, Time, policies
from service.pipeline.types import Schema, Type

Record = dict[str, Any]
#: makes Python values of a column
Values = Callable[[pa.Array, Type], list[Any]]

BATCH = 10_000
#: so many ticks before the first event are taken for a mistake
MOST_TICKS = 1_000_000
PUNCT = {WINDOW: "window", LONE: "window", FINAL: "final"}


def replay(
    pipeline: Pipeline,
    events: Path | Iterable[Event],
    *,
    name: str | None = None,
    clock_origin: str | float | None = None,
    batch: int = BATCH,
) -> Iterator[Record]:
    """What comes out of the pipeline for these events, record by record, as `sluice replay` prints it.

    `events` is a file of JSON lines (`name` is what its errors call it) or the events themselves. Periodic timers
    count from `clock_origin`: a number of seconds, or "first" for the time of the first event; None: as the pipeline
    says, or from 0.
    """
    pipeline = with_origin(pipeline, clock_origin)
    kept = events if isinstance(events, Path) else list(events)

    def placed(naming: bytes = b"") -> Iterator[Placed]:
        return read(kept, name, naming=naming) if isinstance(kept, Path) else numbered(kept)

    inputs = {stream.name: stream.schema for stream in pipeline.inputs}
    player = Player(pipeline, topic_partitions(placed(b"topic_partition"), list(inputs)))
    state = player.graph.initial()
    for some in Cutter(inputs).batches(from_origin(placed(), pipeline), batch):
        yield from player.feed(state, some)


class Player:
    """Feeds batches of events to a graph and orders what comes out."""

    def __init__(self, pipeline: Pipeline, partitions: Mapping[str, int], values: Values = json_values) -> None:
        self.graph = Graph(pipeline, partitions, spread=False)
        self._inputs = {stream.name: stream for stream in pipeline.inputs}
        self._values = values
        self._streams = shown(pipeline)

    def feed(self, state: GraphState, batch: Batch) -> Iterator[Record]:
        """The records of a batch, in order of cause: event, then time, timers first, then operator."""
        if batch.now is None:
            return iter(())
        origin = int(batch.at[0]) if len(batch.at) else batch.now
        inputs = {name: marked(self._inputs[name], items) for name, items in batch.inputs.items()}
        made = self.graph.feed(state, inputs, Clock(origin, batch.now))
        return self._merged([(stream, made[stream]) for stream in [*self._streams, REJECTS] if stream in made], batch)

    def _merged(self, stretches: list[tuple[str, Items]], batch: Batch) -> Iterator[Record]:
        if not stretches:
            return iter(())
        after = np.concatenate([_causes(items, batch) for _, items in stretches])
        at = np.concatenate([items.at for _, items in stretches])
        by_event = np.concatenate([items.event != TIMER for _, items in stretches])
        order = np.lexsort((by_event, at, after))  # stable: then by operator, then as it came
        rows = list(chain.from_iterable(self._records(stream, items) for stream, items in stretches))
        ordered = zip(order.tolist(), after[order].tolist(), strict=True)
        return ({"after": n} | rows[place] for place, n in ordered if rows[place])  # watermarks are no output

    def _records(self, stream: str, items: Items) -> Iterator[Record]:
        if stream == REJECTS:
            return (_dead_letter(row) for row in items.tuples.to_pylist())
        return self._tuples_and_marks(stream, items, self._streams[stream])

    def _tuples_and_marks(self, stream: str, items: Items, schema: Schema) -> Iterator[Record]:
        columns = [self._values(items.tuples.column(name), type_) for name, type_ in schema]
        names = [name for name, _ in schema]
        tuples = iter(zip(*columns, strict=True)) if columns else repeat(())
        for kind in items.kind.tolist():
            if kind == WATERMARK:
                yield {}
            elif kind == TUPLE:
                yield {"stream": stream, "tuple": dict(zip(names, next(tuples), strict=True))}
            else:
                yield {"stream": stream, "punct": PUNCT[kind]}


def _dead_letter(row: Record) -> Record:
    """A tuple that an operator could not use, and why."""
    return {"dead_letter": row | {"tuple": orjson.loads(row["tuple"])}}


def _causes(items: Items, batch: Batch) -> np.ndarray:
    """The event that caused each item; of a timer, the one that moved the clock: the first not before it was due."""
    moved = batch.first + np.searchsorted(batch.at, items.at)
    return np.where(items.event == TIMER, moved, items.event)


def shown(pipeline: Pipeline) -> dict[str, Schema]:
    """The streams that a user sees, in the operators' order: those with a topic, and those that nobody reads."""
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
        origin = None if clock_origin == "first" else _seconds(clock_origin)
    return changed(pipeline, settings=changed(pipeline.settings, clock_origin=origin))


def _seconds(number: str | float) -> int:
    try:
        return nanoseconds(Decimal(str(number)))
    except (ArithmeticError, ValueError):
        msg = f'clock_origin is a number of seconds or "first", not "{number}"'
        raise SluiceError(msg) from None


def from_origin(events: Iterator[Placed], pipeline: Pipeline) -> Iterator[Placed]:
    """The events; refuses them where a million ticks lie before the first."""
    first = list(islice(events, 1))
    origin = pipeline.settings.clock_origin
    periods = [p for p in map(period, pipeline.operators) if p]
    if first and periods and origin is not None:
        _check_ticks(*first[0], origin, min(periods))
    return chain(first, events)


def _check_ticks(place: str, event: Event, origin: int, shortest: int) -> None:
    at = event.get("at")
    if isinstance(at, int | float | Decimal) and (nanoseconds(at) - origin) // shortest > MOST_TICKS:
        problem = (
            f"the first event is more than {MOST_TICKS:,} timer periods of {shortest / 1e9:g} s after the clock's "
            "origin; set clock_origin (`--clock-origin first` lets the clock start at the first event)"
        )
        raise EventError(place, problem)


def period(operator: Operator) -> int | None:
    """Nanoseconds from tick to tick of an operator with a periodic timer."""
    if not isinstance(operator, Aggregate | Sort):
        return None
    last = policies(operator.window)[-1:]
    return last[0].nanoseconds if last and isinstance(last[0], Time) else None
