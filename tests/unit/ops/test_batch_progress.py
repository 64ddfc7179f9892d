"""The log lines about the progress of a service."""

import logging

import pytest

from sluice.ops.batch_progress import DeadLetterLog, ProgressLog, StartLog
from sluice.ops.log_lines import STANDARD


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def lines(caplog, monkeypatch):
    """The messages with their fields."""
    monkeypatch.setattr(logging.getLogger("sluice"), "propagate", True)
    caplog.set_level("INFO", "sluice")

    def found():
        return [
            (r.getMessage(), {n: v for n, v in r.__dict__.items() if n not in STANDARD and n != "pipeline"})
            for r in caplog.records
        ]

    return found


def test_the_first_batch_and_a_line_a_minute(lines):
    clock = Clock()
    log = ProgressLog("p", clock)
    for second in range(0, 125, 5):
        clock.now = 100.0 + second
        log.batch_ended(second // 5, 50, 0.12, 0)
    assert lines() == [
        ("first batch", {"batch": 0, "records": 50, "seconds": 0.1, "behind": 0}),
        ("running", {"batch": 12, "batches": 12, "records": 600, "per_second": 10, "behind": 0}),
        ("running", {"batch": 24, "batches": 12, "records": 600, "per_second": 10, "behind": 0}),
    ]


def test_the_line_of_a_minute_has_what_the_page_knows_and_warns_of_what_is_held_back(lines, caplog):
    clock = Clock()
    about = {"dead_letters": 3, "watermark": "2024-05-01 10:00:00", "watermark_delay": 12.5}
    log = ProgressLog("p", clock, lambda: about)
    log.batch_ended(0, 60, 1.0, 0)
    for held_back in ({}, {"held_back": "`rate` cannot fire"}):
        about |= held_back
        clock.now += 60
        log.batch_ended(1, 60, 1.0, 0)
    assert [fields.keys() >= about.keys() for _, fields in lines()] == [False, False, True]
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "WARNING"]


def test_the_rate_of_the_first_minute_has_only_the_records_of_that_minute(lines):
    """The first batch after a long stop is large, and has ended when the minute begins."""
    clock = Clock()
    log = ProgressLog("p", clock)
    log.batch_ended(0, 1_000_000, 20.0, 0)
    clock.now += 60
    log.batch_ended(1, 60, 0.1, 0)
    assert lines()[1] == ("running", {"batch": 1, "batches": 1, "records": 60, "per_second": 1, "behind": 0})


def test_catching_up_has_a_time_to_go(lines):
    clock = Clock()
    log = ProgressLog("p", clock)
    for minute, behind in enumerate([60_000, 48_000, 54_000, 0]):
        clock.now = 100.0 + 60 * minute
        log.batch_ended(minute, 60, 1.0, behind)
    clock.now += 1
    log.batch_ended(9, 60, 1.0, 0)
    found = [(what, fields.get("time_to_go")) for what, fields in lines()]
    assert found == [
        ("first batch", None), ("catching up", "240 s"), ("catching up", "the backlog grows"), ("running", None),
    ]  # fmt: skip


def test_the_end_of_the_backlog(lines):
    clock = Clock()
    log = ProgressLog("p", clock)
    log.batch_ended(0, 60, 1.0, 5000)
    clock.now += 60
    log.batch_ended(1, 60, 1.0, 1000)
    clock.now += 5
    log.batch_ended(2, 1000, 1.0, 0)
    clock.now += 5
    log.batch_ended(3, 10, 1.0, 0)
    assert [what for what, _ in lines()] == ["first batch", "catching up", "caught up"]


def test_a_slow_start(lines):
    clock = Clock()
    start = StartLog(clock)
    for _ in range(140):
        clock.now += 0.5
        start.report(began=False)
    clock.now += 100
    start.report(began=True)
    assert [fields["seconds"] for _, fields in lines()] == [30, 60]


def test_the_first_dead_letter_of_each_reason(lines):
    log = DeadLetterLog()
    log.batch_written({"in": {"not JSON": ["t", 1, 7, "not JSON: x"]}})
    log.batch_written({"in": {"not JSON": ["t", 1, 8, "not JSON: y"], "late": ["t", 0, 9, "late: z"]}, "other": {}})
    assert [fields for _, fields in lines()] == [
        {"stream": "in", "topic": "t", "topic_partition": 1, "offset": 7, "reason": "not JSON: x"},
        {"stream": "in", "topic": "t", "topic_partition": 0, "offset": 9, "reason": "late: z"},
    ]
