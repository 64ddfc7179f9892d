"""Command line options that several commands share, and the file that an option names."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import isdir
from pathlib import Path
from typing import Any

import click

from sluice.model.errors import SluiceError
from sluice.running.service_options import FolderError, files_in


def properties(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """The properties as a mapping from texts of the form `name=value`. Raises click.BadParameter for other texts."""
    pairs = [value.partition("=") for value in values]
    if any(not equals for _, equals, _ in pairs):
        message = "expected name=value"
        raise click.BadParameter(message)
    return {name.strip(): value.strip() for name, _, value in pairs}


def given(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - what click makes of an option
    """The options that were given, which override keys of the pipeline file. A path becomes a text."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items() if value}


def write(file: Path, text: str) -> None:
    """Writes a file that a user names with an option. Raises SluiceError with the reason if that is impossible."""
    try:
        file.write_text(text)
    except OSError as error:
        message = f"cannot write {file}: {error.strerror}"
        raise SluiceError(message) from None


pipeline_files = click.argument(
    "files", metavar="FILE... | FOLDER", type=click.Path(path_type=Path), nargs=-1, required=True
)


def folder_of(files: Sequence[Path]) -> Path | None:
    """The folder that a command line names; None if it names files. Raises UsageError if it names both."""
    folders = [file for file in files if isdir(file)]  # noqa: PTH112 - Path.is_dir raises for long names
    if folders and len(files) > 1:
        message = "give one FOLDER, or files"
        raise click.UsageError(message)
    return folders[0] if folders else None


def files_of(files: Sequence[Path]) -> list[Path]:
    """The files that a command line names, or the files in its folder. Raises FolderError if there are none."""
    folder = folder_of(files)
    paths = files_in(folder) if folder else list(files)
    if not paths:
        message = f"{folder}: expected a folder with pipeline files (*.yaml, *.yml)"
        raise FolderError(message)
    return paths


kafka = click.option(
    "--kafka",
    multiple=True,
    metavar="NAME=VALUE",
    callback=properties,
    help="A property of the Kafka clients, in addition to those of the file. Repeatable.",
)

registry = click.option(
    "--registry",
    multiple=True,
    metavar="NAME=VALUE",
    callback=properties,
    help="A property of the schema registry's client, such as url=http://HOST:8081. Repeatable.",
)
