"""`sluice windows FILE`: shows the content of the windows of a service."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sluice.checkpoint.checkpoint_folder import placed_stages
from sluice.commands import options
from sluice.config.load import load
from sluice.json_texts import COMPACT, text_with_digits


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--key", help="Key of the window partitions, as in the record keys of the outputs.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Checkpoint folder, overrides that of the FILE.")
def windows(file: Path, key: str | None, checkpoint: Path | None) -> None:
    """Show the contents of the windows of the pipeline FILE, one JSON object per line: the windows of a key, and the
    windows without keys.

    The command reads only the checkpoint. The service may run meanwhile.
    """
    pipeline = load(file, environment=None, overrides=options.given(checkpoint=checkpoint))
    from sluice.inspect.checkpoint_reader import read_windows  # noqa: PLC0415 - it imports Spark, which takes 1 s and is not needed if the file is wrong

    contents = [window for stage in placed_stages(pipeline) for window in read_windows(stage, key)]
    sys.stdout.buffer.writelines(f"{text_with_digits(window, COMPACT)}\n".encode() for window in contents)
    sys.stdout.buffer.flush()
    if not contents:
        click.echo(f"no window has contents for the key {key}" if key else "no window has contents", err=True)
