"""The outputs of random pipelines with one bucket and with several are equal, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sluice
from sluice.columns.key_bytes import partition_for
from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph
from sluice.engine.stream.items import TUPLE, Items
from sluice.model.expressions import Attribute
from sluice.model.spec import Pipeline
from sluice.model.spreading import Keys, spread_by
from sluice.model.stages import stages
from sluice.model.types import INT64
from sluice.replayer.event_batches import Batch, Cutter
from sluice.replayer.event_file import numbered
from sluice.testing import on_stream, pipeline_of
from tests.spec import dedup_strategies, event_join_strategies, event_strategies
from tests.spec.buckets import Spread, of_stream, plan_of
from tests.spec.join_strategies import LEFT, RIGHT, join_events, joins, sort_cases, sorts
from tests.spec.strategies import SCHEMA, apart, events, operators


class Run:
    """Events, cut into batches of several sizes: once each, for all pipelines that differ in their marks alone."""

    def __init__(self, pipeline: Pipeline, given_events: list[dict[str, Any]]) -> None:
        self.placed = list(numbered(given_events))
        self._inputs, self._cut = pipeline.inputs, dict[int, list[Batch]]()

    def batches(self, size: int) -> list[Batch]:
        if size not in self._cut:
            self._cut[size] = list(Cutter(self._inputs).batches(self.placed, size))
        return self._cut[size]


def records_with(buckets: int, pipeline: Pipeline, run: Run, size: int) -> list[list[Any]]:
    """Per batch and stream the rows that go to Kafka: time, kind, topic partition, key, value."""
    plan = plan_of(pipeline, run.placed, buckets)
    graphs = [Graph(pipeline, plan.topic_partitions) for _ in range(buckets)]
    states = [graph.initial() for graph in graphs]
    keys = spread_by(pipeline) or {}
    found = []
    for batch in run.batches(size):
        clock = Clock(int(batch.at[0]), int(batch.at[-1]))
        shares = shared_by(pipeline, batch.inputs, keys, buckets) if buckets > 1 else [batch.inputs]
        made = [graph.feed(state, share, clock) for graph, state, share in zip(graphs, states, shares, strict=True)]
        found += [of_stream(plan, stream.name, made, batch) for stream in pipeline.outputs]
    return found


def shared_by(
    pipeline: Pipeline, inputs: Mapping[str, Items], keys: Mapping[str, Keys], buckets: int
) -> list[dict[str, Items]]:
    """By bucket what it gets of each stream."""
    spread = {name: Spread(pipeline, name, items, keys[name]) for name, items in inputs.items()}
    bucket_of = {
        name: one.items.source[one.items.kind == TUPLE] % buckets
        if one.keys is None
        else partition_for(one.keys, buckets)
        for name, one in spread.items()
    }
    return [{name: one.share(bucket_of[name] == n) for name, one in spread.items()} for n in range(buckets)]


#: by the form of marks the numbers of buckets that are compared with one
BUCKETS: Mapping[str, Sequence[int]] = {"record": (2,), "header": (3,)}


def check(
    pipeline: Pipeline, given_events: list[dict[str, Any]], size: int, several: Mapping[str, Sequence[int]] = BUCKETS
) -> None:
    """Also that the ends of batches are not seen where marks are headers of tuples."""
    header, run = with_marks(pipeline, "header"), Run(pipeline, given_events)
    cut, whole = (records_with(1, header, run, n) for n in (size, len(given_events) or 1))
    assert by_stream(header, cut) == by_stream(header, whole)
    for marks, numbers in several.items() if spread_by(pipeline) is not None else ():
        form = with_marks(pipeline, marks)
        expected = cut if marks == "header" else records_with(1, form, run, size)
        for buckets in numbers:
            assert records_with(buckets, form, run, size) == expected, f"{buckets} buckets, marks: {marks}"


def with_marks(pipeline: Pipeline, marks: str) -> Pipeline:
    return replace(pipeline, streams={name: replace(s, marks=marks) for name, s in pipeline.streams.items()})


def by_stream(pipeline: Pipeline, found: list[list[Any]]) -> dict[str, list[Any]]:
    """The rows of each output without the ends of batches."""
    names = [stream.name for stream in pipeline.outputs]
    return {name: [row for rows in found[n :: len(names)] for row in rows] for n, name in enumerate(names)}


# ---- one operator ----------------------------------------------------------------------------------------------------

sizes = st.sampled_from([2, 5, 100])


@given(st.one_of(apart(operators()), apart(operators()), operators()), events(), sizes)
@settings(max_examples=15, derandomize=True)
def test_any_window(operator: dict[str, Any], given_events: list[dict[str, Any]], size: int):
    check(one_operator(operator), given_events, size)


def one_operator(operator: dict[str, Any]) -> Pipeline:
    names = ("window", "partition_by", "group_by", "aggregate_incomplete_windows", "aggregate_evicted_partitions")
    parameters = {name: operator[name] for name in names if operator[name]}
    file = {
        "pipeline": "p",
        "streams": {"input": {"topic": "input", "schema": SCHEMA}, "output": {"topic": "output"}},
        "operators": [{"name": "o", "aggregate": "input", **parameters, "output": {"output": operator["output"]}}],
        "clock_origin": "1970-01-01T00:00:00Z",
    }
    return load_text(orjson.dumps(file).decode(), "p", environment=None)


@pytest.mark.parametrize("second", ["timeInterval, intervalDuration(20)", "tumbling, count(3)", "sliding, count(2)"])
def test_a_window_behind_panes(second: str):
    """Each watermark brings out several, in the order of their starts."""
    pipeline = load_text(behind_panes(second), "p", environment=None)
    rows = [{"k": "abcdefg"[n % 7], "n": n, "ts": (n * 37) % 90} for n in range(60)]
    given_events: list[dict[str, Any]] = [{"at": float(n), "tuple": row} for n, row in enumerate(rows)]
    given_events += [{"at": 60.0, "watermark": 70}, {"at": 61.0, "watermark": 100}, {"at": 62.0, "punct": "final"}]
    check(pipeline, given_events, 25)


def behind_panes(second: str) -> str:
    return f"""
pipeline: panes
streams:
  input: {{topic: input, schema: {{k: string, n: int64, ts: float64}}, event_time: ts}}
  inner: {{topic: inner, watermarks: true}}
  large: {{}}
  output: {{topic: output}}
operators:
  - {{name: a, aggregate: input, window: "timeInterval, intervalDuration(10), partitioned", partition_by: [k],
     output: {{inner: {{k: k, ts: intervalEnd(), n: Sum(n)}}}}}}
  - {{name: m, map: inner, where: n > 1, output: [large]}}
  - {{name: b, aggregate: large, window: "{second}, partitioned", partition_by: [k],
     aggregate_incomplete_windows: {str("sliding" in second).lower()}, output: {{output: {{k: k, all: Collect(n)}}}}}}
"""


@given(st.one_of(joins(apart=True), joins(apart=True), joins()), join_events(), sizes)
@settings(max_examples=11, derandomize=True)
def test_any_join(operator: dict[str, Any], given_events: list[dict[str, Any]], size: int):
    check(pipeline_of({"operator": operator, "input": given_events}), list(map(on_stream, given_events)), size)


@given(event_join_strategies.cases, sizes)
@settings(max_examples=13, derandomize=True)
def test_any_join_over_event_time(case: dict[str, Any], size: int):
    check(pipeline_of(case), list(map(on_stream, case["input"])), size)


@given(sort_cases(st.one_of(apart(sorts()), apart(sorts()), sorts())), sizes)
@settings(max_examples=22, derandomize=True)
def test_any_sort(case: dict[str, Any], size: int):
    check(pipeline_of(case), case["input"], size)


@given(st.one_of(apart(operators()), operators()), events(), sizes)
@settings(max_examples=10, derandomize=True)
def test_any_window_of_a_handler(operator: dict[str, Any], given_events: list[dict[str, Any]], size: int):
    own = {name: operator[name] for name in ("window", "partition_by", "schema")}
    case = {"operator": own | {"kind": "custom", "handler": "tests.spec.handler_classes:Contents"}}
    check(pipeline_of(case | {"input": given_events}), given_events, size)


@given(event_strategies.cases, sizes)
@settings(max_examples=22, derandomize=True)
def test_any_window_over_event_time(case: dict[str, Any], size: int):
    check(pipeline_of(case), case["input"], size)


@given(event_strategies.sort_cases, sizes)
@settings(max_examples=22, derandomize=True)
def test_any_sort_over_event_time(case: dict[str, Any], size: int):
    assert spread_by(pipeline_of(case)) is None or case["operator"]["partition_by"]
    check(pipeline_of(case), case["input"], size)


@given(dedup_strategies.cases, sizes)
@settings(max_examples=13, derandomize=True)
def test_any_dedup(case: dict[str, Any], size: int):
    assert spread_by(pipeline_of(case)) is not None
    check(pipeline_of(case), case["input"], size)


# ---- several ---------------------------------------------------------------------------------------------------------

WINDOWS = [
    "tumbling, count(2)",
    "tumbling, time(2)",
    "tumbling, punct()",
    "sliding, count(2)",
    "sliding, time(3), time(1)",
]
#: each kind before itself, before another one, and behind another one
PAIRS = [(first, WINDOWS[(n + step) % len(WINDOWS)]) for n, first in enumerate(WINDOWS) for step in (0, 2)]


def chain(first: str, second: str) -> str:
    return f"""
pipeline: chain
clock_origin: 1970-01-01T00:00:00Z
streams:
  input: {{topic: input, schema: {json.dumps(SCHEMA)}}}
  inner: {{topic: inner}}
  large: {{topic: large}}
  output: {{topic: output}}
operators:
  - {{name: a, aggregate: input, window: "{first}, partitioned", partition_by: [k],
     output: {{inner: {{k: k, n: Count()}}}}}}
  - {{name: m, map: inner, where: n > 1, output: {{large: {{k: k, n: n}}}}}}
  - {{name: b, aggregate: large, window: "{second}, partitioned", partition_by: [k],
     output: {{output: {{k: k, all: Collect(n)}}}}}}
""".replace("'", "")


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_chain_of_windows(first: str, second: str):
    pipeline = load_text(chain(first, second), "p", environment=None)

    @given(events(), sizes)
    @settings(max_examples=5, derandomize=True)
    def of(given_events: list[dict[str, Any]], size: int) -> None:
        check(pipeline, given_events, size)

    of()


def behind_dedup(keep: str, within: str, window: str, by: str) -> str:
    return f"""
pipeline: unique
clock_origin: 1970-01-01T00:00:00Z
streams:
  input: {{topic: input, schema: {{k: string, n: int64, ts: float64}}, event_time: ts}}
  inner: {{topic: inner, watermarks: true}}
  output: {{topic: output}}
operators:
  - {{name: d, dedup: input, by: {by}, within: {within}(5), keep: {keep}, output: [inner]}}
  - {{name: b, aggregate: inner, window: "{window}, partitioned", partition_by: [k],
     output: {{output: {{k: k, all: Collect(n)}}}}}}
"""


@pytest.mark.parametrize("by", ["[k]", "[k, n]"])
@pytest.mark.parametrize("within", ["time", "eventTime"])
@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("window", ["tumbling, count(2)", "sliding, count(3)", "timeInterval, intervalDuration(10)"])
def test_a_window_behind_a_dedup(keep: str, within: str, window: str, by: str):
    pipeline = load_text(behind_dedup(keep, within, window, by), "p", environment=None)
    rows = [{"k": "abcdefg"[n % 7], "n": n % 2, "ts": (n * 37) % 90} for n in range(60)]
    given_events: list[dict[str, Any]] = [{"at": n / 4, "tuple": row} for n, row in enumerate(rows)]
    given_events += [{"at": 60.0, "watermark": 70}, {"at": 61.0, "watermark": 100}, {"at": 62.0, "punct": "final"}]
    check(pipeline, given_events, 25)


def join_of_aggregates(first: str, second: str) -> str:
    """Two windows whose timers and marks fall together feed a join, which feeds a sort."""
    return f"""
pipeline: meeting
clock_origin: 1970-01-01T00:00:00Z
streams:
  left: {{topic: left, schema: {json.dumps(LEFT)}}}
  right: {{topic: right, schema: {json.dumps(RIGHT)}}}
  lefts: {{}}
  rights: {{}}
  pairs: {{topic: pairs}}
  alone: {{topic: alone}}
  sorted: {{topic: sorted}}
operators:
  - {{name: a, aggregate: left, window: "{first}, partitioned", partition_by: [k],
     output: {{lefts: {{k: k, n: Count(), i: Last(i)}}}}}}
  - {{name: b, aggregate: right, window: "{second}, partitioned", partition_by: [k],
     output: {{rights: {{k: k, n: Count(), i: Last(i)}}}}}}
  - name: j
    join: {{left: lefts, right: rights}}
    window_left: sliding, time(2)
    window_right: sliding, count(2), partitioned
    partition_by_right: [k]
    equality_left: [k]
    equality_right: [k]
    algorithm: leftOuter
    unmatched_left: alone
    output: {{pairs: {{k: left.k, i: left.i, j: right.i}}}}
  - {{name: s, sort: pairs, window: "sliding, count(2), partitioned", partition_by: [k],
     order_by: {{i: asc}}, output: [sorted]}}
""".replace("'", "")


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_join_of_windows(first: str, second: str):
    pipeline = load_text(join_of_aggregates(first, second), "p", environment=None)
    assert spread_by(pipeline), "k says where everything belongs"

    @given(join_events(), sizes)
    @settings(max_examples=5, derandomize=True)
    def of(given_events: list[dict[str, Any]], size: int) -> None:
        check(pipeline, list(map(on_stream, given_events)), size)

    of()


def test_a_join_is_spread_by_the_equalities_that_hold_everything_apart():
    """left is a time window, right counts by n; so n alone decides which tuples match or evict others."""
    operator = {
        "kind": "join", "algorithm": "inner", "left": "sliding, time(5)", "right": "sliding, count(5), partitioned",
        "partition_by_left": [], "partition_by_right": ["n", "i"], "equality_left": ["k", "n"],
        "equality_right": ["k", "n"], "output": {"i": "left.i"}, "schema_left": LEFT, "schema_right": RIGHT,
    }  # fmt: skip
    n = (Attribute("n", INT64),)
    assert spread_by(pipeline_of({"operator": operator, "input": []})) == {"left": n, "right": n}
    in_one = operator | {"right": "sliding, count(5)", "partition_by_right": []}
    assert spread_by(pipeline_of({"operator": in_one, "input": []})) is None


def outer_join(behind: str) -> str:
    """`behind` reads the unmatched tuples, which leave the join by the clock."""
    return f"""
pipeline: unmatched
clock_origin: 1970-01-01T00:00:00Z
streams:
  l: {{topic: l, schema: {{k: string, x: int64}}}}
  r: {{topic: r, schema: {{k: string, y: int64}}}}
  o: {{topic: o}}
  p: {{topic: p}}
operators:
  - name: j
    join: {{left: l, right: r}}
    window_left: sliding, time(1)
    window_right: sliding, time(1)
    algorithm: outer
    equality_left: [k]
    equality_right: [k]
    output: {{o: {{k: left.k, x: left.x, y: right.y}}}}
  - {behind}
"""


#: what is behind the join -> whether its tuples may be spread over buckets
BEHIND = {
    "{name: c, map: o, output: {p: {x: x}}}": True,
    '{name: c, aggregate: o, window: "tumbling, count(2)", output: {p: {x: Collect(x)}}}': False,
    # l is read with two keys: with several buckets these are two stages, of which the join is one
    '{name: c, aggregate: l, window: "sliding, count(2), partitioned", partition_by: [x], output: {p: {x: x}}}': True,
}


@pytest.mark.parametrize("behind", BEHIND)
def test_tuples_that_leave_a_join_at_one_moment(behind: str):
    """In order of their keys if they may be spread over buckets, whatever `buckets` is, or else as they came: in a
    service and in a replay.
    """
    pipeline = load_text(outer_join(behind), "p", environment=None)
    rows = [{"at": 1, "stream": "l", "tuple": {"k": k, "x": x}} for x, k in enumerate("cbad", 1)]
    expected = [3, 2, 1, 4] if BEHIND[behind] else [1, 2, 3, 4]
    for buckets in (1, 4):
        one = replace(pipeline, settings=replace(pipeline.settings, buckets=buckets))
        assert [row["x"] for row in written(one, [*rows, {"at": 100}], 100)["o"]] == expected
        assert [row["x"] for row in replayed(one, [*rows, {"at": 100}])["o"]] == expected


@pytest.mark.parametrize("behind", BEHIND)
def test_a_replay_of_an_outer_join_gives_the_order_of_the_service(behind: str):
    pipeline = load_text(outer_join(behind), "p", environment=None)
    event = st.tuples(st.sampled_from([0, 0, 0.5, 2]), st.sampled_from("lr"), st.sampled_from("abcd"))

    @given(st.lists(event, max_size=15), sizes)
    @settings(max_examples=15, derandomize=True)
    def of(drawn: list[tuple[float, str, str]], size: int) -> None:
        given_events: list[dict[str, Any]] = []
        at = 0.0
        for n, (step, stream, key) in enumerate(drawn):
            at += step
            given_events.append({"at": at, "stream": stream, "tuple": {"k": key, "x" if stream == "l" else "y": n}})
        given_events.append({"at": 100})
        assert written(pipeline, given_events, size) == replayed(pipeline, given_events)
        for stage in stages(replace(pipeline, settings=replace(pipeline.settings, buckets=2))):
            names = {None, *(stream.name for stream in stage.inputs)}
            own_events = [one for one in given_events if one.get("stream") in names]
            check(stage, own_events, size)
            several = written(stage, own_events, size)
            assert several == {name: replayed(pipeline, given_events)[name] for name in several}

    of()


def written(pipeline: Pipeline, given_events: list[dict[str, Any]], size: int) -> dict[str, list[Any]]:
    """The tuples that a service with one bucket writes to each output."""
    rows = by_stream(pipeline, records_with(1, pipeline, Run(pipeline, given_events), size))
    return {name: [orjson.loads(value) for *_, value in of if value] for name, of in rows.items()}


def replayed(pipeline: Pipeline, given_events: list[dict[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {stream.name: [] for stream in pipeline.outputs}
    for record in sluice.replay(pipeline, given_events):
        if "tuple" in record:
            found[record["stream"]].append(record["tuple"])
    return found


MAP = f"""
pipeline: map
streams:
  input: {{topic: input, schema: {json.dumps(SCHEMA)}}}
  output: {{topic: output}}
operators:
  - {{name: m, map: input, where: b, output: {{output: {{k: k, n: n + 1}}}}}}
""".replace("'", "")


@given(events(), sizes)
@settings(max_examples=15, derandomize=True)
def test_a_map(given_events: list[dict[str, Any]], size: int):
    check(load_text(MAP, "p", environment=None), given_events, size)
