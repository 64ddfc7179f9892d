"""The results of panes without tuples (docs/reference/extensions.md, rules EP1 to EP8).

The kernel of panes decides which empty panes come out; each is a firing without tuples. This module makes their rows:
counts are 0, functions of the window are computed, and what depends on tuples is null, until the expressions of the
outputs choose a value, or the value of the result before is taken, which the state keeps for each window partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.kernel import kernel
from sluice.engine.aggregates.aggregate_function import Function, results
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.contents.firing_results import Rows
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.window_outputs import AggregateOutputs, Outputs
from sluice.engine.stream import emit
from sluice.engine.stream.expression_eval import Computed, computed, named
from sluice.engine.stream.functions.function_errors import Error
from sluice.engine.stream.items import EARLY_FIRING, WINDOW
from sluice.engine.stream.rejected_tuples import complete
from sluice.engine.windows.event_time.event_records import ANEW, EMPTY
from sluice.model.changes.operator_data import calls_of
from sluice.model.expressions import AggregateCall
from sluice.model.spec import Aggregate
from sluice.model.windows.empty_panes import COMPUTED, COUNTS

#: the row before is the one that the state keeps
KEPT = -1


class CarryingState(Protocol):
    """The part of a state with the results before: a row for each window partition."""

    keys: Interner
    strings: Interner
    fillings: np.ndarray
    carried: np.ndarray


def are_empty(firings: np.ndarray) -> np.ndarray:
    """A mask of the firings of empty panes. A watermark that is passed on has no index."""
    empty: np.ndarray = (firings["index"] == EMPTY) & (firings["kind"] == WINDOW)
    return empty


class FilledOutputs(AggregateOutputs):
    """Computes the outputs of an Aggregate with results of empty panes."""

    def __init__(self, spec: Aggregate, program: Program) -> None:
        super().__init__(program, spec.name)
        self._carried = program.carried
        self._calls = calls_of(spec)

    def of_empty(self, contents: FiredContents) -> Rows:
        """The rows of empty panes. `contents` has a row without tuples for each of them."""
        pairs = zip(self._calls, self._program.functions, strict=True)
        columns = [_of_nothing(call, function, at, contents) for call, (function, at) in pairs]
        return Rows(
            contents.firing, [*columns, *(pa.array(np.zeros(len(contents.firing), np.bool_)),) * self._optional]
        )

    @property
    def _optional(self) -> int:
        return len(self._program.optional)

    def outputs_of(self, state: CarryingState, rows: Rows, firings: np.ndarray) -> Outputs:
        """Like `outputs`; also takes the values of the results before from the state, and keeps the latest ones."""
        plan = emit.plan(firings, rows.firing, state.keys if self._program.partition_by else None)
        before = _Before.of(state, firings[rows.firing], self._carried.columns)
        columns = list(rows.columns)
        for place, n in enumerate(self._carried.calls):
            columns[n] = before.filled(columns[n], place)
        batch = named(columns, len(rows.firing))
        errors = {name: errors for name, errors in self._errors(batch) if errors is not None}
        repeated = [self._repeated(n, errors, batch, before) for n in range(len(self._program.outputs))]
        before.keep([*(columns[n] for n in self._carried.calls), *(
            repeated[n].columns.column(place) for n, place in self._carried.attributes
        )])  # fmt: skip
        outputs, rejected = {}, []
        for (stream, _, _, written), values in zip(self._program.outputs, repeated, strict=True):
            ordered = Computed(
                plan.in_order(values.columns), [_ordered(column_errors, plan.rows) for column_errors in values.errors]
            )
            items = plan.around(ordered.columns)
            outputs[stream], _, bad = complete(items, ordered, self._operator, stream, written, quoted=False)
            rejected.append(bad)
        return outputs, rejected

    def _repeated(self, n: int, errors: dict[str, np.ndarray], batch: pa.RecordBatch, before: _Before) -> Computed:
        """Output `n`, with the values before in the attributes that repeat them."""
        _, schema, expressions, _ = self._program.outputs[n]
        values = computed(expressions, batch, schema, errors)
        columns, failed = list(values.columns.columns), list(values.errors)
        for place, (output, attribute) in enumerate(self._carried.attributes, len(self._carried.calls)):
            if output == n:
                columns[attribute] = before.filled(columns[attribute], place)
                if not expressions[attribute].type.optional:
                    failed[attribute] = before.errors(failed[attribute], columns[attribute])
        return Computed(pa.RecordBatch.from_arrays(columns, schema=schema), failed)


def _of_nothing(call: AggregateCall, function: Function, at: Sequence[int], contents: FiredContents) -> pa.Array:
    """The column of results of a function for panes without tuples; null where it depends on tuples."""
    count = len(contents.firing)
    if call.function in COUNTS:
        return pa.array(np.zeros(count, np.int64))
    if call.function in COMPUTED:
        return results(function.finish(contents, at)).values
    return pa.nulls(count, arrow_schema((("x", call.type),)).field(0).type)


def _ordered(errors: np.ndarray | None, rows: np.ndarray | None) -> np.ndarray | None:
    return errors if errors is None or rows is None else errors[rows]


@dataclass(frozen=True, slots=True)
class _Before:
    """For each row of a batch the row whose values it repeats: itself if it has tuples, else the latest pane before
    with tuples, in the batch or KEPT in the state (EP4).
    """

    state: CarryingState
    partition: np.ndarray
    empty: np.ndarray
    source: np.ndarray
    #: for each partition its last row with tuples in the batch, KEPT if it has none
    last: np.ndarray
    columns: WordColumns

    @classmethod
    def of(cls, state: CarryingState, firings: np.ndarray, columns: WordColumns) -> _Before:
        """`firings` has the firing of each row."""
        empty, source = are_empty(firings), np.arange(len(firings))
        partition = np.maximum(firings["partition"], 0).astype(np.int64)
        last = np.full(len(state.fillings), KEPT, np.int64)
        early, opened = firings["kind"] == EARLY_FIRING, firings["index"] == ANEW
        _trace(partition, np.ascontiguousarray(firings["end"]), empty, early, opened, state.fillings, source, last)
        return cls(state, partition, empty, source, last, columns)

    def filled(self, column: pa.Array, place: int) -> pa.Array:
        """The column with the values before. `place` is its number among the kept columns."""
        if not self.empty.any():
            return column
        kept = self.source == KEPT
        stored = self.columns.column(place, self.state.carried, self.state.strings, self.partition[kept])
        values = pa.concat_arrays([_decoded(column), stored])
        source = np.where(kept, len(column) + np.cumsum(kept) - 1, self.source)
        return values.take(pa.array(source))

    def errors(self, errors: np.ndarray | None, values: pa.Array) -> np.ndarray:
        """The errors of a column that is never null: an empty pane has one if the result before had one."""
        of_values = np.zeros(len(values), np.int8) if errors is None else errors
        absent = values.is_null().to_numpy(zero_copy_only=False)
        return np.where(self.empty, np.where(absent, Error.NO_VALUE, Error.NONE), of_values).astype(np.int8)

    def keep(self, columns: Sequence[pa.Array]) -> None:
        """Stores the latest rows with tuples."""
        changed = np.flatnonzero(self.last != KEPT)
        rows = pa.array(self.last[changed])
        self.columns.write(
            self.state.carried, changed, [_decoded(column).take(rows) for column in columns], self.state.strings
        )


def _decoded(column: pa.Array) -> pa.Array:
    return pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column


@kernel
def _trace(
    partition: np.ndarray, end: np.ndarray, empty: np.ndarray, early: np.ndarray, anew: np.ndarray,
    fillings: np.ndarray, source: np.ndarray, last: np.ndarray,
) -> None:  # fmt: skip
    """Writes the row before of each row (EP4), and the last row with tuples of each partition. A key that begins anew
    has none before.
    """
    for row in range(len(partition)):
        p = partition[row]
        if empty[row]:
            source[row] = last[p]
        elif not early[row] and (anew[row] or end[row] >= fillings[p].last):
            fillings[p].last = end[row]
            last[p] = row
