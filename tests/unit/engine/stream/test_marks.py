"""Marks that conditions put around tuples (`mark_when`) and marks that wait for each other (`marks_in: aligned`)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.model.spreading import spread_by
from sluice.testing import pipeline_of, run_case
from tests.spec import early_strategies, marks_oracle
from tests.spec.comparing import differences, with_groups_in_any_order
from tests.spec.strategies import SCHEMA, Case, cuts, events, operators

Record = dict[str, Any]


def outputs(operator: Record, given_events: list[Record]) -> list[str]:
    """`number: values` or `number: ■` for each record, after a look that no cut changes anything."""
    case = {"operator": OPERATOR | operator, "input": [{"at": at} | e for at, e in enumerate(given_events)]}
    whole = run_case(case)
    assert run_case(case, [1] * len(given_events)) == whole
    return [f"{r['after']}: " + (str(r["tuple"]["all"]) if "tuple" in r else SIGNS[r["punct"]]) for r in whole]


SIGNS = {"window": "■", "final": "F"}
OPERATOR = {"window": "tumbling, punct()", "output": {"all": "Collect(x)"}, "schema": {"x": "int64", "new": "boolean"}}


def tuple_(x: int, *, new: bool = False, of: int = 0) -> Record:
    return {"tuple": {"x": x, "new": new}, "topic_partition": of}


def mark(of: int = 0) -> Record:
    return {"punct": "window", "topic_partition": of}


def final(of: int = 0) -> Record:
    return {"punct": "final", "topic_partition": of}


# ---- mark_when -------------------------------------------------------------------------------------------------------


def test_a_mark_before_a_tuple():
    given_events = [tuple_(1), tuple_(2), tuple_(3, new=True), tuple_(4)]
    assert outputs({"mark_when": {"before": "new"}}, given_events) == ["2: [1, 2]", "2: ■"]


def test_a_mark_behind_a_tuple():
    given_events = [tuple_(1), tuple_(2, new=True), tuple_(3), tuple_(4, new=True)]
    got = outputs({"mark_when": {"after": "new"}}, given_events)
    assert got == ["1: [1, 2]", "1: ■", "3: [3, 4]", "3: ■"]


def test_marks_on_both_sides_of_one_tuple():
    got = outputs({"mark_when": {"before": "new", "after": "x > 8"}}, [tuple_(1), tuple_(9, new=True)])
    assert got == ["1: [1]", "1: ■", "1: [9]", "1: ■"]


def test_marks_that_come_in_count_beside_them():
    given_events = [tuple_(1, new=True), mark(), tuple_(2), mark()]
    assert outputs({"mark_when": {"after": "new"}}, given_events) == ["0: [1]", "0: ■", "1: ■", "3: [2]", "3: ■"]


def test_a_condition_without_a_value_tells_of_no_mark():
    assert outputs({"mark_when": {"after": "1 % x == 0"}}, [tuple_(0), tuple_(1)]) == ["1: [0, 1]", "1: ■"]


def test_a_told_mark_is_for_its_own_topic_partition():
    operator = {"mark_when": {"after": "new"}, "window": "tumbling, punct(), partitioned", "partition_by": ["x"]}
    given_events = [tuple_(1, of=1), tuple_(2), tuple_(3, new=True)]
    assert outputs(operator, given_events) == ["2: [2]", "2: ■", "2: [3]", "2: ■"]


# ---- marks_in: aligned -----------------------------------------------------------------------------------------------

ALIGNED = {"marks_in": "aligned"}


def test_a_window_holds_what_was_sent_before_the_mark_on_each_topic_partition():
    given_events = [tuple_(1), mark(), tuple_(2), tuple_(10, of=1), mark(of=1), tuple_(11, of=1), mark(of=1), mark()]
    assert outputs(ALIGNED, given_events) == ["4: [1, 10]", "4: ■", "7: [2, 11]", "7: ■"]


def test_a_topic_partition_may_be_several_marks_ahead():
    given_events = [mark(), tuple_(1), mark(), tuple_(2), tuple_(10, of=1), mark(of=1), tuple_(11, of=1), mark(of=1)]
    assert outputs(ALIGNED, given_events) == ["5: [10]", "5: ■", "7: [1, 11]", "7: ■"]


def test_what_waited_comes_in_the_order_in_which_it_came():
    """And at the time of the mark that it waited for: the clock was there when it got in."""
    operator = ALIGNED | {"window": "sliding, count(9)", "aggregate_incomplete_windows": True}
    given_events = [mark(of=1), tuple_(1, of=1), mark(of=2), tuple_(2, of=2), tuple_(3, of=1), mark()]
    assert outputs(operator, given_events) == ["5: [1]", "5: ■", "5: [1, 2]", "5: ■", "5: [1, 2, 3]", "5: ■"]


def test_a_final_topic_partition_has_sent_every_mark():
    given_events = [tuple_(10, of=1), final(of=1), tuple_(1), mark(), tuple_(2), mark(), final()]
    assert outputs(ALIGNED, given_events) == ["3: [10, 1]", "3: ■", "5: [2]", "5: ■", "6: F"]


def test_the_end_of_the_last_that_lacks_a_mark_lets_it_act():
    given_events = [tuple_(1), mark(), tuple_(2), final(), tuple_(10, of=1), final(of=1)]
    assert outputs(ALIGNED, given_events) == ["5: [1, 10]", "5: ■", "5: F"]


def test_told_marks_wait_as_well():
    operator = ALIGNED | {"mark_when": {"after": "new"}}
    given_events = [tuple_(1, new=True), tuple_(2), tuple_(10, of=1, new=True), tuple_(3, new=True), mark(of=1)]
    assert outputs(operator, given_events) == ["2: [1, 10]", "2: ■", "4: [2, 3]", "4: ■"]


def test_an_aligned_mark_flushes_every_partition():
    operator = ALIGNED | {"window": "tumbling, punct(), partitioned", "partition_by": ["x"]}
    assert outputs(operator, [tuple_(2), tuple_(1, of=1), mark(), mark(of=1)]) == ["3: [1]", "3: ■", "3: [2]", "3: ■"]


@pytest.mark.parametrize(
    ("window", "spread"),
    [("tumbling, punct(), partitioned", True), ("tumbling, count(2), partitioned", False),
     ("tumbling, punct(), partitioned, partitionCount(9)", False)],
)  # fmt: skip
def test_what_waited_needs_one_bucket_unless_it_is_only_stored(window: str, *, spread: bool):
    operator = OPERATOR | ALIGNED | {"window": window, "partition_by": ["x"]}
    assert (spread_by(pipeline_of({"operator": operator, "input": []})) is not None) == spread


# ---- marks_in: any ---------------------------------------------------------------------------------------------------

ANY = {"marks_in": "any"}
BY_X = {"window": "tumbling, punct(), partitioned", "partition_by": ["x"]}


def test_a_mark_for_any_topic_partition_closes_the_whole_stream():
    given_events = [tuple_(1), tuple_(2, of=1), mark(of=2), tuple_(3), mark()]
    closings = ["2: [1]", "2: ■", "2: [2]", "2: ■", "4: [3]", "4: ■"]
    assert outputs(ANY | BY_X, given_events) == closings
    own = outputs(BY_X, given_events)
    assert own == ["2: ■", "4: [1]", "4: ■", "4: [3]", "4: ■"]


def test_each_such_mark_counts():
    assert outputs(ANY, [tuple_(1), mark(), mark(of=1), tuple_(2), mark(of=1)]) == [
        "1: [1]",
        "1: ■",
        "2: ■",
        "4: [2]",
        "4: ■",
    ]


def test_a_told_mark_closes_the_whole_stream():
    given_events = [tuple_(1, of=1), tuple_(2), tuple_(3, new=True)]
    found = outputs(ANY | BY_X | {"mark_when": {"after": "new"}}, given_events)
    assert found == ["2: [1]", "2: ■", "2: [2]", "2: ■", "2: [3]", "2: ■"]


def test_a_mark_behind_a_final_mark_closes_nothing():
    given_events = [tuple_(1), final(of=1), mark(of=1), mark()]
    assert outputs(ANY, given_events) == ["3: [1]", "3: ■"]


def test_such_a_stream_may_be_spread():
    operator = OPERATOR | ANY | {"window": "tumbling, count(2), partitioned", "partition_by": ["x"]}
    assert spread_by(pipeline_of({"operator": operator, "input": []})) is not None


# ---- random ones -----------------------------------------------------------------------------------------------------


@st.composite
def marks(draw: st.DrawFn) -> Record:
    conditions = st.sampled_from([None, *marks_oracle.CONDITIONS])
    when = {key: found for key in ("before", "after") if (found := draw(conditions))}
    return ({"mark_when": when} if when else {}) | draw(st.sampled_from([{}, ANY, ANY, ALIGNED, ALIGNED]))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return {"operator": draw(operators()) | draw(marks()), "input": draw(events())}


@st.composite
def early_cases(draw: st.DrawFn) -> Case:
    case = draw(early_strategies.tumbling)
    return case | {"operator": case["operator"] | draw(marks()) | {"schema": SCHEMA}, "input": draw(events())}


@given(cases(), cuts)
@settings(max_examples=24, derandomize=True)
def test_random_windows(case: Case, batches: list[int]):
    check(case, batches)


@given(early_cases(), cuts)
@settings(max_examples=24, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much])
def test_random_windows_with_early_results(case: Case, batches: list[int]):
    """A tuple that waits for a mark comes at the time of the mark (B5), from which its early result counts (F2)."""
    check(case, batches)


def check(case: Case, batches: list[int]) -> None:
    expected = marks_oracle.run(case)
    assert differences(run_case(case), expected, with_groups_in_any_order(case)) == []
    for sizes in ([1] * len(case["input"]), batches):
        assert differences(run_case(case, sizes), run_case(case), case) == [], f"cuts {sizes}"
