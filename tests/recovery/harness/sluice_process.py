"""`sluice run` as a process in a session of its own, whose processes a test stops, kills and pauses."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from sluice.kafka.embedded_broker import free_ports
from sluice.processes import ChildProcess
from tests.recovery.harness.process_table import Process, by_role, processes, send_signal
from tests.recovery.harness.waiting import PATIENCE, wait_until

#: the folder whose sitecustomize.py stops or fails a process at a moment that a test asked for
PAUSING = Path(__file__).parents[1] / "pausing"
#: the first words of the shell that kills a program when the test dies (processes.py)
TETHER = ("/bin/sh", "-c")
#: characters of the log with stacks that a failure shows
STACKS = 30_000


class SluiceProcess:
    """The process, its log, and the moments at which it pauses.

    file         the pipeline file
    folder       where its log and its temporary files are
    arguments    further arguments of `sluice run`
    environment  further variables of each start
    http         whether it serves its pages, at a free port
    """

    def __init__(
        self,
        file: Path,
        folder: Path,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        http: bool = False,
    ) -> None:
        self.file, self.folder = file, folder
        self._arguments, self._environment, self._http = tuple(arguments), dict(environment or {}), http
        self._moments = folder / "moments"
        self._moments.mkdir(parents=True, exist_ok=True)
        self._process: ChildProcess | None = None
        #: the sessions of starts whose processes have perhaps not all ended
        self._sessions: list[int] = []
        #: the length of the log at the last start
        self._log_begin = 0
        self._port = 0

    # ---- starting and ending ----------------------------------------------------------------------------------------

    def start(self, *arguments: str, **environment: str) -> None:
        """Starts it with further arguments and variables of the environment, unless it runs."""
        if self.running:
            return
        if self._process:
            self.await_no_process()
        self._log_begin = len(self.whole_log())
        path = [str(PAUSING), os.environ.get("PYTHONPATH", str(Path.cwd()))]
        own = {"SLUICE_TEST_MOMENTS": str(self._moments), "PYTHONPATH": os.pathsep.join(path)}
        command = [sys.executable, "-m", "sluice", "run", str(self.file), *self._pages(), *self._arguments, *arguments]
        folder = self.folder / "temporary"
        folder.mkdir(exist_ok=True)
        self._process = ChildProcess(
            command, folder=folder, log=self._log_file, environment=own | self._environment | environment
        )
        self._sessions.append(self._process.pid)

    def _pages(self) -> list[str]:
        if not self._http:
            return ["--no-http"]
        (self._port,) = free_ports(1)
        return ["--http-port", str(self._port)]

    @property
    def pid(self) -> int:
        """The process `sluice run` of the last start, which is also the number of its session."""
        assert self._process
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def exit_code(self) -> int | None:
        return self._process.exit_code if self._process else None

    def await_end(self, seconds: float = PATIENCE) -> int:
        """The exit code of a service that ends by itself; no process of it stays."""
        wait_until(lambda: not self.running, "the service ends by itself", seconds, log=self.stacks)
        self.await_no_process()
        assert self.exit_code is not None
        return self.exit_code

    def end(self, seconds: float = PATIENCE) -> None:
        """SIGTERM; it ends in order within `seconds`, and no process of it stays."""
        if self.running and self._process:
            self._process.terminate(seconds)
            assert self.exit_code == 0, self.log()
        self.await_no_process()

    def kill(self) -> None:
        """SIGKILL to every process, as where the machine stops."""
        self.clean_up()
        self.await_no_process()
        self.forget_moments()

    def await_no_process(self, seconds: float = 60) -> None:
        """No process of it is left, also none that lost its parent."""
        wait_until(
            lambda: not self._left(), f"no process of the service is left: {self._left()}", seconds, log=self.log
        )
        if self._process:
            self._process.kill()  # what is left is the shell that waits for the end of the test (processes.py)
        self._sessions.clear()  # the system may give these numbers to others now

    def _left(self) -> list[Process]:
        everything = [one for session in self._sessions for one in processes(session)]
        return [one for one in everything if one.arguments[:2] != TETHER]

    def clean_up(self) -> None:
        """Kills what is left, and does not wait for its end."""
        for session in self._sessions:
            send_signal([one.pid for one in processes(session)])
        if self._process:
            self._process.kill()

    # ---- what it says -----------------------------------------------------------------------------------------------

    @property
    def _log_file(self) -> Path:
        return self.folder / "service.log"

    def whole_log(self) -> str:
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def log(self) -> str:
        """All that it wrote since its last start."""
        return self.whole_log()[self._log_begin :]

    def await_log(self, *words: str) -> None:
        """Until it has written these words, or others of these, since its last start."""

        def written() -> bool:
            return any(some in self.log() for some in words)

        wait_until(lambda: written() or not self.running, f"the log says: {' or '.join(words)}", log=self.log)
        assert written()

    def stacks(self) -> str:
        """The end of the log, to which its Python processes have written the stacks of their threads."""
        python = [one.pid for one in processes(self.pid) if one.arguments[0].endswith(Path(sys.executable).name)]
        send_signal(python, signal.SIGUSR2)
        time.sleep(1)
        table = [f"{one.pid} child of {one.parent}: {one.name} {one.state}" for one in processes(self.pid)]
        return "\n".join([self.log()[-STACKS:], *table])

    @property
    def sentence(self) -> str:
        """The last line of a service that has ended, which says why. Asserts that the log has no stack trace."""
        lines = self.log().splitlines()
        assert not [line for line in lines if line.startswith(("Traceback", "  File "))], self.log()
        said = [line for line in lines if line.startswith("sluice: ") and "reads" not in line]
        assert len(said) == 1, self.log()
        return said[0].removeprefix("sluice: ")

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page; (0, "") while the service does not serve it."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, HTTPException):
            return 0, ""
        finally:
            connection.close()

    # ---- its processes ----------------------------------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """Those of the last start that run, `sluice run` first."""
        return sorted(processes(self.pid), key=lambda one: one.pid != self.pid)

    def pids(self, role: str) -> list[int]:
        """Those that do this now (process_table.py), once there is one."""
        return wait_until(lambda: by_role(self.pid)[role], f"a process is {role}", log=self.log)

    def signal(self, role: str, number: signal.Signals = signal.SIGKILL) -> list[int]:
        """Sends a signal to each process of this role."""
        pids = self.pids(role)
        send_signal(pids, number)
        return pids

    @contextmanager
    def unable_to_write(self, role: str) -> Iterator[None]:
        """Processes of this role cannot append to files: it fails (EFBIG), as on a disk that is full."""
        pids = self.pids(role)
        limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids}
        for pid, (_, hard) in limits.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
        finally:
            for pid, limit in limits.items():
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)

    # ---- moments ----------------------------------------------------------------------------------------------------

    def at(self, moment: str, what: str = "pause") -> None:
        """The next process that comes to the moment pauses, fails or only writes a file (pausing/sitecustomize.py)."""
        self.go_on(moment)  # a process that was killed in a pause has left its file
        part = self._moments / f".{moment}"
        part.write_text(what)
        part.rename(self._moments / moment)

    def await_moment(self, moment: str, codes: Sequence[int] = ()) -> None:
        reached = self._moments / f"{moment}.reached"
        self.wait_until(reached.exists, f"the service comes to the moment {moment!r}", codes=codes)

    def go_on(self, moment: str) -> None:
        """Ends a pause."""
        (self._moments / f"{moment}.reached").unlink(missing_ok=True)

    def forget_moments(self) -> None:
        for file in self._moments.iterdir():
            file.unlink(missing_ok=True)

    def wait_until(
        self, happened: Callable[[], Any], what: str, seconds: float = PATIENCE, codes: Sequence[int] = ()
    ) -> None:
        """While the service runs; where it ends with one of these exit codes, it is started again."""

        def checked() -> Any:
            value = happened()
            if not value and not self.running:
                assert self.exit_code in codes, f"it ended with {self.exit_code} before {what}\n{self.log()}"
                self.await_no_process()
                self.start()
            return value

        wait_until(checked, what, seconds, log=self.stacks)
