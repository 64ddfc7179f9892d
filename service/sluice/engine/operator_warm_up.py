"""Compiles every kernel before its first use: `python -m sluice.engine.operator_warm_up`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.engine.graph import Graph
from sluice.engine.operators.window_operators import SAMPLES
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, TUPLE, Items
from sluice.model.expressions import AggregateCall, Attribute
from sluice.model.spec import (  # fmt: skip
    Aggregate,
    Count,
    EventTime,
    Join,
    Operator,
    Order,
    Output,
    Pipeline,
    Properties,
    Settings,
    Side,
    Sliding,
    Sort,
    Stream,
    Time,
    Tumbling,
)
from sluice.model.types import FLOAT64, INT64, STRING, list_of

NUMBERS = list_of(INT64)
KEY, VALUE, VALUES = Attribute("key", STRING), Attribute("value", INT64), Attribute("values", NUMBERS)
REAL = Attribute("real", FLOAT64)
SCHEMA = (("key", STRING), ("value", INT64), ("values", NUMBERS), ("real", FLOAT64))
WINDOW = Sliding(Count(1), Count(1), partitioned=True)
OUTPUTS = (
    ("text", AggregateCall("Max", (KEY,), STRING)), ("mean", AggregateCall("Average", (VALUE,), INT64)),
    ("texts", AggregateCall("CountDistinct", (KEY,), INT64)), ("sums", AggregateCall("Sum", (VALUES,), NUMBERS)),
    ("real", AggregateCall("Sum", (REAL,), FLOAT64)),
)  # fmt: skip
FEW = Sliding(Count(2), Count(1), partitioned=True)
SIDE = Side("in", WINDOW, (KEY,), (KEY,), outer=True, default=("", 0, (), 0.0))
PAIRS = tuple((name, Attribute(name, kind, "left")) for name, kind in SCHEMA)
OPERATORS: tuple[Operator, ...] = (
    Aggregate("aggregate", "in", WINDOW, (Output("out", OUTPUTS),), (KEY,)),
    Aggregate("few", "in", FEW, (Output("out", OUTPUTS[:3]),), (KEY,)),
    Aggregate("ticks", "in", Tumbling(Time(1), partitioned=True), (Output("out", OUTPUTS),), (KEY,)),
    Join("join", SIDE, SIDE, (Output("pairs", PAIRS),)),
    *(Aggregate(window.word, "in", window, (Output("out", OUTPUTS),), (KEY,)) for window in SAMPLES),
    Sort("sort", "in", WINDOW, (Output("sorted", ()),), (Order(KEY),), (KEY,)),
)


def main() -> None:
    """Feeds each operator of OPERATORS, one after the other."""
    for operator in OPERATORS:
        feed(operator)


def feed(operator: Operator) -> None:
    """Runs the operator in a graph of its own with two tuples and a final mark, and saves and loads its state."""
    made = {"out": tuple((name, e.type) for name, e in OUTPUTS), "pairs": SCHEMA, "sorted": SCHEMA}
    streams = {name: Stream(name, schema) for name, schema in made.items()}
    streams["in"] = Stream("in", SCHEMA, event_time=EventTime("value", lag=0))
    graph = Graph(Pipeline("warm", streams, (operator,), Settings(Properties())), {"in": 1})
    one, number = np.zeros(3, np.int64), np.zeros(3, np.int32)
    tuples = pa.record_batch({"key": ["a", "b"], "value": [1, 2], "values": [[1], [2]], "real": [1.0, 2.0]})
    kind = np.array([TUPLE, TUPLE, FINAL], np.int8)
    items = Items(one, np.array([0, 0, 1]), kind, number, number - 1, pa.array([], pa.binary()), tuples)
    state = graph.initial()
    graph.feed(state, {"in": items}, Clock(0, 1))
    graph.load(graph.save(state))


if __name__ == "__main__":
    main()
