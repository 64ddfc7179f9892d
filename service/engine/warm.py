"""Compiles every kernel ahead of the first use: `python -m service.engine.warm`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from service.engine.clock import Clock
from service.engine.graph import Graph
from service.engine.items import TUPLE, Items
from service.pipeline.expressions import AggregateCall, Attribute
from service.pipeline.spec import Aggregate, Count, Output, Pipeline, Properties, Settings, Sliding, Stream
from service.pipeline.types import INT64, STRING, list_of


def main() -> None:
    """Feeds one tuple to a window that needs them all, and saves and loads its state."""
    numbers = list_of(INT64)
    key, value, values = Attribute("key", STRING), Attribute("value", INT64), Attribute("values", numbers)
    outputs = (
        ("text", AggregateCall("Max", (key,), STRING)), ("mean", AggregateCall("Average", (value,), INT64)),
        ("texts", AggregateCall("CountDistinct", (key,), INT64)), ("sums", AggregateCall("Sum", (values,), numbers)),
    )  # fmt: skip
    schema = (("key", STRING), ("value", INT64), ("values", numbers))
    pipeline = Pipeline(
        "warm",
        {"in": Stream("in", schema), "out": Stream("out", tuple((name, e.type) for name, e in outputs))},
        (Aggregate("warm", "in", Sliding(Count(1), Count(1), partitioned=True), (Output("out", outputs),), (key,)),),
        Settings(Properties()),
    )
    graph = Graph(pipeline, {"in": 1})
    one, number = np.zeros(1, np.int64), np.zeros(1, np.int32)
    tuples = pa.record_batch({"key": ["a"], "value": [1], "values": [[1]]})
    kind = np.full(1, TUPLE, np.int8)
    items = Items(one, one, kind, number, number - 1, pa.array([], pa.binary()), tuples)
    state = graph.initial()
    graph.feed(state, {"in": items}, Clock(0, 0))
    graph.load(graph.save(state))


if __name__ == "__main__":
    main()
