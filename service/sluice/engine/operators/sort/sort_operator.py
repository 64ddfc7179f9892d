"""The Sort operator over windows that fire: tumbling windows, and panes of event time.

An Aggregate that lists all tuples of its windows runs the windows. Sort emits the listed tuples of each firing in sort
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.column_forms import form
from sluice.columns.interner import Interner
from sluice.columns.tables import Data
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.contents.firing_results import Rows
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.aggregate.event_time_aggregate import EventAggregateOperator
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.aggregate.window_outputs import Outputs
from sluice.engine.operators.operator import Operator, Remembered, Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import Items
from sluice.model.expressions import AggregateCall, Attribute, Expression
from sluice.model.spec import Aggregate, EventTime, Order, Output, Sort
from sluice.model.types import Schema, list_of


class SortedWindows(Stateful[Remembered]):
    """A Sort whose windows are run by `windows`, the operator of an Aggregate that lists its tuples."""

    def __init__(self, spec: Sort, windows: Operator[Remembered]) -> None:
        self.spec, self.windows = spec, windows

    def initial(self) -> Remembered:
        return self.windows.initial()

    def load(self, data: Data) -> Remembered:
        return self.windows.load(data)

    def feed(self, state: Remembered, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The tuples of each window that fires in sort order, by output stream; rejected tuples under REJECTS."""
        return self.windows.feed(state, inputs, clock)

    def due(self, state: Remembered) -> int:
        """The next time at which a timer fires the windows; MAX_TIME if none does."""
        return self.windows.due(state)

    def inspect(self, state: Remembered, key: str | None) -> list[InspectedWindow]:
        return self.windows.inspect(state, key)


class SortOperator(SortedWindows[AggregateState]):
    """Runs one `Sort` with a tumbling window. The final mark flushes nothing (O7)."""

    def __init__(self, spec: Sort, schema: Schema, sources: int) -> None:
        """`schema` belongs to the input; `sources` is the number of its topic partitions."""
        make_outputs = partial(SortOutputs, spec, schema)
        super().__init__(spec, AggregateOperator(_collecting(spec, schema), schema, sources, make_outputs=make_outputs))


class EventSortOperator(SortedWindows[EventState]):
    """Runs one `Sort` with a timeInterval window (O14). A late tuple of a new partition is emitted, too (O15)."""

    def __init__(self, spec: Sort, schema: Schema, event_time: EventTime, sources: int) -> None:
        """`schema` and `event_time` belong to the input; `sources` is the number of its topic partitions."""
        make_outputs = partial(SortOutputs, spec, schema)
        listing = _collecting(spec, schema)
        windows = EventAggregateOperator(listing, schema, event_time, sources, make_outputs=make_outputs)
        super().__init__(spec, windows)


class SortOutputs:
    """Computes the outputs of a Sort: the listed tuples of each firing in sort order."""

    def __init__(self, spec: Sort, schema: Schema, program: Program) -> None:
        """`program` is the compiled form of the Aggregate that lists the tuples."""
        reads = program.reads
        self._limit = spec.limit
        self._order = [(reads.index(order.key), order) for order in spec.order_by]
        self._columns = [reads.index(attribute) for attribute in _attributes(schema)]
        self._layout = program.columns
        self._partitioned = bool(spec.partition_by)
        self._streams = [output.stream for output in spec.outputs]
        self._schema = arrow_schema(schema)

    def rows(self, found: FiredContents) -> Rows:
        """The tuples of each firing in sort order (O5, O14); tuples with equal keys in order of arrival (O6).

        At most `limit` tuples of a firing (L1).
        """
        each = np.repeat(found.firing, found.size)
        words = [key for column, order in self._order for key in self._keys(found, column, order)]
        rows = found.listed[np.lexsort((*reversed(words), each))]
        if self._limit is not None:
            first = _position_in_run(each) < self._limit
            each, rows = each[first], rows[first]
        return Rows(each, [self._layout.column(column, rows, found.strings) for column in self._columns])

    def _keys(self, found: FiredContents, column: int, order: Order) -> list[np.ndarray]:
        """Numbers that sort as the values of a column: those of its words, before them that of null (NU28)."""
        kind, presence = self._layout.types[column], self._layout.presence.get(column)
        ranks = form(kind).ranks(found.listed[:, column], found.strings, descending=order.descending)
        if presence is None:
            return [ranks]
        present = found.listed[:, presence]
        return [present if order.nulls_first else 1 - present, ranks]

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """The same items for each output stream. No tuple is rejected."""
        plan = emit.plan(firings, rows.firing, keys if self._partitioned else None)
        items = plan.items(pa.record_batch(rows.columns, schema=self._schema))
        return dict.fromkeys(self._streams, items), []


def _position_in_run(values: np.ndarray) -> np.ndarray:
    """For each value its position, from 0, in its run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
    place: np.ndarray = np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))
    return place


def _attributes(schema: Schema) -> list[Expression]:
    return [Attribute(name, kind) for name, kind in schema]


def _collecting(spec: Sort, schema: Schema) -> Aggregate:
    """An Aggregate with the window of the Sort that lists the attributes and the sort keys of every tuple."""
    kept = [*_attributes(schema), *(order.key for order in spec.order_by)]
    lists = tuple((f"#{n}", AggregateCall("Collect", (e,), list_of(e.type.present))) for n, e in enumerate(kept))
    outputs = tuple(Output(output.stream, lists) for output in spec.outputs)
    return Aggregate(
        spec.name, spec.input, spec.window, outputs, spec.partition_by, limits=spec.limits, emit_rest=spec.emit_rest
    )  # fmt: skip
