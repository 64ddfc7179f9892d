"""The service as a process of its own, as `sluice run` starts it anywhere."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from sluice.files import project_file
from sluice.model.errors import SluiceError
from sluice.processes import Tethered

#: seconds that it may take to finish the batch in hand
GRACE = 15
LAST_WORDS = 3000


class ServiceError(SluiceError):
    exit_code = 1


class Service(AbstractContextManager["Service"]):
    """Runs examples/flights.yaml against `bootstrap`; everything that it writes goes below `folder`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._log = folder / "service.log"
        temporary = folder / "tmp"
        temporary.mkdir()
        self._process = Tethered(
            [
                *(sys.executable, "-m", "sluice", "run", str(project_file("examples/flights.yaml")), "--no-http"),
                *("--kafka", f"bootstrap.servers={bootstrap}", "--checkpoint", str(folder / "checkpoint")),
            ],
            folder=folder,
            log=self._log,
            environment={"TMPDIR": str(temporary)},
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends it in order if all went well, at once if not: nobody will start it again on this folder."""
        if kind is None:
            self._process.terminate(GRACE)
        else:
            self._process.kill()

    def check(self) -> None:
        """Raises ServiceError if it does not run any more."""
        code = self._process.exit_code
        if code is not None:
            raise ServiceError(f"the service ended with exit code {code}; it said:\n{self.log()}")

    def log(self) -> str:
        """Its last words: from its last own message on, but not all that Spark may add to it."""
        text = self._log.read_text(errors="replace")
        return text[max(text.rfind("sluice: "), 0) :][:LAST_WORDS]
