"""An operator that reads several streams gives what it gives for one stream with the topic partitions of all of them.

Topic partition p of stream i of n stands for topic partition p * n + i of the one stream. What operators do with one
stream is compared with the oracles elsewhere.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.spreading import spread_by
from sluice.testing import on_stream, pipeline_of, run_case
from tests.service.test_spread import check as check_buckets
from tests.spec import dedup_strategies, event_strategies, session_strategies
from tests.spec.comparing import differences
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.join_strategies import sort_cases
from tests.spec.strategies import Case, cases, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

STREAMS = ["a", "b", "c"]


pytestmark = pytest.mark.usefixtures("states_are_checked")


def is_over_one_stream_time(case: Case) -> bool:
    """Whether all topic partitions have one time: slidingTime has one for each (KIP T5), and a union has one."""
    return not case["operator"]["window"].startswith("slidingTime")


all_cases = st.one_of(
    cases(), sort_cases(), dedup_strategies.cases, session_strategies.cases, event_strategies.sort_cases,
    event_strategies.cases.filter(is_over_one_stream_time),
)  # fmt: skip


def of_one(case: Case) -> Case:
    """The case with all topic partitions of all streams, so that each of them holds watermarks back from the start."""
    most = max((event.get("topic_partition", 0) for event in case["input"]), default=0)
    count, at = len(STREAMS) * (most // len(STREAMS) + 1), case["input"][0]["at"]
    known = [{"at": at, "topic_partition": count - 1 - number} for number in range(len(STREAMS))]
    return case | {"limits": CLEANED_EARLY, "input": [*known, *case["input"]]}


def of_several(case: Case) -> Case:
    """Each event of a topic partition comes from a stream."""
    n = len(STREAMS)
    events = [
        event
        | {
            "topic_partition": event.get("topic_partition", 0) // n,
            "port": STREAMS[event.get("topic_partition", 0) % n],
        }
        for event in case["input"]
    ]
    return case | {"operator": case["operator"] | {"union": STREAMS}, "input": events}


@given(all_cases.filter(lambda case: case["input"]), cuts)
@settings(max_examples=40, derandomize=True)
def test_a_union_is_as_one_stream(case: Case, batches: list[int]):
    case = of_one(case)
    expected = run_case(case | {"dead_letters": True})
    union = of_several(case) | {"dead_letters": True}
    for sizes in (None, [1] * len(case["input"]), batches):
        assert differences(run_case(union, sizes), expected, case) == [], f"cuts {sizes}"


@given(all_cases.filter(lambda case: case["input"]), divisions())
@settings(max_examples=45, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(of_several(of_one(case)), division)


@given(all_cases.filter(lambda case: case["input"]), st.sampled_from([2, 5, 100]))
@settings(max_examples=31, derandomize=True)
def test_one_bucket_or_several(case: Case, size: int):
    union = of_several(of_one(case))
    pipeline = pipeline_of(union)
    assert (spread_by(pipeline) is None) == (spread_by(pipeline_of(case)) is None)
    check_buckets(pipeline, list(map(on_stream, union["input"])), size)


PUNCT: dict[str, Any] = {
    "kind": "aggregate", "window": "tumbling, punct()", "output": {"all": "Collect(x)"}, "schema": {"x": "int64"},
}  # fmt: skip


def test_a_mark_closes_a_window_with_the_tuples_of_all_streams():
    """The window has tuples of a and b, so a mark of either stream closes it whole (B1)."""
    events = [
        {"at": 0, "port": "a", "tuple": {"x": 1}}, {"at": 1, "port": "b", "tuple": {"x": 2}},
        {"at": 2, "port": "a", "punct": "window"}, {"at": 3, "port": "b", "tuple": {"x": 3}},
        {"at": 4, "port": "b", "punct": "window"},
    ]  # fmt: skip
    records = run_case({"operator": PUNCT | {"union": STREAMS, "marks_in": "topic_partition"}, "input": events})
    assert [(r["after"], r["tuple"]["all"]) for r in records if "tuple" in r] == [(2, [1, 2]), (4, [3])]


@pytest.mark.parametrize(("marks_in", "closes"), [("topic_partition", False), ("any", True), ("aligned", True)])
def test_a_mark_of_a_stream_without_stored_tuples(marks_in: str, *, closes: bool):
    events = [{"at": 0, "port": "a", "tuple": {"x": 1}}, {"at": 1, "port": "b", "punct": "window"}]
    records = run_case({"operator": PUNCT | {"union": STREAMS, "marks_in": marks_in}, "input": events})
    assert [record for record in records if "tuple" in record] == [{"after": 1, "tuple": {"all": [1]}}] * closes


def test_a_mark_behind_the_final_mark_of_an_aligned_stream_closes_nothing():
    """B7, also in a stream with one topic partition."""
    events = [
        {"at": 0, "port": "a", "tuple": {"x": 1}}, {"at": 1, "port": "b", "punct": "final"},
        {"at": 2, "port": "b", "punct": "window"},
    ]  # fmt: skip
    assert run_case({"operator": PUNCT | {"union": STREAMS, "marks_in": "aligned"}, "input": events}) == []
