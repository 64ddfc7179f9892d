"""Compiles every kernel ahead of the first use: `python -m service.engine.warm`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from service.engine.clock import Clock
from service.engine.graph import Graph
from service.engine.items import FINAL, TUPLE, Items
from service.pipeline.expressions import AggregateCall, Attribute
from service.pipeline.spec import (
    Aggregate,
    Count,
    Join,
    Order,
    Output,
    Pipeline,
    Properties,
    Settings,
    Side,
    Sliding,
    Sort,
    Stream,
)  # fmt: skip
from service.pipeline.types import INT64, STRING, list_of


def main() -> None:
    """Feeds a tuple or two to operators that need them all, and saves and loads their state."""
    numbers = list_of(INT64)
    key, value, values = Attribute("key", STRING), Attribute("value", INT64), Attribute("values", numbers)
    outputs = (
        ("text", AggregateCall("Max", (key,), STRING)), ("mean", AggregateCall("Average", (value,), INT64)),
        ("texts", AggregateCall("CountDistinct", (key,), INT64)), ("sums", AggregateCall("Sum", (values,), numbers)),
    )  # fmt: skip
    schema = (("key", STRING), ("value", INT64), ("values", numbers))
    window = Sliding(Count(1), Count(1), partitioned=True)
    side = Side("in", window, (key,), (key,), outer=True, default=("", 0, ()))
    unchanged = tuple((name, Attribute(name, kind, "left")) for name, kind in schema)
    made = {"out": tuple((name, e.type) for name, e in outputs), "pairs": schema, "sorted": schema}
    pipeline = Pipeline(
        "warm",
        {name: Stream(name, schema) for name, schema in [("in", schema), *made.items()]},
        (
            Aggregate("aggregate", "in", window, (Output("out", outputs),), (key,)),
            Join("join", side, side, (Output("pairs", unchanged),)),
            Sort("sort", "in", window, (Output("sorted", ()),), (Order(key),), (key,)),
        ),
        Settings(Properties()),
    )
    graph = Graph(pipeline, {"in": 1})
    one, number = np.zeros(3, np.int64), np.zeros(3, np.int32)
    tuples = pa.record_batch({"key": ["a", "a"], "value": [1, 2], "values": [[1], [2]]})
    kind = np.array([TUPLE, TUPLE, FINAL], np.int8)
    items = Items(one, one, kind, number, number - 1, pa.array([], pa.binary()), tuples)
    state = graph.initial()
    graph.feed(state, {"in": items}, Clock(0, 0))
    graph.load(graph.save(state))


if __name__ == "__main__":
    main()
