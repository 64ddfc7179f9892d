"""`sluice check FILE`: reports all problems of a pipeline file or, if it has none, a summary of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from sluice.config.load import check as check_file
from sluice.model.errors import MAX_FINDINGS
from sluice.model.spec import Pipeline, Stream
from sluice.model.types import Schema


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def check(context: click.Context, file: Path) -> None:
    """Check the pipeline FILE. Print all problems or, if there are none, a summary of the pipeline.

    Exit code: 0 if the service would accept the file, otherwise 1.
    """
    pipeline, problems, cautions = check_file(file)
    for finding in (*problems, *cautions):
        click.echo(finding)
    if pipeline is None:
        click.echo(counted(len(problems)), err=True)
        context.exit(1)
    for line in summary(pipeline):
        click.echo(line)


def counted(problems: int) -> str:
    more = ", perhaps more: the check stops at this number" if problems == MAX_FINDINGS else ""
    return f"{problems} {'problem' if problems == 1 else 'problems'}{more}"


def summary(pipeline: Pipeline) -> Iterator[str]:
    yield f"pipeline {pipeline.name}"
    for stream in pipeline.streams.values():
        yield f"  stream {stream.name}: {role(stream, pipeline)}"
    for operator in pipeline.operators:
        outputs = ", ".join(output.stream for output in operator.outputs)
        yield f"  operator {operator.name}: {', '.join(operator.inputs)} -> {outputs}"


def role(stream: Stream, pipeline: Pipeline) -> str:
    where = f"topic {stream.topic}" if stream.topic else "inside the service"
    if stream.name == pipeline.dead_letters:
        return f"{where}, dead letters"
    return f"{where}, {attributes(stream.schema)}"


def attributes(schema: Schema) -> str:
    return "{" + ", ".join(f"{name}: {kind}" for name, kind in schema) + "}"
