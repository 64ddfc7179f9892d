"""`sluice replay FILE EVENTS`: runs a pipeline over events in a file, without Spark and Kafka."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
import orjson

from sluice.arrow_without_pandas import keep_pandas_out
from sluice.columns.json_columns import written_values
from sluice.commands import options
from sluice.compiler.progress import reported
from sluice.config.load import load
from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.ops.log_lines import configure
from sluice.processes import collect_garbage_rarely
from sluice.replayer.player import BATCH
from sluice.replayer.player import replay as replayed

if TYPE_CHECKING:
    from sluice.inspect.verify import ComparisonReport

#: maximum bytes of events from a pipe, which are copied to a temporary file for the duration of the replay
MAX_PIPED = 1 << 30
CHUNK = 1 << 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("events", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--clock-origin",
    metavar="TIME|first",
    help="Origin of the timers: seconds or ISO 8601, or the first event [default: that of the FILE, or 0; the first "
    "event for plain records and for times in ISO 8601].",
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=BATCH, help="Events per batch. The output does not depend on it."
)
@click.option("--trace", is_flag=True, help="Also print the events of the windows.")
@click.option(
    "--at", metavar="FIELD", help="EVENTS has plain records, one JSON object per line, with their time in FIELD."
)
@click.option("--stream", help="The input of plain records, if there are several inputs.")
@click.option("--partitions", type=click.IntRange(1, 10_000), help="Topic partitions of each input, chosen by keys.")
@click.option("--timeline", is_flag=True, help="Print the windows after each event as a table, instead of the records.")
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw the windows into this file, instead."
)
@click.option("--quiet", "-q", is_flag=True, help="Print neither the summary nor progress to standard error.")
@click.option(
    "--checkpoint",
    is_flag=False,
    flag_value="",
    metavar="[FOLDER]",
    help="Rerun and verify the service's last batches.",
)
@options.kafka
def replay(
    file: Path, events: str | None, clock_origin: str | None, batch: int,
    *, checkpoint: str | None, kafka: dict[str, str], trace: bool, quiet: bool, at: str | None, stream: str | None,
    partitions: int | None, timeline: bool, svg: Path | None,
) -> None:  # fmt: skip
    """Run the pipeline FILE over EVENTS, one JSON object per line (`-`: standard input), and print the output.

    \b
    {"at": 1.5, "tuple": {"x": 1}}       a tuple at 1.5 seconds of the operator clock
    {"at": 2.0, "punct": "window"}       a mark, "window" or "final"
    {"at": 9.0}                          the clock advances
    `at` may also be a time in ISO 8601: {"at": "2026-01-01T10:00:00Z", ...}. All events have the same form.
    An event has "stream" if the pipeline has several inputs, and may have "topic_partition".

    At the end a summary is printed to standard error: the numbers of inputs and outputs, and why an operator wrote
    nothing.

    With --checkpoint instead of EVENTS, the last batches of the service are read again from the input topics, as far
    back as the checkpoint (that of the FILE, or FOLDER) records them. The output is compared with the output topics.
    The service may run meanwhile. Prints the first difference of each topic partition. Exit code 1: there is one.
    """  # noqa: D301 - click looks for the character itself
    if (checkpoint is None) == (events is None):
        message = "expected either EVENTS or --checkpoint"
        raise click.UsageError(message)
    if events is None:
        served = load(file, overrides=options.given(kafka=kafka, checkpoint=checkpoint))
        sys.exit(repeat_batches(served))
    keep_pandas_out()
    collect_garbage_rarely()
    pipeline = load(file, environment=None)
    with _file(events) as (path, name):
        origin: dict[str, Any] = {
            "name": name, "clock_origin": clock_origin, "at": at, "stream": stream, "partitions": partitions,
        }  # fmt: skip
        if timeline or svg is not None:
            show_story(pipeline, path, origin, timeline=timeline, svg=svg)
            return
        lines: list[str] = []
        records = replayed(
            pipeline, path, **origin, batch=batch, trace=trace, ended=lines.append, values=written_values
        )
        with nullcontext() if quiet else reported():
            sys.stdout.buffer.writelines(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
        sys.stdout.buffer.flush()
    if not quiet:
        for line in lines:
            click.echo(f"sluice: {line}", err=True)


def show_story(pipeline: Pipeline, events: Path, how: dict[str, Any], *, timeline: bool, svg: Path | None) -> None:
    """Writes the SVG file if `svg` names one, and prints the table of the steps if `timeline`.

    `how` has arguments of `build_story`.
    """
    from rich.console import Console  # noqa: PLC0415 - a plain replay needs no pictures

    from sluice.pictures.story_builder import build_story  # noqa: PLC0415
    from sluice.pictures.svg_drawing import drawing  # noqa: PLC0415
    from sluice.pictures.terminal_table import table  # noqa: PLC0415

    story = build_story(pipeline, events, **how)
    if svg is not None:
        options.write(svg, drawing(story))
    if timeline:
        console = Console()
        console.print(table(story, console.width))


def repeat_batches(pipeline: Pipeline) -> int:
    """Compares the records that each stage has written with a repetition of its last batches. Prints each difference.

    Returns the exit code: 1 if a record differs, else 0.
    """
    from sluice.checkpoint.checkpoint_folder import placed_stages  # noqa: PLC0415 - a plain replay needs no checkpoint
    from sluice.inspect.verify import verify  # noqa: PLC0415 - it imports Spark, which takes 1 s

    configure(secrets=pipeline.settings.kafka.secrets)
    differ = False
    for stage in placed_stages(pipeline):
        compared = verify(stage)
        for difference in compared.differences:
            click.echo(orjson.dumps(difference._asdict()))
        differ |= bool(compared.differences)
        click.echo(_comparison(compared), err=True)
    return int(differ)


def _comparison(compared: ComparisonReport) -> str:
    count = len(compared.differences)
    result = f"differences in {count} topic partition(s)" if count else "no difference"
    batches = f"batches {compared.first} to {compared.last}"
    return f"{compared.pipeline}: {batches}, {compared.records:,} output records: {result}"


@contextmanager
def _file(events: str) -> Iterator[tuple[Path, str]]:
    """The path of a regular file with the events, which can be read twice, and the name of the source for messages."""
    name = "<stdin>" if events == "-" else events
    if events != "-" and Path(events).is_file():
        yield Path(events), name
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as copy:
        if events == "-":
            _copy(sys.stdin.buffer, copy, name)
        else:
            with Path(events).open("rb") as pipe:
                _copy(pipe, copy, name)
        yield Path(copy.name), name


def _copy(source: IO[bytes], copy: IO[bytes], name: str) -> None:
    left = MAX_PIPED + 1  # the byte that is too many
    while chunk := source.read(min(CHUNK, left)):
        copy.write(chunk)
        left -= len(chunk)
    if not left:
        message = f"{name}: expected at most {MAX_PIPED >> 20} MiB of events from a pipe, got more; give them as a file"
        raise SluiceError(message)
    copy.flush()
