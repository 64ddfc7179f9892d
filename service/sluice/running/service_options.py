"""The options of a service, and the files of a folder, without imports of Spark or of what reads pipeline files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.model.errors import SluiceError

if TYPE_CHECKING:
    from sluice.model.spec import Pipeline

#: the endings of the names of pipeline files
ENDINGS = (".yaml", ".yml")


class Restart(StrEnum):
    """Which ends are followed by a new start.

    ALWAYS       every end: a failure, and also the end of all inputs with --until-final
    ON_FAILURE   a failure
    NEVER        none
    """

    ALWAYS = "always"
    ON_FAILURE = "on-failure"
    NEVER = "never"

    def follows(self, *, failed: bool) -> bool:
        return self is Restart.ALWAYS or (self is Restart.ON_FAILURE and failed)


class Page(StrEnum):
    """The clients that get the page of the service: programs on its own machine, all clients, or none."""

    LOCAL = "local"
    OPEN = "open"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a service.

    http_port   None: there is no HTTP server
    accept      whether a changed pipeline file may lose the states of operators
    restart     the default of its pipelines
    standby     whether each pipeline waits until Kafka grants this instance the lead
    """

    master: str
    http_port: int | None
    page: Page = Page.LOCAL
    reset_ledger: bool = False
    accept: bool = False
    until_final: bool = False
    restart: Restart = Restart.ON_FAILURE
    standby: bool = False

    def restart_of(self, pipeline: Pipeline) -> Restart:
        """Which ends of this pipeline are followed by a new start."""
        return Restart(pipeline.settings.restart or self.restart)


class FolderError(SluiceError):
    exit_code = 1


def files_in(folder: Path) -> list[Path]:
    """The pipeline files of a folder, not of its subfolders, in the order of their names. Hidden files are left out.

    Raises OSError if the folder cannot be read.
    """
    return sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and not path.name.startswith("."))
