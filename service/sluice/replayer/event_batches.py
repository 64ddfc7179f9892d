"""Checks the events of a replay (`event_file.py`) and cuts them into batches of items of the input streams."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns.arrow_types import array_of, arrow_schema, arrow_type
from sluice.columns.column_forms import form
from sluice.columns.json_columns import column, fits
from sluice.engine.stream.items import CLEAR, FINAL, TUPLE, WATERMARK, WINDOW, Items, concatenated
from sluice.engine.stream.watermark_text import to_text, watermark
from sluice.model.spec import DELETES, Stream
from sluice.model.types import TIMESTAMP, Type
from sluice.replayer.event_file import (
    EXPECTED,
    NO_TIME,
    Event,
    EventError,
    LocatedEvent,
    WrittenEvent,
    clock_time,
    nearest,
    quoted,
    text_in,
    too_large,
)
from sluice.replayer.replayed_records import UNKNOWN, Recorded, RejectedRecord, Spread, decoded
from sluice.wire.json.json_contract import JsonForm, fault_inside
from sluice.wire.json.json_types import json_form
from sluice.wire.json.json_values import NotOfTypeError

KEYS = (
    "at",
    "stream",
    "tuple",
    "punct",
    "watermark",
    "record",
    "delete",
    "truncate",
    "topic_partition",
    "offset",
    "key",
)
CONTENTS = ("tuple", "punct", "watermark", "record", "delete", "truncate")
MARKS = {"window": WINDOW, "final": FINAL}


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive events: their times `at` in nanoseconds, and the items of each input stream."""

    #: number of the first event
    first: int
    #: the clock after the batch, in nanoseconds; None if there was no event yet
    now: int | None
    at: np.ndarray
    inputs: Mapping[str, Items]
    #: the dead letters of records that could not be decoded
    rejected: Sequence[RejectedRecord] = ()


class Cutter:
    """Checks events and cuts them into batches, in order. Raises EventError for an event that it cannot use."""

    def __init__(
        self, inputs: Sequence[Stream], registry: Mapping[str, str] | None = None, partitions: int | None = None
    ) -> None:
        """`registry` has the properties of the schema registry. `partitions`: the number of topic partitions over which
        events without a `topic_partition` are spread by their keys; None: they are in topic partition 0.
        """
        self._streams = {stream.name: _StreamItems(stream, registry or {}, partitions) for stream in inputs}
        self._only = inputs[0].name if len(inputs) == 1 else None
        self._count = 0
        self._now: int | None = None
        #: what the times of the events are, in words; a file has one form of times
        self._form: str | None = None

    def batches(self, events: Iterable[LocatedEvent], size: int) -> Iterator[Batch]:
        events = iter(events)
        while batch := list(islice(events, size)):
            yield self.batch(batch)

    def batch(self, events: Sequence[LocatedEvent]) -> Batch:
        """These events as the next batch."""
        first, times = self._count, []
        try:
            for location, event in events:
                times.append(self._add(location, event))
            inputs = {name: s.items() for name, s in self._streams.items() if s}
        except EventError as error:
            raise self._first_wrong(error) from None
        rejected = [letter for stretch in self._streams.values() for letter in stretch.rejected()]
        return Batch(first, self._now, np.array(times, np.int64), inputs, rejected)

    def _first_wrong(self, error: EventError) -> EventError:
        """The error of the first wrong tuple of the batch, or else `error`. Tuples are checked attribute by attribute,
        so the first error may belong to a later event.
        """
        wrong = (stretch.first_wrong() for stretch in self._streams.values())
        errors = [first for first in wrong if first is not None]
        return min(errors, key=lambda numbered_error: numbered_error[0])[1] if errors else error

    def _add(self, location: str, event: Event) -> int:
        if event and not any(key in KEYS for key in event):
            problem = f"expected an event with `at` and the keys {', '.join(KEYS[1:])}, got {quoted(event)}"
            hint = "if the lines are plain records, name the attribute of their time (--at FIELD)"
            raise EventError(location, f"{problem}; {hint}")
        for key in event:
            if key not in KEYS:
                permitted = nearest(key, KEYS) or f"; an event has {', '.join(KEYS)}, and attributes are in tuple"
                raise EventError(location, f"unknown key {quoted(key)}{permitted}")
        at = self._at(location, event)
        contents = [key for key in CONTENTS if key in event]
        if len(contents) > 1:
            raise EventError(location, f"expected at most one of {', '.join(CONTENTS)}, got {' and '.join(contents)}")
        stream = self._stream(location, event, needed=bool(contents))
        if stream is not None and contents:
            stream.add(location, event, self._count, at)
        self._count += 1
        return at

    def _at(self, location: str, event: Event) -> int:
        if "at" not in event:
            raise EventError(location, f"`at` is missing: expected {EXPECTED}")
        at = event["at"]
        try:
            now = clock_time(at)
        except TypeError:
            raise EventError(location, f"`at` must be {EXPECTED}, got {quoted(at)}") from None
        except (ArithmeticError, ValueError):
            problem = f"`at` is {NO_TIME}: {at}{too_large(at)}"
            raise EventError(location, problem) from None
        form, text = ("an ISO 8601 time", to_text) if isinstance(at, str) else ("a number of seconds", _seconds)
        if self._form not in (None, form):
            raise EventError(location, f"`at` must be {self._form} as in the events before, got {quoted(at)}")
        if self._now is not None and now < self._now:
            raise EventError(location, f"`at` goes back from {text(self._now)} to {text(now)}; sort the events by `at`")
        self._now, self._form = now, form
        return now

    def _stream(self, location: str, event: Event, *, needed: bool) -> _StreamItems | None:
        name = event.get("stream", self._only)
        if isinstance(name, str) and name in self._streams:
            return self._streams[name]
        inputs = f"the inputs are {', '.join(self._streams)}"
        if "stream" in event:
            raise EventError(location, f"unknown stream {quoted(name)}{nearest(name, self._streams)}; {inputs}")
        if needed:
            raise EventError(location, f"`stream` is missing; {inputs}")
        return None


class _StreamItems:
    """Collects the items of one stream for the current batch."""

    def __init__(self, stream: Stream, registry: Mapping[str, str], partitions: int | None) -> None:
        self._stream, self._registry, self._partitions = stream, registry, partitions
        self._schema, self._defaults = stream.row_schema, dict(stream.defaults)
        self._arrow = arrow_schema(stream.row_schema)
        self._exact = [name for name, type_ in stream.row_schema if _has_digits(json_form(type_))]
        self._spread = None if partitions is None else Spread(stream, registry, partitions)
        self._rejected: list[RejectedRecord] = []
        self._clear()

    def _clear(self) -> None:
        self._items: list[tuple[int, int, int, int, int]] = []
        self._tuples: list[Mapping[str, Any]] = []
        #: by tuple: the texts of the attributes of `_exact`, if the event is of a file
        self._texts: list[Mapping[str, str | None]] = []
        self._keys: list[bytes | None] = []
        self._places: list[str] = []
        self._records: list[Recorded] = []

    def __bool__(self) -> bool:
        return bool(self._items or self._records)

    def add(self, location: str, event: Event, number: int, at: int) -> None:
        source = event.get("topic_partition", 0 if self._spread is None else UNKNOWN)
        if type(source) is not int or source < (0 if "topic_partition" in event else UNKNOWN):
            raise EventError(location, f"`topic_partition` must be a whole number from 0 on, got {quoted(source)}")
        if "record" in event:
            self._records.append(Recorded(location, number, at, source, *record_parts(location, event, at)))
        elif "tuple" in event or "delete" in event:
            self._items.append((number, at, TUPLE, source, 0))
            self._tuples.append(self._row(location, event))
            exact = self._exact if isinstance(event, WrittenEvent) else []
            self._texts.append({name: text_in(event, "tuple", name) for name in exact})
            self._keys.append(_bytes(location, "key", event.get("key")))
            self._places.append(location)
        else:
            kind = self._kind(location, event)
            watermark = _time(location, "watermark", event["watermark"]) if kind == WATERMARK else 0
            for partition in range(self._partitions or 1) if source == UNKNOWN else [source]:
                self._items.append((number, at, kind, partition, watermark))

    def _kind(self, location: str, event: Event) -> int:
        """The kind of an event that is no tuple."""
        if "punct" in event:
            return _mark(location, event["punct"])
        if "truncate" not in event:
            return WATERMARK
        if not self._stream.table or event["truncate"] is not True:
            fault = f"`truncate: true` deletes all rows of a table; {self._stream.name} is "
            raise EventError(location, fault + ("one" if self._stream.table else "none (it has no `table: true`)"))
        return CLEAR

    def _row(self, location: str, event: Event) -> Mapping[str, Any]:
        """The attributes of the tuple of an event, or of the tuple that deletes the row of a key (M4)."""
        if "delete" in event:
            return {**_deleted(location, self._stream, event["delete"]), DELETES: True}
        values = _tuple(location, event["tuple"])
        return {**values, DELETES: False} if self._stream.table else values

    def items(self) -> Items:
        """The items that were added, in the order of their events."""
        events, at, kind, source, watermark = np.array(self._items, np.int64).reshape(-1, 5).T
        columns = [self._with_digits(name, type_, self._column(name, type_)) for name, type_ in self._schema]
        tuples = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        if self._spread is not None:
            source = source.copy()
            source[kind == TUPLE] = self._spread.tuples(source[kind == TUPLE], tuples, self._keys)
        no_keys = pa.array([], pa.binary())
        items = Items(
            event=np.ascontiguousarray(events), at=np.ascontiguousarray(at),
            kind=kind.astype(np.int8), source=source.astype(np.int32),
            key=np.full(len(events), -1, np.int32), keys=no_keys, tuples=tuples,
            watermark=np.ascontiguousarray(watermark),
        )  # fmt: skip
        if self._records:
            items = self._with_records(items)
        self._clear()
        return items

    def _with_records(self, items: Items) -> Items:
        decoded_items, rejected = decoded(self._stream, self._registry, self._records, self._spread)
        self._rejected += rejected
        all_items = concatenated(items, decoded_items)
        return all_items.take(np.argsort(all_items.event, kind="stable"))

    def rejected(self) -> list[RejectedRecord]:
        """The dead letters of the records of the last call of `items`."""
        letters, self._rejected = self._rejected, []
        return letters

    def _column(self, name: str, type_: Type) -> pa.Array:
        try:
            if name == self._stream.record_timestamp:
                return _filled([values.get(name) for values in self._tuples], type_, self._times_of_tuples())
            if name in self._defaults:
                default = array_of([self._defaults[name]], type_)
                return _filled([values.get(name) for values in self._tuples], type_, default)
            if type_.optional:
                return column([values.get(name) for values in self._tuples], type_)
            return column([values[name] for values in self._tuples], type_)
        except (ValueError, KeyError, OverflowError):
            wrong = self.first_wrong()
            assert wrong is not None  # noqa: S101 - a column that cannot be made has a wrong value
            raise wrong[1] from None

    def _with_digits(self, name: str, type_: Type, column_: pa.Array) -> pa.Array:
        """The column with the values of the texts in the file, where there are texts: their numbers have all digits."""
        texts = [texts.get(name) if row.get(name) is not None else None
                 for texts, row in zip(self._texts, self._tuples, strict=True)]  # fmt: skip
        present = np.array([text is not None for text in texts], np.bool_)
        if not present.any():
            return column_
        exact = array_of([self._exactly(row, name, type_) for row in np.flatnonzero(present).tolist()], type_)
        places = np.where(present, len(texts) - 1 + np.cumsum(present), np.arange(len(texts)))
        return pa.concat_arrays([column_, exact]).take(pa.array(places))

    def _exactly(self, row: int, name: str, type_: Type) -> Any:  # noqa: ANN401 - a value of the model
        """The value of the text in the file. Raises EventError if its number has too many digits."""
        try:
            return json_form(type_).read_text(str(self._texts[row][name]))
        except NotOfTypeError:
            raise _wrong(self._places[row], self._tuples[row], name, type_) from None

    def _times_of_tuples(self) -> pa.TimestampArray:
        """The time `at` of the event of each tuple, which is the timestamp of its record."""
        times = [at for _, at, kind, *_ in self._items if kind == TUPLE]
        return pa.array(times, pa.int64()).view(arrow_type(TIMESTAMP))

    def first_wrong(self) -> tuple[int, EventError] | None:
        """The first tuple with a missing or wrong attribute: the number of its event, and its error."""
        numbers = (item[0] for item in self._items if item[2] == TUPLE)
        for number, location, values in zip(numbers, self._places, self._tuples, strict=False):
            for name, type_ in self._schema:
                if not self._good(values, name, type_):
                    return number, _wrong(location, values, name, type_)
        return None

    def _good(self, values: Mapping[str, Any], name: str, type_: Type) -> bool:
        replaced = name in self._defaults or name == self._stream.record_timestamp or type_.optional
        if values.get(name) is None and replaced:
            return True
        return name in values and fits(values[name], type_)


def _has_digits(form: JsonForm) -> bool:
    """Whether values need the digits of the numbers in their text."""
    return form.digits or form.by_text


def _wrong(location: str, values: Mapping[str, Any], name: str, type_: Type) -> EventError:
    if name not in values:
        return EventError(location, f"attribute {quoted(name)} is missing{nearest(name, values)}")
    value, form = values[name], json_form(type_)
    got = f"{quoted(value)}{form.remark(value)}{fault_inside(form, value, name)}"
    return EventError(location, f"attribute {quoted(name)} must be {type_}, got {got}")


def _filled(values: Sequence[Any], type_: Type, defaults: pa.Array) -> pa.Array:
    """The values as a column; None, a missing or null value, becomes a default. There is one for all rows, or one for
    each row.
    """
    present_values = [value for value in values if value is not None]
    all_values = pa.concat_arrays([defaults, column(present_values, type_)])
    present = np.array([value is not None for value in values], np.bool_)  # without a type, no values are floats
    default = np.arange(len(values)) % len(defaults)
    return all_values.take(pa.array(np.where(present, len(defaults) - 1 + np.cumsum(present), default)))


def _tuple(location: str, values: object) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise EventError(location, f"`tuple` must be an object, got {quoted(values)}")
    return values


def _deleted(location: str, stream: Stream, values: object) -> Mapping[str, Any]:
    """The attributes of a tuple that deletes a row: the key's attributes from the event, and empty values for others.

    The row is deleted at the position of the event (M8).
    """
    if not stream.table or stream.key is None:
        raise EventError(
            location, f"`delete` removes a row of a table, and {stream.name} is no table (it has no `table: true`)"
        )
    if not isinstance(values, Mapping) or values.keys() != set(stream.key.attributes):
        names = ", ".join(stream.key.attributes)
        raise EventError(location, f"`delete` must be an object with the key of a row ({names}), got {quoted(values)}")
    empty = {name: form(kind).to_json(array_of([kind.empty], kind))[0] for name, kind in stream.schema}
    return empty | dict(values)


def _mark(location: str, word: object) -> int:
    if not isinstance(word, str) or word not in MARKS:
        raise EventError(location, f"`punct` must be window or final, got {quoted(word)}")
    return MARKS[word]


def record_parts(
    location: str, event: Event, at: int
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]:
    """Value, key, headers and timestamp of the Kafka record in an event at the time `at`."""
    record = event["record"]
    if not isinstance(record, dict) or not record.keys() <= {"value", "key", "headers", "timestamp"}:
        expected = "an object with value, key, headers and timestamp"
        raise EventError(location, f"`record` must be {expected}, got {quoted(record)}")
    headers = record.get("headers") or {}
    if not isinstance(headers, dict):
        raise EventError(location, f"`headers` must be an object, got {quoted(headers)}")
    pairs = [(name, _bytes(location, f"header {name}", value)) for name, value in headers.items()]
    time = _record_time(location, record["timestamp"]) if "timestamp" in record else at
    value, key = (_bytes(location, part, _written(event, part)) for part in ("value", "key"))
    return value, key, pairs, time


def _written(event: Event, part: str) -> object:
    """A part of the record in an event; JSON of a file as its text."""
    text = event["record"].get(part)
    plain = text is None or isinstance(text, str | bytes) or (isinstance(text, dict) and "base64" in text)
    return text if plain or not isinstance(event, WrittenEvent) else text_in(event, "record", part)


def _bytes(location: str, part: str, value: object) -> bytes | None:
    """The bytes of a part of a record: a text, `{"base64": text}`, or another JSON value, which is written as JSON."""
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
        case {"base64": str(text), **rest} if not rest:
            try:
                return b64decode(text, validate=True)
            except ValueError:
                raise EventError(location, f"`{part}` must be text in base64, got {quoted(text)}") from None
        case _:
            return orjson.dumps(value)


def _record_time(location: str, value: object) -> int:
    try:
        return clock_time(value)
    except TypeError:
        raise EventError(location, f"`timestamp` must be {EXPECTED}, got {quoted(value)}") from None
    except (ArithmeticError, ValueError):
        raise EventError(location, f"`timestamp` is {NO_TIME}: {quoted(value)}{too_large(value)}") from None


def _time(location: str, key: str, value: object) -> int:
    try:
        return watermark(value)
    except ValueError:
        problem = f"`{key}` must be seconds since 1970 or an ISO 8601 time, got {quoted(value)}"
        raise EventError(location, problem) from None


def _seconds(time: int) -> str:
    return f"{Decimal(time).scaleb(-9):f}".rstrip("0").rstrip(".")
