"""`sluice init --topic TOPIC`: writes a first pipeline file for a topic, or for the records in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.arrow_without_pandas import keep_pandas_out
from sluice.commands import options
from sluice.compiler.progress import reported
from sluice.config.load import check_text, load_text
from sluice.model.errors import PipelineError, SluiceError, nearest
from sluice.model.kafka_properties import servers

if TYPE_CHECKING:
    from sluice.draft.draft_pipeline import Traits
    from sluice.draft.sampled_records import Sample
    from sluice.draft.user_choices import Choices

SCHEMA_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
#: records of each topic partition that are read
LIMIT = 1000
#: records that the draft is run over
REPLAYED = 200
#: the answer that leaves a role empty
NONE = "-"


@click.command()
@click.option("--topic", help="The topic to read; with --records the topic that the file names.")
@click.option(
    "--records",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    help="Read a file instead: events of `sluice record`, or values of records (`-`: standard input).",
)
@click.option(
    "--last", type=click.IntRange(1), default=LIMIT, show_default=True, help="Records of each topic partition to read."
)
@click.option("--yes", "-y", is_flag=True, help="Ask nothing.")
@click.option("--proto", type=SCHEMA_FILE, help="The `.proto` file of records in Protobuf.")
@click.option("--descriptor", type=SCHEMA_FILE, help="In place of --proto, a compiled descriptor (FileDescriptorSet).")
@click.option("--message", help="The name of the message, if the file has several.")
@click.option("--avro-schema", type=SCHEMA_FILE, help="The file with the schema of records in Avro.")
@options.kafka
@options.registry
@click.argument("file", type=click.Path(path_type=Path), required=False)
def init(  # noqa: PLR0917 - click passes them by name
    topic: str | None, records: Path | None, last: int, yes: bool,  # noqa: FBT001
    proto: Path | None, descriptor: Path | None, message: str | None, avro_schema: Path | None,
    kafka: dict[str, str], registry: dict[str, str], file: Path | None,
) -> None:  # fmt: skip
    """Write a first pipeline FILE for a topic, with comments [default: TOPIC.yaml; `-`: standard output].

    \b
    sluice init --topic trades --kafka bootstrap.servers=localhost:9092
    sluice init --records trades.jsonl
    sluice check trades.yaml

    It reads the last records of the topic, prints their attributes and types, and writes a file that `check` accepts
    and `replay` runs. In a terminal it asks for the key, the time, and what missing values are; Enter accepts. At the
    end it runs the file over the first records. The records are JSON, CSV, text, Avro, Protobuf or JSON with a schema
    registry (--registry), or Protobuf or Avro with a file (--proto, --avro-schema). It overwrites no FILE.
    """  # noqa: D301 - click looks for the character itself
    name, file = _names(topic, records, file, kafka, registry)
    say = _said(file)
    settings = {"proto": proto, "descriptor": descriptor, "message": message, "avro_schema": avro_schema}
    sample, events, traits = _sampled(name, records, last, kafka, registry, settings)
    sample = _beside(sample, file)
    choices = _chosen(sample, say, ask=not yes and str(file) != NONE and _in_terminal())
    text = _drafted(name, sample, str(file), kafka, registry, traits=traits, choices=choices)
    if str(file) == NONE:
        click.echo(text, nl=False)
    else:
        _write(file, text)
    for line in _replayed(text, str(file), events):
        say(line)
    if str(file) != NONE:
        for line in _next(name, file, records, events):
            click.echo(line)


def drafted(topic: str, last: int, file: str, kafka: dict[str, str], registry: dict[str, str]) -> str:
    """The text of a pipeline file for the topic, which `check` accepts."""
    from sluice.draft.user_choices import AUTOMATIC  # noqa: PLC0415 - a lab with a file needs no draft

    sample, _, traits = _sampled(topic, None, last, kafka, registry, {})
    return _drafted(topic, sample, file, kafka, registry, traits=traits, choices=AUTOMATIC)


def _names(
    topic: str | None, records: Path | None, file: Path | None, kafka: Mapping[str, str], registry: Mapping[str, str]
) -> tuple[str, Path]:
    """The topic and the file to write. Raises UsageError if the call lacks something, or the file exists."""
    if topic is None and records is None:
        message = "it needs --topic TOPIC, or --records FILE"
        raise click.UsageError(message)
    if records is None and not servers(kafka):
        message = "it needs --kafka bootstrap.servers=HOST:PORT"
        raise click.UsageError(message)
    if registry and "url" not in registry:
        message = "it needs --registry url=http://HOST:PORT"
        raise click.UsageError(message)
    name = topic or ("records" if str(records) == NONE else Path(str(records)).stem)
    chosen = file or Path(f"{name}.yaml")
    if str(chosen) != NONE and chosen.exists():
        message = f"{chosen} exists; name another FILE, or `-` for standard output"
        raise click.UsageError(message)
    return name, chosen


def _said(file: Path) -> Callable[[str], None]:
    """Prints a line about the draft: to standard error if the draft goes to standard output."""
    return lambda line: click.echo(line, err=str(file) == NONE)


def _in_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _sampled(  # noqa: PLR0917 - what the user has given
    topic: str,
    records: Path | None,
    last: int,
    kafka: dict[str, str],
    registry: dict[str, str],
    settings: Mapping[str, Path | str | None],
) -> tuple[Sample, Sequence[dict[str, Any]], Traits]:
    """The sample, its records as events of a replay, and what is known of the topic."""
    from sluice.draft.draft_pipeline import NO_TRAITS, Traits  # noqa: PLC0415 - the call may be wrong
    from sluice.draft.sampled_records import Sampled, sample  # noqa: PLC0415 - this takes 0.2 s
    from sluice.replayer.event_batches import record_parts  # noqa: PLC0415

    events = list(_of_topic(topic, last, kafka) if records is None else _of_file(records))
    parts = [record_parts(f"record {number}", event, 0)[:3] for number, event in enumerate(events, 1)]
    origins = [(event.get("topic_partition", 0), event["record"].get("timestamp", event["at"])) for event in events]
    named = {key: str(value) for key, value in settings.items() if value is not None}
    rows = [Sampled(*part, *origin) for part, origin in zip(parts, origins, strict=True)]
    sampled = sample(topic, rows, registry, named)
    if records is not None:
        return sampled, events, NO_TRAITS
    from sluice.inspect.record_topic import known_as_compacted, partitions  # noqa: PLC0415

    quiet = len({partition for partition, _ in origins}) < len(partitions(kafka, topic))
    return sampled, events, Traits(compacted=known_as_compacted(kafka, topic), quiet=quiet)


def _beside(sample: Sample, file: Path) -> Sample:
    """The sample with paths of schemas that begin at the folder of the pipeline file."""
    folder = Path() if str(file) == NONE else file.parent
    settings = {
        key: value if key == "message" else os.path.relpath(value, folder) for key, value in sample.settings.items()
    }
    return replace(sample, settings=settings)


def _of_topic(topic: str, last: int, kafka: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The last records of the topic as events, without marks that are no tuples."""
    from sluice.inspect.record_topic import record_tuples  # noqa: PLC0415 - it imports the Kafka client

    return record_tuples(kafka, topic, last)


def _of_file(records: Path) -> list[dict[str, Any]]:
    """The records in a file as events."""
    from sluice.replayer.record_file import events_of  # noqa: PLC0415 - a wrong call needs none

    with click.open_file(str(records), "rb") as file:
        events = list(events_of(file.read()))
    if not events:
        message = f"{records} has no records; `sluice init` needs some to find their attributes"
        raise SluiceError(message)
    return events


def _chosen(sample: Sample, say: Callable[[str], None], *, ask: bool) -> Choices:
    """Prints what the records have, and asks for the choices; without `ask` they are what the records suggest."""
    from sluice.draft.sample_table import findings  # noqa: PLC0415
    from sluice.draft.user_choices import AUTOMATIC, Choices, roles_of  # noqa: PLC0415

    roles = roles_of(sample, AUTOMATIC)
    for line in findings(sample, roles):
        say(line)
    if not ask:
        return AUTOMATIC
    usable = [attribute.name for attribute in sample.usable_attributes]
    times = [attribute.name for attribute in sample.usable_attributes if attribute.is_time]
    key = _asked("Key, a window for each of its values", [attribute.name for attribute in roles.key], usable)
    time = _asked("Time of the events", [roles.time.name] if roles.time else [], times) if times else []
    optional = any(attribute.optional for attribute in sample.usable_attributes)
    missing = not optional or click.confirm("Missing values are null (n: such records are dead letters)", default=True)
    return Choices(key, time[0] if time else "", missing)


def _asked(question: str, suggested: Sequence[str], possible: Sequence[str]) -> list[str]:
    """The names of attributes that the user gives, with commas between them; Enter accepts the suggested ones."""

    def names(answer: str) -> list[str]:
        chosen_names = [] if answer.strip() == NONE else [name.strip() for name in answer.split(",")]
        if unknown := [name for name in chosen_names if name not in possible]:
            near = next(filter(None, (nearest(name, possible) for name in unknown)), "")
            message = f"no attribute {', '.join(unknown)}{f' (did you mean {near}?)' if near else ''}; expected of "
            raise click.UsageError(f"{message}{', '.join(possible)}, or {NONE} for none")
        return chosen_names

    chosen: list[str] = click.prompt(
        f"{question} ({NONE}: none)", default=", ".join(suggested) or NONE, value_proc=names
    )
    return chosen


def _drafted(
    topic: str, sample: Sample, file: str, kafka: dict[str, str], registry: dict[str, str], *, traits: Traits,
    choices: Choices,
) -> str:  # fmt: skip
    from sluice.draft.draft_pipeline import draft  # noqa: PLC0415 - the call may be wrong

    text = draft(topic, sample, file, kafka, registry, traits=traits, choices=choices)
    checked = check_text(text, file, environment=None)
    if checked.problems:
        raise PipelineError(checked.problems)
    return text


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        message = f"cannot write {file} ({error.strerror})"
        raise SluiceError(message) from error


def _replayed(text: str, file: str, events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The results of the draft for the first records."""
    from sluice.draft.sample_table import first_results  # noqa: PLC0415
    from sluice.replayer.player import replay  # noqa: PLC0415 - it imports compiled kernels

    keep_pandas_out()
    pipeline = load_text(text, file, environment=None)
    with reported():
        written = list(replay(pipeline, events[:REPLAYED], clock_origin="first"))
    yield from first_results(written)


def _next(topic: str, file: Path, records: Path | None, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    from sluice.replayer.event_file import WrittenEvent  # noqa: PLC0415 - the call may be wrong

    replayed = file.with_suffix(".jsonl") if records is None else records
    yield f"wrote {file}. Next:"
    yield f"  sluice explain {file}"
    if records is None:
        yield f"  sluice record {topic} --pipeline {file} > {replayed}"
    if records is None or isinstance(events[0], WrittenEvent):
        yield f"  sluice replay {file} {replayed} --clock-origin first"
    yield f"  sluice run {file}"
