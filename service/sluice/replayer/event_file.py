"""Reads the events of a replay and makes batches of items of them.

An event is a JSON object with a time `at` and one of a tuple, a punctuation mark or a watermark for an input stream. An
event with none of these only advances the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema, arrow_type
from sluice.columns.json_columns import column, fits, nanoseconds
from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW, Items
from sluice.engine.stream.watermark_text import watermark
from sluice.model.errors import SluiceError
from sluice.model.spec import Stream
from sluice.model.types import Type

Event = Mapping[str, Any]
#: where an event is, for error messages, and the event
Placed = tuple[str, Event]

KEYS = ("at", "stream", "tuple", "punct", "watermark", "topic_partition")
CONTENTS = ("tuple", "punct", "watermark")
MARKS = {"window": WINDOW, "final": FINAL}
#: below this number of seconds a float64 is exact enough to distinguish nanoseconds
EXACT_BELOW = 4_000_000
#: the most bytes of a line; larger records do not fit into a topic either
MAX_LINE = 16 << 20


class EventError(SluiceError):
    """An event that the replay cannot use."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive events: their times `at` in nanoseconds, and the items of each input stream."""

    #: number of the first event
    first: int
    #: the clock after the batch, in nanoseconds; None if there was no event yet
    now: int | None
    at: np.ndarray
    inputs: Mapping[str, Items]


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path, name: str | None = None, *, naming: bytes = b"") -> Iterator[Placed]:
    """Yields the events of a JSON-lines file whose lines contain the bytes `naming`. Blank lines are skipped.

    `name` is the name of the file in error messages. Raises EventError for a line that is no JSON object.
    """
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE + 1), b""), 1):
            place = f"{name or path}:{number}"
            if len(line) > MAX_LINE:
                raise EventError(place, f"a line of more than {MAX_LINE >> 20} MiB")
            if naming in line and not line.isspace():
                yield place, _parsed(line, place)


def numbered(events: Iterable[Event]) -> Iterator[Placed]:
    """Yields events that are Python values already, each with its number."""
    for number, event in enumerate(events):
        yield f"event {number}", event


def _parsed(line: bytes, place: str) -> Event:
    try:
        event = orjson.loads(line)
    except ValueError as error:
        raise EventError(place, f"not JSON: {error}") from None
    if not isinstance(event, dict):
        raise EventError(place, f"expected a JSON object, got {line[:240].decode(errors='replace').strip()[:60]}")
    if isinstance(event.get("at"), float) and abs(event["at"]) >= EXACT_BELOW:
        event["at"] = json.loads(line, parse_float=Decimal)["at"]
    return event


def topic_partitions(events: Iterable[Placed], streams: Sequence[str]) -> dict[str, int]:
    """The number of topic partitions of each stream: the largest number that its events name plus 1, at least 1."""
    counts = dict.fromkeys(streams, 1)
    for _, event in events:
        stream, partition = event.get("stream", streams[0]), event.get("topic_partition", 0)
        if stream in counts and isinstance(partition, int):
            counts[stream] = max(counts[stream], partition + 1)
    return counts


# ---- checking and cutting --------------------------------------------------------------------------------------------


class Cutter:
    """Checks events and cuts them into batches, in order. Raises EventError for an event that it cannot use."""

    def __init__(self, inputs: Sequence[Stream]) -> None:
        self._stretches = {stream.name: _Stretch(stream) for stream in inputs}
        self._only = inputs[0].name if len(inputs) == 1 else None
        self._count = 0
        self._now: int | None = None

    def batches(self, events: Iterable[Placed], size: int) -> Iterator[Batch]:
        events = iter(events)
        while some := list(islice(events, size)):
            yield self.batch(some)

    def batch(self, events: Sequence[Placed]) -> Batch:
        """These events as the next batch."""
        first, times = self._count, []
        for place, event in events:
            times.append(self._add(place, event))
        inputs = {name: s.items() for name, s in self._stretches.items() if s}
        return Batch(first, self._now, np.array(times, np.int64), inputs)

    def _add(self, place: str, event: Event) -> int:
        for key in event:
            if key not in KEYS:
                raise EventError(place, f"unknown key {_quoted(key)}{_nearest(key, KEYS)}")
        at = self._at(place, event)
        contents = [key for key in CONTENTS if key in event]
        if len(contents) > 1:
            raise EventError(place, f"at most one of tuple, punct and watermark, got {' and '.join(contents)}")
        stream = self._stream(place, event, needed=bool(contents))
        if stream is not None and contents:
            stream.add(place, event, self._count, at)
        self._count += 1
        return at

    def _at(self, place: str, event: Event) -> int:
        at = event.get("at")
        if isinstance(at, bool) or not isinstance(at, int | float | Decimal):
            raise EventError(place, f"`at` must be a number of seconds, got {_quoted(at) if 'at' in event else 'none'}")
        try:
            now = int(np.int64(nanoseconds(at)))
        except (ArithmeticError, ValueError):
            raise EventError(place, f"`at` is not a time between the years 1677 and 2262: {at}") from None
        if self._now is not None and now < self._now:
            raise EventError(place, f"`at` goes back from {_seconds(self._now)} to {_seconds(now)}")
        self._now = now
        return now

    def _stream(self, place: str, event: Event, *, needed: bool) -> _Stretch | None:
        name = event.get("stream", self._only)
        if name in self._stretches:
            return self._stretches[name]
        known = f"the inputs are {', '.join(self._stretches)}"
        if "stream" in event:
            raise EventError(place, f"unknown stream {_quoted(name)}{_nearest(name, self._stretches)}; {known}")
        if needed:
            raise EventError(place, f"`stream` is missing; {known}")
        return None


class _Stretch:
    """Collects the items of one stream for the current batch."""

    def __init__(self, stream: Stream) -> None:
        self._schema, self._defaults = stream.schema, dict(stream.defaults)
        self._arrow = arrow_schema(stream.schema)
        self._clear()

    def _clear(self) -> None:
        self._items: list[tuple[int, int, int, int, int]] = []
        self._tuples: list[Mapping[str, Any]] = []
        self._places: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, place: str, event: Event, number: int, at: int) -> None:
        source = event.get("topic_partition", 0)
        if type(source) is not int or source < 0:
            raise EventError(place, f"`topic_partition` must be a number from 0 on, got {_quoted(source)}")
        if "tuple" in event:
            self._items.append((number, at, TUPLE, source, 0))
            self._tuples.append(_tuple(place, event["tuple"]))
            self._places.append(place)
        elif "punct" in event:
            self._items.append((number, at, _mark(place, event["punct"]), source, 0))
        else:
            self._items.append((number, at, WATERMARK, source, _watermark(place, event["watermark"])))

    def items(self) -> Items:
        events, at, kind, source, watermark = np.array(self._items, np.int64).reshape(-1, 5).T
        columns = [self._column(name, type_) for name, type_ in self._schema]
        tuples = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        no_keys = pa.array([], pa.binary())
        items = Items(
            event=np.ascontiguousarray(events), at=np.ascontiguousarray(at),
            kind=kind.astype(np.int8), source=source.astype(np.int32),
            key=np.full(len(events), -1, np.int32), keys=no_keys, tuples=tuples,
            watermark=np.ascontiguousarray(watermark),
        )  # fmt: skip
        self._clear()
        return items

    def _column(self, name: str, type_: Type) -> pa.Array:
        try:
            if name in self._defaults:
                return _filled([values.get(name) for values in self._tuples], type_, self._defaults[name])
            return column([values[name] for values in self._tuples], type_)
        except (ValueError, KeyError, OverflowError):
            raise self._first_wrong(name, type_) from None

    def _first_wrong(self, name: str, type_: Type) -> EventError:
        tuples = zip(self._places, self._tuples, strict=True)
        place, values = next((place, values) for place, values in tuples if not self._good(values, name, type_))
        if name not in values:
            return EventError(place, f"attribute {_quoted(name)} is missing{_nearest(name, values)}")
        return EventError(place, f"attribute {_quoted(name)} must be {type_}, got {_quoted(values[name])}")

    def _good(self, values: Mapping[str, Any], name: str, type_: Type) -> bool:
        if values.get(name) is None and name in self._defaults:
            return True
        return name in values and fits(values[name], type_)


def _filled(values: Sequence[Any], type_: Type, default: object) -> pa.Array:
    """The values as a column; None, a missing or null value, becomes the default."""
    there = [value for value in values if value is not None]
    known = pa.concat_arrays([pa.array([default], arrow_type(type_)), column(there, type_)])
    given = np.array([value is not None for value in values])
    return known.take(pa.array(np.where(given, np.cumsum(given), 0)))


def _tuple(place: str, values: object) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise EventError(place, f"`tuple` must be an object, got {_quoted(values)}")
    return values


def _mark(place: str, word: object) -> int:
    if not isinstance(word, str) or word not in MARKS:
        raise EventError(place, f"`punct` must be window or final, got {_quoted(word)}")
    return MARKS[word]


def _watermark(place: str, value: object) -> int:
    try:
        return watermark(value)
    except ValueError:
        problem = f"`watermark` must be seconds since 1970 or an ISO 8601 time, got {_quoted(value)}"
        raise EventError(place, problem) from None


# ---- texts for messages ----------------------------------------------------------------------------------------------


def _quoted(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)[:60]


def _nearest(word: object, known: Iterable[str]) -> str:
    near = get_close_matches(str(word), known, 1)
    return f", perhaps {_quoted(near[0])}" if near else ""


def _seconds(time: int) -> str:
    return f"{Decimal(time).scaleb(-9):f}".rstrip("0").rstrip(".")
