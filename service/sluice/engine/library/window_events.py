"""The events of a window, and the content of a window as events show it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.column_forms import form, type_of
from sluice.columns.saved_columns import Data, Format, Saved, SavedColumns, StateError, load
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.aggregate.event_time_state import EventState

#: a value of an attribute, or its form in JSON
Value = Any
#: the attributes of a tuple; a timestamp is an int, nanoseconds since 1970
Row = dict[str, Any]

#: the events, named as the methods of a user's class that handle them
BEFORE_INSERTION, AFTER_INSERTION = "before_insertion", "after_insertion"
BEFORE_EVICTION, AFTER_EVICTION = "before_eviction", "after_eviction"
INITIAL_FULL, TRIGGER, PARTITION_EVICTION, PANE_CLOSE = "initial_full", "trigger", "partition_eviction", "pane_close"
#: the event of a tuple that no window accepts
LATE = "late"


@dataclass(slots=True)
class Content:
    """One window: of a partition, and over event time also of an interval.

    name         the key's bytes
    key          the values of `partition_by`
    stored         the stored tuples by number, in order of arrival
    full         whether the window was full once (4.5); of a pane whether it is complete
    memory       what a user's class stores for the window: JSON values
    start, end   of a pane or a slidingTime window, in units of the event time (nanoseconds for float64)
    index        how often the pane fired before (E29)
    times        of slidingTime the event times of the stored tuples, in ticks
    """

    name: bytes
    key: list[Any]
    stored: dict[int, Row] = field(default_factory=dict)
    full: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    index: int | None = None
    times: dict[int, int] = field(default_factory=dict)

    @property
    def tuples(self) -> list[Row]:
        return list(self.stored.values())

    @property
    def needed(self) -> bool:
        """Whether the window differs from a new one."""
        return bool(self.stored or self.memory or self.full)

    @property
    def timing(self) -> str | None:
        """The timing of a pane's firing in SPL's words (E29); None if it is no pane or has not fired."""
        if self.index is None:
            return None
        return "paneLate" if self.index else "paneOnComplete"


class LibraryState:
    """The state of an operator's windows: the state of the kernel, and the content of each window."""

    windows: AggregateState | EventState
    contents: Mapping[Any, Content]

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.contents), sum(len(content.stored) for content in self.contents.values())

    @property
    def finished(self) -> bool:
        return self.windows.finished

    @finished.setter
    def finished(self, whether: bool) -> None:
        self.windows.finished = whether


@dataclass(frozen=True, slots=True)
class WindowEvent:
    """A window event.

    what    one of the names above, or EMPTY_FIRING or WATERMARK of items.py, which are passed on
    event, at   the event number of the item that caused it, or TIMER; and the operator clock, nanoseconds
    window  the window; None if nothing was stored when the timer was due or a mark came (T7, T19, S14)
    row     the tuple that was inserted, evicted or not accepted
    reason  why no window accepts the tuple (LATE)
    """

    what: str | int
    event: int
    at: int
    window: Content | None = None
    row: Row | None = None
    watermark: int = 0
    reason: str = ""


def rows_of(tuples: pa.RecordBatch) -> list[Row]:
    """The tuples as Python values."""
    columns = [values_of(column) for column in tuples.columns]
    names = tuples.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(column: pa.Array) -> list[Any]:
    """The values of a column as Python values. A timestamp is an int of nanoseconds since 1970, because Python's
    datetime holds only microseconds.
    """
    return form(type_of(column.type)).to_user(column)


# ---- bytes -----------------------------------------------------------------------------------------------------------

#: format of a saved LibraryState
FORMAT = Format("handler", 1)


def packed(windows: Saved, contents: bytes) -> Saved:
    """The saved windows and the contents as one saved state."""
    sink = pa.BufferOutputStream()
    windows.write(sink)
    parts = {"windows": sink.getvalue(), "contents": contents}
    return SavedColumns({name: np.frombuffer(part, np.uint8) for name, part in parts.items()}, FORMAT)


def unpacked(data: Data) -> tuple[Data, bytes]:
    """The two parts that `packed` joined. Raises StateError."""
    parts = load(data, FORMAT)
    if parts.keys() != {"windows", "contents"}:
        msg = "the saved state belongs to another operator"
        raise StateError(msg)
    return memoryview(parts["windows"]), parts["contents"].to_pybytes()


def saved(contents: Iterable[tuple[Any, Content]]) -> bytes:
    """Contents as JSON, each with the key of its window. NaN and infinities are written as Python's json does, and
    values that JSON lacks as `_plain` does.
    """
    rows = [
        [
            window,
            c.name.hex(),
            _plain(c.key),
            [(number, {name: _plain(value) for name, value in row.items()}) for number, row in c.stored.items()],
            c.full,
            c.memory,
            c.start,
            c.end,
            c.index,
            [*c.times.items()],
        ]
        for window, c in contents
    ]
    return json.dumps(rows).encode()


def restored(data: bytes) -> list[tuple[Any, Content]]:
    """Reads what `saved` wrote. Raises StateError for anything else."""
    try:
        return [
            (
                window,
                Content(bytes.fromhex(name), _value(key), _rows(rows), full, memory, start, end, index, dict(times)),
            )
            for window, name, key, rows, full, memory, start, end, index, times in json.loads(data)
        ]
    except (ValueError, TypeError) as error:
        msg = "the saved state belongs to another operator, or is damaged"
        raise StateError(msg) from error


#: class of values that JSON lacks -> their text, and the value of a text
TEXTS: Mapping[type, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    Decimal: (str, Decimal),
    bytes: (bytes.hex, bytes.fromhex),
}


def _plain(value: Value) -> Value:
    """A value of a tuple as JSON. An object is a value that JSON lacks: its kind, and its text or items."""
    if type(value) in TEXTS:
        return {type(value).__name__.lower(): TEXTS[type(value)][0](value)}
    if isinstance(value, Mapping):
        return {"items": [[_plain(key), _plain(item)] for key, item in value.items()]}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _rows(rows: list[tuple[int, Row]]) -> dict[int, Row]:
    return {number: {name: _value(value) for name, value in row.items()} for number, row in rows}


def _value(plain: Value) -> Value:
    """The value of `_plain`."""
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, written),) = plain.items()
    if kind == "items":
        return {_value(key): _value(item) for key, item in written}
    return next(read(written) for class_, (_, read) in TEXTS.items() if class_.__name__.lower() == kind)
