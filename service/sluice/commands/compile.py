"""`sluice compile [FILE...]`: compiles kernels before the first run."""

from __future__ import annotations

import time
from pathlib import Path

import click

from sluice.batch.kernel_warm_up import everything, in_processes, of_pipeline
from sluice.config.load import load


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def compile_(files: tuple[Path, ...]) -> None:
    """Compile the kernels that the pipelines in FILES need, or all kernels if there is no file.

    `run` and `replay` compile what is missing at their start; after this command they start at once. Compiled kernels
    are kept beside the package, or in the user's cache if the package is read-only.
    """
    parts = [part for file in files for part in of_pipeline(load(file, environment=None))] if files else everything()
    click.echo(f"sluice: compiling kernels, {len(parts)} parts; this takes a minute or two", err=True)
    started = time.monotonic()
    for done in in_processes(parts):
        click.echo(f"sluice: {done} of {len(parts)} parts compiled in {time.monotonic() - started:.0f} s", err=True)
