"""`sluice top`: shows in the terminal what a running service does, from its metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import click
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sluice.model.errors import SluiceError
from sluice.ops.metric_samples import Reading, known, parsed

#: maximum seconds of a request
REQUEST_S = 10.0
#: seconds between the two readings of --once, from which its rates follow
ONCE_S = 1.0
MINUTE, HOUR, DAY = 60, 3_600, 86_400
#: from how many letters on a line holds tables with wide columns, and tables with dates
WIDE, MEDIUM = 100, 76
#: the headers of the columns behind `written` in a table of streams with dates
LONG = ("dead letters", "watermark (UTC)")


class UnreachableError(SluiceError):
    exit_code = 3

    def __init__(self, address: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no metrics at {address}: {reason}; does `sluice run` serve this port?")


@click.command()
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, help="Address of the service's HTTP port.")
@click.option("--pipeline", help="Show this pipeline alone, of a service that runs several.")
@click.option(
    "--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds between two readings."
)
@click.option("--once", is_flag=True, help="Print the tables once, as plain text, and end.")
def top(url: str, pipeline: str | None, interval: float, once: bool) -> None:  # noqa: FBT001 - click passes flags as booleans
    """Show what a running service does: rates, lag, clock and watermarks, operators, batches, memory.

    Reads the metrics of the service (`/metrics`) and refreshes until Ctrl+C. With --once it reads twice, one second
    apart, and prints plain text.
    """
    console = Console()
    url = f"{url if '://' in url else f'http://{url}'}".rstrip("/").removesuffix("/metrics")
    if urlsplit(url).scheme not in {"http", "https"}:
        raise click.BadParameter("expected an address that begins with http:// or https://", param_hint="--url")
    address, screen = f"{url}/metrics", Screen(url, pipeline, time.time)
    reading = _read(address, None)
    names = reading.labels("sluice_build_info", "pipeline")
    if pipeline is not None and pipeline not in names:
        raise click.BadParameter(f"the service has the pipelines {', '.join(names)}", param_hint="--pipeline")
    if once:
        time.sleep(ONCE_S)
        reading = _read(address, reading)
        screen.hindrances = hindrances(url, reading)
        console.print(Group(*screen.parts(reading, console.width)))
        return
    screen.hindrances = hindrances(url, reading)
    with Live(OnScreen(screen, reading), console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(interval)
                reading, trouble = _next(address, reading)
                screen.note(trouble)
                screen.hindrances = screen.hindrances if trouble else hindrances(url, reading)
                live.update(OnScreen(screen, reading), refresh=True)
        except KeyboardInterrupt:
            return


def _next(address: str, before: Reading) -> tuple[Reading, str]:
    """The next reading and "". If the service does not answer, for instance while it is started again: the reading
    before, and the reason.
    """
    try:
        return _read(address, Reading(before.at, before.samples)), ""
    except UnreachableError as error:
        return before, error.reason


def _read(address: str, before: Reading | None) -> Reading:
    try:
        with urlopen(address, timeout=REQUEST_S) as answer:  # noqa: S310 - the caller has checked the scheme
            text = answer.read().decode()
            if answer.status != HTTPStatus.OK:
                raise UnreachableError(address, f"it answered {answer.status}")
            samples = parsed(text)
    except (URLError, OSError, OverflowError, HTTPException) as error:
        raise UnreachableError(address, str(getattr(error, "reason", error))) from None
    except ValueError:
        raise UnreachableError(address, "the answer is no page of metrics") from None
    if not any(name.startswith("sluice_") for name in samples):
        raise UnreachableError(address, "the answer has metrics of another program")
    return Reading(time.monotonic(), samples, before)


def hindrances(url: str, reading: Reading) -> dict[str, str]:
    """By pipeline whose standby cannot take over: why, as `/readyz` says. The metrics have only that it cannot."""
    names = [labels["pipeline"] for labels, ready in reading.values("sluice_standby_ready") if not ready]
    if not names:
        return {}
    request = Request(f"{url}/readyz", headers={"Accept": "application/json"})  # noqa: S310 - the caller has checked it
    try:
        try:
            answer = urlopen(request, timeout=REQUEST_S)  # noqa: S310
        except HTTPError as error:  # the status of a service that is not ready
            answer = error
        with answer:
            described = json.load(answer)
    except (OSError, HTTPException, ValueError):
        return {}
    pipelines = described.get("pipelines", ()) if isinstance(described, dict) else ()
    return {one["name"]: one["trouble"] for one in pipelines if one.get("name") in names and one.get("trouble")}


# ---- the screen ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Screen:
    """The contents of the terminal. `now` gives the seconds since 1970.

    pipeline   the only pipeline to show; None: all
    trouble    why the service does not answer; empty if it does
    answered   when it answered for the last time, seconds since 1970
    hindrances by pipeline whose standby cannot take over: why
    """

    url: str
    pipeline: str | None
    now: Callable[[], float]
    trouble: str = ""
    answered: float = 0.0
    hindrances: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.answered = self.now()

    def note(self, trouble: str) -> None:
        """Stores why the service does not answer. An empty `trouble` means that it has answered now."""
        self.trouble = trouble
        if not trouble:
            self.answered = self.now()

    def parts(self, reading: Reading, width: int) -> list[RenderableType]:
        """The lines and tables of a screen of `width` letters."""
        names = reading.labels("sluice_build_info", "pipeline")
        now = self.now()
        found: list[RenderableType] = [*self._head(reading, now, width)]
        if len(names) > 1 and self.pipeline is None:
            found += [Text(), _overview(reading, names, width)]
        for name in names if self.pipeline is None else [self.pipeline]:
            found += [Text(), _pipeline(reading, name, now, width), *self._hindrance(name)]
            found.append(_streams(reading, name, width))
            found += [_operators(reading, name, width), *_clocks(reading, name, width)]
        return found if names else [*found, Text("no pipeline runs")]

    def _hindrance(self, name: str) -> list[Text]:
        words = self.hindrances.get(name)
        return [Text(words, "red")] if words else []

    def _head(self, reading: Reading, now: float, width: int) -> list[Text]:
        memory = {label["process"]: value for label, value in reading.values("sluice_memory_bytes")}
        sizes = [f"{process} {_size(value)}" for process, value in memory.items()]
        line = ["sluice top", self.url, f"{datetime.fromtimestamp(now, UTC):%H:%M:%S} UTC"]
        found = [_phrases([Text(phrase, "bold") for phrase in line], width)]
        if sizes:
            found.append(_phrases([Text(phrase) for phrase in ["memory:", *sizes]], width))
        if self.trouble:
            last = f"{datetime.fromtimestamp(self.answered, UTC):%H:%M:%S} UTC"
            words = f"no answer for {now - self.answered:,.0f} s: {self.trouble}. What follows was true at {last}."
            found.append(Text(words, "bold red"))
        return found


@dataclass(frozen=True, slots=True)
class OnScreen:
    """A screen at a reading, as many lines of it as the terminal has."""

    screen: Screen
    reading: Reading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        group = Group(*self.screen.parts(self.reading, options.max_width))
        lines = console.render_lines(group, options.update(height=None), pad=False)
        if len(lines) > height:
            one = "" if self.screen.pipeline else "; --pipeline NAME shows one pipeline"
            words = f"{len(lines) - height + 1} more lines{one}"
            lines = [*lines[: height - 1], [Segment(words[: options.max_width], console.get_style("dim"))]]
        for number, line in enumerate(lines):
            yield from [Segment.line(), *line] if number else line


def _overview(reading: Reading, names: Sequence[str], width: int) -> Table:
    """A row for each pipeline, with the sums of its streams."""
    dead_letters = "dead" if width < MEDIUM else "dead letters"
    table = _table(width, "pipeline", "state", "read", "written", dead_letters, "unread")
    table.columns[1].justify = "left"
    for name in names:
        series = {"pipeline": name}
        dead = reading.rate("sluice_dead_letters_total", **series)
        unread = reading.value("sluice_lag_records", **series) or 0.0
        table.add_row(
            Text(name, "bold cyan"),
            _state(reading, name),
            _rate(reading.rate("sluice_records_read_total", **series)),
            _rate(reading.rate("sluice_records_written_total", **series)),
            Text(_rate(dead), "red" if dead else ""),
            Text(_count(unread), "bold yellow" if unread else ""),
        )
    return table


def _state(reading: Reading, name: str) -> Text:
    if reading.value("sluice_leader", pipeline=name) == 0:
        if reading.value("sluice_standby_ready", pipeline=name) == 0:
            return Text("standby, not ready", "bold red")
        return Text("standby", "yellow")
    running = reading.value("sluice_pipeline_running", pipeline=name)
    return Text() if running is None else Text("running", "green") if running else Text("not running", "red")


def _pipeline(reading: Reading, name: str, now: float, width: int) -> Text:
    unread = reading.value("sluice_lag_records", pipeline=name) or 0.0
    times = [known(value) for _, value in reading.values("sluice_last_batch_timestamp_seconds", pipeline=name)]
    last = max([value for value in times if value is not None], default=None)
    took = reading.mean("sluice_batch_duration_seconds", pipeline=name)
    latency = reading.mean("sluice_record_latency_seconds", pipeline=name)
    state = sum(value for _, value in reading.values("sluice_state_bytes", pipeline=name))
    phrases = [
        Text(name, "bold cyan"),
        _state(reading, name),
        Text(f"unread {unread:,.0f}", "bold yellow" if unread else ""),
        Text(f"batches {_rate(reading.rate('sluice_batches_total', pipeline=name))}"),
        Text(f"mean batch {_seconds(took)}"),
        Text(f"latency {_seconds(latency)}"),
        Text("no batch yet" if last is None else f"last batch {_duration(now - last)} ago"),
        Text(f"state {_size(state)}"),
    ]
    return _phrases([phrase for phrase in phrases if phrase], width)


def _streams(reading: Reading, name: str, width: int) -> Table:
    narrow = width < MEDIUM
    table = _table(width, "stream", "read", "written", *(("dead", "watermark") if narrow else LONG))
    for stream in dict.fromkeys([
        *reading.labels("sluice_records_read_total", "stream", pipeline=name),
        *reading.labels("sluice_records_written_total", "stream", pipeline=name),
    ]):  # fmt: skip
        series = {"pipeline": name, "stream": stream}
        dead = reading.rate("sluice_dead_letters_total", **series)
        table.add_row(
            stream,
            _rate(reading.rate("sluice_records_read_total", **series)),
            _rate(reading.rate("sluice_records_written_total", **series)),
            Text(_rate(dead), style="red" if dead else ""),
            _moment(known(reading.value("sluice_watermark_timestamp_seconds", **series)), short=narrow),
        )
    return table


def _operators(reading: Reading, name: str, width: int) -> Table:
    table = _table(width, "operator", "in", "out", "fired", "partitions", "tuples")
    for operator in reading.labels("sluice_operator_tuples_read_total", "operator", pipeline=name):
        series = {"pipeline": name, "operator": operator}
        table.add_row(
            operator,
            _rate(reading.rate("sluice_operator_tuples_read_total", **series)),
            _rate(reading.rate("sluice_operator_tuples_written_total", **series)),
            _rate(reading.rate("sluice_windows_fired_total", **series)),
            _count(reading.value("sluice_window_partitions", **series)),
            _count(reading.value("sluice_window_tuples", **series)),
        )
    return table


def _clocks(reading: Reading, name: str, width: int) -> list[Text]:
    """A line for each stage: its operator clock, and when the clock alone causes the next output."""
    found = []
    stages = reading.labels("sluice_clock_timestamp_seconds", "stage", pipeline=name)
    for stage in stages:
        series = {"pipeline": name, "stage": stage}
        clock = known(reading.value("sluice_clock_timestamp_seconds", **series))
        due = known(reading.value("sluice_next_firing_timestamp_seconds", **series))
        of = f" of {stage}" if len(stages) > 1 else ""
        words = [f"clock{of}: {_moment(clock)}", "no timer is due" if due is None else f"next timer {_moment(due)}"]
        found.append(_phrases([Text(phrase, "dim") for phrase in words], width))
    return found


def _table(width: int, first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    names, numbers = (24, 12) if width >= WIDE else (16, 9) if width >= MEDIUM else (8, 4)
    table.add_column(first, min_width=names, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", min_width=numbers, no_wrap=True)
    return table


def _phrases(phrases: Sequence[Text], width: int) -> Text:
    """The phrases with two spaces between them. Lines break between phrases only."""
    found, column = Text(), 0
    for phrase in phrases:
        if column and column + 2 + phrase.cell_len > width:
            found.append("\n  ")
            column = 2
        elif column:
            found.append("  ")
            column += 2
        found.append_text(phrase)
        column += phrase.cell_len
    return found


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


def _moment(seconds: float | None, *, short: bool = False) -> str:
    """A time in UTC; `short`: without the year."""
    if seconds is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):{'%m-%d' if short else '%Y-%m-%d'} %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "beyond the calendar"
