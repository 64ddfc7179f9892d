"""`sluice explain FILE... | FOLDER`: describes how the service would run pipeline files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from sluice.commands import options
from sluice.commands.check import connections
from sluice.config.load import load
from sluice.planning.explain_drawing import drawing
from sluice.planning.explain_plan import lines, plan
from sluice.planning.pipeline_set import cautions
from sluice.running.pipeline_folder import load_all


@click.command()
@options.pipeline_files
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), help="Also write a drawing of the FILE to this file."
)
def explain(files: tuple[Path, ...], svg: Path | None) -> None:
    """Describe how the service would run the pipeline FILE: stages, buckets, state, and when each window fires.

    With several FILEs or a FOLDER it describes each, and the topics that connect them. The command needs neither Kafka
    nor Spark. Exit code 1: a file is wrong.
    """
    if svg is not None and (len(files) > 1 or options.folder_of(files)):
        raise click.UsageError("--svg draws one FILE")
    pipelines = load_all(options.files_of(files), partial(load, environment=None))
    for number, pipeline in enumerate(pipelines.values()):
        stages = plan(pipeline)
        for line in ([""] if number else []) + list(lines(pipeline, stages)):
            click.echo(line)
        if svg is not None:
            options.write(svg, drawing(pipeline, stages))
    connecting = [*connections(list(pipelines.values())), *map(str, cautions(pipelines))]
    for line in ["", *connecting] if connecting else []:
        click.echo(line)
