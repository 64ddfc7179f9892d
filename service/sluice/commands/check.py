"""`sluice check FILE... | FOLDER`: reports all problems of pipeline files or, if there are none, a summary of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from sluice.commands import options
from sluice.config.load import check as check_file
from sluice.model.envelopes.change_events import Envelope
from sluice.model.errors import MAX_FINDINGS
from sluice.model.expressions import Attribute
from sluice.model.spec import Output, Pipeline, Stream
from sluice.model.spreading import writer_lines
from sluice.model.stages import stages
from sluice.model.stream_marks import written_marks
from sluice.model.types import Schema
from sluice.model.unparse import nulls
from sluice.planning.pipeline_set import cautions, links, problems


@click.command()
@options.pipeline_files
@click.pass_context
def check(context: click.Context, files: tuple[Path, ...]) -> None:
    """Check the pipeline FILE, several FILEs, or all files of a FOLDER. Print all problems, or a summary of each file.

    Several pipelines are also checked together: names, checkpoint folders and topics that two of them write are
    problems, and a cycle of pipelines through topics is a warning.

    Exit code: 0 if the service would accept the files, otherwise 1.
    """
    paths = options.files_of(files)
    right: dict[str, Pipeline] = {}
    wrong = 0
    for path in paths:
        pipeline, problems_in_file, hints = check_file(path)
        for finding in (*problems_in_file, *hints):
            click.echo(finding)
        wrong += len(problems_in_file)
        if pipeline is not None:
            right[str(path)] = pipeline
    between_pipelines = problems(right)
    for finding in (*between_pipelines, *cautions(right)):
        click.echo(finding)
    if wrong or between_pipelines:
        click.echo(counted(wrong + len(between_pipelines)), err=True)
        context.exit(1)
    for pipeline in right.values():
        for line in summary(pipeline):
            click.echo(line)
    for line in connections(list(right.values())):
        click.echo(line)


def counted(problems: int) -> str:
    more = ", perhaps more: the check stops at this number" if problems == MAX_FINDINGS else ""
    return f"{problems} {'problem' if problems == 1 else 'problems'}{more}"


def connections(pipelines: list[Pipeline]) -> Iterator[str]:
    """A line for each topic that one of these pipelines writes and another one reads."""
    for link in links(pipelines):
        yield f"topic {link.topic}: {link.writer} -> {link.reader}"


def summary(pipeline: Pipeline) -> Iterator[str]:
    yield f"pipeline {pipeline.name}"
    for stream in pipeline.streams.values():
        yield f"  stream {stream.name}: {role(stream, pipeline)}"
    for operator in pipeline.operators:
        outputs = ", ".join(output.stream for output in operator.outputs)
        yield f"  operator {operator.name}: {', '.join(operator.inputs)} -> {outputs}"
        for output in operator.outputs:
            yield from (f"    {output.stream}.{line}" for line in nulls_of(output))
    yield from writers_of(pipeline)


def writers_of(pipeline: Pipeline) -> Iterator[str]:
    """For each output a line that says who writes it; no lines unless the file has `writers: buckets`."""
    if pipeline.settings.writers == "buckets":
        for stage in stages(pipeline):
            yield from (f"  writer of {line}" for line in writer_lines(stage))


def nulls_of(output: Output) -> Iterator[str]:
    """A line for each attribute that may be null, with what its null comes from (NU31)."""
    for name, value in output.attributes:
        if value.type.optional and not isinstance(value, Attribute):
            yield f"{name} may be null: {nulls(value)} may be"


def role(stream: Stream, pipeline: Pipeline) -> str:
    where = f"topic {stream.topic}" if stream.topic else "inside the service"
    if stream.name == pipeline.dead_letters:
        return f"{where}, dead letters"
    table = (", a table" if stream.table else "") + envelope_in_words(stream.envelope)
    marks = f", {written_marks(pipeline, stream)}" if stream in pipeline.outputs else ""
    return f"{where}{table}, {attributes(stream.schema)}{marks}"


def envelope_in_words(envelope: Envelope | None) -> str:
    if envelope is None:
        return ""
    return f", envelope {envelope.word}{', deletes included' if envelope.deletes else ''}"


def attributes(schema: Schema) -> str:
    return "{" + ", ".join(f"{name}: {kind}" for name, kind in schema) + "}"
