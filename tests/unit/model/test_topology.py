"""Exchanges that close a cycle of operators, and pipelines in which their tuples return; what streams that operators
write have of the inputs before them: topic partitions, and watermarks that follow the clock.
"""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.model.topology import closing, external_inputs, follows_clock, partitioning_stream, returning
from sluice.planning.firing_words import firing
from tests.unit.replayer.test_player import briefly, everything


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
    assert [stream.name for stream in external_inputs(pipeline)] == ["ticks"]
    (stage,) = stages(pipeline)
    assert [stream.name for stream in stage.inputs] == ["ticks", "limits.returning"]


def test_a_pipeline_without_a_cycle_is_as_it_was():
    others = "others: {topic: others, schema: {symbol: string, limit: float64}}"
    text = FILE.replace("right: limits", "right: others").replace("sized: {}", f"sized: {{}}\n  {others}")
    assert returning(load_text(text.replace("exchange: true, ", ""), "bars.yaml")) == {}


# ---- what comes from the inputs --------------------------------------------------------------------------------------

TIMES = """
pipeline: times
streams:
  in: {topic: in, schema: {x: int64, t: float64}, event_time: {attribute: t, lag: 1, minimum_gap: 0.5, idle_after: 3, advance: true}}
  other: {topic: other, schema: {x: int64, t: float64}, event_time: {attribute: t, lag: 1, idle_after: 3, advance: ADVANCE}}
  mapped: {}
  deduped: {}
  both: {}
  own: {event_time: {attribute: t, lag: 1}}
  counted: {}
  out: {topic: out}
operators:
  - {name: map, map: in, output: [mapped]}
  - {name: dedup, dedup: mapped, by: [x], within: time(1), output: [deduped]}
  - {name: unite, map: [in, other], output: [both]}
  - {name: again, map: in, output: [own]}
  - {name: count, aggregate: in, window: "timeInterval, intervalDuration(1)", output: {counted: {t: intervalLast(), x: Sum(x)}}}
  - {name: around, aggregate: READS, window: "slidingTime, timeDifference(2), grace(1)", output: {out: {xs: Collect(x)}}}
"""  # noqa: E501


def loaded(reads: str = "in", advance: str = "true") -> Pipeline:
    return load_text(TIMES.replace("READS", reads).replace("ADVANCE", advance), "times")


def row(at: float, x: int, t: float, topic_partition: int = 0, stream: str = "in") -> dict[str, Any]:
    return {"at": at, "stream": stream, "tuple": {"x": x, "t": t}, "topic_partition": topic_partition}


def made_around(reads: str, events: list[dict[str, Any]], advance: str = "true") -> list[str]:
    """What the slidingTime window emits and refuses."""
    found = everything(loaded(reads, advance), events)
    late = [f"{record['after']} late" for record in found if "dead_letter" in record]
    return briefly([record for record in found if record.get("stream") == "out"]) + late


def test_maps_and_dedups_keep_topic_partitions():
    pipeline = loaded()
    assert [partitioning_stream(pipeline, stream) for stream in ("in", "mapped", "deduped")] == ["in"] * 3
    assert [partitioning_stream(pipeline, stream) for stream in ("both", "counted")] == ["in+other", "counted"]


@pytest.mark.parametrize(("advance", "both"), [("true", True), ("false", False)])
def test_watermarks_follow_the_clock_where_those_of_all_inputs_do(advance: str, both: bool):  # noqa: FBT001
    pipeline = loaded(advance=advance)
    streams = ("in", "mapped", "deduped", "both", "own", "counted")
    assert [follows_clock(pipeline, stream) for stream in streams] == [True, True, True, both, False, False]


@pytest.mark.parametrize("reads", ["in", "mapped", "deduped"])
def test_a_sliding_time_window_closes_on_a_quiet_stream_behind_maps_and_dedups(reads: str):
    assert made_around(reads, [row(6, 1, 6), {"at": 8.9}, {"at": 9}, {"at": 9.5}]) == ["2 out [1]", "2 out window"]


@pytest.mark.parametrize(
    ("reads", "closed"), [("in", []), ("[in, other]", []), ("mapped", ["1 out [1]"]), ("deduped", ["1 out [1]"])]
)
def test_the_end_of_a_stream_closes_sliding_times_behind_an_operator_only(reads: str, closed: list[str]):
    """Q5. The maximum watermark precedes the final mark of a map or a dedup (E36), and not that of a topic (E37)."""
    finals = [{"at": 7, "stream": stream, "punct": "final"} for stream in ("in", "other")]
    found = made_around(reads, [row(6, 1, 6), *finals])
    assert [one for one in found if one.split()[-1] not in ("window", "final")] == closed


@pytest.mark.parametrize("reads", ["both", "[in, other]"])
@pytest.mark.parametrize(("advance", "expected"), [("true", ["3 out [1]", "3 out [1, 2]"]), ("false", [])])
def test_a_sliding_time_window_over_several_quiet_streams(reads: str, advance: str, expected: list[str]):
    """It closes if both watermarks follow the clock."""
    events = [row(6, 1, 6), row(6, 2, 7, stream="other"), {"at": 8.9}, {"at": 9.5}]
    assert [one for one in made_around(reads, events, advance) if "window" not in one] == expected


@pytest.mark.parametrize("reads", ["in", "mapped", "deduped"])
def test_each_topic_partition_has_a_stream_time_behind_maps_and_dedups(reads: str):
    """50 of topic partition 1 closes no window of topic partition 0, so 6.5 is not late (KIP T2)."""
    found = made_around(reads, [row(0, 1, 6), row(0, 2, 50, 1), row(0, 3, 6.5), row(0, 4, 12)])
    assert [one for one in found if "window" not in one] == ["3 out [1]", "3 out [1, 3]", "3 out [3]"]


def test_the_plan_says_that_a_quiet_stream_closes_the_windows():
    (of_input, of_map) = (firing(loaded(reads).operators[-1], loaded(reads))[1] for reads in ("in", "mapped"))
    assert of_input.endswith("; where no tuple comes for 3 s, watermarks follow the clock")
    assert of_map.endswith("; where the inputs are quiet, watermarks follow the clock")
