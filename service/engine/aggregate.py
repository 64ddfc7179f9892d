"""The Aggregate operator: columns in, window events, summaries, columns out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from service.engine import contents, emit, policies, summaries, windows
from service.engine.aggregates import Found, Function, function
from service.engine.arrow import arrow_schema
from service.engine.clean import clean
from service.engine.clock import Clock
from service.engine.expressions import evaluate
from service.engine.items import FINAL, TUPLE, Items
from service.engine.keys import key_codes
from service.engine.state import NEVER, AggregateState
from service.engine.store import grown
from service.engine.words import to_words
from service.pipeline.expressions import AggregateCall, Attribute, Call, Expression, walk
from service.pipeline.spec import Aggregate, Count
from service.pipeline.types import Kind, Schema

#: room for window events per item, to begin with
EVENTS_PER_ITEM = 4


class AggregateOperator:
    """Runs one `Aggregate`. It has no state of its own: `feed` changes the one that it is given."""

    def __init__(self, spec: Aggregate, schema: Schema, sources: int) -> None:
        """`schema` is that of the input, `sources` the number of its topic partitions."""
        self.spec = spec
        self._calls = _distinct(e for _, e in _assignments(spec) for e in walk(e) if isinstance(e, AggregateCall))
        self._functions = [function(call) for call in self._calls]
        self._columns = _columns(spec, schema, self._functions)
        where = {e: i for i, e in enumerate(self._columns)}
        self._clause = policies.clause(
            spec.window,
            {e.name: i for e, i in where.items() if isinstance(e, Attribute)},
            incomplete=spec.aggregate_incomplete_windows,
        )
        kept = [f for f in self._functions if f.code is not None]
        self._layout, width = summaries.layout([_places(f, where) for f in kept])
        self._words = dict(zip(map(id, kept), self._layout["word"].tolist(), strict=True))
        self._where = where
        self._listing = any(f.listing for f in self._functions)
        empty = spec.window.eviction
        self._holding = (self._clause.sliding or self._listing) and not (isinstance(empty, Count) and empty.size <= 0)
        self._widths = {"words": len(self._columns), "back": width, "stack": width, "sources": -(-sources // 64)}
        self._results = [
            (output.stream, arrow_schema(tuple((name, e.type) for name, e in output.attributes)),
             [_over_results(e, self._calls) for _, e in output.attributes])
            for output in spec.outputs
        ]  # fmt: skip

    def initial(self) -> AggregateState:
        return AggregateState(self._widths)

    def load(self, data: bytes) -> AggregateState:
        return AggregateState.load(data, self._widths)

    def feed(self, state: AggregateState, items: Items, clock: Clock) -> dict[str, Items]:
        """What comes out of these items and of the timers due by `clock.end`, per output stream."""
        items, last, end = _until_final(state, items, clock)
        if self._clause.period and state.scalars[windows.TICK] == NEVER:
            state.scalars[windows.TICK] = clock.start + self._clause.period
        arrivals = self._arrive(state, items)
        found, firing, firings = self._run(state, arrivals, end)
        plan = emit.plan(firings, firing, state.keys if self.spec.partition_by else None)
        outputs = self._outputs(found, plan)
        clean(state, self._text_columns(), self._text_words(), partitioned=bool(self.spec.partition_by))
        if last is None:
            return outputs
        state.finished = True
        return {stream: emit.final(output, *last) for stream, output in outputs.items()}

    # ---- in ---------------------------------------------------------------------------------------------------------

    def _arrive(self, state: AggregateState, items: Items) -> np.ndarray:
        """Gives every tuple its partition, its cell and a slot with its words."""
        tuples, is_tuple = items.tuples, items.kind == TUPLE
        count = tuples.num_rows
        partition = np.zeros(count, np.int64)
        if self.spec.partition_by:
            partition = key_codes([evaluate(e, tuples) for e in self.spec.partition_by], state.keys)
        state.reserve_partitions(max(1, state.keys.count))
        cell = self._cells(state, tuples, partition)
        state.reserve_cells(max(1, state.keys.count, state.pairs.count))
        slot = self._slots(state, count)
        state.links["cell"][slot] = cell
        for column, expression in enumerate(self._columns):
            state.words[slot, column] = to_words(evaluate(expression, tuples), expression.type, state.strings)
        arrivals = np.zeros(len(items), windows.ARRIVAL)
        arrivals["kind"], arrivals["at"], arrivals["event"] = items.kind, items.at, items.event
        arrivals["source"] = np.maximum(items.source, 0)
        arrivals["partition"][is_tuple], arrivals["slot"][is_tuple] = partition, slot
        return arrivals

    def _cells(self, state: AggregateState, tuples: pa.RecordBatch, partition: np.ndarray) -> np.ndarray:
        if not self.spec.group_by:
            return partition
        group = key_codes([evaluate(e, tuples) for e in self.spec.group_by], state.groups)
        pairs = np.ascontiguousarray(np.stack([partition, group], axis=1))
        return state.pairs.intern(pairs.reshape(-1).view(np.uint8), np.arange(len(partition) + 1, dtype=np.int64) * 16)

    def _slots(self, state: AggregateState, count: int) -> np.ndarray:
        """Slots for this batch's tuples. What leaves in a batch stays readable in it: its slots are free for the next."""
        if not self._holding:
            state.reserve_rows(count)
            return np.arange(count)
        again = min(count, len(state.free))
        slots = np.concatenate([state.free[len(state.free) - again :], np.arange(state.top, state.top + count - again)])
        state.free = state.free[: len(state.free) - again]
        state.top += count - again
        state.reserve_rows(state.top)
        return slots.astype(np.int64)

    # ---- through ----------------------------------------------------------------------------------------------------

    def _run(self, state: AggregateState, arrivals: np.ndarray, end: int) -> tuple[Found, np.ndarray, np.ndarray]:
        """What the windows that fired hold, the firing of each row of it, and the firings."""
        events, firings = self._window_events(state, arrivals, end)
        results = self._fill(state, events, len(firings))
        rows, listed, freed = results.used
        if self._holding:
            state.free = np.concatenate([state.free, results.freed[:freed]])
        words = state.words[results.tuples[:listed]]
        found = Found(results.rows["size"][:rows], results.summary[:rows], words, state.strings)
        return found, results.rows["firing"][:rows], firings

    def _window_events(self, state: AggregateState, arrivals: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The window events and the firings of these arrivals and of the timers due by `end`."""
        size = EVENTS_PER_ITEM * len(arrivals) + 64
        events, firings, used = np.zeros(size, windows.EVENT), np.zeros(size, windows.FIRING), np.zeros(2, np.int64)
        first = 0
        while True:
            window = windows.Window(
                self._clause, state.scalars, state.partitions, state.rows, state.words, state.sources,
                events, firings, used,
            )  # fmt: skip
            first = windows.run(window, arrivals, end, first)
            if first > len(arrivals):
                return events[: used[0]], firings[: used[1]]
            events, firings = grown(events, 2 * len(events)), grown(firings, 2 * len(firings))

    def _fill(self, state: AggregateState, events: np.ndarray, firings: int) -> contents.Results:
        """What the windows hold at each firing."""
        width = self._widths["stack"]
        results = contents.Results(
            np.zeros(firings, contents.RESULT), np.zeros((firings, width), np.int64),
            np.zeros(len(events) if self._listing else 0, np.int64), np.empty(len(events) + state.top, np.int32),
            np.zeros(3, np.int64),
        )  # fmt: skip
        kernel = contents.Contents(
            self._layout, state.strings.text, state.words, state.cells, state.back, state.links, state.stack, state.ends,
            self._clause.sliding, self._listing, np.zeros((1, width), np.int64),
        )  # fmt: skip
        start = 0
        while (start := contents.run(kernel, events, results, start)) < len(events):
            results = _more(results)
        return results

    # ---- out --------------------------------------------------------------------------------------------------------

    def _outputs(self, found: Found, plan: emit.Plan) -> dict[str, Items]:
        columns = [f.finish(found, self._argument(f)) for f in self._functions]
        names = [f"#{i}" for i in range(len(columns))]
        results = pa.record_batch(columns, names=names) if columns else _rows_only(len(found.size))
        return {
            stream: plan.items(pa.record_batch([evaluate(e, results) for e in expressions], schema=schema))
            for stream, schema, expressions in self._results
        }

    def _argument(self, function_: Function) -> int:
        """What `finish` wants to know: the summary's first word, or the column that is listed."""
        if function_.code is not None:
            return self._words[id(function_)]
        return self._where[function_.value] if function_.value is not None else 0

    def _text_columns(self) -> np.ndarray:
        return np.array([i for i, e in enumerate(self._columns) if _is_text(e)], np.int64)

    def _text_words(self) -> np.ndarray:
        """The words of a summary that are codes of texts or lists."""
        layout, columns = self._layout, self._columns
        texts: list[int] = []
        for code, word, value, companion in layout.tolist():
            for i in range(summaries.WIDTH[code]):
                arguments = (value, companion) if code >= summaries.LEAST else (value, value)
                if _is_text(columns[arguments[i % 2]]):
                    texts.append(word + i)
        return np.array(texts, np.int64)


# ---- what the operator is made of ------------------------------------------------------------------------------------


def _assignments(spec: Aggregate) -> list[tuple[str, Expression]]:
    return [assignment for output in spec.outputs for assignment in output.attributes]


def _distinct(calls: Iterable[AggregateCall]) -> list[AggregateCall]:
    return list(dict.fromkeys(calls))


def _columns(spec: Aggregate, schema: Schema, functions: list[Function]) -> list[Expression]:
    """What is kept of a tuple: the arguments of the aggregates and the attributes of deltas."""
    types = dict(schema)
    read = [e for f in functions for e in (f.value, f.companion) if e is not None]
    return list(dict.fromkeys(read + [Attribute(name, types[name]) for name in policies.deltas(spec.window)]))


def _places(function_: Function, where: dict[Expression, int]) -> tuple[int, int, int]:
    assert function_.code is not None
    assert function_.value is not None
    companion = function_.value if function_.companion is None else function_.companion
    return function_.code, where[function_.value], where[companion]


def _over_results(expression: Expression, calls: list[AggregateCall]) -> Expression:
    """The expression with each aggregate call replaced by the column of its results."""
    if isinstance(expression, AggregateCall):
        return Attribute(f"#{calls.index(expression)}", expression.type)
    if isinstance(expression, Call):
        arguments = tuple(_over_results(argument, calls) for argument in expression.arguments)
        return Call(expression.function, arguments, expression.type)
    return expression


def _is_text(expression: Expression) -> bool:
    return expression.type.kind in (Kind.STRING, Kind.LIST)


def _until_final(state: AggregateState, items: Items, clock: Clock) -> tuple[Items, tuple[int, int] | None, int]:
    """The items before the final mark, its event and time where it is among them, and until when timers fire."""
    if state.finished:
        return items.first(0), None, NEVER
    ends = np.flatnonzero(items.kind == FINAL)
    if not len(ends):
        return items, None, clock.end
    last = (int(items.event[ends[0]]), int(items.at[ends[0]]))
    return items.first(int(ends[0])), last, last[1]


def _rows_only(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(count)], names=["#"])


def _more(results: contents.Results) -> contents.Results:
    """With at least twice the room for rows and for listed tuples."""
    rows, tuples = 2 * len(results.rows) + 64, 2 * len(results.tuples) + 1024
    return results._replace(
        rows=grown(results.rows, rows), summary=grown(results.summary, rows), tuples=grown(results.tuples, tuples)
    )
