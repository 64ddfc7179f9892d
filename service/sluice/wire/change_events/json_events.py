"""The parts of Debezium's change events in JSON, with and without the block of their schema (EN1 to EN6).

A compiled loop finds the members of most events. An event of which it is not certain, and a message without `op`, is
taken apart by Python, without a change of any character of its row.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import kernel
from sluice.model.envelopes.change_events import EXISTS, LETTERS, Operation
from sluice.wire.change_events.byte_spans import cut, replaced
from sluice.wire.change_events.event_parts import BAD, FLAT, NO_ROW_AFTER, EventParts, checked
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import bytes_of
from sluice.wire.json import json_grammar as grammar
from sluice.wire.json.json_codec import Unusable, document_of
from sluice.wire.json.json_grammar import CLOSE_OBJECT, COMMA, NO, OPEN_OBJECT, QUOTE, SMALL_N

#: the members that the compiled loop finds
MEMBERS = ("before", "after", "op", "source", "payload", "schema")
BEFORE, AFTER, OP, SOURCE, PAYLOAD, SCHEMA = range(len(MEMBERS))
#: the bytes of `op` with its quotes
OP_BYTES = 3
#: the position of a member that an event lacks
MISSING = -1
#: by byte: the operation with this letter, or BAD
OPERATION_OF = np.full(256, BAD, np.int8)
OPERATION_OF[[ord(letter) for letter in LETTERS]] = [*LETTERS.values()]
#: a message about no row has a member of these, and no `op`
OF_NO_ROW = frozenset({"ddl", "tableChanges"})
#: all members of a heartbeat, and some members of a message about a transaction
HEARTBEAT, TRANSACTION = frozenset({"ts_ms"}), frozenset({"status", "id"})
PARSER = json.JSONDecoder()
NAMES = bytes_of(pa.array([name.encode() for name in MEMBERS], pa.binary()))


class Spans(NamedTuple):
    """The first byte of each member of MEMBERS in each event, MISSING if it has none, and the byte behind the last one;
    and whether the event is one object that the loop has understood.
    """

    first: np.ndarray
    last: np.ndarray
    sure: np.ndarray


def parts(values: pa.BinaryArray) -> EventParts:
    """The parts of the events in these values, which may be in a block with their schema (EN1)."""
    data, starts = bytes_of(values)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    event = starts[:-1].copy(), starts[1:].copy()
    spans = _found(data, event)
    inside = np.flatnonzero(spans.sure & (spans.first[PAYLOAD] != MISSING) & (spans.first[OP] == MISSING))
    if len(inside):
        event[0][inside], event[1][inside] = spans.first[PAYLOAD, inside], spans.last[PAYLOAD, inside]
        of_payload = _found(data, (event[0][inside], event[1][inside]))
        for full_span, part in zip(spans, of_payload, strict=True):
            full_span[..., inside] = part
    operation = _operations(data, spans)
    operation[~is_valid] = Operation.TOMBSTONE
    sure = (operation != BAD) | ~is_valid
    event[0][~is_valid] = MISSING
    event_parts = _parts(data, spans, event, operation)
    return event_parts if sure.all() else _with_exact(event_parts, values, np.flatnonzero(~sure))


def keys(values: pa.BinaryArray) -> pa.BinaryArray:
    """The keys of records without the block of their schema: `{"schema": ..., "payload": key}` becomes `key`."""
    data, starts = bytes_of(values)
    spans = _found(data, (starts[:-1], starts[1:]))
    inside = spans.sure & (spans.first[PAYLOAD] != MISSING) & (spans.first[SCHEMA] != MISSING)
    if not inside.any():
        return values
    payload = cut(data, spans.first[PAYLOAD, inside], spans.last[PAYLOAD, inside])
    return replaced(values, np.flatnonzero(inside), payload.to_pylist())


def _found(data: np.ndarray, event: tuple[np.ndarray, np.ndarray]) -> Spans:
    count = len(event[0])
    first, last = np.full((2, len(MEMBERS), count), MISSING, np.int64)
    spans = Spans(first, last, np.empty(count, np.bool_))
    _find(data, *event, *NAMES, *spans)
    return spans


def _operations(data: np.ndarray, spans: Spans) -> np.ndarray:
    """The operation of each event; BAD where Python has to look at it."""
    first, last = spans.first[OP], spans.last[OP]
    plain = spans.sure & (first != MISSING) & (last - first == OP_BYTES)
    letters = data[np.where(plain, first + 1, 0)] if len(data) else np.zeros(len(first), np.uint8)
    operations: np.ndarray = np.where(plain, OPERATION_OF[letters], BAD).astype(np.int8)
    return operations


def _parts(
    data: np.ndarray, spans: Spans, event: tuple[np.ndarray, np.ndarray], operation: np.ndarray
) -> EventParts:  # fmt: skip
    """The parts of the events that the loop has read; the row is that of EN2."""
    # EN2: the row before a deletion, else the row after the change
    of_row = np.where(operation == Operation.DELETE, BEFORE, AFTER)
    each = np.arange(len(operation))
    first, last = spans.first[of_row, each], spans.last[of_row, each]
    no_row = (operation == BAD) | (operation == Operation.TOMBSTONE) | (first == MISSING)
    no_row |= _is_null(data, first)
    bad: dict[int, str] = {}
    operation = checked(operation, ~no_row, bad)
    row = cut(data, np.where(no_row, MISSING, first), last)
    no_source = (operation == BAD) | _is_null(data, spans.first[SOURCE])
    source = cut(data, np.where(no_source, MISSING, spans.first[SOURCE]), spans.last[SOURCE])
    return EventParts(operation, row, cut(data, *event), source, bad)


def _is_null(data: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Whether a value that starts at `first` is null, or missing."""
    has_value = first != MISSING
    null: np.ndarray = ~has_value
    return null | (data[np.where(has_value, first, 0)] == SMALL_N) if len(data) else null


# ---- events that Python takes apart ----------------------------------------------------------------------------------


class Event(NamedTuple):
    """The parts of one event."""

    operation: int
    row: bytes | None = None
    event: bytes | None = None
    source: bytes | None = None
    #: why it is rejected
    why: str = ""


def _with_exact(event_parts: EventParts, values: pa.BinaryArray, rows: np.ndarray) -> EventParts:
    """The parts; in these rows as Python reads them."""
    events = [exact(value) for value in values.take(pa.array(rows)).to_pylist()]
    bad = dict(event_parts.bad) | {
        row: event.why for row, event in zip(rows.tolist(), events, strict=True) if event.why
    }
    operation = event_parts.operation.copy()
    operation[rows] = [event.operation for event in events]
    row, event, source = (
        replaced(getattr(event_parts, part), rows, [getattr(event, part) for event in events])
        for part in ("row", "event", "source")
    )
    return EventParts(operation, row, event, source, bad)


def exact(value: bytes) -> Event:
    """The parts of one event. `parts` must give the same for it."""
    try:
        return _event(value)
    except Unusable as unusable:
        return Event(BAD, why=str(unusable))


def _event(value: bytes) -> Event:
    """The parts of an event. Raises Unusable with the reason if it is none."""
    document_of(value, digits=False, whole=False)
    text = value.removeprefix(BOM_UTF8).decode()
    members = _members(text)
    if "payload" in members and "op" not in members:
        text = members["payload"]
        if text == "null":
            return Event(Operation.TOMBSTONE)
        document_of(text.encode(), digits=False, whole=False)
        members = _members(text)
    operation = _operation(members)
    word = "before" if operation == Operation.DELETE else "after"
    row, source = (_part(members, name) for name in (word, "source"))
    if operation in EXISTS and row is None:
        raise Unusable(NO_ROW_AFTER)
    return Event(operation, row, text.encode(), source)


def _operation(members: Mapping[str, str]) -> Operation:
    """What an event says, or that it is about no row (EN6). Raises Unusable if it says neither."""
    if "op" in members:
        letter = json.loads(members["op"])
        if isinstance(letter, str) and letter in LETTERS:
            return LETTERS[letter]
        raise Unusable(reason(Reason.NOT_A_CHANGE, f"op: expected one of {', '.join(LETTERS)}, got {members['op']}"))
    if members.keys() & OF_NO_ROW or members.keys() >= TRANSACTION or members.keys() == HEARTBEAT:
        return Operation.NO_ROW
    raise Unusable(reason(Reason.NOT_A_CHANGE, FLAT))


def _part(members: Mapping[str, str], name: str) -> bytes | None:
    text = members.get(name, "null")
    return None if text == "null" else text.encode()


def _members(text: str) -> dict[str, str]:
    """The texts of the members of the object; of several with one name the last one."""
    members: dict[str, str] = {}
    at = _behind_space(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = scanstring(text, at + 1)
        at = _behind_space(text, text.index(":", at) + 1)
        _, end = PARSER.raw_decode(text, at)
        members[name] = text[at:end]
        at = _behind_space(text, end)
        at = _behind_space(text, at + (text[at] == ","))
    return members


def _behind_space(text: str, at: int) -> int:
    while text[at] in " \t\n\r":
        at += 1
    return at


# ---- the compiled loop -----------------------------------------------------------------------------------------------


@kernel
def _find(  # noqa: PLR0917
    data: np.ndarray, starts: np.ndarray, stops: np.ndarray, names: np.ndarray, bounds: np.ndarray,
    first: np.ndarray, last: np.ndarray, sure: np.ndarray,
) -> None:  # fmt: skip
    """Finds the members of the events `data[starts[r]:stops[r]]`."""
    for row in range(len(sure)):
        sure[row] = _object(data, starts[row], stops[row], names, bounds, first, last, row)


@kernel
def _object(  # noqa: PLR0917
    data: np.ndarray, i: int, stop: int, names: np.ndarray, bounds: np.ndarray, first: np.ndarray, last: np.ndarray,
    row: int,
) -> bool:  # fmt: skip
    """Reads an event. Returns whether it is one object without escapes in its names, and nothing follows."""
    i = grammar.space(data, grammar.mark(data, i, stop), stop)
    if i == stop or data[i] != OPEN_OBJECT:
        return False
    i = grammar.space(data, i + 1, stop)
    more = i < stop and data[i] != CLOSE_OBJECT
    while more:
        end, has_escape = grammar.string(data, i, stop)
        if end == NO or has_escape:
            return False
        member = _member(data, i + 1, end - 1, names, bounds)
        i = grammar.colon(data, end, stop)
        end = grammar.value(data, i, stop) if i != NO else NO
        if end == NO:
            return False
        if member != NO:
            first[member, row], last[member, row] = i, end
        i = grammar.space(data, end, stop)
        more = i < stop and data[i] == COMMA
        if more:
            i = grammar.space(data, i + 1, stop)
            if i == stop or data[i] != QUOTE:
                return False
    return i < stop and data[i] == CLOSE_OBJECT and grammar.space(data, i + 1, stop) == stop


@kernel
def _member(data: np.ndarray, start: int, stop: int, names: np.ndarray, bounds: np.ndarray) -> int:
    """The number of the member whose name is `data[start:stop]`, or NO."""
    for member in range(len(bounds) - 1):
        at = bounds[member]
        if bounds[member + 1] - at == stop - start:
            i = 0
            while i < stop - start and data[start + i] == names[at + i]:
                i += 1
            if i == stop - start:
                return member
    return NO
