"""`sluice run FILE`: runs the service of a pipeline file."""

from __future__ import annotations

from pathlib import Path

import click

from sluice.commands import options
from sluice.config.load import load
from sluice.model.spec import Pipeline
from sluice.ops.log_lines import configure


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Checkpoint folder, overrides that of the FILE.")
@click.option("--buckets", type=click.IntRange(min=1), help="Buckets of a new checkpoint [default: one per core].")
@options.kafka
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port of the page, metrics, health.",
)
@click.option("--no-http", is_flag=True, help="Do not serve the page, metrics and health.")
@click.option(
    "--page",
    type=click.Choice(["local", "open", "off"]),
    default="local",
    show_default=True,
    help="The clients that get the page, which shows the content of topics: programs on this machine, all, or none.",
)
@click.option("--master", default="local[*]", show_default=True, help="Master URL of Spark.")
@click.option("--reset-ledger", is_flag=True, help="Ignore, at this start, the ledger of an earlier checkpoint.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of log lines."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Lowest level of log lines.",
)
@click.option("--until-final", is_flag=True, help="End when every topic partition has sent its final mark.")
def run(  # noqa: PLR0917 - click passes them by name
    file: Path, checkpoint: Path | None, buckets: int | None, kafka: dict[str, str], http_port: int,
    no_http: bool, page: str, master: str, reset_ledger: bool, until_final: bool,  # noqa: FBT001 - click passes flags as booleans
    log_format: str, log_level: str,
) -> None:  # fmt: skip
    """Run the service of the pipeline FILE until SIGTERM or Ctrl-C.

    Exit codes: 0: ended by a signal or --until-final; 1: the file is wrong; 2: the call or a client property is wrong;
    3: Kafka or Java is missing or refuses; 4: the checkpoint is damaged, belongs to another pipeline, or does not fit
    the ledger; 5: another instance is running; 6: a batch failed. After a restart the service continues where it ended,
    without loss or duplicates.
    """
    pipeline = load(file, overrides=options.given(kafka=kafka, checkpoint=checkpoint, buckets=buckets))

    configure(log_level.upper(), pipeline.settings.kafka.secrets, form=log_format)
    from sluice.spark.service import serve  # noqa: PLC0415 - it imports Spark, which takes 1 s and is not needed if the file is wrong

    click.echo(summary(pipeline))
    if pipeline.settings.checkpoint is None:
        click.echo(f"sluice: the file names no checkpoint: the progress is kept in ./{pipeline.checkpoint}")
    port = None if no_http else http_port
    serve(pipeline, master, port, reset_ledger=reset_ledger, until_final=until_final, page=page)


def summary(pipeline: Pipeline) -> str:
    read = ", ".join(str(stream.topic) for stream in pipeline.inputs)
    written = ", ".join(str(stream.topic) for stream in pipeline.outputs)
    return f"sluice: pipeline {pipeline.name} reads {read} and writes {written}"
