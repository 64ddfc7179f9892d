"""The outputs of windows that fired: first rows computed from the contents of the windows, then items of the rows."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sluice.columns.interner import Interner
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.contents.firing_results import Rows
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.stream import emit
from sluice.engine.stream.expression_eval import computed, named
from sluice.engine.stream.items import Items
from sluice.engine.stream.rejected_tuples import complete
from sluice.engine.stream.value_errors import in_results

#: the items of each output stream, and the rejected tuples: those for which an expression has no value
Outputs = tuple[dict[str, Items], list[Items | None]]


class WindowOutputs(Protocol):
    """Computes the outputs of a windowed operator from the contents of windows that fired."""

    def rows(self, found: FiredContents) -> Rows:
        """The output rows of some of a batch's firings; all rows of a firing are in one call."""

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """The output items of all firings of a batch. `keys` are the keys of the window partitions."""


class AggregateOutputs:
    """Computes the outputs of an Aggregate."""

    def __init__(self, program: Program, operator: str) -> None:
        self._program = program
        self._operator = operator

    def rows(self, found: FiredContents) -> Rows:
        """The results of the aggregation functions, one column each."""
        return Rows(found.firing, [function.finish(found, argument) for function, argument in self._program.functions])

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """Evaluates the expressions of each output stream over the results of the functions."""
        plan = emit.plan(firings, rows.firing, keys if self._program.partition_by else None)
        results = plan.in_order(named(rows.columns, len(rows.firing)))
        found = zip(results.schema.names, map(in_results, results.columns), strict=True)
        errors = {name: of_column for name, of_column in found if of_column is not None}
        outputs, rejected = {}, []
        for stream, schema, expressions in self._program.outputs:
            made = computed(expressions, results, schema, errors)
            outputs[stream], _, bad = complete(plan.around(made.columns), made, self._operator, stream)
            rejected.append(bad)
        return outputs, rejected
