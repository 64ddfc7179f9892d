"""`sluice top`: shows in the terminal what a running service does, from its metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sluice.model.errors import SluiceError
from sluice.ops.metric_samples import Reading, known, parsed

#: maximum seconds of a request
REQUEST_S = 10.0
#: seconds between the two readings of --once, from which its rates follow
ONCE_S = 1.0
MINUTE = 60


class UnreachableError(SluiceError):
    exit_code = 3


@click.command()
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, help="Address of the service's HTTP port.")
@click.option(
    "--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds between two readings."
)
@click.option("--once", is_flag=True, help="Print the tables once, as plain text, and end.")
def top(url: str, interval: float, once: bool) -> None:  # noqa: FBT001 - click passes flags as booleans
    """Show what a running service does: rates, lag, clock and watermarks, operators, batches, memory.

    Reads the metrics of the service (`/metrics`) and refreshes until Ctrl+C. With --once it reads twice, one second
    apart, and prints plain text.
    """
    console = Console()
    address = f"{url.rstrip('/')}/metrics"
    if urlsplit(address).scheme not in {"http", "https"}:
        raise click.BadParameter("expected an address that begins with http:// or https://", param_hint="--url")
    reading = _read(address, None)
    if once:
        time.sleep(ONCE_S)
        console.print(shown(_read(address, reading), url, time.time))
        return
    with Live(shown(reading, url, time.time), console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(interval)
                reading = _next(address, reading)
                live.update(shown(reading, url, time.time), refresh=True)
        except KeyboardInterrupt:
            return


def _next(address: str, before: Reading) -> Reading:
    """The next reading; the one before if the service does not answer, for instance while it is started again."""
    try:
        return _read(address, Reading(before.at, before.samples))
    except UnreachableError:
        return before


def _read(address: str, before: Reading | None) -> Reading:
    try:
        with urlopen(address, timeout=REQUEST_S) as answer:  # noqa: S310 - the caller has checked the scheme
            text = answer.read().decode()
            if answer.status != HTTPStatus.OK:
                raise UnreachableError(f"{address} answered {answer.status}")
            return Reading(time.monotonic(), parsed(text), before)
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise UnreachableError(f"no metrics at {address}: {reason}; does `sluice run` serve this port?") from None
    except ValueError as error:
        raise UnreachableError(f"{address} is no page of metrics: {error}") from None


# ---- the screen ------------------------------------------------------------------------------------------------------


def shown(reading: Reading, url: str, now: Callable[[], float]) -> Group:
    """The tables of all pipelines. `now` gives the seconds since 1970."""
    pipelines = reading.labels("sluice_build_info", "pipeline")
    parts: list[Text | Table] = [_head(reading, url, now())]
    for name in pipelines:
        parts += [Text(), _pipeline(reading, name, now()), _streams(reading, name), _operators(reading, name)]
    if not pipelines:
        parts.append(Text("no pipeline runs"))
    return Group(*parts)


def _head(reading: Reading, url: str, now: float) -> Text:
    memory = {label["process"]: value for label, value in reading.values("sluice_memory_bytes")}
    sizes = ", ".join(f"{process} {value / (1 << 20):,.0f} MiB" for process, value in memory.items())
    return Text(f"sluice top  {url}  {datetime.fromtimestamp(now, UTC):%H:%M:%S} UTC  memory: {sizes}", style="bold")


def _pipeline(reading: Reading, name: str, now: float) -> Text:
    unread = reading.value("sluice_lag_records", pipeline=name) or 0.0
    last = known(reading.value("sluice_last_batch_timestamp_seconds", pipeline=name))
    took = reading.mean("sluice_batch_duration_seconds", pipeline=name)
    latency = reading.mean("sluice_record_latency_seconds", pipeline=name)
    state = sum(value for _, value in reading.values("sluice_state_bytes", pipeline=name))
    running = reading.value("sluice_pipeline_running", pipeline=name)
    text = Text(name, style="bold cyan")
    if running is not None:
        text.append("  running" if running else "  not running", style="green" if running else "red")
    text.append(f"  batches {_rate(reading.rate('sluice_batches_total', pipeline=name))}", style="not bold default")
    text.append(f"  mean batch {_seconds(took)}  latency {_seconds(latency)}", style="not bold default")
    text.append(f"  last {_seconds(None if last is None else now - last)} ago", style="not bold default")
    text.append(f"  state {state / (1 << 20):,.1f} MiB", style="not bold default")
    text.append(f"  unread {unread:,.0f}", style="bold yellow" if unread else "not bold default")
    return text


def _streams(reading: Reading, name: str) -> Table:
    table = _table("stream", "read", "written", "dead letters", "watermark (UTC)")
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
            _moment(known(reading.value("sluice_watermark_timestamp_seconds", **series))),
        )
    return table


def _operators(reading: Reading, name: str) -> Table:
    table = _table("operator", "in", "out", "fired", "partitions", "tuples")
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
    for stage in reading.labels("sluice_clock_timestamp_seconds", "stage", pipeline=name):
        series = {"pipeline": name, "stage": stage}
        clock = known(reading.value("sluice_clock_timestamp_seconds", **series))
        due = known(reading.value("sluice_next_firing_timestamp_seconds", **series))
        table.caption = f"clock of {stage}: {_moment(clock)}, next due {_moment(due)}"
        table.caption_justify = "left"
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column(first, min_width=24)
    for name in others:
        table.add_column(name, justify="right", min_width=12)
    return table


def _rate(per_second: float | None) -> str:
    if per_second is None:
        return "-"
    small = 0 < per_second < 1
    return f"{per_second * MINUTE:,.1f}/min" if small else f"{per_second:,.0f}/s"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.1f} s"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "beyond the calendar"
