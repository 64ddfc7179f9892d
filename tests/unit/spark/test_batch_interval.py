import os
from dataclasses import replace

import pytest

from sluice.spark import batch_interval
from sluice.spark.batch_interval import MAX_S, BatchInterval, Usage, used
from tests.unit.config.files import aggregate, loaded


class Machine:
    """A query whose batches take `takes` seconds each and `java` processor seconds of Java, and what it waits."""

    def __init__(self, setting, *, takes=0.025, java=0.01, ran=1.0, waited=0.0):
        self.now, self.pauses, self.used = 100.0, [], Usage(5.0, 1.0, 1.0)
        self.takes, self.each = takes, Usage(java, ran, waited)
        settings = loaded(aggregate(more=setting)).settings
        self.interval = BatchInterval(settings, lambda: self.used, lambda: self.now, self.wait)

    def wait(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    def batches(self, count):
        """The seconds from the last batch but one to the last."""
        for _ in range(count):
            began, self.now = self.now, self.now + self.takes
            self.used = Usage(*(old + more for old, more in zip(self.used, self.each, strict=True)))
            self.interval.batch_ended()
        return pytest.approx(self.now - began)


MANY = 400  # some hundred batches take more seconds than the first measurement


@pytest.mark.parametrize(
    ("setting", "interval"),
    [
        ("latency: low", 0.025),
        ("latency: balanced", 0.02 / 0.3),  # Java's 10 ms are half of the fixed work
        ("", 0.02 / 0.3),
        ("latency: cheap", 0.2),
        ("latency: 80ms", 0.055),  # one that just misses a batch waits 55 ms for the next one, which takes 25
        ("latency: 0", 0.025),
        ("trigger_interval: 3", 0.025),  # Spark waits
    ],
)
def test_the_setting_decides_the_interval(setting, interval):
    assert Machine(setting).batches(MANY) == interval


def test_on_a_busy_machine_batches_become_fewer():
    assert Machine("latency: balanced", ran=1.0, waited=2.0).batches(MANY) == 3 * 0.02 / 0.3


def test_batches_that_take_longer_than_the_interval_follow_each_other():
    assert Machine("latency: balanced", takes=0.2).batches(MANY) == 0.2
    assert Machine("latency: 80ms", takes=0.05).batches(MANY) == 0.05


def test_the_interval_has_a_limit():
    assert Machine("latency: cheap", java=3.0).batches(MANY) == MAX_S


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
    interval = BatchInterval(settings, lambda: Usage(1e9, 1.0, 0.0))
    interval.end()
    interval.batch_ended()  # would wait


def test_the_kernel_counts_what_this_process_has_used(monkeypatch):
    class Java:
        pid = os.getpid()

    monkeypatch.setattr(batch_interval, "java_process", Java)
    before = used()
    while (after := used()).java == before.java:
        sum(range(100_000))
    assert after.ran >= before.ran > 0


def test_without_java_only_this_process_is_counted(monkeypatch):
    monkeypatch.setattr(batch_interval, "java_process", lambda: None)
    assert used().java == 0
