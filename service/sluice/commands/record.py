"""`sluice record`: writes the last records of topics as events for `sluice replay`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson

from sluice.commands import options
from sluice.config.load import load
from sluice.model.kafka_properties import servers

#: records of each topic partition, if the call does not say how many
LIMIT = 100_000


@click.command()
@click.argument("topic", required=False)
@click.option(
    "--pipeline", type=click.Path(path_type=Path), help="The pipeline file whose inputs and Kafka properties are used."
)
@click.option(
    "--last", type=click.IntRange(1), default=LIMIT, show_default=True, help="Records of each topic partition."
)
@options.kafka
def record(topic: str | None, pipeline: Path | None, last: int, kafka: dict[str, str]) -> None:
    """Print the last records of TOPIC, one event a line, in the order of their timestamps. Without TOPIC: of all topics
    that the pipeline file reads.

    \b
    sluice record --pipeline trades.yaml > events.jsonl
    sluice replay trades.yaml events.jsonl --clock-origin first

    An event has the timestamp, the topic partition, the key, the value and the headers of its record, so a replay
    handles it as the service does: dead letters and marks in headers included. If the pipeline file has several inputs,
    the event names its stream.
    """  # noqa: D301 - click looks for the character itself
    if topic is None and pipeline is None:
        message = "it needs a TOPIC, or --pipeline FILE for all topics that the FILE reads"
        raise click.UsageError(message)
    loaded = load(pipeline) if pipeline else None
    inputs = {str(stream.topic): stream.name for stream in loaded.inputs} if loaded else {}
    properties = (dict(loaded.settings.kafka) if loaded else {}) | kafka
    if not servers(properties):
        message = "it needs --kafka bootstrap.servers=HOST:PORT, or a --pipeline FILE with this property"
        raise click.UsageError(message)
    from sluice.inspect.record_topic import record as read  # noqa: PLC0415 - it imports the Kafka client

    named = inputs if len(inputs) > 1 else {}
    events = read(properties, {name: named.get(name) for name in (inputs if topic is None else [topic])}, last)
    sys.stdout.buffer.writelines(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE) for event in events)
    sys.stdout.buffer.flush()
