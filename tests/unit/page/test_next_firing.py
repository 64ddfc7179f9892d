"""When the window of a key fires next, and why."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.page.next_firing import next_firing, since
from sluice.page.stage_inspections import StageInspection
from tests.unit.page.page_without_service import START, at
from tests.unit.page.test_why_not_firing import EVENT_TIME, FILE, streams


def sentence(window: str, stream: str = "", tuples: int = 2, policy: Any = None, **answer: Any) -> str:
    pipeline = load_text(FILE.format(window=window, stream=stream, settings=""), "shop.yaml", environment=None)
    shown = {"operator": "one", "tuples": tuples, "policy": policy or {}}
    return next_firing(pipeline, shown, StageInspection([{"bucket": 0, "clock": at(0)} | answer]))


@pytest.mark.parametrize(
    ("window", "policy", "expected"),
    [
        ("tumbling, count(5)", {}, "It fires with 3 more tuples (2 of 5 are there)."),
        ("tumbling, count(3)", {}, "It fires with 1 more tuple (2 of 3 are there)."),
        ("tumbling, punct()", {}, "It fires with the next window mark."),
        (
            "tumbling, time(60)", {"due": float(START + 60)},
            "It fires when the operator clock reaches 2024-05-01 10:01:00, in 1 min.",
        ),
        (
            "tumbling, count(5) or time(60)", {"due": float(START + 60), "clock": None},
            "It fires with 3 more tuples (2 of 5 are there), or when the operator clock reaches 2024-05-01 10:01:00.",
        ),
        (
            "tumbling, delta(amount, 2.0)", {},
            "It fires with a tuple whose amount is too far from that of the first one.",
        ),
        (
            "tumbling, count(5)", {"early_due": float(START + 10)},
            (
                "It fires with 3 more tuples (2 of 5 are there). An early result comes when the operator clock reaches "
                "2024-05-01 10:00:10, in 10 s."
            ),
        ),
        ("sliding, count(5), count(3)", {"since_trigger": 1, "full": True}, "It fires with 2 more tuples."),
        ("sliding, time(60), count(1)", {"since_trigger": 0}, "It fires with 1 more tuple."),
        (
            "sliding, count(5), time(60)", {"due": float(START + 60), "full": True},
            "It fires when the operator clock reaches 2024-05-01 10:01:00, in 1 min.",
        ),
    ],
)  # fmt: skip
def test_a_window_of_tuples_or_the_clock(window: str, policy: dict[str, Any], expected: str):
    stream = "marks_in: any" if "punct" in window else ""
    assert sentence(window, stream, policy=policy, **({"clock": None} if "clock" in policy else {})) == expected


def test_a_window_that_needs_to_be_full_says_so():
    text = FILE.replace("    output:", "    aggregate_incomplete_windows: false\n    output:")
    pipeline = load_text(
        text.format(window="sliding, count(5), count(1)", stream="", settings=""), "shop.yaml", environment=None
    )
    shown = {"operator": "one", "tuples": 2, "policy": {"since_trigger": 0, "full": False}}
    assert next_firing(pipeline, shown, StageInspection()).endswith(
        "The window was never full, so it gives no output before that."
    )


PANES = {"at": [{"time": float(START + 70), "tuples": 2}]}


def test_a_pane_that_lies_ahead_of_the_watermark():
    found = sentence("timeInterval, intervalDuration(60)", EVENT_TIME, policy=PANES, streams=streams(40, (40, False)))
    assert found == (
        "It fires when the watermark reaches 2024-05-01 10:02:00, the end of a pane; it is 2024-05-01 10:00:40, so "
        "1 min 20 s of event time are missing."
    )


def test_a_pane_names_the_slowest_topic_partition():
    found = sentence(
        "timeInterval, intervalDuration(60)", EVENT_TIME, policy=PANES, streams=streams(40, (90, False), (40, False))
    )
    assert "(topic partition 1 is the slowest)" in found


def test_a_pane_without_a_watermark():
    found = sentence("timeInterval, intervalDuration(60)", EVENT_TIME, policy=PANES)
    assert found == (
        "Its first pane ends at 2024-05-01 10:02:00; it fires when the watermark, which has no value yet, is there."
    )


def test_a_pane_of_the_calendar():
    found = sentence(
        "timeInterval, intervalDuration(month)", EVENT_TIME, policy=PANES, streams=streams(40, (40, False))
    )
    assert found.startswith("It fires when the watermark reaches 2024-06-01 00:00:00, the end of a pane;")


SESSIONS = {"sessions": [{"start": float(START), "end": float(START + 20), "tuples": 2}]}


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (
            "",
            "The first session is over when the operator clock passes 2024-05-01 10:00:50; it is 2024-05-01 10:00:00.",
        ),
        (EVENT_TIME, "The first session is over when the watermark passes 2024-05-01 10:00:50; it has no value yet."),
    ],
)
def test_a_session_is_over_after_its_gap(stream: str, expected: str):
    assert sentence("session, inactivityGap(30)", stream, policy=SESSIONS) == expected


def test_a_session_of_a_key_that_has_its_own_time():
    policy = SESSIONS | {"watermark": float(START + 25)}
    expected = "The first session is over when the watermark passes 2024-05-01 10:00:50; it is 2024-05-01 10:00:25."
    assert sentence("session, inactivityGap(30)", EVENT_TIME, policy=policy) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, ""),
        (SESSIONS, "since 2024-05-01 10:00:00"),
        (PANES, "since 2024-05-01 10:01:10 of event time"),
        ({"oldest_at": float(START)}, "since 2024-05-01 10:00:00 of the operator clock"),
    ],
)
def test_since_when_a_window_holds_tuples(policy: dict[str, Any], expected: str):
    assert since({"policy": policy}) == expected


AS_OF = """
pipeline: desk
kafka: {bootstrap.servers: "localhost:9092"}
streams:
  trades: {topic: trades, schema: {sym: string, t: timestamp}, event_time: {attribute: t, lag: 1}}
  quotes: {topic: quotes, schema: {sym: string, t: timestamp}, event_time: {attribute: t, lag: 1}}
  out: {topic: out}
operators:
  - {name: rate, join: {left: trades, right: quotes}, window: "asOf, grace(2)", output: {out: {sym: left.sym}}}
"""


@pytest.mark.parametrize(
    ("side", "quotes", "expected"),
    [
        (
            "left", 3.0,
            (
                "The first tuple comes out when the watermarks of both sides have passed 2024-05-01 10:00:07; that of "
                "quotes is 2024-05-01 10:00:03."
            ),
        ),
        ("left", None, "Its tuples come out with a watermark; quotes has none yet."),
        ("right", 3.0, "Its tuples are kept as partners of later tuples of trades."),
    ],
)  # fmt: skip
def test_a_side_of_an_as_of_join(side: str, quotes: float | None, expected: str):
    pipeline = load_text(AS_OF, "desk.yaml", environment=None)
    shown = {"operator": "rate", "side": side, "tuples": 1, "policy": {"at": [{"time": float(START + 5), "tuples": 1}]}}
    watermarks = {"trades": at(9), "quotes": None if quotes is None else at(quotes)}
    progress = {name: {"watermark": time, "topic_partitions": []} for name, time in watermarks.items()}
    looked = StageInspection([{"bucket": 0, "clock": at(0), "streams": progress}])
    assert next_firing(pipeline, shown, looked) == expected
    assert since(shown) == "since 2024-05-01 10:00:05 of event time"
