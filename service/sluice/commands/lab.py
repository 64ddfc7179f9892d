"""`sluice lab [FILE [EVENTS]] [--topic TOPIC]`: serves a local page on which pipelines are tried out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sluice.arrow_without_pandas import keep_pandas_out
from sluice.commands import options
from sluice.commands.init import LIMIT, drafted
from sluice.config.load import load
from sluice.files import project_file
from sluice.model.kafka_properties import servers
from sluice.model.spec import Pipeline
from sluice.processes import collect_garbage_rarely

#: records of each topic partition, if the call does not say how many
LAST = 100


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("events", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=8765, help="Port of the page; 0: any free port.")
@click.option(
    "--topic", "topics", multiple=True, help="Start with the last records of this topic. Repeatable if FILE reads more."
)
@click.option(
    "--last", type=click.IntRange(1, 500), default=LAST, show_default=True, help="Records of each topic partition."
)
@options.kafka
@options.registry
def lab(  # noqa: PLR0917 - click passes them by name
    file: Path | None, events: Path | None, port: int, topics: tuple[str, ...], last: int, kafka: dict[str, str],
    registry: dict[str, str],
) -> None:  # fmt: skip
    """Try out pipelines on a page in the browser: edit the file and the events, and watch the windows.

    \b
    sluice lab
    sluice lab trades.yaml trades.jsonl
    sluice lab trades.yaml --topic trades
    sluice lab --topic trades --kafka bootstrap.servers=localhost:9092

    Starts with the pipeline FILE and its EVENTS, or with the examples, which need neither Kafka nor Spark. With
    --topic the events are the last records of the topic, as `sluice record` prints them; without FILE the pipeline is
    the draft of `sluice init`. Nothing is written to Kafka. Only this machine can open the page.
    """  # noqa: D301 - click looks for the character itself
    if topics and events:
        message = "give EVENTS or --topic, not both"
        raise click.UsageError(message)
    from sluice.lab.lab_server import presets, recorded, serve  # noqa: PLC0415 - other commands start faster without it

    keep_pandas_out()
    collect_garbage_rarely()
    sys.path.append(str(project_file("examples").parent))  # the example gaps.yaml has a handler in Python
    offered = presets(file, events)
    if topics:
        pipeline = load(file) if file else None
        kafka = (dict(pipeline.settings.kafka) if pipeline else {}) | kafka
        read = _read(_streams(pipeline, topics), last, kafka)
        name = file.name if file else f"{topics[0]}.yaml"
        text = file.read_text(encoding="utf-8") if file else drafted(topics[0], LIMIT, name, kafka, registry)
        offered = {name: recorded(name, str(file or name), text, read)} | {
            preset_name: preset for preset_name, preset in offered.items() if preset_name != name
        }
    serve(offered, port, lambda address: click.echo(f"The lab is at {address} (Ctrl+C ends it)"))


def _streams(pipeline: Pipeline | None, topics: Sequence[str]) -> dict[str, str | None]:
    """The name of the stream that the events of each topic get; None if there is only one input. Raises UsageError for
    a topic that the file does not read.
    """
    if pipeline is None:
        if len(topics) > 1:
            message = "several --topic need a pipeline FILE that reads them"
            raise click.UsageError(message)
        return {topics[0]: None}
    inputs = {str(stream.topic): stream.name for stream in pipeline.inputs}
    for topic in topics:
        if topic not in inputs:
            message = f"the pipeline {pipeline.name} reads no topic {topic}; it reads {', '.join(inputs)}"
            raise click.UsageError(message)
    return {topic: inputs[topic] if len(inputs) > 1 else None for topic in topics}


def _read(streams: dict[str, str | None], last: int, kafka: dict[str, str]) -> list[dict[str, Any]]:
    """The last records of the topics as events."""
    if not servers(kafka):
        message = "--topic needs --kafka bootstrap.servers=HOST:PORT, or a FILE with this property"
        raise click.UsageError(message)
    from sluice.inspect.record_topic import record  # noqa: PLC0415 - it imports the Kafka client

    where = f"{', '.join(streams)} at {servers(kafka)}"
    click.echo(f"sluice: reading the last {last:,} records of each topic partition of {where}", err=True)
    read = list(record(kafka, streams, last))
    click.echo(f"sluice: {len(read):,} records read", err=True)
    return read
