"""`sluice run` as a process of its own, with whatever it starts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, TopicPartition

from sluice.processes import Tethered

#: seconds that anything may take
PATIENCE = 900
#: the name of the processes that fork the keepers of buckets
POOL = "sluice-pool"


class Running:
    """A service on the pipeline file in `folder`, made from `pipeline`."""

    def __init__(self, folder: Path, pipeline: Mapping[str, Any]) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self._file = folder / "pipeline.yaml"
        self._file.write_text(yaml.safe_dump({"checkpoint": str(self.checkpoint), **pipeline}, sort_keys=False))

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        self.process = Tethered(
            [sys.executable, "-m", "sluice", "run", str(self._file), "--no-http", *arguments],
            folder=temporary,
            log=self.folder / "service.log",
            environment={"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd())), **(environment or {})},
        )

    def end(self) -> None:
        self.process.terminate(PATIENCE)
        assert self.process.exit_code == 0, self.log()

    def kill(self) -> None:
        """What is left of a failed test; after `end` nothing."""
        self.process.kill()

    def log(self) -> str:
        return (self.folder / "service.log").read_text(errors="replace")[-8000:]

    def wait_for(self, happened: Callable[[], bool], seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, self.log()
            assert self.process.exit_code is None, self.log()
            time.sleep(0.02)

    def descendants(self) -> dict[int, str]:
        """The command line of each process that the service has started, and of those that these have started."""
        return {pid: command for pid, command in _commands() if self.process.pid in _ancestors(pid)}

    def daemons(self) -> list[int]:
        """The processes that fork Spark's Python workers."""
        return [pid for pid, command in self._python() if _parent_is(pid, "java")]

    def workers(self) -> list[int]:
        """Spark's Python workers."""
        daemons = self.daemons()
        return [pid for pid, command in self._python() if int(_stat(pid)[1] or 0) in daemons and POOL not in command]

    def pools(self) -> list[int]:
        """The process that forks the keepers of buckets, and its supervisor before it."""
        return sorted(pid for pid, command in self._python() if command.startswith(POOL))

    def keepers(self) -> list[int]:
        """The processes that keep the state of buckets."""
        return [pid for pid, command in self._python() if command.startswith("sluice-bucket")]

    def _python(self) -> list[tuple[int, str]]:
        return [(pid, command) for pid, command in self.descendants().items() if "sluice.spark.daemon" in command]


def _parent_is(pid: int, name: str) -> bool:
    try:
        return Path(f"/proc/{_stat(pid)[1]}/comm").read_text().strip() == name
    except OSError:
        return False


def running(pid: int) -> bool:
    """Whether there is such a process, and no mere zombie that its parent has not collected."""
    return _stat(pid)[0] not in ("", "Z")


def resident(pids: Iterable[int]) -> dict[int, int]:
    """Bytes of memory of each process that are in no file."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    found[pid] = int(line.split()[1]) * 1024
    return found


def committed(kafka: Mapping[str, str], topic: str, partitions: int) -> Iterator[Any]:
    """All records of a topic that committed readers see."""
    own = {"group.id": "tests", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({**kafka, **own, "enable.partition.eof": True, "queued.max.messages.kbytes": 65536})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    left = partitions
    while left:
        message = consumer.poll(PATIENCE)
        assert message is not None
        if message.error():
            left -= 1
        else:
            yield message
    consumer.close()


def _commands() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, command = (folder / "comm").read_text().strip(), (folder / "cmdline").read_bytes()
            yield int(folder.name), f"{name} {command.replace(bytes(1), b' ').decode(errors='replace')}"


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(_stat(pid)[1] or 0)
        yield pid


def _stat(pid: int) -> tuple[str, str]:
    """State and parent."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return state, parent
