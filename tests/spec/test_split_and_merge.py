"""A state that is split by keys, and parts of it that are merged, give what the undivided state gives."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.columns.saved_columns import StateError
from sluice.columns.state_tables import PartOfKey
from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph, GraphState
from sluice.engine.stream.items import TUPLE, Items
from sluice.model.engine_limits import EngineLimits
from sluice.model.spec import Pipeline
from sluice.model.spreading import Keys, spread_by
from sluice.replayer.event_batches import Batch, Cutter
from sluice.replayer.event_file import numbered
from sluice.testing import limited, on_stream, pipeline_of
from tests.spec import (
    dedup_strategies,
    early_strategies,
    event_join_strategies,
    event_strategies,
    invariants,
    session_strategies,
    table_strategies,
)
from tests.spec.buckets import Spread, of_stream, plan_of
from tests.spec.computed_watermarks import computed, with_computed
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.join_strategies import LEFT, join_cases, sort_cases, sorts
from tests.spec.storage_strategies import SMALL_BLOCKS, in_blocks, in_rings
from tests.spec.strategies import Case, apart, cases, events, operators

pytestmark = pytest.mark.usefixtures("states_are_checked")


#: a run has so many batches at most: more of them take longer and show nothing else
MOST_BATCHES = 16


def size_of(size: int, events: int) -> int:
    """The size of the batches of a run of so many events."""
    return max(size, -(-events // MOST_BATCHES))


@dataclass(frozen=True)
class Division:
    """Before which batch a state is split, in how many parts, and before which batch which of them are merged."""

    size: int
    split: int
    parts: int
    merge: int
    merged: frozenset[int]
    salt: int
    #: whether the states are saved and loaded after each step
    saved: bool

    def of_run(self, events: int) -> Division:
        """This division of a run of so many events: the state is split and merged before batches that it has."""
        size = size_of(self.size, events)
        batches = max(1, -(-events // size))
        split = self.split % batches
        return replace(self, size=size, split=split, merge=split + (self.merge - self.split) % (batches - split))

    def part_of(self, key: bytes) -> int:
        return (zlib.crc32(key) + self.salt) % self.parts


@st.composite
def divisions(draw: st.DrawFn) -> Division:
    parts, split = draw(st.integers(1, 4)), draw(st.integers(0, 8))
    return Division(
        draw(st.sampled_from([1, 2, 5])), split, parts, split + draw(st.integers(0, 5)),
        draw(st.frozensets(st.integers(0, parts - 1), min_size=1)), draw(st.integers(0, 3)), draw(st.booleans()),
    )  # fmt: skip


class Divided:
    """States of one pipeline, each of them with the parts whose tuples it gets."""

    def __init__(self, pipeline: Pipeline, placed: list[Any], division: Division) -> None:
        self.pipeline, self.division = pipeline, division
        self.keys, self.plan = spread_by(pipeline), cache(partial(plan_of, pipeline, placed))
        self.graph = Graph(pipeline, self.plan(1).topic_partitions)
        self.states: list[tuple[frozenset[int], GraphState]] = [
            (frozenset(range(division.parts)), self.graph.initial())
        ]  # fmt: skip

    def advance(self, number: int) -> None:
        """What is to be done before the batch of this number."""
        of = self.division
        if number == of.split:
            ((_, state),) = self.states
            made = self.graph.split(state, of.parts, of.part_of)
            for state in made:
                invariants.check_graph_state(state)
            self.states = [(frozenset([part]), self.again(state)) for part, state in enumerate(made)]
            if self.keys is None:
                others = [self.graph.sizes(state) for _, state in self.states[1:]]
                assert all(size == (0, 0) for sizes in others for size in sizes.values())
        if number == of.merge:
            chosen = [one for one in self.states if one[0] & of.merged]
            if len(chosen) > 1:
                state = self.graph.merge([state for _, state in chosen])
                invariants.check_graph_state(state)
                state = self.again(state)
                rest = [one for one in self.states if not one[0] & of.merged]
                whole = (frozenset().union(*(parts for parts, _ in chosen)), state)
                self.states = sorted([whole, *rest], key=lambda one: min(one[0]))

    def again(self, state: GraphState) -> GraphState:
        return self.graph.load(self.graph.save(state)) if self.division.saved else state

    def feed(self, batch: Batch) -> list[list[Any]]:
        """Per stream the rows that go to Kafka. What must be in one bucket is all in the state that has part 0."""
        states = self.states if self.keys is not None else self.states[:1]
        shares = shared_by(batch, self.pipeline, self.keys, self.division.part_of, [parts for parts, _ in states])
        clock, plan = Clock(int(batch.at[0]), int(batch.at[-1])), self.plan(len(states))
        fed = [self.graph.feed(state, share, clock) for (_, state), share in zip(states, shares, strict=True)]
        return [of_stream(plan, stream.name, fed, batch) for stream in self.pipeline.outputs]


def shared_by(
    batch: Batch,
    pipeline: Pipeline,
    keys: Mapping[str, Keys] | None,
    part_of: PartOfKey,
    shares: Sequence[frozenset[int]],
) -> list[dict[str, Items]]:
    """By bucket what it gets of a batch: the tuples whose keys are in its parts. A tuple without a key is in part 0."""
    if keys is None:
        return [dict(batch.inputs)]
    spread = {name: Spread(pipeline, name, items, keys[name]) for name, items in batch.inputs.items()}
    parts = {
        name: np.zeros(int((one.items.kind == TUPLE).sum()), np.int64)
        if one.keys is None
        else np.array([part_of(key) for key in one.keys.to_pylist()], np.int64)
        for name, one in spread.items()
    }
    return [{name: one.share(np.isin(parts[name], [*own])) for name, one in spread.items()} for own in shares]


#: the placed events of a run, and the batches into which they are cut
Cut = tuple[list[Any], list[Batch]]


def cut_of(pipeline: Pipeline, given_events: list[dict[str, Any]], size: int) -> Cut:
    placed = list(numbered(given_events))
    return placed, list(Cutter(pipeline.inputs).batches(placed, size))


def rows(pipeline: Pipeline, cut: Cut, division: Division) -> list[list[Any]]:
    placed, batches = cut
    divided, found = Divided(pipeline, placed, division), []
    for number, batch in enumerate(batches):
        divided.advance(number)
        found.append(divided.feed(batch))
    return found


def check(
    pipeline: Pipeline, given_events: list[dict[str, Any]], division: Division, limits: EngineLimits = CLEANED_EARLY
) -> None:
    pipeline, division = limited(pipeline, limits), division.of_run(len(given_events))
    never = Division(division.size, -1, 1, -1, frozenset(), 0, saved=False)
    cut = cut_of(pipeline, given_events, division.size)
    assert rows(pipeline, cut, division) == rows(pipeline, cut, never)


def check_case(case: Case, division: Division, limits: EngineLimits = CLEANED_EARLY) -> None:
    check(pipeline_of(case), list(map(on_stream, case["input"])), division, limits)


@given(st.one_of(cases(apart(operators())), cases()), divisions())
@settings(max_examples=18, derandomize=True, deadline=None)
def test_any_window(case: Case, division: Division):
    check_case(case, division)


@given(in_rings, divisions())
@settings(max_examples=18, derandomize=True, deadline=None)
def test_windows_in_rings(case: Case, division: Division):
    check_case(case, division)


@given(in_blocks, divisions())
@settings(max_examples=13, derandomize=True, deadline=None)
def test_windows_in_blocks(case: Case, division: Division):
    check_case(case, division, SMALL_BLOCKS)


@given(event_strategies.cases, divisions())
@settings(max_examples=18, derandomize=True, deadline=None)
def test_any_window_over_event_time(case: Case, division: Division):
    check_case(case, division)


@given(event_strategies.sort_cases, divisions())
@settings(max_examples=21, derandomize=True, deadline=None)
def test_any_sort_over_event_time(case: Case, division: Division):
    check_case(case, division)


@given(st.one_of(join_cases(apart=True), join_cases(apart=True), join_cases()), divisions())
@settings(max_examples=15, derandomize=True, deadline=None)
def test_any_join(case: Case, division: Division):
    check_case(case, division)


@given(st.one_of(sort_cases(apart(sorts())), sort_cases()), divisions())
@settings(max_examples=14, derandomize=True, deadline=None)
def test_any_sort(case: Case, division: Division):
    check_case(case, division)


@pytest.mark.parametrize("salt", [0, 1], ids=["the first part has the key", "the second part has it"])
def test_equal_tuples_of_a_merged_sort_leave_in_order_of_arrival(salt: int):
    """O2, O8: a tuple that comes after the merge sorts behind its equals, though only one part had tuples before."""
    sort = {
        "kind": "sort", "window": "sliding, count(4), partitioned", "partition_by": ["k"], "order_by": [["g", "asc"]],
        "schema": {"k": "string", "g": "int64", "i": "int64"},
    }  # fmt: skip
    tuples = [{"at": float(n), "tuple": {"k": "a", "g": 1, "i": n}, "topic_partition": 0} for n in range(12)]
    check_case({"operator": sort, "input": tuples}, Division(1, 1, 2, 6, frozenset([0, 1]), salt, saved=False))


@given(operators(), events(), divisions())
@settings(max_examples=21, derandomize=True, deadline=None)
def test_any_window_of_a_handler(operator: dict[str, Any], given_events: list[dict[str, Any]], division: Division):
    own = {name: operator[name] for name in ("window", "partition_by", "schema")}
    handler = own | {"kind": "custom", "handler": "tests.spec.handler_classes:Contents"}
    check_case({"operator": handler, "input": given_events}, division)


@given(event_strategies.cases, divisions())
@settings(max_examples=17, derandomize=True, deadline=None)
def test_any_window_over_event_time_of_a_handler(case: Case, division: Division):
    names = ("window", "partition_by", "schema", "event_time", "event_time_resolution")
    own = {name: case["operator"][name] for name in names if name in case["operator"]}
    handler = own | {"kind": "custom", "handler": "tests.spec.handler_classes:Contents"}
    check_case({"operator": handler, "input": case["input"]}, division)


def test_windows_of_a_handler_whose_times_are_out_of_order():
    """The times get other rows when the state is divided; the groups, which a handler does not fill, refer to none."""
    handler = {
        "kind": "custom", "handler": "tests.spec.handler_classes:Contents", "schema": {"i": "int64", "e": "float64"},
        "window": "slidingTime, timeDifference(0.001), grace(0)", "partition_by": [], "event_time": "e",
    }  # fmt: skip
    tuples = [{"i": 1, "e": e} for e in (4.0, 3.999, 4.0)]
    events = [{"at": float(n), "tuple": values, "topic_partition": 0} for n, values in enumerate(tuples)]
    check_case({"operator": handler, "input": events}, Division(1, 2, 1, 2, frozenset([0]), 0, saved=False))


@dataclass(frozen=True)
class Rescales:
    """By the number of a batch: how many states there are from this batch on, of all keys together."""

    size: int
    numbers: dict[int, int]
    saved: bool

    def of_run(self, events: int) -> Rescales:
        """These rescales of a run of so many events, before batches that it has."""
        size = size_of(self.size, events)
        batches = max(1, -(-events // size))
        return replace(self, size=size, numbers={number % batches: parts for number, parts in self.numbers.items()})


rescales = st.builds(
    Rescales,
    st.sampled_from([1, 2, 5]),
    st.dictionaries(st.integers(0, MOST_BATCHES - 1), st.integers(1, 5), min_size=1, max_size=5),
    st.booleans(),
)


def rescaled_rows(pipeline: Pipeline, cut: Cut, of: Rescales) -> list[list[Any]]:
    (placed, batches), keys, found = cut, spread_by(pipeline), []
    plan = cache(partial(plan_of, pipeline, placed))
    graph = Graph(pipeline, plan(1).topic_partitions)
    states = [graph.initial()]
    for number, batch in enumerate(batches):
        if keys is not None and number in of.numbers:
            count = of.numbers[number]
            parts = [graph.split(state, count, lambda key, n=count: zlib.crc32(key) % n) for state in states]
            states = [graph.merge([some[part] for some in parts]) for part in range(count)]
            states = [graph.load(graph.save(state)) if of.saved else state for state in states]
        clock, count = Clock(int(batch.at[0]), int(batch.at[-1])), len(states)
        shares = shared_by(
            batch,
            pipeline,
            keys,
            lambda key, n=count: zlib.crc32(key) % n,
            [frozenset({part}) for part in range(count)],
        )
        fed = [graph.feed(state, share, clock) for state, share in zip(states, shares, strict=True)]
        found.append([of_stream(plan(count), stream.name, fed, batch) for stream in pipeline.outputs])
    return found


def check_rescales(case: Case, of: Rescales) -> None:
    check_rescaled(limited(pipeline_of(case), CLEANED_EARLY), list(map(on_stream, case["input"])), of)


def check_rescaled(pipeline: Pipeline, given_events: list[dict[str, Any]], of: Rescales) -> None:
    of = of.of_run(len(given_events))
    never = replace(of, numbers={})
    cut = cut_of(pipeline, given_events, of.size)
    assert rescaled_rows(pipeline, cut, of) == rescaled_rows(pipeline, cut, never)


#: the operators that may have several buckets
RESCALED = {
    "aggregate": cases(apart(operators())),
    "event time": event_strategies.cases,
    "sort": sort_cases(apart(sorts())),
    "event time sort": event_strategies.sort_cases,
    "session": session_strategies.cases,
    "early": early_strategies.cases,
    "dedup": dedup_strategies.cases,
    "join": join_cases(apart=True),
    "interval join": event_join_strategies.interval_cases,
    "as-of join": event_join_strategies.as_of_cases,
    "table join": table_strategies.cases(),
}


#: a case is loaded to see whether it may have several buckets, and some may not
SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow]


def spread(case: Case) -> bool:
    return spread_by(pipeline_of(case)) is not None


@pytest.mark.parametrize("kind", RESCALED)
@given(st.data(), rescales)
@settings(max_examples=9, derandomize=True, deadline=None, suppress_health_check=SLOW)
def test_any_sequence_of_rescales_gives_the_outputs_of_none(kind: str, data: st.DataObject, of: Rescales):
    check_rescales(data.draw(RESCALED[kind].filter(spread)), of)


COMPUTED = ("event time", "sort", "session", "early", "dedup", "interval join", "as-of join")


@pytest.mark.parametrize("kind", [kind for kind in RESCALED if "event" in kind or kind in COMPUTED])
@given(st.data(), computed(), rescales)
@settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=SLOW)
def test_computed_watermarks_with_any_sequence_of_rescales(
    kind: str, data: st.DataObject, settings_of: dict[str, Any], of: Rescales
):
    case = data.draw(RESCALED[kind])
    pipeline = with_computed(limited(pipeline_of(case), CLEANED_EARLY), **settings_of)
    if spread_by(pipeline) is not None:
        check_rescaled(pipeline, list(map(on_stream, case["input"])), of)


ALIGNED = {
    "kind": "aggregate", "window": "tumbling, punct(), partitioned", "partition_by": ["k"], "marks_in": "aligned",
    "output": {"k": "Last(k)", "all": "Collect(i)"}, "schema": {"k": "string", "i": "int64"},
}  # fmt: skip


@given(events({"k", "i"}), divisions())
@settings(max_examples=24, derandomize=True, deadline=None)
def test_tuples_that_wait_for_an_aligned_mark(given_events: list[dict[str, Any]], division: Division):
    check_case({"operator": ALIGNED, "input": given_events}, division)


CHAIN = f"""
pipeline: chain
clock_origin: 1970-01-01T00:00:00Z
streams:
  input: {{topic: input, schema: {json.dumps(LEFT)}}}
  inner: {{}}
  pairs: {{topic: pairs}}
  sorted: {{topic: sorted}}
operators:
  - {{name: a, aggregate: input, window: "sliding, time(3), count(1), partitioned", partition_by: [n],
     aggregate_incomplete_windows: true, output: {{inner: {{n: n, k: Last(k), sum: Sum(i)}}}}}}
  - name: j
    join: {{left: inner, right: input}}
    window_left: sliding, time(4)
    window_right: sliding, count(3), partitioned
    partition_by_right: [n, k]
    equality_left: [k, n]
    equality_right: [k, n]
    output: {{pairs: {{n: left.n, sum: left.sum, i: right.i}}}}
  - {{name: s, sort: pairs, window: "sliding, count(2), partitioned", partition_by: [n], order_by: {{i: asc}},
     output: [sorted]}}
""".replace("'", "")


@given(events(frozenset(LEFT)), divisions())
@settings(max_examples=15, derandomize=True, deadline=None)
def test_a_join_behind_a_window_is_divided_by_one_of_its_equalities(given_events: list[Any], division: Division):
    pipeline = load_text(CHAIN, "chain", environment=None)
    assert spread_by(pipeline), "n says where everything belongs"
    check(pipeline, given_events, division)


BEHIND_A_DEDUP = f"""
pipeline: chain
clock_origin: 1970-01-01T00:00:00Z
streams:
  input: {{topic: input, schema: {json.dumps(LEFT)}}}
  plain: {{}}
  once: {{}}
  lists: {{topic: lists}}
operators:
  - {{name: m, map: input, output: {{plain: {{i: i, f: f, key: "KEY"}}}}}}
  - {{name: d, dedup: plain, by: [i, f, key], within: time(3), output: [once]}}
  - {{name: a, aggregate: once, window: "tumbling, count(2), partitioned", partition_by: [PARTS],
     output: {{lists: {{all: Collect(i), more: Collect(key)}}}}}}
""".replace("'", "")


@pytest.mark.parametrize("key", ["k", "n", "n + 1"])
@pytest.mark.parametrize("parts", ["key", "f, key", "i, f, key"])
@given(given_events=events(frozenset(LEFT)), division=divisions())
@settings(max_examples=8, derandomize=True, deadline=None)
def test_a_dedup_is_divided_by_the_part_of_its_key_that_the_windows_behind_it_have(
    key: str, parts: str, given_events: list[Any], division: Division
):
    pipeline = load_text(BEHIND_A_DEDUP.replace("KEY", key).replace("PARTS", parts), "chain", environment=None)
    assert spread_by(pipeline), "the windows say where everything belongs"
    check(pipeline, given_events, division)


# ---- many tuples -----------------------------------------------------------------------------------------------------

MANY = [
    {"window": "sliding, count(40), count(3), partitioned"},
    {"window": "sliding, time(30.0), count(2), partitioned"},
    {"window": "sliding, delta(i, 5), count(3), partitioned"},
    {"window": "tumbling, count(50), partitioned"},
    {"window": "timeInterval, intervalDuration(90), creationPeriod(1), partitioned", "event_time": "t"},
]


@pytest.mark.parametrize("group_by", [[], ["g"]])
@pytest.mark.parametrize("window", MANY, ids=lambda window: window["window"])
def test_long_windows(window: dict[str, str], group_by: list[str]):
    """Blocks of tuples, timelines with blocks of their own and heaps are divided while they are full."""
    timed = "event_time" in window
    of_clock = {} if timed else {"middle": "ApproxPercentile(f, 0.5)", "d": "CountDistinct(s)"}
    operator = {
        "kind": "aggregate", "partition_by": ["k"], "group_by": group_by,
        "schema": {"k": "string", "g": "string", "i": "int64", "f": "float64", "s": "string", "t": "float64"},
        "output": {"k": "Last(k)", "n": "Count()", "all": "Collect(i)", "sum": "Sum(f)", "least": "Min(s)"} | of_clock,
    }  # fmt: skip
    case = {"operator": operator | window, "input": list(many_events(timed=timed))}
    for split, merge in ((1, 2), (2, 5)):
        check_case(case, Division(100, split, 3, merge, frozenset({0, 2}), 1, saved=True))


def many_events(*, timed: bool) -> Iterator[dict[str, Any]]:
    choose = random.Random(11)
    for number in range(900):
        at = number / 4
        yield {"at": at, "tuple": {
            "k": f"key {choose.randrange(3)}", "g": choose.choice("uv"), "i": choose.randrange(20),
            "f": choose.gauss(0, 1), "s": f"text {choose.randrange(50)}", "t": float(number + choose.randrange(-3, 3)),
        }}  # fmt: skip
        if timed and number % 50 == 49:
            yield {"at": at, "watermark": float(number - 4)}


# ---- what cannot be merged -------------------------------------------------------------------------------------------

KEYED = {"window": "sliding, count(3), partitioned", "partition_by": ["k"], "output": {"all": "Collect(k)"}}


def test_two_states_with_one_key_are_not_merged():
    case = {"operator": KEYED, "input": [{"at": 0.0, "tuple": {"k": "a"}}]}
    pipeline = pipeline_of(case)
    graph = Graph(pipeline, {"input": 1})
    (batch,) = Cutter(pipeline.inputs).batches(numbered(case["input"]), 1)
    states = [graph.initial(), graph.initial()]
    for state in states:
        graph.feed(state, batch.inputs, Clock(0, 0))
    with pytest.raises(StateError, match="two states that are merged hold the same key"):
        graph.merge(states)


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_merged_state_is_at_the_time_of_the_bucket_that_is_ahead(ahead: int):
    """A bucket gets no batch that has no row for it, so its clock stays behind."""
    case = {"operator": KEYED, "input": [{"at": 7.0, "tuple": {"k": "a"}}]}
    pipeline = pipeline_of(case)
    graph = Graph(pipeline, {"input": 1})
    (batch,) = Cutter(pipeline.inputs).batches(numbered(case["input"]), 1)
    states = [graph.initial(), graph.initial()]
    graph.feed(states[ahead], batch.inputs, Clock(0, int(batch.at[0])))
    assert graph.merge(states).now == batch.at[0]


def test_parts_know_the_keys_that_they_are_asked_for():
    """Every key is asked for once, by its bytes."""
    case = {"operator": KEYED, "input": [{"at": 0.0, "tuple": {"k": k}} for k in "abca"]}
    pipeline = pipeline_of(case)
    graph = Graph(pipeline, {"input": 1})
    (batch,) = Cutter(pipeline.inputs).batches(numbered(case["input"]), 9)
    state = graph.initial()
    graph.feed(state, batch.inputs, Clock(0, 0))
    asked: list[bytes] = []
    part_of: PartOfKey = lambda key: asked.append(key) or int(key > b"a")  # noqa: E731
    parts = graph.split(state, 2, part_of)
    assert asked == [b"a", b"b", b"c"]
    assert [graph.sizes(part)["case"] for part in parts] == [(1, 2), (2, 2)]
    assert [row["k"] for one in graph.inspect(parts[1], "c") for row in one.held] == ["c"]
