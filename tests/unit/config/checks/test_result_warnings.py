"""The hints of `sluice check` about results whose event time is late, or in the wrong pane (E39, Q9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.load import check

FILE = """
pipeline: late
streams:
  in: {{topic: in, schema: {{k: string, ts: {type}, gap: float64}}, event_time: {{attribute: ts, lag: {lag}}}}}
  two: {{topic: two, schema: {{k: string, ts: {type}, gap: float64}}{two}}}
  mid: {mid}
  out: {{topic: out}}
operators:
  - {{name: a, {operator}}}
  - {{name: r, {reader}}}
"""
READER = 'aggregate: mid, window: "timeInterval, intervalDuration(30)", output: {out: {n: Count()}}'
TIMED = ", event_time: {attribute: ts, lag: 0}"


def hints(
    operator: str, tmp_path: Path, *, type_: str = "float64", lag: float = 0, mid: str = "{}", reader: str = READER,
    two: str = TIMED,
) -> list[str]:  # fmt: skip
    """The texts of the hints about late results, from the path on."""
    file = tmp_path / "late.yaml"
    file.write_text(FILE.format(operator=operator, type=type_, lag=lag, mid=mid, reader=reader, two=two))
    checked = check(file)
    assert checked.problems == ()
    texts = (str(hint).split(": ", 1)[1] for hint in checked.cautions)
    return [text for text in texts if "Q9" in text or "E39" in text]


def window(clause: str, time: str, keys: str = "") -> str:
    return f"aggregate: in, window: '{clause}', {keys}output: {{mid: {{ts: '{time}'}}}}"


KEYED = "partition_by: [k], "
PANES = "timeInterval, intervalDuration(10)"
BY_PANE = f"{PANES}, partitioned"
JOIN = "join: {left: in, right: two}, equality_left: [k], equality_right: [k], output: {mid: {ts: '%s'}}, "
TWO_WINDOWS = "window_left: 'sliding, time(5)', window_right: 'sliding, time(5)'"

LATE = {
    "the start of a pane": (
        window(PANES, "intervalStart()"),
        (
            "operators[0].output.mid.ts: warning: intervalStart() is up to 10 s behind the watermark when the pane "
            "fires, so the result is late for r; write `ts: intervalLast()`; or write "
            "`event_time: {attribute: ts, lag: 0s}` for mid (Q9)"
        ),
    ),
    "the start of a pane and less than its length": (window(PANES, "intervalStart() + 4.0"), "is up to 6 s behind"),
    "the end of a pane and less": (window(PANES, "intervalEnd() - 1.0"), "is up to 1 s behind"),
    "the end of a pane less the time between its tuples": (
        window(PANES, "intervalEnd() - (Max(ts) - Min(ts))"), "is up to 10 s behind",
    ),
    "the greatest time of a key in a pane": (
        window(BY_PANE, "Max(ts)", KEYED),
        ("Max(ts) is up to 10 s behind the watermark when the pane fires, so the result is late for r; write "
        "`ts: intervalLast()`; or write `event_time: {attribute: ts, lag: 10s}` for mid (Q9)"),
    ),
    "the least time of a pane": (window(PANES, "Min(ts)"), "write `ts: intervalLast()`"),
    "the first time of a pane": (window(PANES, "First(ts)"), "write `ts: intervalLast()`"),
    "the greatest time of a group": (window(PANES, "Max(ts)", "group_by: [k], "), "write `ts: intervalLast()`"),
    "the start of a month": (
        window("timeInterval, intervalDuration(month)", "intervalStart()"), "write `ts: intervalLast()`",
    ),
    "a pane that fires again": (
        window(f"{PANES}, discardAge(7)", "intervalLast()"),
        ("is up to 7 s behind the watermark when the pane fires again for late tuples, so the result is late for r; "
        "write `discardAge(7.0)` in what reads mid; or write `event_time: {attribute: ts, lag: 7s}` for mid (Q9)"),
    ),
    "a pane that fires again, with another time": (
        window(f"{PANES}, discardAge(7)", "Min(ts)"),
        "write `ts: intervalLast()`, and `discardAge(7.0)` in what reads mid",
    ),
    "sliding windows with a grace": (
        window("slidingTime, timeDifference(9), grace(5)", "intervalEnd()", KEYED),
        ("intervalEnd() is up to 5 s behind the watermark when the window fires, so the result is late for r; write "
        "`ts: intervalEnd() + 5.0` (Q9)"),
    ),
    "a session": (
        window("session, inactivityGap(5), grace(0.5)", "sessionEnd()"),
        "write `ts: sessionEnd() + 5.5`; or write `event_time: {attribute: ts, lag: 0s}` for mid (Q9)",
    ),
    "the start of a session": (
        window("session, inactivityGap(5)", "sessionStart()"), "write `ts: sessionEnd() + 5.0` (Q9)",
    ),
    "a session of any gap": (
        window("session, inactivityGap(gap)", "sessionEnd()"),
        "write `ts: sessionEnd()` plus the longest gap and the grace",
    ),
    "a session of any gap, and a time behind it": (
        window("session, inactivityGap(gap)", "sessionEnd() + 100.0"),
        ("sessionEnd() + 100.0 is behind the watermark when the session is over, so the result is late for r; write "
        "`event_time: {attribute: ts, lag: ...}` for mid, with the longest gap (Q9)"),
    ),
    "a window by the clock": (
        window("tumbling, time(5), partitioned", "Max(ts)", KEYED),
        ("Max(ts) is behind the watermark as the window holds tuples by the clock, so the result is late for r; write "
        "`event_time: {attribute: ts, lag: 5s}` or more for mid (Q9)"),
    ),
    "the first tuple of a count": (
        window("tumbling, count(3), partitioned", "First(ts)", KEYED), "write `ts: Last(ts)` (Q9)",
    ),
    "a tumbling sort": (
        "sort: in, window: 'tumbling, count(3)', order_by: {ts: asc}, output: [mid]",
        ("operators[0]: warning: ts is behind the watermark as the sort holds tuples while the watermark advances, so "
        "the result is late for r; write `window: timeInterval, intervalDuration(...)`, which holds the watermark "
        "back (Q9)"),
    ),
    "a progressive sort": (
        "sort: in, window: 'sliding, count(3)', order_by: {ts: asc}, output: [mid]", "the sort holds tuples",
    ),
    "a dedup that keeps the last tuple by the clock": (
        "dedup: in, by: [k], within: time(5), keep: last, output: [mid]",
        "write `within: eventTime(5)`, which holds the watermark back",
    ),
    "a join of two windows": (
        JOIN % "left.ts" + TWO_WINDOWS,
        ("left.ts is behind the watermark as a window of the join holds tuples while the watermark advances, so the "
        'result is late for r; write `ts: "max(left.ts, right.ts)"` (Q9)'),
    ),
    "an as-of join with the time of the right side": (JOIN % "right.ts" + "window: asOf", "write `ts: left.ts`"),
    "an interval join with an earlier time": (
        JOIN % "min(left.ts, right.ts) - 1.0" + "window: 'interval, before(5), after(2)'", "is up to 1 s behind",
    ),
    "a tuple without partner, with the time of the default": (
        JOIN % "right.ts" + "window: 'interval, before(5), after(2)', algorithm: leftOuter", "write `ts: left.ts`",
    ),
    "a map to an earlier time": (
        "map: in, output: {mid: {ts: 'floor(ts / 60.0) * 60.0'}}",
        ("keep ts as it is, and write the other time to an attribute of its own; or write "
        "`event_time: {attribute: ts, lag: 60s}` for mid (Q9)"),
    ),
}  # fmt: skip

ON_TIME = {
    "the last time of a pane": window(BY_PANE, "intervalLast()", KEYED),
    "the start of a pane and its length": window(PANES, "intervalStart() + 10.0"),
    "the greatest time of a pane of all tuples": window(PANES, "Max(ts)"),
    "the last tuple of a pane of all tuples": window(PANES, "ts"),
    "the larger one of two times": window(BY_PANE, "max(intervalLast(), Max(ts))", KEYED),
    "sliding windows with a grace": window("slidingTime, timeDifference(9), grace(5)", "intervalEnd() + 5.0", KEYED),
    "sliding windows without a grace": window("slidingTime, timeDifference(9)", "intervalEnd()", KEYED),
    "a session": window("session, inactivityGap(5), grace(1)", "sessionEnd() + 6.0"),
    "a session at each tuple": window("session, inactivityGap(5)", "sessionEnd()") + ", emit: updates",
    "the last tuple of a count": window("tumbling, count(3), partitioned", "ts", KEYED),
    "the last tuple of a sliding window": window("sliding, time(60), count(1), partitioned", "Last(ts)", KEYED),
    "a sort over panes": f"sort: in, window: '{PANES}', order_by: {{ts: asc}}, output: [mid]",
    "a sort over panes that fire again": (
        f"sort: in, window: '{PANES}, discardAge(5)', order_by: {{ts: asc}}, output: [mid]"
    ),
    "a dedup over event time": "dedup: in, by: [k], within: eventTime(5), keep: last, output: [mid]",
    "a dedup that keeps the first tuple": "dedup: in, by: [k], within: time(5), output: [mid]",
    "the newer time of a join of two windows": JOIN % "max(left.ts, right.ts)" + TWO_WINDOWS,
    "a join that stores the other side only": JOIN % "left.ts"
    + "window_left: 'sliding, count(0)', window_right: 'sliding, time(5)'",
    "an interval join": JOIN % "right.ts" + "window: 'interval, before(5), after(2)'",
    "an as-of join": JOIN % "left.ts" + "window: asOf",
    "a map to a later time": "map: in, output: {mid: {ts: 'ts + 5.0'}}",
    "another attribute, of which nothing is known": "map: in, output: {mid: {ts: gap}}",
}


@pytest.mark.parametrize(("operator", "expected"), LATE.values(), ids=LATE)
def test_a_result_that_is_late(operator: str, expected: str, tmp_path: Path):
    (found,) = hints(operator, tmp_path, type_="timestamp" if "(month)" in operator else "float64")
    assert expected in found


@pytest.mark.parametrize("operator", ON_TIME.values(), ids=ON_TIME)
def test_a_result_that_is_not_late(operator: str, tmp_path: Path):
    assert hints(operator, tmp_path) == []


@pytest.mark.parametrize("operator", [operator for operator, _ in LATE.values()], ids=LATE)
def test_a_stream_that_makes_its_own_watermarks_is_not_late(operator: str, tmp_path: Path):
    """E3; the lag is the user's statement about the stream."""
    kind = "timestamp" if "(month)" in operator else "float64"
    assert hints(operator, tmp_path, type_=kind, mid="{event_time: {attribute: ts, lag: 60}}") == []


@pytest.mark.parametrize(
    "reader",
    [
        "aggregate: mid, window: 'tumbling, count(3)', output: {out: {n: Count()}}",
        "aggregate: mid, window: 'slidingTime, timeDifference(5)', output: {out: {n: Count()}}",
        "aggregate: mid, window: 'timeInterval, intervalDuration(30), discardAge(10)', output: {out: {n: Count()}}",
        "aggregate: mid, window: 'session, inactivityGap(10)', output: {out: {n: Count()}}",
    ],
)
def test_no_hint_if_nothing_that_reads_the_result_refuses_it(reader: str, tmp_path: Path):
    assert hints(window(BY_PANE, "Max(ts)", KEYED), tmp_path, reader=reader) == []


@pytest.mark.parametrize(
    "reader",
    [
        "dedup: mid, by: [ts], within: eventTime(5), output: [out]",
        "sort: mid, window: 'timeInterval, intervalDuration(5)', order_by: {ts: asc}, output: [out]",
        (
            "join: {left: mid, right: two}, window: asOf, equality_left: [ts], equality_right: [ts], "
            "output: {out: {n: left.ts}}"
        ),
        "aggregate: [mid, also], window: 'timeInterval, intervalDuration(5)', output: {out: {n: Count()}}",
    ],
)
def test_every_reader_that_refuses_late_tuples_counts(reader: str, tmp_path: Path):
    operator = window(BY_PANE, "Max(ts)", KEYED)
    if "also" in reader:
        operator = operator.replace("output: {mid", "output: {also: {ts: intervalLast()}, mid")
        mid = "{}\n  also: {}"
    else:
        mid = "{}"
    (found,) = hints(operator, tmp_path, reader=reader, mid=mid)
    assert "Max(ts) is up to 10 s behind" in found


def test_a_topic_with_watermarks_has_readers(tmp_path: Path):
    operator = window(BY_PANE, "Max(ts)", KEYED)
    reader = "aggregate: in, window: 'tumbling, count(3)', output: {out: {n: Count()}}"
    (found,) = hints(operator, tmp_path, mid="{topic: mid, watermarks: true}", reader=reader)
    assert "so the result is late for the readers of topic mid" in found


def test_a_stream_without_event_time_among_several(tmp_path: Path):
    reader = READER.replace("mid", "[mid, two]")
    (found,) = hints("map: in, output: [mid]", tmp_path, two="", reader=reader)
    assert found.startswith("streams.two: warning: two has no event_time, so its tuples do not hold the watermark back")


def test_the_lag_of_the_input_counts_for_sliding_windows(tmp_path: Path):
    """Their stream time is ahead of the watermark by the lag."""
    operator = window("slidingTime, timeDifference(9), grace(5)", "intervalEnd()", KEYED)
    assert hints(operator, tmp_path, lag=5) == []
    assert "`ts: intervalEnd() + 3.0`" in hints(operator, tmp_path, lag=2)[0]


def test_with_a_lag_the_newest_tuple_of_a_pane_may_be_old(tmp_path: Path):
    """The tuple that completes the pane is in a later one."""
    assert "Max(ts) is up to 10 s behind" in hints(window(PANES, "Max(ts)"), tmp_path, lag=1)[0]


def test_whole_milliseconds(tmp_path: Path):
    (found,) = hints(window("session, inactivityGap(5)", "ts"), tmp_path, type_="int64")
    assert "write `ts: sessionEnd() + 5000`" in found


def test_the_end_of_a_pane_is_in_the_next_one(tmp_path: Path):
    """E39: intervalLast() is in the pane of the result."""
    (found,) = hints(window(PANES, "intervalEnd()"), tmp_path)
    assert found.endswith(
        "intervalEnd() may be in the next pane, where a window reads mid; write `ts: intervalLast()` (E39)"
    )


def test_the_operator_that_makes_a_time_late_is_named_though_others_pass_it_on(tmp_path: Path):
    reader = READER.replace("mid", "later") + "}\n  - {name: pass, map: mid, output: [later]"
    (found,) = hints(window(BY_PANE, "Max(ts)", KEYED), tmp_path, mid="{}\n  later: {}", reader=reader)
    assert found.startswith("operators[0].output.mid.ts")


def test_a_session_is_over_by_its_gap_and_its_grace(tmp_path: Path):
    """G6: at the watermark that is after its last tuple by both."""
    clause = "session, inactivityGap(5), grace(1)"
    assert "`ts: sessionEnd() + 6.0`" in hints(window(clause, "sessionEnd()"), tmp_path)[0]
    assert hints(window(clause, "sessionEnd() + 6.0"), tmp_path) == []
