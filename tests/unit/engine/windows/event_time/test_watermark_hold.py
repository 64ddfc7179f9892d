"""The watermark that an operator passes on, in seconds, for each one that it gets (Q7)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sluice.config.load import load_text
from sluice.engine.stream.items import MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.windows.event_time import watermark_hold
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.engine.windows.event_time.watermark_hold import _passed_on, held_streams
from sluice.model.errors import InvariantError
from sluice.replayer.player import replay

FILE = """
pipeline: held
streams:
  in: {topic: in, schema: {k: string, ts: %s}, event_time: {attribute: ts}}
  two: {topic: two, schema: {k: string, ts: %s}, event_time: {attribute: ts}}
  out: {topic: out}
operators:
  - {%s}
"""
SORT = "name: s, sort: in, window: '%s', order_by: {ts: asc}, output: [out]"
EQUAL = "equality_left: [k], equality_right: [k]"
JOIN = f"name: j, join: {{left: in, right: two}}, window: '%s', {EQUAL}, output: {{out: {{ts: left.ts}}}}"
DEDUP = "name: d, dedup: in, by: [k], within: '%s', keep: %s, output: [out]"

CASES = {
    "a sort over panes": (
        SORT % "timeInterval, intervalDuration(5)", {0: 0, 4.9: 0, 5: 5, 5.1: 5, 12: 10, -0.1: -5},
    ),
    "panes with an offset": (SORT % "timeInterval, intervalDuration(5), intervalOffset(2)", {6.9: 2, 7: 7, 100: 97}),
    "panes that overlap": (SORT % "timeInterval, intervalDuration(10), creationPeriod(4)", {13: 4, 14: 8, 17.9: 8}),
    "panes with gaps: at most the watermark": (
        SORT % "timeInterval, intervalDuration(2), creationPeriod(10)", {1: 0, 2: 2, 9: 9, 10: 10, 11: 10},
    ),
    "a pane that fires again for late tuples": (
        SORT % "timeInterval, intervalDuration(5), discardAge(7)", {11: 0, 12: 5, 16.9: 5, 17: 10},
    ),
    "an interval join": (JOIN % "interval, before(5), after(2), grace(1)", {10: 4}),
    "an interval that begins after the left tuple": (JOIN % "interval, before(-5), after(10)", {10: 0}),
    "an as-of join": (JOIN % "asOf, grace(3)", {10: 7}),
    "dedup, the last one": (DEDUP % ("eventTime(4)", "last"), {10: 6}),
    "dedup, the first one": (DEDUP % ("eventTime(4)", "first"), {10: 10}),
    "dedup by the clock": (DEDUP % ("time(4)", "last"), {10: 10}),
    "a tumbling sort, which holds tuples without limit": (SORT % "tumbling, count(3)", {10: 10}),
    "a map": ("name: m, map: in, output: {out: {ts: ts - 5.0}}", {10: 10}),
    "an aggregate": (
        "name: a, aggregate: in, window: 'timeInterval, intervalDuration(5)', output: {out: {ts: intervalLast()}}",
        {8: 8},
    ),
}  # fmt: skip


def passed_on(operator: str, watermarks: list[int], type_: str = "float64") -> list[int]:
    pipeline = load_text(FILE % (type_, type_, operator), "held.yaml", environment=None)
    held = held_streams(pipeline)["out"]
    return _passed_on(held.hold, np.array(watermarks, np.int64)).tolist()


@pytest.mark.parametrize(("operator", "expected"), CASES.values(), ids=CASES)
def test_the_watermark_that_is_passed_on(operator: str, expected: dict[float, float]):
    given = [round(seconds * 1e9) for seconds in expected]
    assert passed_on(operator, given) == [round(seconds * 1e9) for seconds in expected.values()]


@pytest.mark.parametrize("operator", [operator for operator, _ in CASES.values()], ids=CASES)
def test_the_first_and_the_last_watermark_stay(operator: str):
    """NEVER stands for none, and the maximum completes all windows downstream (E36)."""
    assert passed_on(operator, [NEVER, MAX_TIME]) == [NEVER, MAX_TIME]


@pytest.mark.parametrize("operator", [operator for operator, _ in CASES.values()], ids=CASES)
def test_a_watermark_near_the_ends_of_the_range_does_not_wrap(operator: str):
    found = passed_on(operator, [NEVER + 1, NEVER + 10**9, MAX_TIME - 10**9, MAX_TIME - 1])
    assert found == sorted(found)
    assert found[-1] > 0
    assert found[0] < 0


def test_whole_milliseconds():
    operator = SORT % "timeInterval, intervalDuration(5)"
    assert passed_on(operator, [4_999_999_999, 5_000_000_000, 5_000_400_000], "int64") == [0, 5 * 10**9, 5 * 10**9]


def test_panes_of_the_calendar():
    """March of 2026 in Berlin begins on February 28th at 23:00 UTC, April on March 31st at 22:00."""
    operator = (SORT % "timeInterval, intervalDuration(month)").replace(
        "order_by", "align: {zone: Europe/Berlin}, order_by"
    )
    seconds = [1772319599, 1772319600, 1774994399, 1774994400]
    found = passed_on(operator, [second * 10**9 for second in seconds], "timestamp")
    assert [time // 10**9 for time in found] == [1769900400, 1772319600, 1772319600, 1774994400]


# ---- the check of each batch -----------------------------------------------------------------------------------------


def sorted_items(*items: float | tuple[str, float]) -> Items:
    """Tuples by their event times, and watermarks as `("w", seconds)`, as a sort writes them."""
    marks = [isinstance(item, tuple) for item in items]
    count, seconds = len(items), [item[1] if isinstance(item, tuple) else item for item in items]
    times = [time for time, mark in zip(seconds, marks, strict=True) if not mark]
    return Items(
        np.arange(count), np.arange(count), np.where(marks, WATERMARK, TUPLE).astype(np.int8),
        np.zeros(count, np.int32), np.full(count, -1, np.int32), pa.array([], pa.binary()),
        pa.record_batch({"k": ["a"] * len(times), "ts": times}),
        np.array([round(time * 10**9) if mark else 0 for time, mark in zip(seconds, marks, strict=True)]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("items", "reached", "older"),
    [
        pytest.param([1.0, ("w", 5.0), 5.0, 7.0, ("w", 10.0), 10.0], None, None, id="in order"),
        pytest.param([4.0, ("w", 5.0), 4.9], None, 4.9, id="behind a watermark of the batch"),
        pytest.param([5.0], 9.0, None, id="at the watermark that was passed on for 9 before the batch"),
        pytest.param([4.9], 9.0, 4.9, id="behind the watermark that was passed on before the batch"),
        pytest.param([float("nan"), 5.0], 9.0, None, id="no time"),
        pytest.param([], 9.0, None, id="nothing"),
    ],
)
def test_an_output_that_is_older_ends_the_batch(items: list[float], reached: float | None, older: float | None):
    held = held_streams(
        load_text(FILE % ("float64", "float64", CASES["a sort over panes"][0]), "held.yaml", environment=None)
    )
    before = {} if reached is None else {"in": round(reached * 10**9)}
    if older is None:
        held["out"].check(sorted_items(*items), before)
    else:
        with pytest.raises(InvariantError, match=rf"no output is late.* whose ts \({round(older * 1e9)} ns\) is"):
            held["out"].check(sorted_items(*items), before)


def test_the_graph_checks_what_its_operators_write(monkeypatch: pytest.MonkeyPatch):
    """A sort that does not hold its watermark back, as before Q7."""
    file = FILE.replace("attribute: ts}}\n  two", "attribute: ts, lag: 0}}\n  two") % (
        "float64",
        "float64",
        CASES["a sort over panes"][0],
    )
    pipeline = load_text(file, "held.yaml", environment=None)
    events = [{"at": n, "stream": "in", "tuple": {"k": "a", "ts": ts}} for n, ts in enumerate([1.0, 3.0, 6.0, 11.0])]
    assert [r["tuple"]["ts"] for r in replay(pipeline, events) if "tuple" in r] == [1.0, 3.0, 6.0]
    monkeypatch.setattr(watermark_hold, "_hold", lambda *_: None)
    with pytest.raises(InvariantError, match=r"no output is late.*: s emits"):
        list(replay(pipeline, events))
