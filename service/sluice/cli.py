"""The command line program `sluice`. The module of a command is imported only when the command is called.

So `replay` never loads Spark.
"""

from __future__ import annotations

import errno
import gc
import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from sluice import __version__
from sluice.model.errors import MAX_EXPECTED, SluiceError, cut, printable
from sluice.model.secrets import masked
from sluice.ops.log_lines import in_form
from sluice.package_extras import EXIT_CODE, missing

#: exit code of an error that has no exit code of its own
DEFECT = 70


class Lazy(NamedTuple):
    module: str
    function: str
    help: str


COMMANDS = {
    "init": Lazy("sluice.commands.init", "init", "Write a first pipeline file for a topic."),
    "check": Lazy("sluice.commands.check", "check", "Check pipeline files and report all problems."),
    "explain": Lazy("sluice.commands.explain", "explain", "Describe how the service would run pipeline files."),
    "replay": Lazy(
        "sluice.commands.replay", "replay", "Run a pipeline over events in a file, without Spark and Kafka."
    ),
    "record": Lazy("sluice.commands.record", "record", "Write the records of a topic as events for `replay`."),
    "lab": Lazy("sluice.commands.lab", "lab", "Try out pipelines and events on a page in the browser."),
    "windows": Lazy("sluice.commands.windows", "windows", "Show the contents of a service's windows."),
    "top": Lazy("sluice.commands.top", "top", "Show in the terminal what a running service does."),
    "compile": Lazy("sluice.commands.compile", "compile_", "Compile kernels before the first run."),
    "run": Lazy("sluice.commands.run", "run", "Run the service of one pipeline file, or of several."),
    "upgrade": Lazy(
        "sluice.commands.upgrade", "upgrade", "Show what a changed pipeline file keeps of the state of a service."
    ),
    "completion": Lazy("sluice.commands.completion", "completion", "Print the shell's completion of these commands."),
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin with a text. click's own function would import every command."""
        named = [
            CompletionItem(name, help=lazy.help) for name, lazy in self._lazy.items() if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self._lazy.items()])

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click declares it
        try:
            return super().invoke(ctx)
        except SluiceError as error:
            _end(ctx, str(error), error.exit_code)
        except (click.ClickException, click.exceptions.Exit, click.Abort, EOFError):
            raise
        except Exception as error:
            if getattr(error, "errno", None) == errno.EPIPE:  # the process that reads the output has ended
                raise
            message = missing(error) if isinstance(error, ModuleNotFoundError) else None
            _end(ctx, message or unexpected(error), EXIT_CODE if message else DEFECT)


def _end(ctx: click.Context, message: str, exit_code: int) -> NoReturn:
    """Ends the command. The last line on standard error, in the form of the log, is the reason."""
    text = masked(message)
    click.echo(in_form(text, plain=printable(f"sluice: {text}")), err=True)
    ctx.exit(exit_code)


def unexpected(error: Exception) -> str:
    """One sentence about an error that is no SluiceError. With SLUICE_DEBUG the stack trace precedes it."""
    first = next(iter(str(error).splitlines()), "")
    error_text = f"{type(error).__name__}: {cut(first, MAX_EXPECTED)}" if first else type(error).__name__
    if os.environ.get("SLUICE_DEBUG"):
        return f"{''.join(traceback.format_exception(error))}\nsluice: an unexpected error ({error_text})"
    return f"an unexpected error ({error_text}), a defect of Sluice itself; with SLUICE_DEBUG=1 it prints a stack trace"


@contextmanager
def _keeping_all() -> Iterator[None]:
    """Switches garbage collection off during imports: it takes a quarter of their time, and the objects stay in use."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sluice")
def main() -> None:
    """Windowed stream processing from Kafka topics to Kafka topics, with SPL's windows and punctuation."""
