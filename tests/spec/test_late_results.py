"""Where `sluice check` is silent, no tuple behind an operator is late, if the tuples before it are not (Q7): random
operators, each in front of panes and of an as-of join, with tuples in order or as far out of order as the lag of their
stream allows. And what `sluice check` says to write instead is right.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.model.lateness.late_words import findings
from sluice.model.spec import Pipeline
from sluice.replayer.player import replay

FILE = """
pipeline: late
streams:
  in:
    topic: in
    schema: {{k: string, ts: {type}, x: int64}}
    event_time: {{attribute: ts, lag: {lag}, minimum_gap: 0}}
  two:
    topic: two
    schema: {{k: string, ts: {type}, x: int64}}
    event_time: {{attribute: ts, lag: {lag}, minimum_gap: 0}}
  mid: {mid}
  out: {{topic: out}}
  dead: {{topic: dead}}
operators:
  - {{name: a, {operator}}}
  - name: r
    aggregate: mid
    window: timeInterval, intervalDuration(1)
    output: {{out: {{n: Count()}}}}
dead_letters: dead
"""
#: windows, with the functions that describe them
WINDOWS = {
    "timeInterval, intervalDuration({a})": ("intervalStart()", "intervalEnd()", "intervalLast()"),
    "timeInterval, intervalDuration({a}), creationPeriod({b})": ("intervalStart()", "intervalEnd()", "intervalLast()"),
    "timeInterval, intervalDuration({a}), discardAge({b})": ("intervalStart()", "intervalEnd()", "intervalLast()"),
    "slidingTime, timeDifference({a}), grace({b})": ("intervalStart()", "intervalEnd()"),
    "session, inactivityGap({a}), grace({b})": ("sessionStart()", "sessionEnd()"),
    "session, inactivityGap({a}), maximumDuration({c})": ("sessionStart()", "sessionEnd()"),
    "tumbling, count({n})": (),
    "tumbling, time({a})": (),
    "sliding, count({n}), count(1)": (),
    "sliding, time({a}), count({n})": (),
    "sliding, count({n}), time({b})": (),
}
TIMES = ("Max(ts)", "Min(ts)", "First(ts)", "ts")
MID = "output: [mid]"
PLAIN = {  # operators that emit tuples
    "sort: in, window: 'timeInterval, intervalDuration({a}), creationPeriod({b})', order_by: {{ts: asc}}, " + MID,
    "sort: in, window: 'timeInterval, intervalDuration({a}), discardAge({b})', order_by: {{x: desc}}, limit: 2, " + MID,
    "sort: in, window: 'tumbling, count({n})', order_by: {{ts: asc}}, output: [mid]",
    "dedup: in, by: [k], within: eventTime({a}), keep: last, output: [mid]",
    "dedup: in, by: [k], within: eventTime({a}), keep: first, output: [mid]",
    "dedup: in, by: [k], within: time({a}), keep: first, output: [mid]",
    "dedup: in, by: [k], within: time({a}), keep: last, output: [mid]",
}
JOINS = (
    "window: 'interval, before({a}), after({b}), grace({c})'", "window: 'interval, before(-{a}), after({c})'",
    "window: 'asOf, maximumAge({a})'", "window: 'asOf, grace({b})'",
    "window_left: 'sliding, time({a})', window_right: 'sliding, count({n})'",
    "window_left: 'sliding, count(0)', window_right: 'sliding, count({n})'",
)  # fmt: skip
PAIR = ("left.ts", "right.ts", "max(left.ts, right.ts)", "min(left.ts, right.ts)")


def unit(kind: str, seconds: int) -> str:
    return str(seconds * 1000) if kind == "int64" else f"{seconds}.0"


@st.composite
def operators(draw: st.DrawFn, kind: str) -> str:
    sizes = {"a": draw(st.integers(1, 6)), "b": draw(st.integers(1, 6)), "n": draw(st.integers(1, 3))}
    sizes["c"] = sizes["a"] + sizes["b"]
    moved = draw(st.sampled_from(["", "", f" + {unit(kind, sizes['b'])}", f" - {unit(kind, sizes['a'])}"]))
    choice = draw(st.integers(0, 9))
    if choice < 5:
        window, functions = draw(st.sampled_from(sorted(WINDOWS.items())))
        clause = window.format(**sizes)
        keys = draw(st.sampled_from(["", "partition_by: [k], ", "group_by: [k], "]))
        if "partition" in keys and not clause.startswith(("slidingTime", "session")):
            clause += ", partitioned"
        time = draw(st.sampled_from([*functions, *TIMES]))
        return f"aggregate: in, window: '{clause}', {keys}output: {{mid: {{ts: '{time}{moved}'}}}}"
    if choice < 7:
        return draw(st.sampled_from(sorted(PLAIN))).format(**sizes)
    if choice < 9:
        clause = draw(st.sampled_from(JOINS)).format(**sizes)
        kinds = ["inner", "leftOuter"] if "asOf" in clause else ["inner", "leftOuter", "rightOuter"]
        algorithm = draw(st.sampled_from(kinds))
        time = draw(st.sampled_from(PAIR))
        equal = "equality_left: [k], equality_right: [k]"
        output = f"algorithm: {algorithm}, output: {{mid: {{ts: '{time}{moved}'}}}}"
        return f"join: {{left: in, right: two}}, {clause}, {equal}, {output}"
    floor = {"int64": "ts - ts % 3000", "float64": "floor(ts / 3.0) * 3.0", "timestamp": "floorTime(ts, 3.0)"}[kind]
    time = draw(st.sampled_from([f"ts{moved}", floor, f"max(ts{moved}, {floor})"]))
    return f"map: in, output: {{mid: {{ts: '{time}'}}}}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, int, list[dict[str, Any]]]:
    """The type of the times, an operator, the lag, and events that are not late."""
    kind, lag = draw(st.sampled_from(["float64", "int64", "timestamp"])), draw(st.sampled_from([0, 0, 2, 5]))
    operator = draw(operators(kind))
    streams = ["in", "two"] if operator.startswith("join") else ["in"]
    newest, at, events = dict.fromkeys(streams, 1_000), 0.0, []
    for _ in range(draw(st.integers(5, 40))):
        at += draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))
        stream = draw(st.sampled_from(streams))
        time = newest[stream] + draw(st.sampled_from([0, 1, 1, 2, 4, 15])) - (draw(st.integers(0, lag)) if lag else 0)
        newest[stream] = max(newest[stream], time)
        row = {"k": draw(st.sampled_from("abc")), "ts": written(kind, time), "x": 1}
        events.append({"at": at, "stream": stream, "tuple": row})
    for stream in streams:  # so that everything comes out
        row = {"k": "a", "ts": written(kind, max(newest.values()) + 100), "x": 1}
        events.append({"at": at + 50, "stream": stream, "tuple": row})
    return kind, operator, lag, events


def written(kind: str, seconds: int) -> Any:
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return {"float64": float(seconds), "int64": seconds * 1000}.get(kind, f"1970-01-01T{clock}Z")


def pipeline(kind: str, operator: str, lag: int, mid: str = "{}") -> Pipeline:
    text = FILE.format(type=kind, operator=operator, lag=lag, mid=mid)
    return load_text(text, "late.yaml", environment=None)


def late(of: Pipeline, events: list[dict[str, Any]]) -> list[str]:
    """The reasons of the tuples that are late for the reader. Others may be late for a stream time (KIP T3)."""
    letters = [record["dead_letter"] for record in replay(of, events) if "dead_letter" in record]
    return [letter["reason"] for letter in letters if letter["operator"] == "r"]


@settings(max_examples=60, derandomize=True)
@given(cases())
def test_no_result_is_late_without_a_hint(case: tuple[str, str, int, list[dict[str, Any]]]):
    kind, operator, lag, events = case
    of = pipeline(kind, operator, lag)
    if not list(findings(of)):
        assert late(of, events) == []


@settings(max_examples=100, derandomize=True)
@given(operators("float64"))
def test_a_hint_names_nothing_that_the_file_has(operator: str):
    for finding in findings(pipeline("float64", operator, 0)):
        assert all(before != after for before, after in instead(operator, finding.text))


def aggregate(window: str, time: str, keys: str = "") -> str:
    return f"aggregate: in, window: '{window}', {keys}output: {{mid: {{ts: {time}}}}}"


KEYED = "partition_by: [k], "
JOIN = "join: {left: in, right: in}, equality_left: [%s], equality_right: [%s], output: {mid: {ts: '%s'}}, "
NINE = "window_left: 'sliding, time(9)', window_right: 'sliding, time(9)'"
#: operators whose results are late, though all events are in order
LATE = {
    "sliding windows with a grace": aggregate("slidingTime, timeDifference(5), grace(5)", "intervalEnd()", KEYED),
    "the greatest time of a key": aggregate("timeInterval, intervalDuration(5), partitioned", "Max(ts)", KEYED),
    "the start of a pane and a bit": aggregate("timeInterval, intervalDuration(5)", "intervalStart() + 3.0"),
    "the end of a session": aggregate("session, inactivityGap(3), grace(1)", "sessionEnd()", KEYED),
    "the start of a session": aggregate("session, inactivityGap(3), maximumDuration(20)", "sessionStart()", KEYED),
    "a window by the clock": aggregate("tumbling, time(5), partitioned", "Max(ts)", KEYED),
    "the first tuple of three": aggregate("tumbling, count(3)", "First(ts)"),
    "a join of two windows": JOIN % ("k", "k", "left.ts") + NINE,
    "an earlier time of an as-of join": JOIN % ("x", "x", "min(left.ts, right.ts) - 2.0") + "window: asOf",
    "a sort by the clock": "sort: in, window: 'tumbling, time(5)', order_by: {ts: asc}, output: [mid]",
    "dedup by the clock": "dedup: in, by: [k], within: time(5), keep: last, output: [mid]",
    "a map to the start of a minute": "map: in, output: {mid: {ts: 'floor(ts / 5.0) * 5.0'}}",
}
IN_ORDER = [{"at": n, "stream": "in", "tuple": {"k": "abc"[n % 7 % 3], "ts": 1000.0 + n, "x": 1}} for n in range(40)]


@pytest.mark.parametrize("operator", LATE.values(), ids=LATE)
def test_what_the_hint_says_to_write_is_right(operator: str):
    """First with the expression of the hint in place of that of the file, then with the lag of the hint."""
    of = pipeline("float64", operator, 0)
    (finding,) = findings(of)
    assert late(of, IN_ORDER)
    lags = re.findall(r"`(event_time: [^`.]*)`", finding.text)
    changed = [pipeline("float64", operator.replace(*pair), 0) for pair in instead(operator, finding.text)]
    changed += [pipeline("float64", operator, 0, mid=f"{{{lag}}}") for lag in lags]
    assert changed, finding.text
    for one in changed:
        assert list(findings(one)) == []
        assert late(one, IN_ORDER) == []


def instead(operator: str, text: str) -> list[tuple[str, str]]:
    """What the hint names in place of the event time, or of the period, of the operator."""
    return [
        (re.findall(rf"{key}: (?:'[^']*'|[^,}}]*)", operator)[0], f"{key}: {_in_quotes(value)}")
        for key, value in re.findall(r"write `(ts|within): ([^`]*)`", text)
    ]


def _in_quotes(expression: str) -> str:
    return expression if expression.startswith('"') else f"'{expression}'"
