"""Exchanges that close a cycle of operators, and pipelines in which their tuples return."""

from __future__ import annotations

import pytest

from sluice.config.load import load_text
from sluice.model.stages import stages
from sluice.model.topology import closing, fed, returning


@pytest.mark.parametrize(
    ("reads", "writes", "exchanges", "expected"),
    [
        ([["a"]], {"b": 0}, ["b"], []),
        ([["a", "b"]], {"b": 0}, ["b"], ["b"]),
        ([["a", "c"], ["b"]], {"b": 0, "c": 1}, ["c"], ["c"]),
        ([["a", "c"], ["b"]], {"b": 0, "c": 1}, ["b", "c"], ["b"]),
        ([["a", "b"], ["b"]], {"b": 0, "c": 1}, ["b", "c"], ["b"]),
        ([["a", "c"], ["b", "d"], ["c"]], {"b": 0, "c": 1, "d": 2}, ["c", "d"], ["c"]),
        ([["a", "c"], ["b", "d"], ["b"]], {"b": 0, "c": 1, "d": 2}, ["d", "c"], ["d", "c"]),
    ],
    ids=[
        "no cycle",
        "of one operator",
        "of two",
        "the first of two exchanges",
        "a reader outside",
        "two cycles of one",
        "in the order given",
    ],
)
def test_which_exchanges_close_cycles(
    reads: list[list[str]], writes: dict[str, int], exchanges: list[str], expected: list[str]
):
    assert closing(reads, writes, exchanges) == expected


FILE = """
pipeline: bars
streams:
  ticks: {topic: ticks, schema: {symbol: string, price: float64}}
  limits: {topic: bars.limits, exchange: true, schema: {symbol: string, limit: float64}}
  sized: {}
  bars: {topic: bars}
operators:
  - name: bar
    aggregate: sized
    window: tumbling, delta(price, limit), partitioned
    partition_by: [symbol]
    output:
      bars: {symbol: Last(symbol), n: Count()}
      limits: {symbol: Last(symbol), limit: Max(price) - Min(price)}
  - name: size
    join: {left: ticks, right: limits}
    window_left: sliding, count(0)
    window_right: sliding, count(1), partitioned
    partition_by_right: [symbol]
    equality_left: [symbol]
    equality_right: [symbol]
    algorithm: leftOuter
    default_right: {limit: 1.0}
    output: {sized: {symbol: left.symbol, price: price, limit: limit}}
"""


def test_the_readers_of_a_stream_that_closes_a_cycle_read_an_input():
    pipeline = load_text(FILE, "bars.yaml")
    assert [operator.name for operator in pipeline.operators] == ["size", "bar"]
    assert [stream.name for stream in pipeline.inputs] == ["ticks", "limits.returning"]
    assert [stream.name for stream in pipeline.outputs] == ["limits", "bars"]
    assert pipeline.streams["limits.returning"].topic == pipeline.streams["limits"].topic == "bars.limits"
    assert pipeline.streams["limits"].marks == "none"
    assert returning(pipeline) == {"limits": "limits.returning"}
    assert [stream.name for stream in fed(pipeline)] == ["ticks"]
    (stage,) = stages(pipeline)
    assert [stream.name for stream in stage.inputs] == ["ticks", "limits.returning"]


def test_a_pipeline_without_a_cycle_is_as_it_was():
    others = "others: {topic: others, schema: {symbol: string, limit: float64}}"
    text = FILE.replace("right: limits", "right: others").replace("sized: {}", f"sized: {{}}\n  {others}")
    assert returning(load_text(text.replace("exchange: true, ", ""), "bars.yaml")) == {}
