"""The window events of a trace and of users' own operators (docs/window-events.md)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

import sluice
from sluice.config.load import load_text
from sluice.replayer.player import replay
from sluice.testing import pipeline_of, run_case
from tests.spec import event_oracle
from tests.spec.comparing import differences
from tests.spec.event_strategies import cases_of_int64
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.strategies import Case, cuts, operators
from tests.spec.strategies import events as random_events

Record = dict[str, Any]
CLASSES = "tests.spec.handler_classes"


def events(*xs: int, **more: Any) -> list[Record]:
    return [{"at": at, "tuple": {"x": x} | more} for at, x in enumerate(xs)]


def window_events(window: str, given_events: list[Record], **operator: Any) -> list[str]:
    """`number event content`, which no cut changes."""
    case = {"operator": {"kind": "custom", "handler": f"{CLASSES}:Events", "window": window} | operator,
            "input": given_events}  # fmt: skip
    whole = run_case(case)
    for sizes in ([1] * len(given_events), [2, 0, 1]):
        assert run_case(case, sizes) == whole
    return [
        f"{r['after']} " + (f"{r['tuple']['what']} {r['tuple']['all']}" if "tuple" in r else r["punct"]) for r in whole
    ]


# ---- the order of section 4.1 ----------------------------------------------------------------------------------------


def test_tumbling_count():
    assert window_events("tumbling, count(2)", events(1, 2, 3)) == [
        "0 before 1 []", "0 after 1 [1]", "1 before 2 [1]", "1 after 2 [1, 2]", "1 trigger [1, 2]", "1 window",
        "2 before 3 []", "2 after 3 [3]",
    ]  # fmt: skip


def test_tumbling_delta_fires_before_the_tuple_comes_in():
    assert window_events("tumbling, delta(x, 2)", events(0, 3)) == [
        "0 before 0 []", "0 after 0 [0]", "1 trigger [0]", "1 window", "1 before 3 []", "1 after 3 [3]",
    ]  # fmt: skip


def test_sliding_count_and_count():
    assert window_events("sliding, count(2)", events(1, 2, 3))[5:] == [
        "1 after 2 [1, 2]", "1 full [1, 2]", "1 trigger [1, 2]", "1 window",
        "2 leaves 1 [1, 2]", "2 left 1 [2]", "2 before 3 [2]", "2 after 3 [2, 3]", "2 trigger [2, 3]", "2 window",
    ]  # fmt: skip


def test_sliding_delta_is_full_before_the_first_leaves_and_triggers_before_that():
    assert window_events("sliding, delta(x, 1), delta(x, 1)", events(0, 2)) == [
        "0 before 0 []", "0 after 0 [0]",
        "1 trigger [0]", "1 window", "1 full [0]", "1 leaves 0 [0]", "1 left 0 []", "1 before 2 []", "1 after 2 [2]",
    ]  # fmt: skip


def test_sliding_time_is_full_before_its_first_tuple_and_tuples_leave_when_their_time_is_over():
    """Also if nothing comes, and only the clock moves."""
    given_events = [*events(1, 2), {"at": 3}]
    assert window_events("sliding, time(1.5), count(9)", given_events) == [
        "0 full []", "0 before 1 []", "0 after 1 [1]", "1 before 2 [1]", "1 after 2 [1, 2]",
        "2 leaves 1 [1, 2]", "2 left 1 [2]", "2 leaves 2 [2]", "2 left 2 []",
    ]  # fmt: skip


def test_ticks_and_marks_that_find_nothing_give_a_mark_alone():
    schema = {"x": "int64"}
    assert window_events("tumbling, time(2)", [{"at": 0}, {"at": 5}], schema=schema) == ["1 window", "1 window"]
    assert window_events("tumbling, punct()", [{"at": 0, "punct": "window"}], schema=schema) == ["0 window"]


def test_a_partition_that_leaves_takes_its_tuples_along():
    window = "sliding, count(2), count(9), partitioned, partitionCount(1)"
    got = window_events(window, [*events(1, k="a"), {"at": 1, "tuple": {"x": 2, "k": "b"}}], partition_by=["k"])
    assert got[2:] == ["1 before 2 []", "1 after 2 [2]", "1 partition [1]"]


def test_partitions_that_fire_together_do_so_by_their_keys():
    given_events = [{"at": 0, "tuple": {"x": 2, "k": "b"}}, {"at": 1, "tuple": {"x": 1, "k": "a"}}, {"at": 9}]
    got = window_events("tumbling, time(9), partitioned", given_events, partition_by=["k"])
    assert got[-4:] == ["2 trigger [1]", "2 window", "2 trigger [2]", "2 window"]


def test_a_pane_becomes_complete_fires_and_closes():
    given_events = [
        {"at": 0, "tuple": {"x": 1, "t": 11.0}}, {"at": 1, "watermark": 20.0}, {"at": 2, "tuple": {"x": 2, "t": 16.0}},
        {"at": 3, "watermark": 21.0}, {"at": 4, "watermark": 25.0},
    ]  # fmt: skip
    assert window_events("timeInterval, intervalDuration(10), discardAge(5)", given_events, event_time="t") == [
        "0 before 1 []", "0 after 1 [1]", "1 full [1]", "1 trigger [1]", "1 window",
        "2 before 2 [1]", "2 after 2 [1, 2]", "3 trigger [1, 2]", "3 window", "4 close [1, 2]",
    ]  # fmt: skip


def test_a_tuple_comes_into_every_pane_that_holds_it():
    given_events = [{"at": 0, "tuple": {"x": 1, "t": 27.0}}, {"at": 1, "watermark": 30.0}]
    got = window_events("timeInterval, intervalDuration(10), creationPeriod(5)", given_events, event_time="t")
    assert got[:4] == ["0 before 1 []", "0 after 1 [1]"] * 2
    assert got[4:] == ["1 full [1]", "1 trigger [1]", "1 window", "1 close [1]"]


def test_sliding_time_windows_tell_what_they_hold():
    given_events = [{"at": at, "tuple": {"x": at, "t": float(t)}} for at, t in enumerate((10, 15, 60))]
    got = window_events("slidingTime, timeDifference(10), grace(0)", given_events, event_time="t")
    assert [line for line in got if "trigger" in line] == ["1 trigger [0]", "2 trigger [0, 1]", "2 trigger [1]"]
    assert got[-4:] == ["2 leaves 0 [0, 1, 2]", "2 left 0 [1, 2]", "2 leaves 1 [1, 2]", "2 left 1 [2]"]


# ---- as aggregates do ------------------------------------------------------------------------------------------------


def handled(case: Case, handler: str, sizes: list[int] | None = None) -> list[Record]:
    operator = {
        k: case["operator"][k] for k in ("window", "partition_by", "schema", *EVENT_TIME) if k in case["operator"]
    }
    custom = operator | {"kind": "custom", "handler": f"{CLASSES}:{handler}"}
    return run_case(case | {"operator": custom, "limits": CLEANED_EARLY}, sizes)


EVENT_TIME = ("event_time", "event_time_resolution")


@given(operators(), random_events(), cuts)
@settings(max_examples=36, derandomize=True)
def test_random_windows_hold_what_those_of_an_aggregate_hold(
    operator: Record, given_events: list[Record], batches: list[int]
):
    sliding = operator["window"].startswith("sliding")
    operator |= {
        "output": {"is": "Collect(i)"}, "group_by": [], "aggregate_incomplete_windows": sliding,
        "aggregate_evicted_partitions": False,
    }  # fmt: skip
    case = {"operator": operator, "input": given_events}
    for sizes in (None, [1] * len(given_events), batches):
        assert differences(handled(case, "Contents", sizes), run_case(case), case) == [], f"cuts {sizes}"
    if sliding:
        waiting = case | {"operator": operator | {"aggregate_incomplete_windows": False}}
        found = [[r for r in records if "tuple" in r] for records in (handled(case, "Full"), run_case(waiting))]
        assert differences(*found, case) == []


@given(cases_of_int64, cuts)
@settings(max_examples=42, derandomize=True)
def test_random_windows_over_event_time(case: Case, batches: list[int]):
    sliding = case["operator"]["window"].startswith("slidingTime")
    calls = {"from": "intervalStart()", "to": "intervalEnd()", "index": "paneIndex()", "timing": "paneTiming()"}
    output = dict(list(calls.items())[: 2 if sliding else 4]) | {"is": "Collect(i)"}
    operator = case["operator"] | {"output": output, "group_by": [], "emit": "final", "window_set": "distinct"}
    simulated = event_oracle.Operator(operator, 1 + max(e.get("topic_partition", 0) for e in case["input"]))
    expected = simulated.run(case["input"])
    for sizes in (None, [1] * len(case["input"]), batches):
        got = handled(case, "Times" if sliding else "Panes", sizes)
        assert differences(got, expected, case) == [], f"cuts {sizes}"


# ---- what a class may do ---------------------------------------------------------------------------------------------


def sent(handler: str, given_events: list[Record], window: str = "sliding, count(1)") -> list[Record]:
    """What a class sends, and the reasons of the dead letters."""
    case = {"operator": {"kind": "custom", "handler": f"{CLASSES}:{handler}", "window": window}, "input": given_events}
    whole = run_case(case)
    assert run_case(case, [1] * len(given_events)) == whole
    return [r["tuple"] for r in whole if "tuple" in r]


def test_memory_is_what_json_makes_of_it_restart_or_not():
    assert sent("Counter", events(5, 6, 7)) == [
        {"n": n + 1, "now": f"1970-01-01T00:00:0{n}Z"} for n in range(3)
    ]  # fmt: skip


def test_memory_outlives_what_a_tumbling_window_holds_until_it_is_empty():
    assert [row["n"] for row in sent("Forgetful", events(1, 1, 1, 1), "tumbling, count(1)")] == [1, 2, 3, 1]


def test_what_goes_wrong_is_a_dead_letter():
    case = {"operator": {"kind": "custom", "handler": f"{CLASSES}:Failing", "window": "sliding, count(9)"},
            "input": events(0, 1, 2, 3, 4, 5)}  # fmt: skip
    records = list(replay(pipeline_of(case), case["input"]))
    assert [r["tuple"] for r in records if "tuple" in r] == [{"x": 0}, {"x": 5}]
    letters = [
        (r["after"], r["dead_letter"]["tuple"], r["dead_letter"]["reason"]) for r in records if "dead_letter" in r
    ]
    assert [letter[:2] for letter in letters] == [(n, {"x": n}) for n in (1, 2, 3, 4)]
    assert letters[0][2] == "after_insertion: ValueError: one"


def test_what_is_inside_cannot_be_changed():
    case = {"operator": {"kind": "custom", "handler": f"{CLASSES}:Meddling", "window": "sliding, count(9)"},
            "input": events(1)}  # fmt: skip
    (record,) = replay(pipeline_of(case), case["input"])
    assert "does not support item assignment" in record["dead_letter"]["reason"]


# ---- the trace -------------------------------------------------------------------------------------------------------

SUMS = """
pipeline: sums
streams:
  numbers: {topic: numbers, schema: {k: string, x: int64}}
  sums: {topic: sums}
operators:
  - {name: sum, aggregate: numbers, window: "sliding, count(2), partitioned", partition_by: [k],
     aggregate_incomplete_windows: false,
     output: {sums: {sum: Sum(x)}}}
"""


def traced(text: str, given_events: list[Record], **settings: Any) -> list[Record]:
    pipeline = load_text(text, "p", environment=None)
    whole = list(sluice.replay(pipeline, given_events, trace=True, **settings))
    assert list(sluice.replay(pipeline, given_events, trace=True, batch=1, **settings)) == whole
    outputs = list(sluice.replay(pipeline, given_events, **settings))
    assert [record for record in whole if "window_event" not in record] == outputs
    return whole


def test_events_stand_in_front_of_what_they_bring_about():
    got = traced(SUMS, events(1, 2, k="a"))
    assert [r.get("window_event") or r.get("punct") or r["tuple"]["sum"] for r in got] == [
        "before_insertion", "after_insertion", "trigger",
        "before_insertion", "after_insertion", "initial_full", "trigger", 3, "window",
    ]  # fmt: skip
    assert got[0] == {
        "after": 0, "operator": "sum", "window_event": "before_insertion", "key": "a", "tuple": {"k": "a", "x": 1},
    }  # fmt: skip
    assert got[6] == {
        "after": 1, "operator": "sum", "window_event": "trigger", "key": "a",
        "content": [{"k": "a", "x": 1}, {"k": "a", "x": 2}],
    }  # fmt: skip


def test_both_sides_of_a_join_are_told_of():
    text = """
pipeline: j
streams:
  left: {topic: left, schema: {k: string}}
  right: {topic: right, schema: {k: string}}
  pairs: {topic: pairs}
operators:
  - {name: j, join: {left: left, right: right}, window_left: "sliding, count(1)", window_right: "sliding, time(1)",
     equality_left: [k], equality_right: [k], output: {pairs: {k: left.k}}}
"""
    given_events = [
        {"at": at, "stream": side, "tuple": {"k": "a"}} for at, side in enumerate(("left", "right", "left"))
    ]
    got = [(r["after"], r.get("side"), r.get("window_event")) for r in traced(text, given_events)]
    assert (1, "right", "initial_full") in got
    assert [one for one in got if one[0] == 2 and one[1]] == [
        (2, "left", "before_eviction"), (2, "left", "after_eviction"), (2, "left", "before_insertion"),
        (2, "left", "after_insertion"), (2, "left", "trigger"),
    ]  # fmt: skip
