from decimal import Decimal

import pytest

from sluice.config.syntax.durations import seconds, spelled_here
from sluice.model.expressions import Literal
from sluice.model.spec import PartitionAge
from sluice.model.types import FLOAT64
from tests.unit.config.pipeline_files import aggregate, loaded

DURATIONS = {
    "30": 30, "2.5": Decimal("2.5"), "1e-9": Decimal("1e-9"), "-1": -1, "30s": 30, "5m": 300, "1h": 3600, "1d": 86_400,
    "250ms": Decimal("0.25"), "0.1ms": Decimal("0.0001"), "1.5h": 5400, ".5s": Decimal("0.5"), "5 m": 300, "-5m": -300,
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), DURATIONS.items())
def test_a_duration(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "s", "5x", "5sec", "5M", "1h30m", "5s s", "1e3s", "abc", "5.s"])
def test_no_duration(text):
    assert seconds(text) is None


ELSEWHERE = {
    "5 minutes": "5m", "1 minute": "1m", '"5m"': "5m", "'30 seconds'": "30s", "INTERVAL '10' MINUTES": "10m",
    "interval 1 day": "1d", "Duration.ofMinutes(5)": "5m", "ofSeconds(30)": "30s", "Time.hours(2)": "2h",
    "PT30S": "30s", "P1D": "1d", "P2W": "14d", "1w": "7d", "5 min": "5m", "250 millis": "250ms", "5sec": "5s",
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ELSEWHERE.items())
def test_a_duration_of_another_system(text, expected):
    assert spelled_here(text) == expected


@pytest.mark.parametrize("text", ["", "5", "minutes", "5 apples", "P1M", "PT1H30M", "5.5 minutes", "9" * 99 + "d"])
def test_no_duration_of_another_system(text):
    assert spelled_here(text) is None


def test_settings_have_units():
    settings = loaded(aggregate(more="max_future: 1h\nmerge_wait: 250ms\ntrigger_interval: 2s")).settings
    found = (settings.max_future, settings.merge_wait, settings.trigger_interval)
    assert found == (3_600_000_000_000, 250_000_000, 2_000_000_000)


def test_event_times_have_units():
    text = aggregate("timeInterval, intervalDuration(1h), creationPeriod(5m), discardAge(1d)")
    event_time = "event_time: {attribute: time, lag: 5s, minimum_gap: 100ms, idle_after: 1m, max_future: 1d}"
    pipeline = loaded(text.replace("topic: trades,", f"topic: trades, {event_time},"))
    of = pipeline.streams["trades"].event_time
    assert (of.lag, of.minimum_gap, of.idle_after, of.max_future) == (
        5_000_000_000, 100_000_000, 60_000_000_000, 86_400_000_000_000,
    )  # fmt: skip
    window = pipeline.operators[0].window
    assert window.sizes == (3_600_000_000_000, 300_000_000_000, 86_400_000_000_000, 0)


def test_a_partition_age_has_a_unit():
    text = aggregate("tumbling, count(2), partitioned, partitionAge(1h)\n    partition_by: [symbol]")
    assert loaded(text).operators[0].window.partition_eviction == PartitionAge(3600)


def test_an_expression_has_a_duration_as_float64_seconds():
    output = "{x: 'floorTime(Last(time), 5m)', y: Last(time) + 1.5h}"
    (operator,) = loaded(aggregate(output=output)).operators
    first, second = (expression for _, expression in operator.outputs[0].attributes)
    assert first.arguments[1] == Literal(300.0, FLOAT64)
    assert second.arguments[1] == Literal(5400.0, FLOAT64)
