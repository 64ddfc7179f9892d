"""Compiles the kernels of operators before their first use, by feeding each operator two made-up tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.columns.interner import Interner
from sluice.engine.graph import Graph
from sluice.engine.operators.window_operators import SAMPLES
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, TUPLE, Items
from sluice.engine.windows.processing_time.window_records import FIRING
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, walk
from sluice.model.spec import (  # fmt: skip
    STORES_NOTHING,
    Aggregate,
    Barrier,
    Count,
    Custom,
    Dedup,
    Delay,
    Delta,
    EventTime,
    Join,
    Map,
    Operator,
    Order,
    Output,
    Pipeline,
    Port,
    Properties,
    Settings,
    Side,
    Sliding,
    Sort,
    Stream,
    Time,
    Tumbling,
)
from sluice.model.types import FLOAT64, INT64, STRING, Schema, Type, list_of
from sluice.model.windows.join_windows import AsOf, Interval, JoinWindow
from sluice.model.windows.table_window import TableWindow

NUMBERS, TEXTS = list_of(INT64), list_of(STRING)
KEY, VALUE, VALUES = Attribute("key", STRING), Attribute("value", INT64), Attribute("values", NUMBERS)
REAL, WORDS = Attribute("real", FLOAT64), Attribute("words", TEXTS)
SCHEMA = (("key", STRING), ("value", INT64), ("values", NUMBERS), ("real", FLOAT64), ("words", TEXTS))
WINDOW = Sliding(Count(1), Count(1), partitioned=True)
OUTPUTS = (
    ("text", AggregateCall("Max", (KEY,), STRING)), ("mean", AggregateCall("Average", (VALUE,), INT64)),
    ("texts", AggregateCall("CountDistinct", (KEY,), INT64)), ("sums", AggregateCall("Sum", (VALUES,), NUMBERS)),
    ("real", AggregateCall("Sum", (REAL,), FLOAT64)), ("words", AggregateCall("Last", (WORDS,), TEXTS)),
)  # fmt: skip
#: an Aggregate for each storage strategy, by names for the logs
STORED: tuple[tuple[str, Sliding | Tumbling], ...] = (
    ("aggregate", WINDOW), ("ticks", Tumbling(Time(1), partitioned=True)),
    ("blocks", Sliding(Time(1), Count(1), partitioned=True)), ("delta", Sliding(Delta("value", 1), partitioned=True)),
)  # fmt: skip
FEW = Sliding(Count(2), Count(1), partitioned=True)
SIDE = Side("in", WINDOW, (KEY,), (KEY,), outer=True, default=("", 0, (), 0.0, ()))
TIMED_SIDE = replace(SIDE, window=STORES_NOTHING, partition_by=())
JOINS: tuple[JoinWindow, ...] = (Interval(), AsOf())
PAIRS = tuple((name, Attribute(name, kind, "left")) for name, kind in SCHEMA)
OPERATORS: tuple[Operator, ...] = (
    *(Aggregate(name, "in", window, (Output("out", OUTPUTS),), (KEY,)) for name, window in STORED),
    Aggregate("few", "in", FEW, (Output("out", OUTPUTS[:3]),), (KEY,)),
    Join("join", SIDE, SIDE, (Output("pairs", PAIRS),)),
    *(Join(window.word, TIMED_SIDE, TIMED_SIDE, (Output("pairs", PAIRS),), window=window) for window in JOINS),
    *(Aggregate(window.word, "in", window, (Output("out", OUTPUTS),), (KEY,)) for window in SAMPLES),
    Aggregate("rows", "table", TableWindow(partitioned=True, key=("key",)), (Output("out", OUTPUTS),), (KEY,)),
    Dedup("dedup", "in", (KEY,), 1, "event_time", (Output("unique", ()),), "last"),
    Sort("sort", "in", WINDOW, (Output("sorted", ()),), (Order(KEY),), (KEY,)),
    Barrier(
        "barrier", (Port("in", "left", (KEY,)), Port("other", "right", (KEY,))), (Output("pairs", PAIRS),), timeout=1
    ),
    Delay("delay", "in", (Output("unique", ()),), by=1),
    Delay("throttle", "in", (Output("unique", ()),), gap=1, partition_by=(KEY,)),
)


MADE = {"out": tuple((name, e.type) for name, e in OUTPUTS), "pairs": SCHEMA, "sorted": SCHEMA, "unique": SCHEMA}
STREAMS = {name: Stream(name, schema) for name, schema in MADE.items()} | {
    "in": Stream("in", SCHEMA, event_time=EventTime("value", lag=0)),
    "other": Stream("other", SCHEMA),
    "table": Stream("table", SCHEMA, table=True),
}


def main() -> None:
    """Compiles the kernels of each operator of OPERATORS, one after the other."""
    for operator in OPERATORS:
        feed(operator, STREAMS)


def without_user_code(operator: Operator) -> Operator | None:
    """The operator without its calls of users' classes; None for an operator that is the user's own code."""
    if isinstance(operator, Custom):
        return None
    if not isinstance(operator, Aggregate | Map):
        return operator
    outputs = tuple(
        replace(output, attributes=tuple(pair for pair in output.attributes if not _calls_user_code(pair[1])))
        for output in operator.outputs
    )
    return replace(operator, outputs=outputs)


def _calls_user_code(expression: Expression) -> bool:
    return any(isinstance(part, AggregateCall | Call) and part.function == "Custom" for part in walk(expression))


def feed(operator: Operator, streams: Mapping[str, Stream]) -> None:
    """Runs the operator in a graph of its own, and saves and loads its state.

    Each of its inputs gets two tuples and a final mark.
    """
    names = dict.fromkeys([*operator.inputs, *(output.stream for output in operator.outputs)])
    around = {
        name: Stream(name, streams[name].schema, event_time=streams[name].event_time, table=streams[name].table)
        for name in names
    }
    graph = Graph(Pipeline("warm", around, (operator,), Settings(Properties())), dict.fromkeys(operator.inputs, 1))
    zeros, number = np.zeros(3, np.int64), np.zeros(3, np.int32)
    kind = np.array([TUPLE, TUPLE, FINAL], np.int8)
    inputs = {
        name: Items(zeros, np.array([0, 0, 1]), kind, number, number - 1, pa.array([], pa.binary()), sample(schema))
        for name, schema in ((name, around[name].row_schema) for name in operator.inputs)
    }
    state = graph.initial()
    graph.feed(state, inputs, Clock(0, 1))
    graph.load(graph.save(state))


def results() -> None:
    """Compiles the kernels that name the keys of results and order those of one instant. The two tuples of `feed` may
    cause no results.
    """
    keys = Interner()
    firings = np.zeros(2, FIRING)
    firings["partition"] = keys.intern_arrow(pa.array(["b", "a"]))
    emit.plan(firings, np.arange(2), keys)


def sample(schema: Schema) -> pa.RecordBatch:
    """Two tuples."""
    columns = [array_of(values(type_), type_) for _, type_ in schema]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def values(type_: Type) -> list[Any]:
    if type_.element is None or type_.optional:
        return list(type_.samples)
    return [[value] for value in values(type_.element)]
