"""What is around the service beside its brokers: the store of `state:`, a wall clock, a disk, a second machine, a Spark
cluster.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Self

import yaml

from sluice.processes import ChildProcess
from tests.cluster.cluster import Standalone, executors, state_servers
from tests.object_store.s3_server import S3Server
from tests.recovery.harness.process_table import Process, processes
from tests.recovery.harness.proxy import Connection, Proxy
from tests.recovery.harness.sluice_process import SluiceProcess

#: the folders of machines; in each of them a disk, with the checkpoint
MACHINES, DISK, CHECKPOINT = ("a", "b"), "disk", "disk/checkpoint"
#: seconds by which a slow store delays each piece of data
SLOW_S = 1.0
ANSWER = b"HTTP/1.1 %d Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Answers:
    """A filter of a proxy before an HTTP server: while `code` is set, clients get this status and not the answer."""

    def __init__(self) -> None:
        self.code = 0

    def requests(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]:
        del connection
        yield from pieces

    def answers(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if self.code:
                yield ANSWER % self.code
                connection.end_client()
                return
            yield piece


class Store:
    """An S3 server behind a proxy."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._server, self._answers = S3Server(folder), Answers()

    def __enter__(self) -> Self:
        self._server.start()
        self._proxy = Proxy(self._server.endpoint.removeprefix("http://"), through=self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.stop()
        self._server.stop()

    @property
    def settings(self) -> Mapping[str, object]:
        """What the pipeline file has of it. Snapshots are due often."""
        options = self._server.options | {"endpoint": f"http://{self._proxy.address}"}
        return {
            "state": "s3://bucket/chaos", "state_options": options, "snapshot_interval": 2, "snapshot_records": 200,
        }  # fmt: skip

    def refuse(self) -> None:
        self._proxy.refuse()
        self._proxy.cut()

    def delay(self) -> None:
        self._proxy.delay(SLOW_S, SLOW_S)

    def answer(self, code: int) -> None:
        self._answers.code = code

    def heal(self) -> None:
        self._answers.code = 0
        self._proxy.accept()
        self._proxy.resume()


class Clock:
    """The wall clock of the Python processes of a service (tests/recovery/pausing/)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0.0)

    @property
    def environment(self) -> dict[str, str]:
        return {"SLUICE_TEST_CLOCK": str(self._file)}

    def set(self, seconds: float) -> None:
        """Sets the clock to so many seconds after that of the machine."""
        part = self._file.with_suffix(".part")
        part.write_text(str(seconds))
        part.rename(self._file)


class Spark(Standalone):
    """A Spark master and two workers, of one core each."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        super().__init__(stack, folder)
        self.add_worker()
        self.add_worker()

    @property
    def workers(self) -> Sequence[ChildProcess]:
        """Those that have not ended."""
        return [one for one in self._workers if one.exit_code is None]

    def kill_worker(self, where: float) -> None:
        """One of the workers; `where` is from 0 to 1."""
        workers = self.workers
        workers[int(where * len(workers))].kill()

    @property
    def master(self) -> ChildProcess:
        return self._master

    def executors(self) -> Sequence[int]:
        return [pid for one in self.workers for pid in executors(one.pid).values()]


class Mode(StrEnum):
    """How the service runs: alone; with `--standby`, so that a second machine may take over; on a Spark cluster."""

    ALONE = "alone"
    STANDBY = "standby"
    CLUSTER = "cluster"


class Surroundings(ExitStack):
    """Of one campaign."""

    def __init__(self, folder: Path, *, with_store: bool = True) -> None:
        super().__init__()
        self._folder, self._with_store = folder, with_store
        self.store: Store | None = None
        self.mode = Mode.ALONE
        self.clock = Clock(folder)
        #: whether this user may mount a disk
        self.may_mount = os.geteuid() == 0
        self._of_mode = ExitStack()

    def __enter__(self) -> Self:
        super().__enter__()
        if self._with_store:
            self.store = self.enter_context(Store(self._folder / "s3"))
        for machine in MACHINES:
            self._make_disk(self._folder / machine / DISK)
        self.push(self._of_mode)
        return self

    def _make_disk(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        if self.may_mount:
            _mount("--bind", str(folder), str(folder))
            self.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)

    def change(self, mode: Mode) -> None:
        """Further instances run so. No instance runs."""
        self._of_mode.close()
        if mode is Mode.CLUSTER:
            self.spark = Spark(self._of_mode, Path(tempfile.mkdtemp(prefix="spark-", dir=self._folder)))
        self.mode = mode  # at last: the thread that looks at the processes asks for those of the mode

    @property
    def first(self) -> Path:
        """The folder of the first machine."""
        return self._folder / MACHINES[0]

    @contextmanager
    def read_only(self, machine: Path) -> Iterator[None]:
        """The disk of the checkpoint of a machine can only be read."""
        _mount("-o", "remount,bind,ro", str(machine / DISK))
        try:
            yield
        finally:
            _mount("-o", "remount,bind,rw", str(machine / DISK))

    def of_cluster(self, role: str) -> Sequence[int]:
        """Spark's daemons, the executors, or the state servers on them."""
        if self.mode is not Mode.CLUSTER:
            return ()
        executors = self.spark.executors()
        return {
            "Spark master": [self.spark.master.pid], "Spark worker": [one.pid for one in self.spark.workers],
            "executor": executors, "state": [pid for one in executors for pid in state_servers(one)],
        }.get(role, ())  # fmt: skip

    def processes(self, service: SluiceProcess) -> Sequence[Process]:
        """`sluice run` and its processes, and those of its executors; none if it does not run."""
        workers = self.spark.workers if self.mode is Mode.CLUSTER else ()
        on_executors = [one for worker in workers for one in processes(worker.pid) if one.pid != worker.pid]
        return [*service.processes(), *on_executors] if service.running else ()

    def instance(self, file: Path) -> SluiceProcess:
        arguments = ["--standby"] if self.mode is Mode.STANDBY else []
        environment = self.clock.environment
        if self.mode is Mode.CLUSTER:
            arguments = ["--master", self.spark.url]
            environment |= {"SPARK_LOCAL_IP": "127.0.0.1"}
        return SluiceProcess(file, file.parent, arguments, environment, http=True)

    def other(self, one: SluiceProcess) -> SluiceProcess:
        """The other of two machines, with its own file and folder, which it keeps."""
        folder = self._folder / next(name for name in MACHINES if name != one.folder.name)
        file = folder / one.file.name
        content = yaml.safe_load(one.file.read_text()) | {"checkpoint": str(folder / CHECKPOINT)}
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        return self.instance(file)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
