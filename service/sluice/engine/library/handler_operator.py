"""The operator that passes the events of its windows to a user's Python class, one by one. It is slower than the
others.

The class gets the window and the tuple, and returns tuples. The class itself is not saved. What it stores for a window
is the window's `memory`, which is converted to JSON values after each event, so a restart changes nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.api import call_limit
from sluice.api.handler import load
from sluice.columns.arrow_types import arrow_schema
from sluice.columns.column_forms import form
from sluice.columns.saved_columns import Data
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.library.window_events import LATE, TRIGGER, Content, WindowEvent, rows_of
from sluice.engine.library.window_library import State, library
from sluice.engine.operators.one_input import until_final
from sluice.engine.operators.operator import Stateful
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, MADE, TUPLE, WINDOW, Items
from sluice.engine.stream.rejected_tuples import SCHEMA as REJECTED
from sluice.engine.stream.rejected_tuples import joined, readable
from sluice.model.spec import Custom, EventTime
from sluice.model.types import Schema

LOG = logging.getLogger(__name__)


class View:
    """The view of a window that the user's class reads (service/sluice/api/handler.py)."""

    def __init__(self, content: Content, now: int) -> None:
        self._of = content
        self.now, self.key, self.full, self.memory = now, content.key, content.full, content.memory
        self.start, self.end, self.index, self.timing = content.start, content.end, content.index, content.timing

    @property
    def tuples(self) -> Sequence[Mapping[str, Any]]:
        return [MappingProxyType(row) for row in self._of.stored.values()]

    def __len__(self) -> int:
        return len(self._of.stored)


class BatchOutput:
    """The output of a batch, in order: the columns of Items, and the rejected tuples."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int, int, bytes | None, int]] = []
        self.rows: list[list[Any]] = []
        self.rejected: list[tuple[int, int, str, str]] = []


class HandlerOperator(Stateful[State]):
    """Runs one `Custom`. The operator has no state: `feed` changes the state that is its argument."""

    def __init__(self, spec: Custom, schema: Schema, event_time: EventTime | None, sources: int) -> None:
        """`schema` and `event_time` are those of the input, `sources` the number of its topic partitions."""
        self.spec = spec
        self._library = library(spec, schema, event_time, sources)
        handler = load(spec.handler)
        self._handler = handler()
        self._types = {name: form(e.type) for name, e in spec.outputs[0].attributes}
        self._schema = arrow_schema(tuple((name, e.type) for name, e in spec.outputs[0].attributes))
        self._reads = list(handler.input) or [name for name, _ in schema]

    def initial(self) -> State:
        return self._library.started()

    def load(self, data: Data) -> State:
        return self._library.resumed(data)

    def due(self, state: State) -> int:
        """The operator clock at which the library has an event although no item arrives."""
        return self._library.due(state)  # type: ignore[arg-type]

    def inspect(self, state: State, key: str | None) -> list[InspectedWindow]:
        """Returns nothing, because only the user's class can interpret the content of its windows."""
        return []

    def feed(self, state: State, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """Handles the items and the time until `clock.end`. Returns the items of each output stream."""
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        items, values, unread = readable(items, self._library.reads, self.spec.name)
        rows = rows_of(items.tuples.select(self._reads))
        sending = BatchOutput()
        for window_event in self._library.events(state, items, values, rows, clock.start, end):  # type: ignore[arg-type]
            self._handle(window_event, sending)
        if last is not None:
            state.finished = True
            sending.items.append((*last, FINAL, None, 0))
        sent = self._items(sending)
        return {output.stream: sent for output in self.spec.outputs} | joined([unread, self._rejects(sending)])

    # ---- an event ---------------------------------------------------------------------------------------------------

    def _handle(self, window_event: WindowEvent, sending: BatchOutput) -> None:
        """Calls the user's class with an event and records what it returns."""
        if isinstance(window_event.what, int):  # an empty firing or a watermark
            sending.items.append((window_event.event, window_event.at, window_event.what, None, window_event.watermark))
            return
        if window_event.what == LATE:
            sending.rejected.append(
                (window_event.event, window_event.at, window_event.reason, _text(window_event.row or {}))
            )
            return
        assert window_event.window is not None  # noqa: S101 - a named event has a window
        name = window_event.window.name if self.spec.partition_by else None
        view = View(window_event.window, window_event.at)
        before = json.dumps(view.memory)
        rows = call_limit.call(self.spec.handler, self._called, window_event, view)
        if isinstance(rows, Exception):
            _remember(view.memory, before)
            LOG.warning("%s of %s failed", window_event.what, self.spec.handler, exc_info=rows)
            cause = window_event.row if window_event.row is not None else {"key": window_event.window.key}
            why = f"{window_event.what}: {type(rows).__name__}: {rows}"
            sending.rejected.append((window_event.event, window_event.at, why, _text(cause)))
            return
        for row in rows or ():
            sending.items.append((window_event.event, window_event.at, TUPLE, name, 0))
            sending.rows.append(row)
        if window_event.what == TRIGGER and rows is not None:
            sending.items.append((window_event.event, window_event.at, WINDOW, name, 0))

    def _called(self, window_event: WindowEvent, view: View) -> list[list[Any]] | Exception | None:
        """The rows that the user's class returns for an event, or the exception that it raises."""
        try:
            method = getattr(self._handler, str(window_event.what))
            sent = method(view) if window_event.row is None else method(view, MappingProxyType(window_event.row))
            rows = None if sent is None else [self._row(values) for values in sent]
            _remember(view.memory, json.dumps(view.memory))
        except Exception as error:  # noqa: BLE001 - whatever users' classes raise
            return error
        return rows

    def _row(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the attributes. Raises an exception if they do not fit the output."""
        if values.keys() != self._types.keys():
            msg = f"it sent {', '.join(map(str, values))}, not {', '.join(self._types)}"
            raise TypeError(msg)
        if any(values[name] is None and not kind.type.optional for name, kind in self._types.items()):
            msg = "it sent None in place of a value"
            raise TypeError(msg)
        return [kind.to_user(kind.from_user([values[name]]))[0] for name, kind in self._types.items()]

    # ---- out --------------------------------------------------------------------------------------------------------

    def _items(self, sending: BatchOutput) -> Items:
        event, at, kind, names, watermark = zip(*sending.items, strict=True) if sending.items else ((),) * 5
        keys = sorted({name for name in names if name is not None})
        numbers = {name: index for index, name in enumerate(keys)}
        columns = list(zip(*sending.rows, strict=True)) or [()] * len(self._types)
        values = [kind.from_user(column) for column, kind in zip(columns, self._types.values(), strict=True)]
        return Items(
            np.array(event, np.int64), np.array(at, np.int64), np.array(kind, np.int8),
            np.full(len(event), MADE, np.int32), np.array([numbers.get(name, -1) for name in names], np.int32),
            pa.array(keys, pa.binary()), pa.record_batch(values, schema=self._schema), np.array(watermark, np.int64),
        )  # fmt: skip

    def _rejects(self, sending: BatchOutput) -> Items | None:
        """The late tuples, and the events for which the class failed, as dead letters; None if there are none."""
        if not sending.rejected:
            return None
        event, at, reasons, texts = zip(*sending.rejected, strict=True)
        count = len(event)
        tuples = pa.record_batch([[self.spec.name] * count, reasons, texts], schema=REJECTED)
        return Items(
            np.array(event, np.int64), np.array(at, np.int64), np.full(count, TUPLE, np.int8),
            np.full(count, MADE, np.int32), np.full(count, -1, np.int32), pa.array([], pa.binary()), tuples,
        )  # fmt: skip


def _remember(memory: dict[str, Any], text: str) -> None:
    """Sets the memory to what it is after it was saved and read back."""
    memory.clear()
    memory.update(json.loads(text))


def _text(row: Mapping[str, Any]) -> str:
    return orjson.dumps(dict(row)).decode()
