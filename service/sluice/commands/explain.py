"""`sluice explain FILE`: describes how the service would run a pipeline file."""

from __future__ import annotations

from pathlib import Path

import click

from sluice.commands.output_file import write
from sluice.config.load import load
from sluice.planning.explain.explain_drawing import drawing
from sluice.planning.explain.explain_plan import plan
from sluice.planning.explain.explain_text import lines


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Also write a drawing to this file.")
def explain(file: Path, svg: Path | None) -> None:
    """Describe how the service would run the pipeline FILE: stages, buckets, state, and when each window fires.

    The command needs neither Kafka nor Spark. Exit code 1: the file is wrong.
    """
    pipeline = load(file, environment=None)
    stages = plan(pipeline)
    for line in lines(pipeline, stages):
        click.echo(line)
    if svg is not None:
        write(svg, drawing(pipeline, stages))
