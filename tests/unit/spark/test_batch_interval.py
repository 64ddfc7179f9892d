import os
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import pytest

from sluice.spark import batch_interval
from sluice.spark.batch_interval import MAX_S, BatchInterval, Usage, used
from tests.unit.config.pipeline_files import aggregate, loaded

LARGEST = 250_000


class Another:
    """The interval of another query."""


class Machine:
    """A query whose batches take `takes` seconds each and `java` processor seconds of Java, and what it waits, beside
    so many other queries of the service. For the part `stalled` of the time, some process waits for a processor."""

    def __init__(self, setting, *, takes=0.025, java=0.01, stalled=0.0, others=0, offsets=25):
        self.offsets, self.others = offsets, [Another() for _ in range(others)]
        self.now, self.pauses, self.java, self.stalled = 100.0, [], 5.0, stalled
        self.takes, self.each = takes, java
        settings = loaded(aggregate(more=setting)).settings
        self.running = WeakSet(self.others)
        self.interval = BatchInterval(
            settings, LARGEST, self.running, usage=self.used, clock=lambda: self.now, wait=self.wait
        )  # fmt: skip

    def used(self):
        return Usage(self.java, self.now * self.stalled)

    def wait(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    def batches(self, count):
        """The seconds from the last batch but one to the last."""
        for _ in range(count):
            began, self.now = self.now, self.now + self.takes
            self.java += self.each
            self.interval.batch_ended(self.offsets)
        return pytest.approx(self.now - began)


MANY = 400  # some hundred batches take more seconds than the first measurement


@pytest.mark.parametrize(
    ("setting", "interval"),
    [
        ("latency: low", 0.025),
        ("latency: balanced", 0.02 / 0.5),  # Java's 10 ms are half of the fixed work
        ("", 0.02 / 0.5),
        ("latency: cheap", 0.2),
        ("latency: 80ms", 0.055),  # one that just misses a batch waits 55 ms for the next one, which takes 25
        ("latency: 0", 0.025),
        ("trigger_interval: 3", 0.025),  # Spark waits
    ],
)
def test_the_setting_decides_the_interval(setting, interval):
    assert Machine(setting).batches(MANY) == interval


@pytest.mark.parametrize(("java", "quiet"), [(0.01, 0.02 / 0.5), (3.0, 0.05)], ids=["by the work", "at the limit"])
def test_on_a_busy_machine_batches_become_fewer(java, quiet):
    assert Machine("latency: balanced", java=java).batches(MANY) == quiet
    assert Machine("latency: balanced", java=java, stalled=0.5).batches(MANY) == 1.5 * quiet


def test_a_batch_that_may_have_left_records_behind_is_followed_at_once():
    assert Machine("latency: balanced", offsets=LARGEST // 2).batches(MANY) == 0.025
    assert Machine("latency: balanced", offsets=LARGEST // 2 - 1).batches(MANY) == 0.02 / 0.5


def test_batches_that_take_longer_than_the_interval_follow_each_other():
    assert Machine("latency: balanced", takes=0.2).batches(MANY) == 0.2
    assert Machine("latency: 80ms", takes=0.05).batches(MANY) == 0.05


@pytest.mark.parametrize(
    ("word", "others", "longest"),
    [("balanced", 0, 0.05), ("balanced", 2, 0.15), ("balanced", 99, MAX_S), ("cheap", 0, 0.3), ("cheap", 9, MAX_S)],
)
def test_the_interval_has_a_limit_for_each_query_that_runs(word, others, longest):
    assert Machine(f"latency: {word}", java=3.0, others=others).batches(MANY) == longest


def test_no_batch_waits_before_the_fixed_work_is_measured():
    machine = Machine("latency: balanced")
    machine.batches(10)
    assert machine.pauses == []


def test_the_first_batch_after_a_quiet_time_does_not_wait():
    machine = Machine("latency: balanced")
    machine.batches(MANY)
    machine.pauses.clear()
    machine.takes = 5.0  # no record came
    machine.batches(1)
    assert machine.pauses == []


def test_the_end_of_a_query_ends_its_wait():
    settings = replace(loaded(aggregate()).settings, latency="cheap")
    running = WeakSet()
    interval = BatchInterval(settings, LARGEST, running, usage=lambda: Usage(1e9, 0.0))
    assert list(running) == [interval]
    interval.end()
    assert not running
    interval.batch_ended(1)  # would wait


def test_the_kernel_counts_the_processor_time_of_java(monkeypatch):
    class Java:
        pid = os.getpid()

    monkeypatch.setattr(batch_interval, "java_process", Java)
    before = used().java
    while used().java == before:
        sum(range(100_000))
    assert used().java > before


def test_what_cannot_be_read_is_not_counted(monkeypatch):
    monkeypatch.setattr(batch_interval, "java_process", lambda: None)
    monkeypatch.setattr(batch_interval, "PRESSURE", Path("missing"))
    assert used() == Usage(0.0, 0.0)


def test_the_pressure_is_the_time_for_which_some_process_waits(monkeypatch, tmp_path):
    pressure = tmp_path / "cpu"
    pressure.write_text(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
    )
    monkeypatch.setattr(batch_interval, "PRESSURE", pressure)
    assert used().stalled == 2.5
