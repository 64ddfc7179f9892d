"""Window marks for one key (`mark_when` with `of`): a few lines of Python say what comes out (B8, B9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.engine.stream.items import KEY_MARK
from sluice.model.spreading import spread_by
from sluice.replayer.player import replay
from sluice.testing import on_stream, pipeline_of
from tests.service.test_spread import Run, records_with
from tests.service.test_spread import check as check_buckets
from tests.spec.every_cut import CLEANED_EARLY, check_expected
from tests.spec.oracle import key_bytes
from tests.spec.strategies import Case, cuts, events
from tests.spec.test_split_and_merge import Division, check_case, divisions

SCHEMA = {"k": "string", "n": "int64", "b": "boolean", "i": "int64"}


pytestmark = pytest.mark.usefixtures("states_are_checked")


def expected(case: Case) -> Iterator[dict[str, Any]]:  # noqa: C901 - one branch for each kind of event
    """The records of a window over punct() or count(3), if a tuple with a true `b` has a mark around it."""
    operator = case["operator"]
    before, most = "before" in operator["mark_when"], 3 if "count(3)" in operator["window"] else 10**9
    stored: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    live = set(range(1 + max(event.get("topic_partition", 0) for event in case["input"])))

    def flushed(number: int, key: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
        if rows := stored.pop(key, []):
            yield {"after": number, "tuple": {"all": [i for _, i in rows]}}
            yield {"after": number, "punct": "window"}

    for number, event in enumerate(case["input"]):
        source = event.get("topic_partition", 0)
        if source not in live:
            continue
        if "tuple" in event:
            values = event["tuple"]
            key = tuple(values[name] for name in operator["partition_by"])
            marked = values["b"]
            yield from flushed(number, key) if marked and before else ()
            stored.setdefault(key, []).append((source, values["i"]))
            yield from flushed(number, key) if len(stored[key]) == most else ()
            yield from flushed(number, key) if marked and not before else ()
        elif event.get("punct") == "window":  # a mark in the topic: B1, T19
            closed = [key for key, rows in stored.items() if any(of == source for of, _ in rows)]
            for key in sorted(closed, key=key_bytes):
                yield from flushed(number, key)
            if not closed:
                yield {"after": number, "punct": "window"}
        elif event.get("punct") == "final":
            live.discard(source)
            if not live:
                yield {"after": number, "punct": "final"}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    key = draw(st.sampled_from([["k"], ["n"], ["k", "n"]]))
    policy = draw(st.sampled_from(["punct()", "punct()", "count(3) or punct()"]))
    operator = {
        "kind": "aggregate", "window": f"tumbling, {policy}, partitioned", "partition_by": key, "schema": SCHEMA,
        "mark_when": {draw(st.sampled_from(["before", "after"])): "b", "of": key}, "output": {"all": "Collect(i)"},
    }  # fmt: skip
    return {"operator": operator, "input": draw(events(set(SCHEMA))), "limits": CLEANED_EARLY}


@given(cases(), cuts)
@settings(max_examples=45, derandomize=True)
def test_random_windows_and_events(case: Case, batches: list[int]):
    check_expected(expected, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=42, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


@given(cases(), st.sampled_from([2, 5, 100]), st.sampled_from(["topic_partition", "any", "aligned"]))
@settings(max_examples=42, derandomize=True)
def test_one_bucket_or_several(case: Case, size: int, scope: str):
    case = case | {"operator": case["operator"] | {"marks_in": scope}}
    pipeline = pipeline_of(case)
    assert (spread_by(pipeline) is None) == (scope == "aligned")
    check_buckets(pipeline, list(map(on_stream, case["input"])), size)


BEHIND_OTHERS = """
pipeline: behind
streams:
  a: {topic: a, schema: {k: string, end: boolean, i: int64}, mark_when: {after: end, of: k}}
  b: {topic: b, schema: {k: string, end: boolean, i: int64}, mark_when: {after: end, of: k}}
  large: {}
  unique: {}
  out: {topic: out}
  seen: {topic: seen}
operators:
  - {name: m, map: [a, b], where: i > 0, output: {large: {name: k, i: i}, seen: {i: i}}}
  - {name: d, dedup: large, by: [name, i], within: time(100), output: [unique]}
  - {name: s, sort: unique, window: "tumbling, punct(), partitioned", partition_by: [name], order_by: {i: desc},
     output: [out]}
"""


def test_marks_pass_a_union_a_map_and_a_dedup_to_a_sort():
    """A tuple that the map or the dedup drops still closes its key. The marks are not written to the topic `seen`."""
    rows = [("a", "x", 1, False), ("b", "x", 2, False), ("b", "y", 3, False), ("b", "x", 0, True), ("a", "y", 3, True)]
    given_events = [
        {"at": float(n), "stream": stream, "tuple": {"k": k, "i": i, "end": end}}
        for n, (stream, k, i, end) in enumerate(rows)
    ]
    pipeline = load_text(BEHIND_OTHERS, "behind", environment=None)
    records = list(replay(pipeline, given_events))
    assert [(r["after"], r["tuple"]["i"]) for r in records if r["stream"] == "out" and "tuple" in r] == [
        (3, 2), (3, 1), (4, 3)
    ]  # fmt: skip
    assert [r for r in records if r["stream"] == "seen" and "punct" in r] == []
    to_kafka = records_with(1, pipeline, Run(pipeline, given_events), 100)
    assert KEY_MARK not in {kind for stream in to_kafka for _, kind, *_ in stream}
    check_buckets(pipeline, given_events, 2)


BEHIND_THE_LAST = """
pipeline: last
streams:
  in:
    topic: in
    schema: {k: string, i: int64, end: boolean, t: float64}
    mark_when: {after: end, of: k}
    event_time: {attribute: t}
  last: {}
  out: {topic: out}
operators:
  - {name: d, dedup: in, by: [k], within: WITHIN, keep: last, output: [last]}
  - {name: w, aggregate: last, window: "tumbling, punct(), partitioned", partition_by: [k],
     output: {out: {k: k, all: Collect(i)}}}
"""


@pytest.mark.parametrize("within", ["time(5)", "eventTime(5)"])
def test_marks_pass_a_dedup_that_keeps_the_last_tuple(within: str):
    """A mark passes at once (Z7); its tuple comes when its period is over. So the mark of 3 closes the window of x with
    2, the last tuple of the period from 0 to 5, and the window of y stays open.
    """
    rows = [(0, "x", 1, False), (1, "y", 1, False), (2, "x", 2, True), (6, "x", 3, True), (12, "x", 4, False)]
    given_events: list[dict[str, Any]] = []
    for at, k, i, end in rows:
        given_events += [{"at": at, "watermark": at}, {"at": at, "tuple": {"k": k, "i": i, "end": end, "t": at}}]
    pipeline = load_text(BEHIND_THE_LAST.replace("WITHIN", within), "last", environment=None)
    found = [[record["tuple"] for record in replay(pipeline, given_events, batch=size) if "tuple" in record]
             for size in (1, 3, 100)]  # fmt: skip
    assert found == [[{"k": "x", "all": [2]}]] * 3
    check_buckets(pipeline, given_events, 2)
