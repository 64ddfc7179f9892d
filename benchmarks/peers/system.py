"""The contract of a system that is measured, and the folder with what a system needs to run."""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

#: virtual environments and jars of the peers; `make clean` removes it
INSTALLED = Path(__file__).resolve().parents[2] / "build" / "peers"
PROGRAMS = Path(__file__).parent / "programs"
#: what a program prints when it has its first record
FIRST = "FIRST"


@dataclass(frozen=True, slots=True)
class Task:
    """What a program is to do.

    workload   name of the workload
    bootstrap  address of the broker
    run        identifier that no other run has: prefix of the output topic, name of groups and transactions
    inputs     input topics
    output     output topic, which exists
    folder     empty folder for the program's files
    live       whether the program reads records as they come, with attribute w, instead of a filled topic
    """

    workload: str
    bootstrap: str
    run: str
    inputs: Sequence[str]
    output: str
    folder: Path
    live: bool = False

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that all programs of peers read."""
        return {
            "WORKLOAD": self.workload,
            "BOOTSTRAP": self.bootstrap,
            "RUN": self.run,
            "INPUT": self.inputs[0],
            "SECOND_INPUT": self.inputs[-1],
            "OUTPUT": self.output,
            "FOLDER": str(self.folder),
            "LIVE": "1" if self.live else "",
        }


class System(ABC):
    """A system with its settings.

    name       text of the table
    guarantee  the delivery guarantee of these settings, text of the table
    settings   the settings that are not the defaults, text of the documentation
    unsupported  workload -> the reason why the system cannot run it
    scale      workload -> factor for the number of records, so that a run of a slow system ends within its limit
    held_back  workload -> the most records at the end that have no output, because a result waits until all topic
               partitions have later records
    """

    name: str
    guarantee: str
    settings: str
    unsupported: ClassVar[Mapping[str, str]] = {}
    scale: ClassVar[Mapping[str, float]] = {}
    held_back: ClassVar[Mapping[str, int]] = {}

    @abstractmethod
    def install(self) -> None:
        """Downloads and builds what is missing under INSTALLED."""

    @abstractmethod
    def command(self, task: Task) -> Sequence[str]:
        """The command that runs the workload until it gets SIGTERM. Its output contains FIRST at the first record."""

    def first_record(self, output: str) -> bool:
        """Whether the output of the command says that the system has its first record."""
        return FIRST in output

    def ready(self, output: str) -> bool:
        """Whether the output of the command says that the system waits for records, if it says so at all."""
        return True


def virtual_environment(name: str, *packages: str) -> Path:
    """The Python interpreter of a virtual environment with these packages, which is made at the first use."""
    folder = INSTALLED / name
    python, complete = folder / "bin" / "python", folder / "packages.txt"
    wanted = "\n".join(packages)
    if not complete.exists() or complete.read_text() != wanted:
        print(f"Installing {' '.join(packages)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        complete.write_text(wanted)
    return python
