"""`sluice record TOPIC`: writes the last records of a topic as events for `sluice replay`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson

from sluice.commands import options
from sluice.config.load import load

#: records of each topic partition, if the call does not say how many
LIMIT = 100_000


@click.command()
@click.argument("topic")
@click.option("--pipeline", type=click.Path(path_type=Path), help="The pipeline file whose Kafka properties are used.")
@click.option(
    "--last", type=click.IntRange(1), default=LIMIT, show_default=True, help="Records of each topic partition."
)
@options.kafka
def record(topic: str, pipeline: Path | None, last: int, kafka: dict[str, str]) -> None:
    """Print the last records of TOPIC, one event a line, in the order of their timestamps.

    \b
    sluice record trades --pipeline trades.yaml > events.jsonl
    sluice replay trades.yaml events.jsonl --clock-origin first

    An event has the timestamp, the topic partition, the key, the value and the headers of its record, so a replay
    handles it as the service does: dead letters and marks in headers included.
    """  # noqa: D301 - click looks for the character itself
    properties = dict(load(pipeline).settings.kafka) if pipeline else {}
    properties |= kafka
    if "bootstrap.servers" not in properties:
        message = "it needs --pipeline FILE or --kafka bootstrap.servers=HOST:PORT"
        raise click.UsageError(message)
    from sluice.inspect.record_topic import record as read  # noqa: PLC0415 - it imports the Kafka client

    events = read(properties, topic, last)
    sys.stdout.buffer.writelines(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE) for event in events)
    sys.stdout.buffer.flush()
