"""The outputs of windows that fired: first rows computed from the contents of the windows, then items of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.interner import Interner
from sluice.engine.aggregates.aggregate_function import results
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.contents.firing_results import Rows
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.stream import emit
from sluice.engine.stream.expression_eval import computed, named
from sluice.engine.stream.functions.function_errors import Error
from sluice.engine.stream.items import Items
from sluice.engine.stream.rejected_tuples import complete
from sluice.engine.stream.value_errors import in_results

#: the items of each output stream, and the rejected tuples, for which an expression has no value
Outputs = tuple[dict[str, Items], list[Items | None]]


class WindowOutputs(Protocol):
    """Computes the outputs of a windowed operator from the contents of windows that fired."""

    def rows(self, contents: FiredContents) -> Rows:
        """The output rows of some of a batch's firings; all rows of a firing are in one call."""

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """The output items of all firings of a batch. `keys` are the keys of the window partitions."""


class AggregateOutputs:
    """Computes the outputs of an Aggregate."""

    def __init__(self, program: Program, operator: str) -> None:
        self._program = program
        self._operator = operator

    def rows(self, contents: FiredContents) -> Rows:
        """The results of the aggregation functions, one column each; then for each of them whether it has an error,
        where its null may also be a value.
        """
        finished = [results(function.finish(contents, at)) for function, at in self._program.functions]
        failed = [pa.array(finished[n].failed) for n in self._program.optional]
        return Rows(contents.firing, [*(result.values for result in finished), *failed])

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """Evaluates the expressions of each output stream over the results of the functions."""
        plan = emit.plan(firings, rows.firing, keys if self._program.partition_by else None)
        ordered = plan.in_order(named(rows.columns, len(rows.firing)))
        errors = {name: errors for name, errors in self._errors(ordered) if errors is not None}
        outputs, rejected = {}, []
        for stream, schema, expressions, written in self._program.outputs:
            values = computed(expressions, ordered, schema, errors)
            items = plan.around(values.columns)
            outputs[stream], _, bad = complete(items, values, self._operator, stream, written, quoted=False)
            rejected.append(bad)
        return outputs, rejected

    def _errors(self, batch: pa.RecordBatch) -> Iterator[tuple[str, np.ndarray | None]]:
        """The errors of each column of results."""
        optional, count = self._program.optional, len(self._program.functions)
        for n, name in enumerate(batch.schema.names[:count]):
            failed = count + optional.index(n) if n in optional else None
            yield name, in_results(batch.column(n)) if failed is None else _errors_of(batch.column(failed))


def _errors_of(failed: pa.BooleanArray) -> np.ndarray | None:
    """The errors of results of which the column says whether they failed; None if there are none."""
    if not pc.any(failed).as_py():
        return None
    return np.where(failed.to_numpy(zero_copy_only=False), Error.NO_VALUE, Error.NONE).astype(np.int8)
