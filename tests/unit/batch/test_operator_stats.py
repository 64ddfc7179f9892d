"""What the operators did and hold, as the report of a batch has it."""

from __future__ import annotations

from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered, topic_partitions
from sluice.state.bucket_outputs import report_of

PIPELINE = """
pipeline: p
streams:
  in: {topic: in, schema: {key: string, number: int64}}
  large: {}
  out: {topic: out}
operators:
  - {name: filter, map: in, where: number > 1, output: [large]}
  - {name: last, aggregate: large, window: "sliding, count(2), count(1), partitioned", partition_by: [key],
     aggregate_incomplete_windows: true, output: {out: {key: key, all: Collect(number)}}}
"""


def test_tuples_windows_and_what_is_held():
    pipeline = load_text(PIPELINE, "p")
    rows = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("a", 5)]
    events = list(numbered([{"at": 0.0, "tuple": {"key": key, "number": number}} for key, number in rows]))
    graph = Graph(pipeline, topic_partitions(events, ["in"]))
    state = graph.initial()
    (batch,) = Cutter(pipeline.inputs).batches(events, 100)
    made = graph.feed(state, batch.inputs, Clock(0, 0))
    report = report_of(pipeline.operators, batch.inputs | made, graph.sizes(state))
    assert report == {
        "filter": {"in": 5, "out": 4, "windows": 0},
        "last": {"in": 4, "out": 4, "windows": 4, "partitions": 2, "tuples": 3},
    }
    nothing = report_of(pipeline.operators, {}, graph.sizes(state))
    assert nothing["last"] == {"in": 0, "out": 0, "windows": 0, "partitions": 2, "tuples": 3}
