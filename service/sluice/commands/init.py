"""`sluice init --topic TOPIC`: writes a first pipeline file for a topic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from pathlib import Path

import click

from sluice.commands import options
from sluice.config.load import check_text
from sluice.model.errors import PipelineError, SluiceError
from sluice.model.kafka_properties import servers

#: records of each topic partition that are read
LIMIT = 1000


@click.command()
@click.option("--topic", required=True, help="The topic to read.")
@click.option(
    "--last", type=click.IntRange(1), default=LIMIT, show_default=True, help="Records of each topic partition to read."
)
@options.kafka
@options.registry
@click.argument("file", type=click.Path(path_type=Path), required=False)
def init(topic: str, last: int, kafka: dict[str, str], registry: dict[str, str], file: Path | None) -> None:
    """Write a first pipeline FILE for a topic, with comments [default: TOPIC.yaml; `-`: standard output].

    \b
    sluice init --topic trades --kafka bootstrap.servers=localhost:9092
    sluice check trades.yaml

    It reads the last records of the topic, finds their attributes and types, and writes a file that `check` accepts and
    `replay` runs. The records are JSON objects, or Avro with a schema registry (--registry). It overwrites no FILE.
    """  # noqa: D301 - click looks for the character itself
    if not servers(kafka):
        message = "it needs --kafka bootstrap.servers=HOST:PORT"
        raise click.UsageError(message)
    if registry and "url" not in registry:
        message = "it needs --registry url=http://HOST:PORT"
        raise click.UsageError(message)
    file = file or Path(f"{topic}.yaml")
    if str(file) != "-" and file.exists():
        message = f"{file} exists; name another FILE, or `-` for standard output"
        raise click.UsageError(message)
    text = drafted(topic, last, str(file), kafka, registry)
    if str(file) == "-":
        click.echo(text, nl=False)
        return
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        message = f"cannot write {file} ({error.strerror})"
        raise SluiceError(message) from error
    for line in _next(topic, file):
        click.echo(line)


def drafted(topic: str, last: int, file: str, kafka: dict[str, str], registry: dict[str, str]) -> str:
    """The text of a pipeline file for the topic, which `check` accepts."""
    from sluice.draft.draft_pipeline import draft  # noqa: PLC0415 - the call may be wrong, and this takes 0.2 s
    from sluice.draft.sampled_records import Sampled, sample  # noqa: PLC0415
    from sluice.inspect.record_topic import known_as_compacted, last_values  # noqa: PLC0415

    sampled = sample(topic, list(starmap(Sampled, last_values(kafka, topic, last))), registry)
    text = draft(topic, sampled, file, kafka, registry, compacted=known_as_compacted(kafka, topic))
    checked = check_text(text, file, environment=None)
    if checked.problems:
        raise PipelineError(checked.problems)
    return text


def _next(topic: str, file: Path) -> Iterator[str]:
    events = file.with_suffix(".jsonl")
    yield f"wrote {file}. Next:"
    yield f"  sluice explain {file}"
    yield f"  sluice record {topic} --pipeline {file} > {events}"
    yield f"  sluice replay {file} {events} --clock-origin first"
    yield f"  sluice run {file}"
