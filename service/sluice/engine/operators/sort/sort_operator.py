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
from sluice.columns.saved_columns import Data
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
from sluice.engine.stream.expression_eval import computed
from sluice.engine.stream.items import Items
from sluice.engine.stream.rejected_tuples import complete
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression
from sluice.model.functions import RANKS
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
        self._spec = spec
        self._order = [(reads.index(order.key), order) for order in spec.order_by]
        self._columns = [reads.index(attribute) for attribute in _attributes(schema)]
        self._layout = program.columns
        self._schema = arrow_schema(schema)
        unchanged = tuple((name, Attribute(name, kind)) for name, kind in schema)
        #: the outputs that have other attributes than the input
        self._changed = {output for output in spec.outputs if output.attributes not in ((), unchanged)}

    def rows(self, contents: FiredContents) -> Rows:
        """The tuples of each firing in sort order (O5, O14); tuples with equal keys in order of arrival (O6); behind
        their attributes their ranks. At most `limit` tuples of a firing (L1), and the tuples with keys equal to the
        keys of the last one (RK3).
        """
        firing = np.repeat(contents.firing, contents.size)
        words = [key for column, order in self._order for key in self._keys(contents, column, order)]
        order = np.lexsort((*reversed(words), firing))
        rows, ranks = contents.listed[order], _ranks(firing, [key[order] for key in words])
        if self._spec.limit is not None:
            first = ranks["rank" if self._spec.with_ties else "rowNumber"] <= self._spec.limit
            firing, rows, ranks = firing[first], rows[first], {name: rank[first] for name, rank in ranks.items()}
        columns = [self._layout.column(column, rows, contents.strings) for column in self._columns]
        return Rows(firing, columns + ([pa.array(rank) for rank in ranks.values()] if self._changed else []))

    def _keys(self, contents: FiredContents, column: int, order: Order) -> list[np.ndarray]:
        """Numbers that sort as the values of a column: those of its words, before them that of null (NU28)."""
        kind, presence = self._layout.types[column], self._layout.presence.get(column)
        ranks = form(kind).ranks(contents.listed[:, column], contents.strings, descending=order.descending)
        if presence is None:
            return [ranks]
        present = contents.listed[:, presence]
        return [present if order.nulls_first else 1 - present, ranks]

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """The items of each output stream, and the tuples for which an expression of an output has no value."""
        plan = emit.plan(firings, rows.firing, keys if self._spec.partition_by else None)
        count = len(self._schema)
        items = plan.items(pa.record_batch(rows.columns[:count], schema=self._schema))
        outputs, rejected = dict[str, Items](), list[Items | None]()
        names = [*self._schema.names, *RANKED.values()]
        ranked = plan.in_order(pa.record_batch(rows.columns, names=names)) if self._changed else None
        for output in self._spec.outputs:
            outputs[output.stream], bad = items, None
            if output in self._changed:
                outputs[output.stream], bad = self._changed_items(output, items, ranked)
            rejected.append(bad)
        return outputs, rejected

    def _changed_items(self, output: Output, items: Items, ranked: pa.RecordBatch) -> tuple[Items, Items | None]:
        """The items with the attributes of the output (RK1)."""
        expressions = [e for _, e in output.attributes]
        schema = arrow_schema(tuple((name, e.type) for name, e in output.attributes))
        values = computed([_lowered(e) for e in expressions], ranked, schema)
        complete_items, columns, bad = complete(items, values, self._spec.name, output.stream, expressions)
        return complete_items.with_tuples(columns), bad


#: function of the place of a tuple -> the column with its values
RANKED = {name: f"#{name}" for name in RANKS}


def _ranks(firing: np.ndarray, keys: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The values of the functions of RANKS for tuples in order (RK2). `firing`: the firing of each; `keys`: its sort
    keys.
    """
    numbers = np.arange(len(firing))
    first, differs = np.diff(firing, prepend=firing[:1] - 1) != 0, np.zeros(len(firing), np.bool_)
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    differs |= first
    start = np.maximum.accumulate(np.where(first, numbers, 0))
    rank = np.maximum.accumulate(np.where(differs, numbers, 0)) - start + 1
    distinct: np.ndarray = np.cumsum(differs)
    return {"rank": rank, "denseRank": distinct - distinct[start] + 1, "rowNumber": numbers - start + 1}


def _lowered(expression: Expression) -> Expression:
    """The expression with columns in place of the functions of the place of a tuple."""
    if not isinstance(expression, Call):
        return expression
    if expression.function in RANKED:
        return Attribute(RANKED[expression.function], expression.type)
    return Call(expression.function, tuple(map(_lowered, expression.arguments)), expression.type)


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
