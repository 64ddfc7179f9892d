"""`sluice run FILE... | FOLDER`: runs the service of one pipeline file, of several, or of all files of a folder."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.commands import options
from sluice.ops.log_lines import configure, configure_for_children
from sluice.processes import collect_garbage_rarely
from sluice.running.service_options import Options, Page, Restart
from sluice.running.service_start import start

if TYPE_CHECKING:
    from sluice.model.spec import Pipeline
    from sluice.running.service_start import Wished


@click.command()
@options.pipeline_files
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Checkpoint folder, overrides that of the FILE. Of several pipelines: a folder with one checkpoint for each.",
)
@click.option(
    "--buckets",
    type=click.IntRange(min=1),
    help="Buckets; an existing checkpoint is divided anew [default: as many as the checkpoint has, or one per core].",
)
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
    type=click.Choice([*map(str, Page)]),
    default="local",
    show_default=True,
    help="The clients that get the page, which shows the content of topics: programs on this machine, all, or none.",
)
@click.option("--master", default="local[*]", show_default=True, help="Master URL of Spark.")
@click.option("--reset-ledger", is_flag=True, help="Ignore, at this start, the ledger of an earlier checkpoint.")
@click.option(
    "--accept",
    is_flag=True,
    help="Go on with a changed FILE also if the state of an operator is lost (sluice upgrade shows which).",
)
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
@click.option(
    "--standby",
    is_flag=True,
    help="Wait, with everything ready, until Kafka grants this instance the lead, and go on where the last leader "
    "ended. Start all instances of a pipeline with it.",
)
@click.option(
    "--restart",
    type=click.Choice([*map(str, Restart)]),
    help="When a pipeline is started again, overrides `restart` of the files [default: never for one FILE, on-failure "
    "for several and for a FOLDER].",
)
def run(  # noqa: PLR0917 - click passes them by name
    files: tuple[Path, ...], checkpoint: Path | None, buckets: int | None, kafka: dict[str, str], http_port: int,
    no_http: bool, page: str, master: str, reset_ledger: bool, accept: bool, until_final: bool,  # noqa: FBT001 - click passes flags as booleans
    log_format: str, log_level: str, standby: bool, restart: str | None,  # noqa: FBT001 - see above
) -> None:  # fmt: skip
    """Run the service of the pipeline FILE, of several FILEs, or of all files of a FOLDER, until SIGTERM or Ctrl-C.

    A FOLDER is watched: a file that is added starts, one that is removed stops, one that is changed stops and starts.

    Exit codes: 0: ended by a signal or --until-final; 1: a file is wrong; 2: the call or a client property is wrong;
    3: Kafka, Java or a package is missing, or Kafka refuses; 4: the checkpoint is damaged, belongs to another pipeline,
    or does not fit the ledger, or a changed file would lose state; 5: another instance is running; 6: a batch failed.
    After a restart the service continues where it ended, without loss or duplicates. With several pipelines the failure
    of one ends the service only if nothing else is left to run.
    """
    if standby and reset_ledger:
        message = "--reset-ledger cannot be used with --standby: each take-over would reset the ledger"
        raise click.UsageError(message)
    folder = options.folder_of(files)
    single = len(files) == 1 and folder is None
    overrides = options.given(kafka=kafka, buckets=buckets, checkpoint=checkpoint if single else None, restart=restart)
    mask = partial(configure, log_level.upper(), form=log_format)
    mask(())
    configure_for_children(log_level.upper(), log_format)
    collect_garbage_rarely()
    port = None if no_http else http_port
    service_options = Options(
        master, port, Page(page), reset_ledger=reset_ledger, accept=accept, until_final=until_final,
        restart=Restart.NEVER if single else Restart.ON_FAILURE, standby=standby,
    )  # fmt: skip

    def load() -> Wished:
        from sluice.running.pipeline_folder import Found, Loader, PipelineFolder, load_all  # noqa: PLC0415 - takes 0.2 s, beside Java's start  # noqa: PLC0415

        loader = Loader(overrides, None if single else checkpoint, mask)
        watched = PipelineFolder(folder, loader) if folder else None
        files_found = watched.first() if watched else Found.of(load_all(files, loader))
        for found_file in files_found.wanted.values():
            print_summary(found_file.pipeline)
        return files_found, watched.scan if watched else None

    if not all(os.access(file, os.R_OK) for file in files):
        load()  # which names the files that cannot be read, before Java starts
    start(load, service_options, single=single)


def print_summary(pipeline: Pipeline) -> None:
    """Prints what a pipeline reads and writes, and where its checkpoint is if nothing names it."""
    click.echo(summary(pipeline))
    if pipeline.settings.checkpoint is None:
        click.echo(f"sluice: the file names no checkpoint: the progress is kept in ./{pipeline.checkpoint}")


def summary(pipeline: Pipeline) -> str:
    read = ", ".join(str(stream.topic) for stream in pipeline.inputs)
    written = ", ".join(str(stream.topic) for stream in pipeline.outputs)
    return f"sluice: pipeline {pipeline.name} reads {read} and writes {written}"
