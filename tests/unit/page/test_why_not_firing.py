"""Why windows do not fire: the topic partition, the mark or the time that is missing."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.page.history import Lag
from sluice.page.stage_inspections import StageInspection
from sluice.page.why_not_firing import StageFacts, held_back, next_end
from tests.unit.page.pages import at

FILE = """
pipeline: shop
kafka: {{bootstrap.servers: "localhost:9092"}}
{settings}
streams:
  orders:
    topic: orders
    schema: {{shop: string, amount: float64, at: timestamp}}
    {stream}
  out: {{topic: out}}
operators:
  - name: one
    aggregate: orders
    window: {window}
    output: {{out: {{n: Count()}}}}
"""
PANES = "timeInterval, intervalDuration(60)"
EVENT_TIME = "event_time: {attribute: at, lag: 5}"
TWO = [Lag("orders", 0, 10, 10), Lag("orders", 1, 10, 10)]


def sentences(
    window: str, stream: str = "", settings: str = "", lags: Any = TWO, marks: Any = None, **answer: Any
) -> str:
    """What holds the window back. `answer` is the inspection of the only bucket."""
    text = FILE.format(window=window, stream=stream, settings=settings)
    pipeline = load_text(text, "shop.yaml", environment=None)
    whole = {"bucket": 0, "version": 1, "clock": at(0), "due": None} | answer
    facts = StageFacts(pipeline, StageInspection([whole]), lags, marks or {}, at(10))
    return " ".join(held_back(pipeline.operators[0], facts))


def streams(watermark: float | None, *partitions: tuple[float | None, bool]) -> dict[str, Any]:
    """The watermark of orders, and those of its topic partitions with whether each is idle; in seconds."""
    found = [
        {"watermark": None if time is None else at(time), "last_item": at(time or 0), "idle": idle}
        for time, idle in partitions
    ]
    return {"orders": {"watermark": None if watermark is None else at(watermark), "topic_partitions": found}}


def test_the_slowest_topic_partition_is_named_with_what_is_missing():
    found = sentences(PANES, EVENT_TIME, streams=streams(40, (100, False), (40, False)))
    assert found == (
        "The watermark of orders is 2024-05-01 10:00:40. The pane that ends next, at 2024-05-01 10:01:00, lacks 20 s "
        "of event time. Topic partition 1 holds it back: its watermark is 2024-05-01 10:00:40, 1 min behind the "
        "furthest one; its last record came at 2024-05-01 10:00:40 of the operator clock."
    )


def test_a_silent_topic_partition_is_named_with_the_remedy():
    found = sentences(PANES, EVENT_TIME, streams=streams(None, (100, False), (None, False)))
    assert found == (
        "orders has no watermark yet, so no window over its event time can fire. No tuple came from topic partition 1: "
        "it holds back the watermark of the stream. With `idle_after` the stream would not wait for silent topic "
        "partitions."
    )


def test_idle_topic_partitions_are_not_waited_for():
    found = sentences(PANES, EVENT_TIME, streams=streams(100, (100, False), (40, True)))
    assert "holds it back" not in found
    assert "Topic partition 1 is idle and not waited for." in found


def test_one_topic_partition_holds_nothing_back():
    found = sentences(PANES, EVENT_TIME, streams=streams(100, (100, False)))
    assert found.endswith("at 2024-05-01 10:02:00, lacks 20 s of event time.")


def test_a_stream_without_lag_needs_marks():
    found = sentences(
        PANES, "event_time: {attribute: at}", streams={"orders": {"watermark": None, "topic_partitions": []}}
    )
    assert "its watermarks must come as marks in its topic; none came" in found


def test_a_timer_says_when_the_clock_causes_the_next_output():
    found = sentences("tumbling, time(60)", clock=at(0), due=at(60))
    assert found == (
        "The operator clock is 2024-05-01 10:00:00; the clock alone causes the next output at 2024-05-01 10:01:00, "
        "which is in 50 s."
    )


def test_the_clock_of_records_needs_a_record():
    found = sentences("tumbling, time(60)", settings="clock: records", clock=at(0), due=at(60))
    assert found.endswith("a record with a timestamp of 2024-05-01 10:01:00 or later is missing.")


def test_a_clock_that_has_not_started():
    assert "it starts with the first record" in sentences("tumbling, time(60)", clock=None)


def test_aligned_marks_name_the_topic_partitions_that_are_missing():
    found = sentences("tumbling, punct()", "marks_in: aligned", waiting={"orders": {"0": 2}})
    assert "topic partition 0 sent 2; the window is flushed when a mark of topic partition 1 comes." in found


@pytest.mark.parametrize(("marks", "expected"), [({}, True), ({"orders": 1}, False)])
def test_a_window_of_marks_without_marks(marks: dict[str, int], *, expected: bool):
    found = sentences("tumbling, punct()", "marks_in: any", marks=marks)
    assert ("No window mark was read from orders lately" in found) == expected


def test_unread_records_come_first():
    found = sentences("tumbling, count(3)", lags=[Lag("orders", 0, 10, 30), Lag("orders", 1, 5, 5)])
    assert found == "20 records of orders are not read yet (topic partition 0)."


def test_an_input_that_has_ended():
    found = sentences("tumbling, count(3)", finals={"orders": [0, 1]})
    assert found == "orders has ended: all its topic partitions sent their final mark. No window fires any more."
    assert "Topic partition 1 of orders ended" in sentences("tumbling, count(3)", finals={"orders": [1]})


def test_a_count_window_waits_for_tuples_only():
    assert sentences("tumbling, count(3)") == ""


@pytest.mark.parametrize(
    ("duration", "period", "offset", "watermark", "end"),
    [
        (60, 60, 0, 0, 60), (60, 60, 0, 59, 60), (60, 60, 0, 60, 120), (60, 60, 10, 60, 70),
        (60, 20, 0, 61, 80), (10, 60, 0, 10, 70), (10, 60, 0, 9, 10), (60, 60, 0, -1, 0), (60, 60, 0, -61, -60),
    ],
)  # fmt: skip
def test_the_next_end_of_a_pane(duration: int, period: int, offset: int, watermark: int, end: int):
    assert next_end(TimeInterval(duration, period, 0, offset), watermark) == end


@pytest.mark.parametrize(
    ("window", "end"),
    [
        ("timeInterval, intervalDuration(month)", "2024-06-01 00:00:00"),
        ("timeInterval, intervalDuration(quarter)", "2024-07-01 00:00:00"),
        ("timeInterval, intervalDuration(year)", "2025-01-01 00:00:00"),
        ("timeInterval, intervalDuration(86400)\n    align: {zone: Europe/Berlin}", "2024-05-01 22:00:00"),
        ("timeInterval, intervalDuration(604800)\n    align: {on: monday}", "2024-05-06 00:00:00"),
    ],
    ids=["a month", "a quarter", "a year", "a day in Berlin", "a week"],
)
def test_a_pane_of_the_calendar_ends_with_its_period(window: str, end: str):
    """The watermark is 2024-05-01 10:00:40."""
    found = sentences(window, EVENT_TIME, streams=streams(40, (40, False)))
    assert f"The pane that ends next, at {end}, lacks" in found
