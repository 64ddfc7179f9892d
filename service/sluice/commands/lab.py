"""`sluice lab [FILE [EVENTS]]`: serves a local page on which pipelines are tried out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sluice.arrow_without_pandas import keep_pandas_out
from sluice.files import project_file
from sluice.processes import collect_garbage_rarely


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("events", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=8765, help="Port of the page; 0: any free port.")
def lab(file: Path | None, events: Path | None, port: int) -> None:
    """Try out pipelines on a page in the browser: edit the file and the events, and watch the windows.

    Starts with the pipeline FILE and its EVENTS, or with the examples. It needs neither Kafka nor Spark. Only this
    machine can open the page.
    """
    from sluice.lab.lab_presets import presets  # noqa: PLC0415 - other commands start faster without it
    from sluice.lab.lab_server import serve  # noqa: PLC0415

    keep_pandas_out()
    collect_garbage_rarely()
    sys.path.append(str(project_file("examples").parent))  # the example gaps.yaml has a handler in Python
    serve(presets(file, events), port, lambda address: click.echo(f"The lab is at {address} (Ctrl+C ends it)"))
