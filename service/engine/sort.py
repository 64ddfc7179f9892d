"""The Sort operator over windows that fire: an Aggregate that lists its tuples, which come out in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from service.engine import emit
from service.engine.aggregate import AggregateOperator
from service.engine.arrow import arrow_schema
from service.engine.found import Found
from service.engine.items import Items
from service.engine.ordering import ordered, ranks
from service.engine.state import AggregateState
from service.engine.words import from_words
from service.pipeline.expressions import AggregateCall, Attribute, Expression
from service.pipeline.spec import Aggregate, Output, Sort
from service.pipeline.types import Schema, list_of


class SortOperator(AggregateOperator):
    """Runs one `Sort` with a tumbling window. It has no state of its own. The final mark flushes nothing (O7)."""

    def __init__(self, spec: Sort, schema: Schema, sources: int) -> None:
        """`schema` is that of the input, `sources` the number of its topic partitions."""
        attributes = [Attribute(name, kind) for name, kind in schema]
        super().__init__(_collecting(spec, [*attributes, *(order.key for order in spec.order_by)]), schema, sources)
        self._order = [(self._program.reads.index(order.key), order.descending) for order in spec.order_by]
        self._columns = [self._program.reads.index(attribute) for attribute in attributes]
        self._schema = arrow_schema(schema)

    def _outputs(
        self, state: AggregateState, found: Found, firings: np.ndarray
    ) -> tuple[dict[str, Items], list[Items | None]]:
        """The tuples of each firing in order (O5); equal ones as they came (O6)."""
        each, types = np.repeat(found.firing, found.size), self._program.columns
        keys = [
            ranks(ordered(found.listed[:, column], types[column]), types[column], found.strings, descending=descending)
            for column, descending in self._order
        ]
        rows = found.listed[np.lexsort((*reversed(keys), each))]
        columns = [from_words(rows[:, column], types[column], found.strings) for column in self._columns]
        plan = emit.plan(firings, each, state.keys if self._program.partition_by else None)
        items = plan.items(pa.record_batch(columns, schema=self._schema))
        return {output.stream: items for output in self.spec.outputs}, []


def _collecting(spec: Sort, kept: list[Expression]) -> Aggregate:
    """An aggregate that lists these of every tuple."""
    lists = tuple((f"#{n}", AggregateCall("Collect", (e,), list_of(e.type))) for n, e in enumerate(kept))
    outputs = tuple(Output(output.stream, lists) for output in spec.outputs)
    return Aggregate(spec.name, spec.input, spec.window, outputs, spec.partition_by)
