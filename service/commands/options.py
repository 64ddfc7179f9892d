"""Options that several commands have."""

from __future__ import annotations

import click


def properties(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`name=value` as a property."""
    pairs = [value.partition("=") for value in values]
    if any(not equals for _, equals, _ in pairs):
        message = "give it as name=value"
        raise click.BadParameter(message)
    return {name.strip(): value.strip() for name, _, value in pairs}


kafka = click.option(
    "--kafka", multiple=True, metavar="NAME=VALUE", callback=properties, help="A property of the clients."
)
