"""`sluice top`: what it shows of the status of a service."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from rich.console import Console, Group

from sluice.cli import main
from sluice.commands.top import OnScreen, Screen
from sluice.ops.http_server import OpsServer
from sluice.ops.pipelines import Pipelines, Role, State
from sluice.page.pipeline_pages import Pages
from sluice.page.pipeline_status import overview
from tests.unit.ops.registered_pipelines import registered
from tests.unit.page.page_without_service import NOW, page

URL = "http://127.0.0.1:8080"
#: an operator of which a topic partition has been silent for minutes
HELD = "`per_minute` cannot fire: topic partition 1 of orders has been silent for 1 min 1 s; add `idle_after`"


def memory() -> dict[str, int]:
    return {"java": 512 << 20}


def of(*names: str, states: dict[str, State] | None = None) -> tuple[Pages, Pipelines]:
    """The pages and pipelines of a service whose pipelines have these names."""
    pipelines = Pipelines(several=len(names) > 1)
    pages = Pages(pipelines)
    for name in names:
        shown = page()
        shown.name, shown.pipeline = name, replace(shown.pipeline, name=name)
        state = (states or {}).get(name, State.RUNNING)
        pipelines.register(replace(registered(name, state), pipeline=shown.pipeline))
        pages.add(shown)
    return pages, pipelines


@pytest.fixture
def status() -> dict[str, Any]:
    return overview(of("shop")[0], memory)


def text_of(status: dict[str, Any], width: int = 120) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Group(*Screen(URL, None, lambda: NOW).parts(status, width)))
    return console.export_text()


def on_screen(screen: Screen, status: dict[str, Any], width: int, height: int) -> list[str]:
    """The lines of a terminal of this size."""
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(OnScreen(screen, status), height=height)
    return console.export_text().splitlines()


def line_of(text: str, name: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(name)).split()


def test_streams_and_operators_have_the_rates_of_the_page(status: dict[str, Any]):
    text = text_of(status)
    assert line_of(text, "orders") == ["orders", "30/s", "-", "3.0/min", "2024-05-01", "10:00:40"]
    assert line_of(text, "per_minute") == ["per_minute", "30/s", "18.0/min", "18.0/min", "3", "90"]


def test_the_pipeline_has_its_lag_its_last_batch_and_its_state(status: dict[str, Any]):
    text = text_of(status)
    for expected in ("unread 120", "mean batch 0.3 s", "last batch 1.0 s ago", "state 2.9 KiB", "java 512"):
        assert expected in text, expected
    assert "clock: 2024-05-01 10:01:45  no timer is due" in text


def test_an_operator_that_is_held_back_is_said_with_the_reason(status: dict[str, Any]):
    text = text_of(status)
    assert "held back" in text
    assert HELD in " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_value_is_broken_or_cut_in_a_narrow_terminal(status: dict[str, Any], width: int):
    lines = text_of(status, width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    for expected in ("mean batch 0.3 s", "last batch 1.0 s ago", "05-01 10:00:40", "java 512 MiB", "30/s"):
        assert expected in text, text


def test_each_of_several_stages_has_its_clock(status: dict[str, Any]):
    (shop,) = status["pipelines"]
    (stage,) = shop["stages"]
    several = [stage | {"name": "a"}, stage | {"name": "b", "clock": None}]
    shown = text_of(status | {"pipelines": [shop | {"stages": several}]})
    assert "clock of a: 2024-05-01 10:01:45" in shown
    assert "clock of b: -" in shown


def test_a_service_that_does_not_answer_any_more_is_said_above_its_last_numbers(status: dict[str, Any]):
    now = [NOW]
    screen = Screen(URL, None, lambda: now[0])
    now[0] += 30
    screen.note("Connection refused")
    lines = " ".join(on_screen(screen, status, 80, 24))
    assert "no answer for 30 s: Connection refused. What follows was true at 10:10:00 UTC." in lines
    assert "orders" in lines
    screen.note("")
    assert "no answer" not in " ".join(on_screen(screen, status, 80, 24))


def test_a_standby_says_whether_it_could_take_over():
    pages, pipelines = of("shop", states={"shop": State.STANDBY})
    pipelines.update("shop", role=Role.STANDBY)
    assert line_of(text_of(overview(pages, memory)), "shop")[:3] == ["shop", "standby", "unread"]
    pipelines.update("shop", error="cannot read the checkpoint")
    text = text_of(overview(pages, memory))
    assert "standby, not ready" in text
    assert "standby, but it could not take over: cannot read the checkpoint" in text


def test_several_pipelines_have_a_row_each_above_their_tables():
    pages, _ = of("p0", "p1", "p2", states={"p1": State.FAILED})
    lines = on_screen(Screen(URL, None, lambda: NOW), overview(pages, memory), 80, 12)
    rows = [line.split() for line in lines[4:7]]
    assert rows[0] == ["p0", "held", "back", "30/s", "36.0/min", "3.0/min", "120"]
    assert rows[1][:2] == ["p1", "failed"]
    assert len(lines) == 12
    assert lines[-1].endswith("more lines; --pipeline NAME shows one pipeline")


def test_one_pipeline_can_be_shown_alone():
    lines = on_screen(Screen(URL, "p2", lambda: NOW), overview(of("p1", "p2")[0], memory), 80, 24)
    assert "p2" in " ".join(lines)
    assert "p1" not in " ".join(lines)


@pytest.fixture
def url() -> Iterator[str]:
    pages, pipelines = of("shop")
    with OpsServer(0, bytes, pipelines, "127.0.0.1", status=lambda: overview(pages, memory)) as server:
        yield f"http://127.0.0.1:{server.port}/"


def test_once_prints_plain_text(url: str):
    result = CliRunner().invoke(main, ["top", "--url", url, "--once"])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "turnover" in result.output


@pytest.mark.parametrize("form", ["{host}", "http://{host}/", "http://{host}/status"])
def test_forms_of_an_address(url: str, form: str):
    host = url.removeprefix("http://").rstrip("/")
    assert CliRunner().invoke(main, ["top", "--url", form.format(host=host), "--once"]).exit_code == 0


def test_a_pipeline_that_the_service_does_not_have(url: str):
    result = CliRunner().invoke(main, ["top", "--url", url, "--once", "--pipeline", "shops"])
    assert result.exit_code == 2
    assert "the service has the pipelines shop" in result.output


class Other(BaseHTTPRequestHandler):
    """A server that is no service of ours: a page, and a status of its own."""

    pages: ClassVar = {"/status": b'{"up": true}', "/page/status": b"<!doctype html><title>x</title>"}

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
        ("", "the answer is that of another program"),
        ("/page", "the answer is no status of Sluice"),
        ("/none", "Not Found"),
    ],
)
def test_an_address_of_another_program(other: str, path: str, reason: str):
    result = CliRunner().invoke(main, ["top", "--url", f"{other}{path}", "--once"])
    assert result.exit_code == 3
    assert f"no status at {other}{path}/status: {reason}; does `sluice run` serve this port?" in result.output


@pytest.mark.parametrize(
    ("url", "code", "text"),
    [
        ("http://127.0.0.1:1", 3, "no status at http://127.0.0.1:1/status"),
        ("http://127.0.0.1:99999", 3, "no status at http://127.0.0.1:99999/status"),
        ("http://127.0.0.1:port", 3, "no status at http://127.0.0.1:port/status"),
        ("file:///etc/passwd", 2, "expected an address that begins with http://"),
    ],
)
def test_an_address_without_a_service(url: str, code: int, text: str):
    result = CliRunner().invoke(main, ["top", "--url", url, "--once"])
    assert result.exit_code == code
    assert text in " ".join(result.output.split())
