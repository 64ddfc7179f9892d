"""Event times of all keys move one watermark: with any number of buckets the outputs are those of one (ET1 to ET4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sluice.batch.merge import merged_parts
from sluice.batch.packed_rows import split_pass_through
from sluice.batch.partition_router import arrived_rows
from sluice.batch.query_plan import BOUNDS, Plan
from sluice.config.load import load_text
from sluice.kafka.batch_report import Planned
from sluice.kafka.librdkafka.column_consumer import of_messages
from sluice.model.spec import Pipeline
from sluice.model.spreading import spread_by
from sluice.state.bucket import Bucket
from sluice.state.bucket_outputs import records as written
from sluice.state.restore import rescaled
from sluice.testing import on_stream, pipeline_of
from sluice.time_units import SECOND
from tests.service.test_spread import Run, by_stream, records_with
from tests.service.test_spread import check as check_buckets
from tests.spec import dedup_strategies, early_strategies, event_join_strategies, event_strategies, session_strategies
from tests.spec.computed_watermarks import computed, with_computed
from tests.spec.strategies import Case

ORIGIN = 1_600_000_000


def check(pipeline: Pipeline, given_events: list[dict[str, Any]], size: int, *, spread: bool | None = True) -> None:
    """`spread`: whether several buckets are possible; None: it does not matter."""
    assert spread is None or (spread_by(pipeline) is not None) == spread
    check_buckets(pipeline, given_events, size, {"record": (2, 5), "header": (3,)})


sizes = st.sampled_from([1, 2, 5, 100])
KINDS = {
    "event time": event_strategies.cases,
    "sort": event_strategies.sort_cases,
    "session": session_strategies.cases,
    "early": early_strategies.cases,
    "dedup": dedup_strategies.cases,
    "interval join": event_join_strategies.interval_cases,
    "as-of join": event_join_strategies.as_of_cases,
}
SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow]


def timed(case: Case, of: dict[str, Any]) -> Iterator[Pipeline]:
    """The pipeline of the case, if an input has an event time."""
    pipeline = pipeline_of(case)
    if any(stream.event_time is not None for stream in pipeline.inputs):
        yield with_computed(pipeline, **of)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), of=computed(), size=sizes)
@settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=SLOW)
def test_any_operator_over_event_time(kind: str, data: st.DataObject, of: dict[str, Any], size: int):
    case = data.draw(KINDS[kind])
    for pipeline in timed(case, of):
        check(pipeline, list(map(on_stream, case["input"])), size, spread=None)


# ---- what a tuple causes, and what its watermark causes --------------------------------------------------------------

BOTH = """
pipeline: both
streams:
  input: {topic: input, schema: {k: string, t: int64}, event_time: {attribute: t, lag: 0, minimum_gap: 0}}
  passed: {}
  panes: {}
  output: {topic: output}
operators:
  - {name: panes, aggregate: input, window: "timeInterval, intervalDuration(10ms), partitioned", partition_by: [k],
     output: {panes: {k: k, t: intervalStart()}}}
  - {name: passed, map: input, output: {passed: {k: k, t: t}}}
  - {name: both, map: [panes, passed], output: [output]}
"""


def test_what_a_tuple_causes_comes_before_what_its_watermark_causes():
    """ET4: the tuple at 30 passes the map, and its watermark fires the panes of a and b."""
    pipeline = load_text(BOTH, "p", environment=None)
    given_events = [
        {"at": float(n), "tuple": {"k": k, "t": t}} for n, (k, t) in enumerate([("b", 1), ("a", 2), ("c", 30)])
    ]
    check(pipeline, given_events, 3)
    rows = by_stream(pipeline, records_with(1, pipeline, Run(pipeline, given_events), 3))["output"]
    found = [orjson.loads(value) for *_, value in rows if value]
    assert [(row["k"], row["t"]) for row in found] == [("b", 1), ("a", 2), ("c", 30), ("a", 0), ("b", 0)]


def test_an_early_result_of_a_tuple_comes_before_the_panes_that_its_watermark_closes():
    """ET4: though the early result is that of a later pane."""
    window = '"timeInterval, intervalDuration(10ms), partitioned", early: count(1), partition_by: [k]'
    operator = f"aggregate: input, window: {window}"
    text = BOTH[: BOTH.index("  passed:")] + "  output: {topic: output}\noperators:\n  - {name: o, " + operator
    pipeline = load_text(text + ", output: {output: {k: k, e: isEarly()}}}\n", "p", environment=None)
    given_events = [
        {"at": float(n), "tuple": {"k": k, "t": t}} for n, (k, t) in enumerate([("b", 1), ("c", 30), ("a", 60)])
    ]
    check(pipeline, given_events, 1)


# ---- through the router ----------------------------------------------------------------------------------------------

ROUTED = """
pipeline: routed
{settings}
streams:
  a: {{topic: a, schema: {{k: string, v: int64, t: int64}}, event_time: {event_time}}}
  b: {{topic: b, schema: {{k: string, v: int64, t: int64}}, event_time: {event_time}}}
  out: {{topic: out, watermarks: true}}
  both: {{topic: both}}
operators:
  - name: panes
    aggregate: a
    window: {window}
    partition_by: [k]
    output: {{out: {{k: k, t: Last(t), n: Count(), all: Collect(v)}}}}
  - name: pairs
    join: {{left: a, right: b}}
    window: interval, before(1), after(0.5)
    algorithm: leftOuter
    equality_left: [k]
    equality_right: [k]
    output: {{both: {{k: left.k, v: left.v, w: right.v}}}}
"""
WINDOWS = ["timeInterval, intervalDuration(2), discardAge(1), partitioned", "session, inactivityGap(1)",
           "slidingTime, timeDifference(1), grace(0.5)", "sliding, count(2), count(1), partitioned"]  # fmt: skip
EVENT_TIMES = [
    "{attribute: t, lag: 1s}", "{attribute: t, lag: 0, minimum_gap: 0, idle_after: 1.5s}",
    "{attribute: t, lag: 0.5s, idle_after: 2s, max_future: 3s}", "{attribute: t, idle_after: 1s}",
    "{attribute: t, lag: 0.2s, minimum_gap: 0.1s, idle_after: 1s, advance: true}",
]  # fmt: skip
PLACES = [("a", 0), ("a", 1), ("b", 0)]


@st.composite
def messages(draw: st.DrawFn) -> dict[tuple[str, int], list[Message]]:
    """By topic partition its records: tuples, a few marks; times of records and event times go back sometimes."""
    found = {}
    for topic, partition in PLACES:
        at, of_place = 0, []
        for offset in range(draw(st.integers(0, 25))):
            at += draw(st.sampled_from([0, 0, 1, 200, 600, 1_100, 4_000]))
            stamp = 1000 * ORIGIN + at - draw(st.sampled_from([0, 0, 0, 300]))
            time = 1000 * ORIGIN + at + draw(st.sampled_from([0, 0, -1, -400, -900, -2_500, 700, 5_000]))
            body = orjson.dumps({"k": draw(st.sampled_from("abcde")), "v": offset, "t": time})
            kind = draw(st.integers(0, 14))
            value, headers = (body, None) if kind > 1 else (str(time / 1000).encode(), [("sluice-mark", b"watermark")])
            if kind == 1:
                value, headers = b"", [("sluice-mark", b"window")]
            of_place.append(Message(
                topic=topic, partition=partition, offset=offset, value=value, headers=headers, timestamp=(1, stamp)
            ))  # fmt: skip
        found[topic, partition] = of_place
    return found


class Service:
    """The buckets of a stage without Kafka: records are routed, windows computed, and the outputs merged."""

    def __init__(self, pipeline: Pipeline, buckets: int, folder: Path, part: int) -> None:
        topics = {"a": 2, "b": 1, "out": 2, "both": 2}
        self.plan = Plan(pipeline, "q", "s", str(folder), buckets, topics, bounds=replace(BOUNDS, part=part))
        self.buckets = [Bucket(self.plan, number) for number in range(buckets)]
        self.before = Planned(0, dict.fromkeys(PLACES, 0), 0)

    def batch(self, batch: Planned, given: dict[tuple[str, int], list[Message]]) -> dict[str, list[Any]]:
        """The records that are written of each stream, in order."""
        records = {of: of_messages(some) for of, some in given.items() if some}
        arrived = arrived_rows(self.plan, self.before, batch, records)
        self.before = batch
        made: dict[str, list[list[pa.RecordBatch]]] = {s.name: [] for s in self.plan.pipeline.outputs}
        for bucket in self.buckets:
            rows = split_pass_through(self.plan.topic_partitions, arrived.get(bucket.number, []))[1]
            parts = list(bucket.try_rows(rows))
            for stream in self.plan.pipeline.outputs:
                of_bucket = [
                    written(self.plan, stream, items[stream.name], part.ordinals, bucket.number)
                    for part, items in parts if stream.name in items
                ]  # fmt: skip
                made[stream.name].append([one for one in of_bucket if one.num_rows])
        return {name: self._merged(of_buckets) for name, of_buckets in made.items()}

    def _merged(self, of_buckets: list[list[pa.RecordBatch]]) -> list[Any]:
        merged = list(merged_parts(of_buckets, self.plan.buckets))
        names = ("at", "kind", "partition", "key", "value")
        return [row for part in merged for row in zip(*(part.column(name).to_pylist() for name in names), strict=True)]

    def rescale(self, buckets: int) -> None:
        self.plan = replace(self.plan, buckets=buckets)
        self.buckets = rescaled(self.plan, self.buckets, 0)


@st.composite
def plans(draw: st.DrawFn, given: dict[tuple[str, int], list[Message]]) -> list[Planned]:
    """Cuts of the records into batches. The idle clock is at the newest record, and sometimes later."""
    ends, found = dict.fromkeys(PLACES, 0), []
    clock = ORIGIN * SECOND
    for _ in range(draw(st.sampled_from([1, 2, 4, 8]))):
        ends = {of: min(len(given[of]), end + draw(st.sampled_from([0, 1, 3, 9]))) for of, end in ends.items()}
        found.append(dict(ends))
    found.append({of: len(some) for of, some in given.items()})
    plans_ = []
    for offsets in found:
        read = [given[of][end - 1].timestamp()[1] for of, end in offsets.items() if end]
        clock = max(clock, max(read, default=0) * 1_000_000) + draw(st.sampled_from([0, 0, 0, 900_000_000, 3 * SECOND]))
        plans_.append(Planned(clock, offsets, clock))
    return plans_


@pytest.mark.parametrize("settings_of", ["", "merge: timestamp\nmerge_wait: 0.4"], ids=["as they come", "in order"])
@given(data=st.data())
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=SLOW, phases=[Phase.generate])
def test_records_that_are_routed_to_several_buckets(settings_of: str, data: st.DataObject):
    """Also if the batches are handled in parts of a few rows, and if the number of buckets changes."""
    event_time, window = data.draw(st.sampled_from(EVENT_TIMES)), data.draw(st.sampled_from(WINDOWS))
    advancing = "advance" in event_time and window.startswith("slidingTime")
    pipeline = load_text(
        ROUTED.format(settings=settings_of, event_time=event_time, window=WINDOWS[0] if advancing else window), "p",
        environment=None,
    )  # fmt: skip
    assert spread_by(pipeline) is not None
    given_messages = data.draw(messages())
    batches = data.draw(plans(given_messages))
    changes = data.draw(st.dictionaries(st.integers(1, 4), st.integers(1, 4), max_size=2))
    with TemporaryDirectory() as folder:
        whole = run(Service(pipeline, 1, Path(folder, "1"), BOUNDS.part), given_messages, batches, {})
        for buckets in (2, 3, 5):
            part = data.draw(st.sampled_from([300, BOUNDS.part]))
            service = Service(pipeline, buckets, Path(folder, str(buckets)), part)
            assert run(service, given_messages, batches, changes) == whole, f"{buckets} buckets, then {changes}"


def run(
    service: Service, given: dict[tuple[str, int], list[Message]], batches: list[Planned], changes: dict[int, int]
) -> list[Any]:
    """The records of all batches. `changes`: before which batch there are how many buckets from then on."""
    found, starts = [], dict.fromkeys(PLACES, 0)
    for number, batch in enumerate(batches):
        if number in changes:
            service.rescale(changes[number])
        found.append(service.batch(batch, {of: some[starts[of] : batch.offsets[of]] for of, some in given.items()}))
        starts = dict(batch.offsets)
    return found
