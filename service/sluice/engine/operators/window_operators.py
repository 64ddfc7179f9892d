"""Which operator runs a window: one row for each kind of window, for an Aggregate and for a Sort over it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, TypeAlias

from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.event_time_aggregate import EventAggregateOperator
from sluice.engine.operators.operator import Operator
from sluice.engine.operators.session.session_operator import SessionOperator
from sluice.engine.operators.sort.progressive_sort import ProgressiveOperator
from sluice.engine.operators.sort.sort_operator import EventSortOperator, SortOperator
from sluice.engine.operators.table_aggregate.row_windows_operator import RowWindowsOperator
from sluice.model.spec import Aggregate, EventTime, Sliding, SlidingTime, Sort, TimeInterval, Tumbling
from sluice.model.types import Schema
from sluice.model.windows.session_window import Session
from sluice.model.windows.table_window import TableWindow
from sluice.model.windows.window_kind import WindowKind

WindowOperator: TypeAlias = Operator[Any]

#: gets the schema and the event time of the input, and the number of its topic partitions
ForAggregate = Callable[[Aggregate, Schema, EventTime | None, int], WindowOperator]
ForSort = Callable[[Sort, Schema, EventTime | None, int], WindowOperator]


def _policies(spec: Aggregate, schema: Schema, _: EventTime | None, sources: int) -> WindowOperator:
    return AggregateOperator(spec, schema, sources)


def _event_time(spec: Aggregate, schema: Schema, event_time: EventTime | None, sources: int) -> WindowOperator:
    return EventAggregateOperator(spec, schema, _needed(event_time), sources)


def _needed(event_time: EventTime | None) -> EventTime:
    assert event_time is not None  # noqa: S101 - checked with the file (W16)
    return event_time


def _event_time_sort(spec: Sort, schema: Schema, event_time: EventTime | None, sources: int) -> WindowOperator:
    return EventSortOperator(spec, schema, _needed(event_time), sources)


AGGREGATES: Mapping[type[WindowKind], ForAggregate] = {
    Tumbling: _policies,
    Sliding: _policies,
    TimeInterval: _event_time,
    SlidingTime: _event_time,
    Session: lambda spec, schema, event_time, _: SessionOperator(spec, schema, event_time),
    TableWindow: lambda spec, schema, *_: RowWindowsOperator(spec, schema),
}
SORTS: Mapping[type[WindowKind], ForSort] = {
    Tumbling: lambda spec, schema, _, sources: SortOperator(spec, schema, sources),
    Sliding: lambda spec, schema, *_: ProgressiveOperator(spec, schema),
    TimeInterval: _event_time_sort,
}

#: windows of the kinds with sized parts, for the compilation of their kernels ahead of the first use
SAMPLES: tuple[WindowKind, ...] = (TimeInterval(1, 1, partitioned=True), SlidingTime(10**6), Session(1))


def windowed(spec: Aggregate | Sort, schema: Schema, event_time: EventTime | None, sources: int) -> WindowOperator:
    """The operator that runs `spec`, by the kind of its window."""
    if isinstance(spec, Sort):
        return SORTS[row_of(SORTS, type(spec.window))](spec, schema, event_time, sources)
    return AGGREGATES[row_of(AGGREGATES, type(spec.window))](spec, schema, event_time, sources)


def row_of(kinds: Container[type[WindowKind]], kind: type[WindowKind]) -> type[WindowKind]:
    """The kind whose row is that of `kind`: itself, or one from which it is derived; WindowKind if there is no row."""
    return next((base for base in kind.__mro__ if base in kinds), WindowKind)
