"""`sluice upgrade FILE`: shows what a changed pipeline file keeps of the state in its checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson

from sluice.commands import options
from sluice.config.load import load
from sluice.model.changes.change_table import as_json, lines
from sluice.model.changes.operator_changes import Changes, StateOutcome

#: the exit code if the state of an operator would be lost, and if the service cannot go on with the changes
LOSES, REFUSED = 7, 4


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Checkpoint folder, overrides that of the FILE.")
@options.kafka
@click.option("--json", "as_data", is_flag=True, help="Write one JSON object.")
def upgrade(file: Path, checkpoint: Path | None, kafka: dict[str, str], *, as_data: bool) -> None:
    """Compare the pipeline FILE with its checkpoint, and show for each operator what becomes of its state.

    The command changes nothing. It reads the checkpoint, and finds out from Kafka whether the inputs of changed
    operators can be read again. The service may run meanwhile, with the file for which the checkpoint was made. `sluice
    run FILE` goes on with a changed file: by itself if nothing is lost, otherwise with --accept.

    Exit codes: 0: nothing is lost; 1: the file is wrong; 4: there is no checkpoint, or the service cannot go on with
    the changes; 7: the state of an operator would be lost.
    """
    pipeline = load(file, overrides=options.given(kafka=kafka, checkpoint=checkpoint))
    from sluice.inspect.checkpoint_reader import read_changes  # noqa: PLC0415 - it is not needed if the file is wrong

    changes = read_changes(pipeline)
    if as_data:
        sys.stdout.buffer.write(orjson.dumps(as_json(changes), option=orjson.OPT_APPEND_NEWLINE))
        sys.stdout.buffer.flush()
    else:
        click.echo(f"{pipeline.name}: what becomes of the state in {pipeline.checkpoint}")
        for line in lines(changes):
            click.echo(line)
        click.echo(_verdict(changes))
    click.get_current_context().exit(REFUSED if changes.refused else LOSES if changes.loses else 0)


def _verdict(changes: Changes) -> str:
    if changes.refused:
        return "The service cannot go on with this file; it needs another checkpoint folder and --reset-ledger."
    if changes.loses:
        return "State is lost: `sluice run` refuses this file without --accept."
    if changes.named(StateOutcome.REBUILT):
        return (
            "No state is lost: `sluice run` goes on with this file. What a rebuilt operator gives for the records that "
            "it reads again is not written."
        )
    return "Nothing is lost: `sluice run` goes on with this file."
