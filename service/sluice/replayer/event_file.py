"""Reads the events of a replay from files of JSON lines, or takes them as Python values.
An event is a JSON object with a time `at` and one of a tuple, a punctuation mark, a watermark, a Kafka record, or the
key of a table's row that is deleted, for an input stream. An event with none of these only advances the clock.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from sluice import time_units
from sluice.columns.json_columns import nanoseconds
from sluice.json_texts import members_of
from sluice.model.errors import SluiceError
from sluice.model.members import UNITS, path_of, spelling_of
from sluice.model.spec import Stream
from sluice.time_units import MAX_TIME
from sluice.wire.json import json_values
from sluice.wire.json.json_values import LAST_SECOND


class EventError(SluiceError):
    """An event that the replay cannot use."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"{location}: {problem}")


def quoted(value: object) -> str:
    """The value in JSON, at most 60 characters of it."""
    return json.dumps(value, default=str, ensure_ascii=False)[:60]


def nearest(word: object, words: Iterable[str]) -> str:
    """A text with the known word that is most like this one; "" if none is like it."""
    near = get_close_matches(str(word), words, 1)
    return f", perhaps {quoted(near[0])}" if near else ""


#: what an `at` must be, for messages
EXPECTED = 'seconds, or an ISO 8601 time such as "2026-01-01T10:00:00Z"'
#: what is wrong with a time that no clock has, for messages
NO_TIME = "not a time between the years 1677 and 2262"
#: unit of an event time -> its number in a second
PARTS_OF_A_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def clock_time(at: object) -> int:
    """The time in nanoseconds. A text has the form of a timestamp attribute, and is in UTC if it has no zone.

    Raises TypeError if it is neither a number nor such a text, and ArithmeticError or ValueError if it is out of the
    range of int64 nanoseconds, which are the years 1677 to 2262.
    """
    if isinstance(at, str):
        if not time_units.has_form(at):
            raise TypeError(at)
        now = json_values.nanoseconds(at)
    elif isinstance(at, bool) or not isinstance(at, int | float | Decimal):
        raise TypeError(at)
    else:
        now = nanoseconds(at)
    if abs(now) >= MAX_TIME:  # what is due at MAX_TIME is never due
        raise OverflowError(at)
    return now


def unit_of(at: object) -> str:
    """The smaller unit in which a number that is too large for seconds may be; empty if there is none."""
    if not isinstance(at, int | float) or abs(at) <= LAST_SECOND:
        return ""
    return next((unit for unit, parts in PARTS_OF_A_SECOND.items() if abs(at) <= LAST_SECOND * parts), "")


def too_large(at: object) -> str:
    """The end of a message about a number that is out of range: it may be in a smaller unit; empty for others."""
    unit = unit_of(at)
    return f", as a number is seconds; perhaps it has {unit}" if unit else ""


Event = Mapping[str, Any]


class WrittenEvent(dict[str, Any]):
    """An event of a file, and its line, which has digits of numbers that a float has not."""

    def __init__(self, values: Mapping[str, Any], line: bytes) -> None:
        super().__init__(values)
        self.line = line


def text_in(event: Event, *names: str) -> str | None:
    """The text of a member of a member, such as the attribute of a tuple; None if there is none, or no line."""
    text = event.line.decode().strip() if isinstance(event, WrittenEvent) else None
    for name in names:
        text = members_of(text).get(name) if text is not None and text.startswith("{") else None
    return text


#: where an event is, for error messages, and the event
LocatedEvent = tuple[str, Event]

#: below this number of seconds a float64 is exact enough to distinguish nanoseconds
EXACT_BELOW = 4_000_000
#: how a file declares an attribute that counts parts of a second
OF_A_UNIT = "for that, declare it int64, with event_time: {attribute: %s, resolution: %s}"
#: the most bytes of a line; larger records do not fit into a topic either
MAX_LINE = 16 << 20
#: the largest number of a topic partition: marks and watermarks are kept for each one
MAX_TOPIC_PARTITION = 9_999


def read(path: Path, name: str | None = None, *, naming: bytes = b"") -> Iterator[LocatedEvent]:
    """Yields the events of a JSON-lines file whose lines contain the bytes `naming`. Blank lines are skipped.

    `name` is the name of the file in error messages. Raises EventError for a line that is no JSON object.
    """
    for location, line in _lines(path, name):
        if naming in line and not line.isspace():
            yield location, _parsed(line, location)


def _lines(path: Path, name: str | None) -> Iterator[tuple[str, bytes]]:
    """Yields the lines of a file, each with its location, the first one without a byte order mark. Raises EventError
    for a line that is too long.
    """
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE + 1), b""), 1):
            location = f"{name or path}:{number}"
            if len(line) > MAX_LINE:
                raise EventError(location, f"the line has more than {MAX_LINE >> 20} MiB, the most of a line")
            yield location, line if number > 1 else line.removeprefix(BOM_UTF8)


def read_plain(path: Path, field: str, stream: Stream, name: str | None = None) -> Iterator[LocatedEvent]:
    """Yields an event for each line of a file of plain records: the line is the value of a Kafka record.

    The time of the event is the attribute `field` of the line, a JSON object: seconds since 1970 or ISO 8601, or whole
    units of the event time or of the timestamp if it is that attribute. It is the timestamp of the record. The event of
    a line with an earlier time than a line before it has the time of that line, as with records that a service reads; a
    line without a time that the clock can have gets the time of the line before it. Raises EventError if the first JSON
    object has no such time.
    """
    tick = _tick(stream, field)
    waiting: list[tuple[str, bytes]] = []
    now: int | None = None
    for location, line in _lines(path, name):
        value = line.rstrip(b"\r\n")
        if not value.strip():
            continue
        waiting.append((location, value))
        time = _time_in(location, value, field, tick, needed=now is None)
        if time is None and now is None:  # the clock starts with the first time
            continue
        now = max(moment for moment in (time, now) if moment is not None)
        for place, text in waiting:
            yield place, _plain(stream.name, now, text, now if time is None else time)
        waiting.clear()
    yield from ((place, _plain(stream.name, 0, text, 0)) for place, text in waiting)


def _tick(stream: Stream, field: str) -> int | None:
    """The nanoseconds of the units in which a member of the records counts its time; None: it has seconds."""
    event_time, members = stream.event_time, dict(stream.members)
    if event_time is not None and event_time.attribute == field and event_time.tick > 1:
        return event_time.tick
    units = (spelling_of(name, members).unit for name, _ in stream.schema if path_of(name, members) == (field,))
    return next((UNITS[unit] for unit in units if unit), None)


def _plain(stream: str, now: int, value: bytes, time: int) -> Event:
    timestamp = {} if time == now else {"timestamp": Decimal(time).scaleb(-9)}
    return {"at": Decimal(now).scaleb(-9), "stream": stream, "record": {"value": value} | timestamp}


def _time_in(location: str, line: bytes, field: str, tick: int | None, *, needed: bool) -> int | None:
    """The time in a line, nanoseconds since 1970; None if it has none. Raises EventError if it is `needed` and the line
    is a JSON object without it.
    """
    try:
        document = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    value: Any = document.get(field)
    is_whole = tick is not None and type(value) is int
    try:
        return clock_time(Decimal(value * (tick or 1)).scaleb(-9) if is_whole else value)
    except (TypeError, ValueError, ArithmeticError) as error:
        if not needed:
            return None
        expected = f"seconds since 1970 or an ISO 8601 time in {quoted(field)}"
        if not isinstance(error, TypeError):
            unit = (
                "" if is_whole else too_large(value) and f"{too_large(value)} ({OF_A_UNIT % (field, unit_of(value))})"
            )
            raise EventError(location, f"{quoted(field)} is {NO_TIME}: {quoted(value)}{unit}") from None
        near = "" if field in document else nearest(field, document) or f"; the line has {', '.join(document)}"[:200]
        raise EventError(location, f"expected {expected}, got {quoted(value)}{near}") from None


def numbered(events: Iterable[Event]) -> Iterator[LocatedEvent]:
    """Yields events that are Python values already, each with its number."""
    for number, event in enumerate(events):
        yield f"event {number}", event


def _parsed(line: bytes, location: str) -> Event:
    try:
        event = orjson.loads(line)
    except ValueError as error:
        hint = "if the lines are plain records (--at FIELD), such a line becomes a dead letter"
        if line.rstrip().endswith((b"},", b"[", b"]")):
            hint = "write one JSON object in each line, without [ ] around the lines and commas between them"
        raise EventError(location, f"not JSON: {error}; {hint}") from None
    if not isinstance(event, dict):
        raise EventError(
            location, f"expected a JSON object in each line, got {line[:240].decode(errors='replace').strip()[:60]}"
        )
    if isinstance(event.get("at"), float) and abs(event["at"]) >= EXACT_BELOW:
        event["at"] = json.loads(line, parse_float=Decimal)["at"]
    return WrittenEvent(event, line)


def topic_partitions(events: Iterable[LocatedEvent], streams: Sequence[str]) -> dict[str, int]:
    """The number of topic partitions of each stream: the largest number that its events name plus 1, at least 1.

    Raises EventError for a number above MAX_TOPIC_PARTITION.
    """
    counts = dict.fromkeys(streams, 1)
    for location, event in events:
        stream, partition = event.get("stream", streams[0]), event.get("topic_partition", 0)
        if isinstance(stream, str) and stream in counts and isinstance(partition, int):
            if partition > MAX_TOPIC_PARTITION:
                problem = f"`topic_partition` must be at most {MAX_TOPIC_PARTITION}, got {quoted(partition)}"
                raise EventError(location, problem)
            counts[stream] = max(counts[stream], partition + 1)
    return counts
