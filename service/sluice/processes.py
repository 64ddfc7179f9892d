"""Programs that we start, and that must not outlive us; and how we are told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: Becomes the program. When our end of its standard input closes, however we died, kills it and removes its folder.
TETHER = """
exec 3<&0
{ read -r _ <&3; kill -9 $$; sleep 1; rm -rf "$0"; } >/dev/null 2>&1 &
exec 3<&- </dev/null
exec "$@"
"""


class Tethered:
    """A program in a session of its own, so that Ctrl-C in the terminal reaches us alone and we end things in order."""

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """`folder` is what the program leaves behind; it stays when we end the program, and goes when we are killed."""
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", TETHER, str(folder), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def terminate(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL if it takes longer than `seconds`."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all of its process group, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()


@contextmanager
def told_to_end() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    told = threading.Event()
    before = {number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
