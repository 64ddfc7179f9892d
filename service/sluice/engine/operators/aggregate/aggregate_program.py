"""The compiled form of an Aggregate: its expressions, columns and functions as the numbers that kernels read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.column_forms import form
from sluice.columns.encoding import WordColumns
from sluice.columns.forms.form_contract import Order
from sluice.engine.aggregates import aggregate_function
from sluice.engine.aggregates.aggregate_function import Counting, Function, Kept
from sluice.engine.aggregates.function_table import function
from sluice.engine.contents import multisets, summaries
from sluice.engine.operators.aggregate.carried_values import Carried
from sluice.engine.windows import policies
from sluice.model.changes.operator_data import calls_of
from sluice.model.engine_limits import EngineLimits
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, certain
from sluice.model.spec import Aggregate
from sluice.model.types import Schema

#: the stream, its schema, its expressions over the functions' results, and these expressions as the pipeline file has
#: them, for messages
ProgramOutput = tuple[str, pa.Schema, tuple[Expression, ...], tuple[Expression, ...]]


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled form of one Aggregate, which `AggregateOperator` and `EventAggregateOperator` run.

    reads         the distinct expressions over the input; the first ones are stored, as `columns`
    columns       the stored columns: arguments of functions, attributes and sizes of deltas
    partition_by, group_by   indices into `reads`
    clause        the window clause
    arrival       the index of the tuple's word that has its number in order of arrival; NONE if no summary needs it
    layout        the summaries of a group, which have `summary` words in all
    edges         the summaries whose value is read from the oldest or the youngest tuple when the window fires; their
                  words follow the others in a result
    functions     the functions, each with the first word of each of its summaries, then the columns that it lists, then
                  the indices of its series
    optional      the numbers of the functions whose results may be null
    outputs       the output streams
    listing       whether a function needs a list of the tuples
    series        the expressions whose values are counted in multisets (multisets.py)
    holding       whether tuples are stored beyond their batch
    packed        whether tuples are stored in blocks (blocks.py) of `block` tuples each
    ring          the number of tuples in the ring of a partition (ring.py); 0 if tuples are in no ring
    limits        the sizes at which tables are compacted, and others
    carried       what results of empty panes repeat of the result before
    text_columns, text_words   the words of a tuple, and of a summary, that are codes of texts or lists
    """

    reads: tuple[Expression, ...]
    columns: WordColumns
    partition_by: tuple[int, ...]
    group_by: tuple[int, ...]
    clause: policies.KernelClause
    arrival: int
    layout: summaries.Layout
    edges: summaries.Layout
    summary: int
    functions: tuple[tuple[Function, tuple[int, ...]], ...]
    optional: tuple[int, ...]
    outputs: tuple[ProgramOutput, ...]
    listing: bool
    series: np.ndarray
    holding: bool
    packed: bool
    block: int
    ring: int
    text_columns: np.ndarray
    text_words: np.ndarray
    limits: EngineLimits
    carried: Carried

    @property
    def by_slot(self) -> bool:
        """Whether a tuple is addressed by its slot after its batch: tuples are stored, but not in blocks or rings."""
        return self.holding and not self.packed and not self.ring

    @classmethod
    def of(cls, spec: Aggregate, schema: Schema, *, by_slot: bool = False) -> Program:
        """Compiles `spec`. `schema` is the schema of the input. `by_slot`: eviction events must name the tuple's slot,
        so tuples are stored neither in blocks nor in rings.
        """
        calls = calls_of(spec)
        functions = [function(call, counting=spec.window.in_arrival_order) for call in calls]
        stored = _stored(spec, schema, functions)
        columns = WordColumns([e.type for e in stored])
        reads = list(dict.fromkeys((*stored, *spec.partition_by, *spec.group_by, *_counted(calls))))
        where = {e: i for i, e in enumerate(reads)}
        words_of = _Words(columns, where)
        compared = _compared(spec, schema)
        positions = {name: (where[e], e.type) for name, e in compared.items()}
        incomplete, evicted = spec.aggregate_incomplete_windows, spec.aggregate_evicted_partitions
        clause = policies.clause(spec.window, positions, incomplete=incomplete, evicted=evicted, early=spec.early)
        kept = list(dict.fromkeys(kept for f in functions for kept in f.kept))
        unordered = not spec.window.in_arrival_order or clause.by_value
        arrival = columns.width if unordered else summaries.NONE
        outer = [k for k in kept if clause.sliding and _at_edge(k)]
        inner = [k for k in kept if k not in outer]
        layout, width = summaries.layout([words_of.summary(k) for k in inner], arrival)
        edges, _ = summaries.layout([words_of.summary(k) for k in outer], first=width)
        words = dict(zip([*inner, *outer], [*layout["word"].tolist(), *edges["word"].tolist()], strict=True))
        listing = any(f.lists for f in functions)
        holding = (clause.sliding or listing) and not _keeps_nothing(spec)
        oldest_first = clause.sliding and holding and not by_slot and not spec.group_by
        packed = oldest_first and _worth_packing(clause, spec.limits)
        ring = clause.full if oldest_first and not packed and not listing else 0
        counted = list(dict.fromkeys(counted for f in functions for counted in f.counted))
        return cls(
            reads=tuple(reads),
            columns=columns,
            partition_by=tuple(where[e] for e in spec.partition_by),
            group_by=tuple(where[e] for e in spec.group_by),
            clause=clause._replace(chained=clause.chained and not (packed or ring)),
            arrival=arrival,
            layout=layout,
            edges=edges,
            summary=width,
            functions=tuple(
                (f, (*(words[k] for k in f.kept), *map(words_of.word, f.lists), *map(counted.index, f.counted)))
                for f in functions
            ),
            optional=tuple(n for n, call in enumerate(calls) if call.type.optional),
            outputs=_outputs(spec, calls),
            listing=listing,
            series=np.array([words_of.series(c) for c in counted], multisets.SERIES),
            holding=holding,
            packed=packed,
            block=_block(clause, spec.limits) if packed else 1,
            ring=ring,
            text_columns=np.array(columns.texts, np.int64),
            text_words=_text_words(layout, columns),
            limits=spec.limits,
            carried=Carried.of(spec),
        )


def widths(program: Program, sources: int) -> dict[str, int]:
    """The number of words in a row of each table of AggregateState. `sources` is the number of topic partitions."""
    return {
        "sources": -(-sources // 64) if program.clause.marked else 0,
        "words": program.columns.width + (program.arrival != summaries.NONE),
        "blocks": program.block * program.columns.width if program.packed else 0,
        "spread": program.block * program.summary if program.packed else 0,
        "ringed": program.ring * program.columns.width,
        "back": program.summary,
        "stack": program.summary if program.clause.sliding else 0,
    }


def _stored(spec: Aggregate, schema: Schema, functions: list[Function]) -> list[Expression]:
    """The expressions that are stored for a tuple: arguments of functions, attributes and sizes of policies."""
    arguments = [aggregate_function.stored(e) for f in functions for e in f.reads]
    return list(dict.fromkeys([*arguments, *_compared(spec, schema).values()]))


def _counted(calls: Iterable[AggregateCall]) -> list[Expression]:
    """The arguments of Count that are never null, but may have an error: they are not stored, only computed."""
    counts = (call for call in calls if call.function == "Count" and call.where is None)
    return [e for call in counts for e in call.arguments if isinstance(e, Call) and not e.type.optional]


def _compared(spec: Aggregate, schema: Schema) -> dict[str | Expression, Expression]:
    """The values of a tuple that the policies read, by the names and expressions of their clauses. Null is an error
    (NU27).
    """
    types = dict(schema)
    read: dict[str | Expression, Expression] = {e: e for e in spec.window.expressions}
    return read | {name: certain(Attribute(name, types[name])) for name in spec.window.attributes}


def _at_edge(kept: Kept) -> bool:
    """Whether this is the value of the oldest or the youngest tuple, as for First and Last.

    A sliding window reads it from the stored tuple when it fires, so no summary holds it.
    """
    return (
        kept.code in (summaries.OLDEST, summaries.YOUNGEST) and kept.companion == summaries.NONE and kept.guard is None
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of the stored tuples, by the expressions that name them."""

    columns: WordColumns
    where: dict[Expression, int]

    def word(self, expression: Expression) -> int:
        """The number of the word that holds the expression. One without a word of its own has the word of its value."""
        place = self.where[aggregate_function.stored(expression)]
        presence = isinstance(expression, Call) and expression.function == aggregate_function.PRESENCE
        return self.columns.presence[place] if presence else place

    def summary(self, kept: Kept) -> summaries.Summary:
        companion = kept.companion if isinstance(kept.companion, int) else self.word(kept.companion)
        return summaries.Summary(kept.code, self.word(kept.value), companion, self._guard(kept.guard))

    def series(self, counting: Counting) -> tuple[int, bool, bool, int]:
        return (
            self.word(counting.value),
            form(counting.value.type).order is Order.REAL,
            counting.rounded,
            self._guard(counting.guard),
        )

    def _guard(self, guard: Expression | None) -> int:
        return summaries.NONE if guard is None else self.word(guard)


def _outputs(spec: Aggregate, calls: tuple[AggregateCall, ...]) -> tuple[ProgramOutput, ...]:
    return tuple(
        (
            output.stream,
            arrow_schema(tuple((name, e.type) for name, e in output.attributes)),
            tuple(_over_results(e, calls) for _, e in output.attributes),
            tuple(e for _, e in output.attributes),
        )
        for output in spec.outputs
    )


def _over_results(expression: Expression, calls: tuple[AggregateCall, ...]) -> Expression:
    """The expression with each aggregate call replaced by the column of its results."""
    if isinstance(expression, AggregateCall):
        return Attribute(f"#{calls.index(expression)}", expression.type)
    if isinstance(expression, Call):
        arguments = tuple(_over_results(argument, calls) for argument in expression.arguments)
        return Call(expression.function, arguments, expression.type)
    return expression


def _worth_packing(clause: policies.KernelClause, limits: EngineLimits) -> bool:
    """Whether the window evicts only its oldest tuple (by time or count) and may fill at least two blocks."""
    return clause.expiring or clause.full >= 2 * limits.min_block


def _block(clause: policies.KernelClause, limits: EngineLimits) -> int:
    """The number of tuples in a block: `limits.block` for eviction by time.

    For eviction by count about the square root of the window's size, so that the number of blocks is about that, too.
    """
    if clause.expiring:
        return limits.block
    root = isqrt(clause.full - 1) + 1
    return min(max(1 << (root - 1).bit_length(), limits.min_block), limits.max_block)


def _keeps_nothing(spec: Aggregate) -> bool:
    return any(policy.keeps_nothing for policy in spec.window.policies[:1])


def _text_words(layout: summaries.Layout, columns: WordColumns) -> np.ndarray:
    """The words of summaries that are codes of texts: their values and companions. Sums have no such words."""
    texts: list[int] = []
    for word, value, companion in layout[["word", "value", "companion"]].tolist():
        texts += [word + i for i, column in enumerate((value, companion)) if column in columns.texts]
    return np.array(texts, np.int64)
