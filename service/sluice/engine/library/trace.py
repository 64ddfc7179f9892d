"""The window events of a pipeline's operators as JSON, for `sluice replay --trace`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sluice.columns.key_bytes import key_text
from sluice.engine.library.window_events import TRIGGER, WindowEvent
from sluice.engine.library.window_library import State, library
from sluice.engine.operators.one_input import until_final
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import EMPTY_FIRING, Items
from sluice.engine.stream.rejected_tuples import readable
from sluice.model.spec import (  # fmt: skip
    DELETES,
    Aggregate,
    Barrier,
    Dedup,
    Delay,
    Join,
    Map,
    Pipeline,
    Side,
    Sort,
    Stream,
    Union,
    Windowed,
)
from sluice.model.types import Schema

Record = dict[str, Any]
#: shows the tuples of some items, given the attributes of their stream
Rows = Callable[[Items, Schema], list[Record]]


class Tracer:
    """Records the window events of one port of an operator.

    `stream` is that of the port. The state of a table has a tuple for each deleted key, which is no row of the table:
    neither its insertion nor its eviction is an event.
    """

    def __init__(self, spec: Windowed, fields: Record, stream: Stream, sources: int) -> None:
        self._about, self._schema = fields, stream.row_schema
        self._library = library(spec, stream.schema, stream.event_time, sources)
        self._state: State = self._library.started()
        self._partitioned = bool(spec.partition_by)

    def feed(self, items: Items, rows: Rows, clock: Clock) -> list[tuple[int, int, Record]]:
        """For each window event: the event number of the item that caused it, or TIMER; the operator clock; and the
        event as JSON.
        """
        items, last, end = until_final(self._state, items, clock)
        items, values, _ = readable(items, self._library.reads, "")
        events = self._library.events(self._state, items, values, self._rows(items, rows), clock.start, end)  # type: ignore[arg-type]
        self._state.finished |= last is not None
        return [
            (event.event, event.at, self._shown(event))
            for event in events
            if (isinstance(event.what, str) or event.what == EMPTY_FIRING) and DELETES not in (event.row or ())
        ]

    def _rows(self, items: Items, rows: Rows) -> list[Record]:
        """Returns the tuples. Only a tuple that deletes a row has the attribute DELETES."""
        tuples = rows(items, self._schema)
        for row in tuples:
            if row.get(DELETES) is False:
                del row[DELETES]
        return tuples

    def _shown(self, window_event: WindowEvent) -> Record:
        record = self._about | {"window_event": TRIGGER if window_event.what == EMPTY_FIRING else window_event.what}
        content = window_event.window
        if content is not None and self._partitioned:
            record["key"] = key_text(content.name)
        if window_event.row is not None:
            record["tuple"] = window_event.row
        if window_event.reason:
            record["reason"] = window_event.reason
        if content is not None and content.end is not None:
            record |= {"start": content.start, "end": content.end}
        if content is not None and content.index is not None:
            record |= {"index": content.index, "timing": content.timing}
        if window_event.what in (TRIGGER, EMPTY_FIRING):
            tuples = content.tuples if content is not None else []
            record["content"] = [row for row in tuples if DELETES not in row]
        return record


def tracers(pipeline: Pipeline, partitions: Mapping[str, int]) -> dict[str, list[Tracer | None]]:
    """By operator name, one tracer for each of its ports; None for an operator without window events.

    A progressive sort has none, because the tuples that leave its window are its output.
    """

    def tracer(spec: Windowed, fields: Record) -> Tracer:
        return Tracer(spec, fields, pipeline.streams[spec.input], partitions.get(spec.input, 1))

    by_operator: dict[str, list[Tracer | None]] = {}
    for spec in pipeline.operators:
        label = {"operator": spec.name}
        match spec:
            case Map() | Dedup() | Union() | Delay():
                by_operator[spec.name] = [None]
            case Barrier():
                by_operator[spec.name] = [None] * len(spec.ports)
            case Sort() if spec.window.sliding:
                by_operator[spec.name] = [None]
            case Aggregate() if not spec.window.traced:
                by_operator[spec.name] = [None]
            case Join() if spec.window is not None:
                by_operator[spec.name] = [None, None]
            case Join():
                sides = {"left": spec.left, "right": spec.right}
                by_operator[spec.name] = [tracer(_alone(spec, side), label | {"side": n}) for n, side in sides.items()]
            case _:
                by_operator[spec.name] = [tracer(spec, label)]
    return by_operator


def _alone(join: Join, side: Side) -> Aggregate:
    """An Aggregate with the window of one side of a join."""
    return Aggregate(join.name, side.stream, side.window, (), side.partition_by)
