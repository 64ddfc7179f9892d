"""`sluice top`: what it shows of a page of metrics."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from rich.console import Console

from sluice.cli import main
from sluice.commands.top import shown
from sluice.kafka.batch_report import Entry, Report
from sluice.ops.exposition import Exposition
from sluice.ops.http_server import OpsServer
from sluice.ops.metric_samples import Reading, parsed
from sluice.ops.metrics import Metrics
from sluice.ops.pipelines import Pipelines, State
from tests.unit.ops.registered import registered

URL = "http://127.0.0.1:8080"
NOW = 1_714_557_610.0


def entry(batch: int, tuples: int) -> Entry:
    report = Report(
        read={"orders": {"tuple": tuples}}, written={"turnover": {"tuple": 10}}, dead_letters={"orders": {"late": 0}},
        operators={"sums": {"in": tuples, "out": 10, "windows": 10, "partitions": 1234, "tuples": 56}},
        state={"held": 3 << 20}, watermarks={"orders": 1_714_557_600_000_000_000}, clock=1_714_557_605_000_000_000,
    )  # fmt: skip
    return Entry("shop", "id", batch, 1_714_557_608_000, 0, report)


def exposed(metrics: Metrics) -> tuple[Exposition, Pipelines]:
    pipelines = Pipelines()
    member = registered("shop", State.RUNNING)
    object.__setattr__(member, "metrics", metrics)
    pipelines.register(member)
    return Exposition(pipelines, lambda: {"java": 512 << 20}), pipelines


@pytest.fixture
def reading() -> Reading:
    """Two readings, five seconds apart, between which a batch of 1,000 tuples was written."""
    metrics = Metrics("1", now=lambda: NOW)
    page, _ = exposed(metrics)
    metrics.batch_written(entry(0, 500))
    first = Reading(100.0, parsed(page.page().decode()))
    metrics.batch_written(entry(1, 1000))
    metrics.batch_ended({"triggerExecution": 0.4})
    metrics.offsets({("orders", 0): 5}, {("orders", 0): 25})
    return Reading(105.0, parsed(page.page().decode()), first)


def text_of(reading: Reading) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(shown(reading, URL, lambda: NOW))
    return console.export_text()


def test_rates_are_those_between_two_readings(reading: Reading):
    lines = text_of(reading).splitlines()
    orders = next(line for line in lines if line.startswith("orders"))
    assert orders.split() == ["orders", "200/s", "-", "0/s", "2024-05-01", "10:00:00"]
    sums = next(line for line in lines if line.startswith("sums"))
    assert sums.split() == ["sums", "200/s", "2/s", "2/s", "1,234", "56"]


def test_the_pipeline_has_its_lag_its_last_batch_and_its_state(reading: Reading):
    text = text_of(reading)
    for expected in ("unread 20", "mean batch 0.4 s", "last 2.0 s ago", "state 3.0 MiB", "java 512 MiB", "running"):
        assert expected in text, expected
    assert "clock of shop: 2024-05-01 10:00:05, next due -" in text


def test_the_first_reading_has_no_rates(reading: Reading):
    assert reading.before is not None
    orders = next(line for line in text_of(reading.before).splitlines() if line.startswith("orders"))
    assert orders.split()[1] == "-"


def test_counters_that_began_anew_are_no_negative_rate():
    before = Reading(10.0, parsed("a_total 500\n"))
    assert Reading(12.0, parsed("a_total 20\n"), before).rate("a_total") == 10


def test_the_mean_is_that_of_the_observations_between_two_readings():
    before = Reading(10.0, parsed("h_sum 100\nh_count 10\n"))
    assert Reading(12.0, parsed("h_sum 106\nh_count 13\n"), before).mean("h") == 2
    assert Reading(12.0, parsed("h_sum 100\nh_count 10\n"), before).mean("h") == 10
    assert before.mean("h") == 10
    assert before.mean("none") is None


@pytest.fixture
def url() -> Iterator[str]:
    metrics = Metrics("1", now=lambda: NOW)
    metrics.batch_written(entry(0, 500))
    page, pipelines = exposed(metrics)
    with OpsServer(0, page.page, pipelines, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.port}/"


def test_once_prints_plain_text(url: str):
    result = CliRunner().invoke(main, ["top", "--url", url, "--once"])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "turnover" in result.output


@pytest.mark.parametrize(
    ("url", "code", "text"),
    [
        ("http://127.0.0.1:1", 3, "no metrics at http://127.0.0.1:1/metrics"),
        ("file:///etc/passwd", 2, "expected an address that begins with http://"),
    ],
)
def test_an_address_without_a_service(url: str, code: int, text: str):
    result = CliRunner().invoke(main, ["top", "--url", url, "--once"])
    assert result.exit_code == code
    assert text in " ".join(result.output.split())
