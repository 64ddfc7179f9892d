"""Runs the service of the demo in a process of its own, with the command `sluice run`."""

from __future__ import annotations

import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from sluice.files import project_file
from sluice.model.errors import SluiceError
from sluice.processes import ChildProcess

#: maximum seconds for the service to finish the running batch at the end
GRACE = 15
LAST_WORDS = 3000
#: the line of the log with the address of the page
PAGE = re.compile(r"page at (http://localhost:\d+/)")


class ServiceError(SluiceError):
    exit_code = 1


class Service(AbstractContextManager["Service"]):
    """The service of examples/flights.yaml with the brokers `bootstrap`. It writes only below `folder`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._log = folder / "service.log"
        temporary = folder / "tmp"
        temporary.mkdir()
        self._process = ChildProcess(
            [
                *(
                    sys.executable,
                    "-m",
                    "sluice",
                    "run",
                    str(project_file("examples/flights.yaml")),
                    "--http-port",
                    "0",
                ),
                *("--kafka", f"bootstrap.servers={bootstrap}", "--checkpoint", str(folder / "checkpoint")),
            ],
            folder=folder,
            log=self._log,
            environment={"TMPDIR": str(temporary)},
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the service: in order without an error, else at once, because its folder is not used again."""
        if kind is None:
            self._process.terminate(GRACE)
        else:
            self._process.kill()

    def check(self) -> None:
        """Raises ServiceError if the service has ended."""
        code = self._process.exit_code
        if code is not None:
            raise ServiceError(f"the service ended with exit code {code}; its log:\n{self.log()}")

    @property
    def page(self) -> str | None:
        """The address of the page of the service; None as long as the service has not written it to its log."""
        address = PAGE.search(self._log.read_text(errors="replace"))
        return address[1] if address else None

    def log(self) -> str:
        """The log from the last message of `sluice` on, at most LAST_WORDS characters, as Spark may add more."""
        text = self._log.read_text(errors="replace")
        return text[max(text.rfind("sluice: "), 0) :][:LAST_WORDS]
