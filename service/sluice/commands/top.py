"""`sluice top`: shows in the terminal what a running service does, with the values that its page shows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import click
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sluice.json_texts import visible
from sluice.model.errors import SluiceError
from sluice.time_units import SECOND

#: maximum seconds of a request
REQUEST_S = 10.0
MINUTE, HOUR, DAY = 60, 3_600, 86_400
#: from how many letters on a line holds tables with wide columns, and tables with dates
WIDE, MEDIUM = 100, 76
#: the headers of the columns behind `written` in a table of streams with dates
LONG = ("dead letters", "watermark (UTC)")

#: the answer of `/status`, or a part of it (page/pipeline_status.py)
Status = Mapping[str, Any]


class UnreachableError(SluiceError):
    exit_code = 3

    def __init__(self, address: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no status at {address}: {reason}; does `sluice run` serve this port?")


@click.command()
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, help="Address of the service's HTTP port.")
@click.option("--pipeline", help="Show this pipeline alone, of a service that runs several.")
@click.option(
    "--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds between two readings."
)
@click.option("--once", is_flag=True, help="Print the tables once, as plain text, and end.")
def top(url: str, pipeline: str | None, interval: float, once: bool) -> None:  # noqa: FBT001 - click passes flags as booleans
    """Show what a running service does: rates, lag, clock and watermarks, operators, batches, memory.

    Reads the status of the service (`/status`) and refreshes until Ctrl+C. With --once it prints plain text.
    """
    console = Console()
    url = f"{url if '://' in url else f'http://{url}'}".rstrip("/").removesuffix("/status")
    if urlsplit(url).scheme not in {"http", "https"}:
        raise click.BadParameter("expected an address that begins with http:// or https://", param_hint="--url")
    screen = Screen(url, pipeline, time.time)
    status = _read(f"{url}/status")
    names = [pipeline_status["name"] for pipeline_status in status["pipelines"]]
    if pipeline is not None and pipeline not in names:
        raise click.BadParameter(f"the service has the pipelines {', '.join(names)}", param_hint="--pipeline")
    if once:
        console.print(Group(*screen.parts(status, console.width)))
        return
    with Live(OnScreen(screen, status), console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(interval)
                status, trouble = _next(f"{url}/status", status)
                screen.note(trouble)
                live.update(OnScreen(screen, status), refresh=True)
        except KeyboardInterrupt:
            return


def _next(address: str, before: Status) -> tuple[Status, str]:
    """The next status and "". If the service does not answer, for instance while it is started again: the status
    before, and the reason.
    """
    try:
        return _read(address), ""
    except UnreachableError as error:
        return before, error.reason


def _read(address: str) -> Status:
    try:
        with urlopen(address, timeout=REQUEST_S) as answer:  # noqa: S310 - the caller has checked the scheme
            if answer.status != HTTPStatus.OK:
                raise UnreachableError(address, f"it answered {answer.status}")
            status = json.load(answer)
    except (URLError, OSError, OverflowError, HTTPException) as error:
        raise UnreachableError(address, str(getattr(error, "reason", error))) from None
    except ValueError:
        raise UnreachableError(address, "the answer is no status of Sluice") from None
    if not isinstance(status, dict) or not {"pipelines", "memory"} <= status.keys():
        raise UnreachableError(address, "the answer is that of another program")
    return status


# ---- the screen ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Screen:
    """The contents of the terminal. `now` gives the seconds since 1970.

    pipeline   the only pipeline to show; None: all
    trouble    why the service does not answer; empty if it does
    answered   when it answered for the last time, seconds since 1970
    """

    url: str
    pipeline: str | None
    now: Callable[[], float]
    trouble: str = ""
    answered: float = 0.0

    def __post_init__(self) -> None:
        self.answered = self.now()

    def note(self, trouble: str) -> None:
        """Stores why the service does not answer. An empty `trouble` means that it has answered now."""
        self.trouble = trouble
        if not trouble:
            self.answered = self.now()

    def parts(self, status: Status, width: int) -> list[RenderableType]:
        """The lines and tables of a screen of `width` letters."""
        pipelines, now = status["pipelines"], self.now()
        parts: list[RenderableType] = [*self._head(status, now, width)]
        if len(pipelines) > 1 and self.pipeline is None:
            parts += [Text(), _overview(pipelines, width)]
        for pipeline in pipelines:
            if self.pipeline in (None, pipeline["name"]):
                parts += [Text(), _pipeline(pipeline, now, width), *_remarks(pipeline)]
                parts += [_streams(pipeline, width), _operators(pipeline, width), *_clocks(pipeline, width)]
        return parts if pipelines else [*parts, Text("no pipeline runs")]

    def _head(self, status: Status, now: float, width: int) -> list[Text]:
        sizes = [f"{process} {_size(value)}" for process, value in status["memory"].items()]
        line = ["sluice top", self.url, f"{datetime.fromtimestamp(now, UTC):%H:%M:%S} UTC"]
        head = [_phrases([Text(phrase, "bold") for phrase in line], width)]
        if sizes:
            head.append(_phrases([Text(phrase) for phrase in ["memory:", *sizes]], width))
        if self.trouble:
            last = f"{datetime.fromtimestamp(self.answered, UTC):%H:%M:%S} UTC"
            words = f"no answer for {now - self.answered:,.0f} s: {self.trouble}. What follows was true at {last}."
            head.append(Text(words, "bold red"))
        return head


@dataclass(frozen=True, slots=True)
class OnScreen:
    """A screen with a status, as many lines of it as the terminal has."""

    screen: Screen
    status: Status

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        group = Group(*self.screen.parts(self.status, options.max_width))
        lines = console.render_lines(group, options.update(height=None), pad=False)
        if len(lines) > height:
            hint = "" if self.screen.pipeline else "; --pipeline NAME shows one pipeline"
            words = f"{len(lines) - height + 1} more lines{hint}"
            lines = [*lines[: height - 1], [Segment(words[: options.max_width], console.get_style("dim"))]]
        for number, line in enumerate(lines):
            yield from [Segment.line(), *line] if number else line


def _overview(pipelines: Sequence[Status], width: int) -> Table:
    """A row for each pipeline."""
    dead_letters = "dead" if width < MEDIUM else "dead letters"
    table = _table(width, "pipeline", "state", "read", "written", dead_letters, "unread")
    table.columns[1].justify = "left"
    for status in pipelines:
        table.add_row(
            Text(status["name"], "bold cyan"), _state(status), _rate(status["read"]), _rate(status["written"]),
            Text(_rate(status["dead_letters"]), "red" if status["dead_letters"] else ""),
            Text(_count(status["unread"]), "bold yellow" if status["unread"] else ""),
        )  # fmt: skip
    return table


def _state(status: Status) -> Text:
    if status["role"] == "standby":
        return Text("standby, not ready", "bold red") if status["trouble"] else Text("standby", "yellow")
    if status["state"] != "running" or status["trouble"]:
        return Text(status["state"] if status["state"] != "running" else "not healthy", "red")
    return Text("held back", "bold yellow") if status["held_back"] else Text("running", "green")


def _remarks(status: Status) -> list[Text]:
    """Why the pipeline is not ready, and which of its operators are held back."""
    trouble = [Text(visible(status["trouble"]), "red")] if status["trouble"] else []
    return [*trouble, *(Text(visible(text), "yellow") for text in status["held_back"])]


def _pipeline(status: Status, now: float, width: int) -> Text:
    stages = status["stages"]
    took = [stage["batch_seconds"] for stage in stages if stage["batch_seconds"] is not None]
    latencies = [stage["latency_seconds"] for stage in stages if stage["latency_seconds"] is not None]
    last = status["last_batch_at"]
    phrases = [
        Text(status["name"], "bold cyan"),
        _state(status),
        Text(f"unread {status['unread']:,}", "bold yellow" if status["unread"] else ""),
        Text(f"batches {_rate(sum(stage['batch_rate'] for stage in stages))}"),
        Text(f"mean batch {_seconds(max(took, default=None))}"),
        Text(f"latency {_seconds(max(latencies, default=None))}"),
        Text("no batch yet" if last is None else f"last batch {_duration(now - last / SECOND)} ago"),
        Text(f"state {_size(status['state_bytes'])}"),
    ]
    return _phrases(phrases, width)


def _streams(status: Status, width: int) -> Table:
    narrow = width < MEDIUM
    table = _table(width, "stream", "read", "written", *(("dead", "watermark") if narrow else LONG))
    inputs = {stream["stream"]: stream for stage in status["stages"] for stream in stage["inputs"]}
    outputs = {stream["stream"]: stream for stage in status["stages"] for stream in stage["outputs"]}
    for name in inputs | outputs:
        dead = inputs[name]["dead_letters"] if name in inputs else None
        table.add_row(
            name,
            _rate(inputs[name]["rate"] if name in inputs else None),
            _rate(outputs[name]["rate"] if name in outputs else None),
            Text(_rate(dead), style="red" if dead else ""),
            _moment(inputs[name]["watermark"] if name in inputs else None, short=narrow),
        )
    return table


def _operators(status: Status, width: int) -> Table:
    table = _table(width, "operator", "in", "out", "fired", "partitions", "tuples")
    for operator in [operator for stage in status["stages"] for operator in stage["operators"]]:
        table.add_row(
            Text(operator["name"], "bold yellow" if operator["held_back"] else ""),
            *(_rate(operator[kind]) for kind in ("read", "written", "fired")),
            *(_count(operator[kind]) for kind in ("partitions", "tuples")),
        )
    return table


def _clocks(status: Status, width: int) -> list[Text]:
    """A line for each stage: its operator clock, and when the clock alone causes the next output."""
    lines = []
    for stage in status["stages"]:
        of_stage = f" of {stage['name']}" if len(status["stages"]) > 1 else ""
        due = "no timer is due" if stage["due"] is None else f"next timer {_moment(stage['due'])}"
        words = [f"clock{of_stage}: {_moment(stage['clock'])}", due]
        lines.append(_phrases([Text(phrase, "dim") for phrase in words], width))
    return lines


def _table(width: int, first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    names, numbers = (24, 12) if width >= WIDE else (16, 9) if width >= MEDIUM else (8, 4)
    table.add_column(first, min_width=names, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", min_width=numbers, no_wrap=True)
    return table


def _phrases(phrases: Sequence[Text], width: int) -> Text:
    """The phrases with two spaces between them. Lines break between phrases only."""
    line, column = Text(), 0
    for phrase in phrases:
        if column and column + 2 + phrase.cell_len > width:
            line.append("\n  ")
            column = 2
        elif column:
            line.append("  ")
            column += 2
        line.append_text(phrase)
        column += phrase.cell_len
    return line


def _size(count: float) -> str:
    """A number of bytes."""
    value, unit = (count / 1024, "KiB") if count < 1 << 20 else (count / (1 << 20), "MiB")
    return f"{value:,.0f} {unit}" if value >= 10 else f"{value:,.1f} {unit}"  # noqa: PLR2004 - two digits


def _duration(seconds: float) -> str:
    """`0.4 s`, `45 s`, `3 min`, `2.5 h`, `12 d`."""
    if seconds < MINUTE:
        return f"{max(seconds, 0.0):,.1f} s" if seconds < 10 else f"{seconds:,.0f} s"  # noqa: PLR2004 - two digits
    for unit, word, digits in ((DAY, "d", 0), (HOUR, "h", 1), (MINUTE, "min", 0)):
        if seconds >= unit:
            return f"{seconds / unit:,.{digits}f} {word}"
    raise AssertionError(seconds)


def _rate(per_second: float | None) -> str:
    if per_second is None:
        return "-"
    small = 0 < per_second < 1
    return f"{per_second * MINUTE:,.1f}/min" if small else f"{per_second:,.0f}/s"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else _duration(seconds)


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _moment(time: int | None, *, short: bool = False) -> str:
    """A time in nanoseconds since 1970, in UTC; `short`: without the year."""
    if time is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(time / SECOND, UTC):{'%m-%d' if short else '%Y-%m-%d'} %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "beyond the calendar"
