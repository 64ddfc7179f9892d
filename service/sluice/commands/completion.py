"""`sluice completion SHELL`: prints the script that completes commands, options and files in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "sluice"
#: the environment variable through which a completion script calls click
VARIABLE = "_SLUICE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes the commands, options and files of `sluice` in a shell.

    \b
    bash 4.4 and later:
      sluice completion bash > ~/.local/share/bash-completion/completions/sluice
    zsh, with `fpath=(~/.zfunc $fpath)` before `compinit` in ~/.zshrc:
      sluice completion zsh > ~/.zfunc/_sluice
    fish:
      sluice completion fish > ~/.config/fish/completions/sluice.fish
    """  # noqa: D301 - click looks for the character itself
    script = get_completion_class(shell)
    assert script is not None  # noqa: S101 - click has all of SHELLS
    click.echo(script(context.find_root().command, {}, PROGRAM, VARIABLE).source())
