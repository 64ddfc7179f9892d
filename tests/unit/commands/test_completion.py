"""Completion of commands, options and files in shells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli import COMMANDS

#: the folder of the program `sluice`
PROGRAMS = Path(sys.executable).parent
ENVIRONMENT = {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "PYTHONWARNINGS": "error"}
#: completes the words of the arguments as bash does when the user presses the tabulator key
IN_BASH = """
eval "$(sluice completion bash)"
compopt() { files=yes; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_sluice_completion sluice
echo "${COMPREPLY[@]} $files"
"""


def asked(shell: str, *words: str) -> str:
    """The answer of the program to the question of the shell's script about the last of the words."""
    question = {"_SLUICE_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words)}
    question["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words) - 1)
    done = subprocess.run(
        ["sluice"], env=ENVIRONMENT | question, capture_output=True, text=True, check=True, shell=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["sluice", "re"], "replay record "),
        (["sluice", "replay", "--cl"], "--clock-origin "),
        (["sluice", "run", "--page", ""], "local open off "),
        (["sluice", "check", ""], " yes"),
        (["sluice", "completion", "f"], "fish "),
    ],
    ids=["commands", "options", "values of an option", "files", "values of an argument"],
)
def test_bash_completes(words, completed):
    command = ["bash", "--norc", "-c", IN_BASH, "bash", *words]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


@pytest.mark.parametrize(
    ("shell", "answer"),
    [
        ("bash", "plain,replay\nplain,record\n"),
        ("zsh", f"plain\nreplay\n{COMMANDS['replay'].help}\nplain\nrecord\n{COMMANDS['record'].help}\n"),
        ("fish", f"plain,replay\t{COMMANDS['replay'].help}\nplain,record\t{COMMANDS['record'].help}\n"),
    ],
)
def test_the_program_answers_each_shell(shell, answer):
    assert asked(shell, "sluice", "re") == answer


@pytest.mark.parametrize(
    ("shell", "registered"),
    [
        ("bash", "complete -o nosort -F _sluice_completion sluice"),
        ("zsh", "compdef _sluice_completion sluice"),
        ("fish", "complete --no-files --command sluice"),
    ],
)
def test_the_script_registers_the_program_in_its_shell(shell, registered):
    done = subprocess.run(["sluice", "completion", shell], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert registered in done.stdout
    assert f"_SLUICE_COMPLETE={shell}_complete" in done.stdout


def test_the_names_of_commands_are_completed_without_the_import_of_a_command():
    program = (
        "import sys\nfrom sluice.cli import main\n"
        "try: main(prog_name='sluice')\n"
        "except SystemExit: sys.exit(any(name.startswith('sluice.commands.') for name in sys.modules))\n"
    )
    question = {"_SLUICE_COMPLETE": "bash_complete", "COMP_WORDS": "sluice ", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT | question, capture_output=True, text=True, check=True
    )
    assert "plain,run" in done.stdout.splitlines()
