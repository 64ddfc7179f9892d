"""The command `sluice`. Each command is a module of its own, imported when it is called: `replay` never loads Spark."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import click

from sluice import __version__
from sluice.model.errors import SluiceError


class Lazy(NamedTuple):
    module: str
    function: str
    help: str


COMMANDS = {
    "check": Lazy("sluice.commands.check", "check", "Say everything that is wrong with a pipeline file."),
    "explain": Lazy("sluice.commands.explain", "explain", "Say how the service would run a pipeline file."),
    "replay": Lazy("sluice.commands.replay", "replay", "Run a pipeline over events in a file: no Spark, no Kafka."),
    "windows": Lazy("sluice.commands.windows", "windows", "Show what the windows of a service hold."),
    "run": Lazy("sluice.commands.run", "run", "Run the service that a pipeline file describes."),
}


class LazyGroup(click.Group):
    """Holds the name, the module and one line of help of each command, and imports only the command that is called."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:  # noqa: ANN401 - click's arguments
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        lazy = self._lazy[cmd_name]
        with _keeping_all():
            command: click.Command = getattr(import_module(lazy.module), lazy.function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self._lazy.items()])

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click declares it
        try:
            return super().invoke(ctx)
        except SluiceError as error:
            click.echo(f"sluice: {error}", err=True)
            ctx.exit(error.exit_code)


@contextmanager
def _keeping_all() -> Iterator[None]:
    """Nothing of what is imported is garbage; to look for some takes a quarter of the time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sluice")
def main() -> None:
    """Kafka in, Kafka out, windows with punctuation in between."""
