"""`sluice top`: what it shows of a page of metrics."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from click.testing import CliRunner
from rich.console import Console, Group

from sluice.cli import main
from sluice.commands.top import OnScreen, Screen
from sluice.kafka.batch_report import Entry, Report
from sluice.ops.exposition import Exposition
from sluice.ops.http_server import OpsServer
from sluice.ops.metric_samples import Reading, parsed
from sluice.ops.metrics import Metrics
from sluice.ops.pipelines import Pipelines, Role, State
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


def text_of(reading: Reading, width: int = 120) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Group(*Screen(URL, None, lambda: NOW).parts(reading, width)))
    return console.export_text()


def on_screen(screen: Screen, reading: Reading, width: int, height: int) -> list[str]:
    """The lines of a terminal of this size."""
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(OnScreen(screen, reading), height=height)
    return console.export_text().splitlines()


def test_rates_are_those_between_two_readings(reading: Reading):
    lines = text_of(reading).splitlines()
    orders = next(line for line in lines if line.startswith("orders"))
    assert orders.split() == ["orders", "200/s", "-", "0/s", "2024-05-01", "10:00:00"]
    sums = next(line for line in lines if line.startswith("sums"))
    assert sums.split() == ["sums", "200/s", "2/s", "2/s", "1,234", "56"]


def test_the_pipeline_has_its_lag_its_last_batch_and_its_state(reading: Reading):
    text = text_of(reading)
    for expected in ("unread 20", "mean batch 0.4 s", "last batch 2.0 s ago", "state 3.0 MiB", "java 512", "running"):
        assert expected in text, expected
    assert "clock: 2024-05-01 10:00:05  no timer is due" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_value_is_broken_or_cut_in_a_narrow_terminal(reading: Reading, width: int):
    lines = text_of(reading, width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    for expected in ("mean batch 0.4 s", "last batch 2.0 s ago", "05-01 10:00:00", "java 512 MiB", "200/s", "1,234"):
        assert expected in text, text


def test_of_several_stages_the_last_batch_counts_and_each_has_its_clock():
    times = {"a": NOW - 7.0, "b": NOW - 3.0}
    text = 'sluice_build_info{pipeline="p",version="1"} 1\n' + "".join(
        f'sluice_{name}{{pipeline="p",stage="{stage}"}} {at}\n'
        for stage, at in times.items()
        for name in ("last_batch_timestamp_seconds", "clock_timestamp_seconds")
    )
    shown = text_of(Reading(1.0, parsed(text)))
    assert "last batch 3.0 s ago" in shown
    assert "clock of a: 2024-05-01 10:00:03" in shown
    assert "clock of b: 2024-05-01 10:00:07" in shown


def test_a_service_that_does_not_answer_any_more_is_said_above_its_last_numbers(reading: Reading):
    now = [NOW]
    screen = Screen(URL, None, lambda: now[0])
    now[0] += 30
    screen.note("Connection refused")
    lines = " ".join(on_screen(screen, reading, 80, 24))
    assert "no answer for 30 s: Connection refused. What follows was true at 10:00:10 UTC." in lines
    assert "orders" in lines
    screen.note("")
    assert "no answer" not in " ".join(on_screen(screen, reading, 80, 24))


def standby(ready: int) -> str:
    samples = {"leader": 0, "standby_ready": ready, "build_info": 1}
    return "".join(f'sluice_{name}{{pipeline="p"}} {value}\n' for name, value in samples.items())


def test_a_standby_that_can_take_over_is_a_standby():
    (line,) = [line for line in text_of(Reading(1.0, parsed(standby(1)))).splitlines() if line.startswith("p ")]
    assert "standby" in line
    assert "not ready" not in line


def test_a_standby_that_cannot_take_over_is_said_with_the_reason():
    screen = Screen(URL, None, lambda: NOW)
    screen.hindrances = {"p": "standby, but it could not take over: cannot connect to Kafka"}
    lines = on_screen(screen, Reading(1.0, parsed(standby(0))), 120, 24)
    place = next(number for number, line in enumerate(lines) if line.startswith("p "))
    assert "standby, not ready" in lines[place]
    assert "standby, but it could not take over: cannot connect to Kafka" in lines[place:]


@pytest.fixture
def waiting() -> Iterator[tuple[str, Pipelines]]:
    """The address of a service that is a standby, and its pipelines."""
    pipelines = Pipelines()
    pipelines.register(registered("shop", State.STANDBY, role=Role.STANDBY))
    server = OpsServer(0, Exposition(pipelines, dict).page, pipelines, "127.0.0.1")
    with server:
        yield f"http://127.0.0.1:{server.port}", pipelines


def test_the_reason_is_that_of_readyz(waiting: tuple[str, Pipelines]):
    url, pipelines = waiting

    def shown() -> str:
        return CliRunner().invoke(main, ["top", "--url", url, "--once"], catch_exceptions=False).output

    assert "not ready" not in shown()
    pipelines.update("shop", error="cannot read the checkpoint")
    assert "standby, not ready" in shown()
    assert "standby, but it could not take over: cannot read the checkpoint" in shown()


PIPELINES = "".join(
    f'sluice_build_info{{pipeline="p{n}",version="1"}} 1\nsluice_pipeline_running{{pipeline="p{n}"}} {n % 2}\n'
    f'sluice_lag_records{{pipeline="p{n}",topic="t",topic_partition="0"}} {n}000\n'
    for n in range(4)
)


def test_several_pipelines_have_a_row_each_above_their_tables():
    screen = Screen(URL, None, lambda: NOW)
    lines = on_screen(screen, Reading(1.0, parsed(PIPELINES)), 80, 12)
    rows = [line.split() for line in lines[3:7]]
    assert rows[2] == ["p2", "not", "running", "-", "-", "-", "2,000"]
    assert rows[3] == ["p3", "running", "-", "-", "-", "3,000"]
    assert len(lines) == 12
    assert lines[-1].endswith("more lines; --pipeline NAME shows one pipeline")


def test_one_pipeline_can_be_shown_alone():
    lines = on_screen(Screen(URL, "p2", lambda: NOW), Reading(1.0, parsed(PIPELINES)), 80, 24)
    assert "p2" in " ".join(lines)
    assert "p1" not in " ".join(lines)


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


@pytest.mark.parametrize("form", ["{host}", "http://{host}/", "http://{host}/metrics"])
def test_forms_of_an_address(url: str, form: str):
    host = url.removeprefix("http://").rstrip("/")
    assert CliRunner().invoke(main, ["top", "--url", form.format(host=host), "--once"]).exit_code == 0


def test_a_pipeline_that_the_service_does_not_have(url: str):
    result = CliRunner().invoke(main, ["top", "--url", url, "--once", "--pipeline", "shops"])
    assert result.exit_code == 2
    assert "the service has the pipelines shop" in result.output


class Other(BaseHTTPRequestHandler):
    """A server that is no service of ours: a page, and metrics of its own."""

    pages: ClassVar = {"/metrics": b"up 1\n", "/page/metrics": b"<!doctype html><title>x</title>"}

    def do_GET(self) -> None:
        self.send_response(200 if self.path in self.pages else 404)
        self.end_headers()
        self.wfile.write(self.pages.get(self.path, b""))

    def log_message(self, *_: object) -> None:
        """Writes nothing to standard error."""


@pytest.fixture
def other() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "the answer has metrics of another program"),
        ("/page", "the answer is no page of metrics"),
        ("/none", "Not Found"),
    ],
)
def test_an_address_of_another_program(other: str, path: str, reason: str):
    result = CliRunner().invoke(main, ["top", "--url", f"{other}{path}", "--once"])
    assert result.exit_code == 3
    assert f"no metrics at {other}{path}/metrics: {reason}; does `sluice run` serve this port?" in result.output


@pytest.mark.parametrize(
    ("url", "code", "text"),
    [
        ("http://127.0.0.1:1", 3, "no metrics at http://127.0.0.1:1/metrics"),
        ("http://127.0.0.1:99999", 3, "no metrics at http://127.0.0.1:99999/metrics"),
        ("http://127.0.0.1:port", 3, "no metrics at http://127.0.0.1:port/metrics"),
        ("file:///etc/passwd", 2, "expected an address that begins with http://"),
    ],
)
def test_an_address_without_a_service(url: str, code: int, text: str):
    result = CliRunner().invoke(main, ["top", "--url", url, "--once"])
    assert result.exit_code == code
    assert text in " ".join(result.output.split())
