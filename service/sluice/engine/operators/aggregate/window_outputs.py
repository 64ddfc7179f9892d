"""What comes out of windows that fired: rows of what they hold, and items of these."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.contents.firing_results import Rows
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.stream import emit
from sluice.engine.stream.expression_eval import evaluate, named
from sluice.engine.stream.items import Items
from sluice.engine.stream.rejects import complete

#: the items of each output stream, and the tuples that lack a value
Outputs = tuple[dict[str, Items], list[Items | None]]


class WindowOutputs(Protocol):
    """How a windowed operator makes its outputs."""

    def rows(self, found: FiredContents) -> Rows:
        """Of some firings, all that comes out of each of them."""

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """Of all firings of a batch; `keys` are those of the window partitions."""


class AggregateOutputs:
    """Makes the results of an Aggregate of what its windows hold."""

    def __init__(self, program: Program, operator: str) -> None:
        self._program = program
        self._operator = operator

    def rows(self, found: FiredContents) -> Rows:
        """The results of the functions."""
        return Rows(found.firing, [function.finish(found, argument) for function, argument in self._program.functions])

    def outputs(self, rows: Rows, firings: np.ndarray, keys: Interner) -> Outputs:
        """The expressions of each output stream over these results."""
        plan = emit.plan(firings, rows.firing, keys if self._program.partition_by else None)
        results = named(rows.columns, len(rows.firing))
        outputs, rejected = {}, []
        for stream, schema, expressions in self._program.outputs:
            made = plan.items(pa.record_batch([evaluate(e, results) for e in expressions], schema=schema))
            outputs[stream], _, bad = complete(made, made.tuples, self._operator, stream)
            rejected.append(bad)
        return outputs, rejected
