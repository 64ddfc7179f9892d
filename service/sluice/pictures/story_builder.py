"""Builds the story of a replay: runs the events one by one and notes what each does to every window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sluice.columns.json_columns import shown_values
from sluice.engine.graph import GraphState
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import CLEAR, MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.stream.watermark_text import to_text
from sluice.model.spec import DELETES, Pipeline, Stream
from sluice.model.types import Type
from sluice.pictures.story import Shown, Step, Story
from sluice.pictures.window_followers import Follower, Snapshots, ports
from sluice.replayer.event_batches import MARKS, Batch
from sluice.replayer.event_file import Event, LocatedEvent
from sluice.replayer.player import Player, Prepared, Timed, from_origin, prepared, single_events

#: the most steps of a story; a longer picture cannot be surveyed
MAX_STEPS = 400
#: times of the clock from here on (in 1973) are shown as times of the calendar, nanoseconds
CALENDAR = 100_000_000 * 1_000_000_000


def build_story(pipeline: Pipeline, events: Path | Iterable[Event], *, most: int = MAX_STEPS, **how: Any) -> Story:  # noqa: ANN401
    """The story of the pipeline over the first `most` events. `how` has arguments of `prepared`.

    The story has at most `most` steps. Kafka records are shown decoded. Raises EventError for an event that cannot
    be used.
    """
    run = prepared(pipeline, events, **how)
    placed = list(run.placed())
    narrator = _StoryBuilder(run)
    steps = list(islice(narrator.steps(list(from_origin(iter(placed[:most]), run.pipeline))), most))
    left_out = len(placed) - (steps[-1].after + 1 if steps else 0)
    calendar = bool(steps) and steps[0].at >= CALENDAR
    return Story(pipeline.name, tuple(port.port for port in narrator.ports), tuple(steps), calendar, left_out)


class _StoryBuilder:
    """Runs a pipeline and groups the records of its replay into steps.

    Where a port needs snapshots of the state, the pipeline runs one event at a time, and the clock stops at each timer
    that is due between two events. Otherwise all events are one batch, which takes less time. They are decoded at once
    in both cases.
    """

    def __init__(self, run: Prepared) -> None:
        self._watermarks = _Watermarks({operator.name: operator.inputs for operator in run.pipeline.operators})
        self._arrived: dict[str, list[Items]] = {}
        self._player = Player(run.pipeline, run.counts, shown_values, trace=True, observer=self._observe)
        self._state: GraphState = self._player.graph.initial()
        self._cutter = run.cutter
        self._inputs = {stream.name: stream for stream in run.pipeline.inputs}
        self.ports: list[Follower] = ports(run.pipeline)

    def _observe(self, operator: str, ports: list[Items], clock: Clock) -> None:
        self._arrived[operator] = ports
        self._watermarks.observe(operator, ports, clock)

    def steps(self, placed: list[LocatedEvent]) -> Iterator[Step]:
        if not placed:
            return
        batch = self._cutter.batch(placed)
        events = decoded([event for _, event in placed], batch, self._inputs)
        if not any(port.inspects for port in self.ports):
            yield from self._fed(batch, events)
            return
        for single, event in zip(single_events(batch), events, strict=True):
            if single.first:
                yield from self._timers(single.first, int(single.at[0]))
            yield from self._fed(single, [event])

    def _timers(self, number: int, until: int) -> Iterator[Step]:
        """The steps of timers that are due by `until`, in the order of their times."""
        for _ in range(MAX_STEPS):
            due = self._player.graph.due(self._state)
            if due > until or due == MAX_TIME:
                return
            yield from self._fed(Batch(number, due, np.array([due], np.int64), {}), [])

    def _fed(self, batch: Batch, events: list[Event]) -> Iterator[Step]:
        """The steps of a batch, in order. Each event has a step, also if nothing happens."""
        records: dict[Moment, list[Timed]] = {}
        for number, at in enumerate(batch.at[: len(events)].tolist(), batch.first):
            records[Moment(number, at, by_event=True)] = []
        self._arrived.clear()
        for timed in self._player.timed(self._state, batch):
            records.setdefault(Moment(timed.after, timed.at, timed.by_event), []).append(timed)
        moments = sorted(records)
        for moment in moments:
            event = events[moment.after - batch.first] if moment.by_event and events else None
            step = self._step(moment, event, records[moment], inspect=moment is moments[-1])
            if step.event is not None or step.changes or step.outputs:
                yield step

    def _step(self, moment: Moment, event: Event | None, records: list[Timed], *, inspect: bool) -> Step:
        traced = [timed.record for timed in records if "window_event" in timed.record]
        changes = [change for port in self.ports for change in port.traced(traced)]
        if inspect:
            snapshots = Snapshots(self._player.graph, self._state, self._arrived)
            changes += [change for port in self.ports for change in port.inspected(snapshots, moment.at)]
        outputs = tuple(shown(timed.record) for timed in records if "window_event" not in timed.record)
        watermarks = self._watermarks.until(moment.at, moment.after)
        return Step(moment.after, moment.at, event, watermarks, tuple(changes), outputs)


class Moment(NamedTuple):
    """The moment of a step: an event, or timers. In the order in which steps follow each other."""

    after: int
    at: int
    by_event: bool


class _Watermarks:
    """The watermark of each stream at each time, from the items that operators read."""

    def __init__(self, inputs: Mapping[str, Sequence[str]]) -> None:
        self._inputs = inputs
        self._received: list[tuple[int, int, str, int]] = []
        self._now: dict[str, int] = {}

    def observe(self, operator: str, ports: list[Items], clock: Clock) -> None:
        del clock
        for stream, items in zip(self._inputs[operator], ports, strict=True):
            marks = items.kind == WATERMARK
            columns = (items.at[marks].tolist(), items.event[marks].tolist(), items.watermark[marks].tolist())
            self._received += [(at, event, stream, time) for at, event, time in zip(*columns, strict=True)]

    def until(self, at: int, event: int) -> Mapping[str, int]:
        """The watermarks after this event, at this time of the clock."""
        self._received.sort()
        due = [arrival for arrival in self._received if arrival[:2] <= (at, event)]
        self._received = self._received[len(due) :]
        for _, _, stream, time in due:
            self._now[stream] = max(self._now.get(stream, time), time)
        return dict(self._now)


def shown(record: Mapping[str, Any]) -> Shown:
    """A record of a replay as a story has it."""
    if "dead_letter" in record:
        letter = record["dead_letter"]
        return Shown(
            letter.get("operator") or letter.get("stream", ""), "dead_letter", letter.get("tuple", {}), letter["reason"]
        )
    kind = next(word for word in ("tuple", "punct", "watermark") if word in record)
    values = record["tuple"] if kind == "tuple" else {}
    return Shown(record["stream"], kind, values, "" if kind == "tuple" else str(record[kind]))


MARK_WORDS = {kind: word for word, kind in MARKS.items()}


def decoded(events: Sequence[Event], batch: Batch, inputs: Mapping[str, Stream]) -> list[Event]:
    """The events of the batch. One with a record has the record's `tuple`, `delete`, `punct` or `watermark` instead, or
    `rejected` beside it: why the record cannot be decoded. A tuple may have the mark that follows it beside it.
    """
    exact = {name: _with_digits(stream) for name, stream in inputs.items()}
    if not any("record" in event for event in events) and not any(exact.values()):
        return list(events)
    contents: dict[int, dict[str, Any]] = {
        rejected.number: {"rejected": rejected.letter["dead_letter"]["reason"]} for rejected in batch.rejected
    }
    for name, items in batch.inputs.items():
        for number, content in _contents(items, inputs[name]):
            contents[number] = contents.get(number, {}) | content
    return [
        _with(event, contents.get(number, {}))
        if "record" in event
        else _exactly(event, contents.get(number, {}), exact.get(event.get("stream", next(iter(inputs))), []))
        for number, event in enumerate(events, batch.first)
    ]


def _with_digits(stream: Stream) -> list[str]:
    """The attributes whose numbers have digits that a number of an event may lack."""
    return [name for name, type_ in stream.row_schema if _has_digits(type_)]


def _has_digits(type_: Type) -> bool:
    return type_.keeps_digits or any(map(_has_digits, type_.present.parts))


def _exactly(event: Event, content: Mapping[str, Any], names: Sequence[str]) -> Event:
    """The event with the values of these attributes as the engine has them."""
    values = event.get("tuple")
    if not (names and values and "tuple" in content):
        return event
    return {**event, "tuple": {**values, **{name: content["tuple"][name] for name in names if name in values}}}


def _with(event: Event, content: Mapping[str, Any]) -> Event:
    kept = {name: value for name, value in event.items() if name != "record" or not content or "rejected" in content}
    return kept | dict(content)


def _contents(items: Items, stream: Stream) -> list[tuple[int, dict[str, Any]]]:
    """What each item is, with the number of its event."""
    columns = [shown_values(items.tuples.column(name), type_) for name, type_ in stream.row_schema]
    names = [name for name, _ in stream.row_schema]
    rows = iter([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])
    numbers, kinds, watermarks = (column.tolist() for column in (items.event, items.kind, items.watermark))
    return [
        (number, _tuple(next(rows), stream) if kind == TUPLE else _mark(kind, watermark))
        for number, kind, watermark in zip(numbers, kinds, watermarks, strict=True)
    ]


def _tuple(row: dict[str, Any], stream: Stream) -> dict[str, Any]:
    if row.pop(DELETES, False) and stream.key is not None:
        return {"delete": {name: row[name] for name in stream.key.attributes}}
    return {"tuple": row}


def _mark(kind: int, watermark: int) -> dict[str, Any]:
    if kind == CLEAR:
        return {"truncate": True}
    return {"watermark": to_text(watermark)} if kind == WATERMARK else {"punct": MARK_WORDS.get(kind, "window")}
