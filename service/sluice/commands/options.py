"""Command line options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


def properties(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """The properties as a mapping from texts of the form `name=value`. Raises click.BadParameter for other texts."""
    pairs = [value.partition("=") for value in values]
    if any(not equals for _, equals, _ in pairs):
        message = "expected name=value"
        raise click.BadParameter(message)
    return {name.strip(): value.strip() for name, _, value in pairs}


def given(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - what click makes of an option
    """The options that are not empty, which override keys of the pipeline file. A path is given as its text."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items() if value}


kafka = click.option(
    "--kafka",
    multiple=True,
    metavar="NAME=VALUE",
    callback=properties,
    help="A property of the Kafka clients, in addition to those of the file. Repeatable.",
)
