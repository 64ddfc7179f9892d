"""Snapshots: the whole state of a bucket in one object of the checkpoint store for each version.

The store shows an object only when it is complete. Two processes that write the same version write equal bytes, so
either may replace the other's. A checksum covers every byte (checksummed_blocks.py), and the head of the object names
the pipeline, the query, the bucket and the version.

A bucket writes large snapshots in the background, in a forked copy of its process (`Background`). The copy has the
memory of the moment of the fork, and the process handles the next batches meanwhile.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import BinaryIO, NoReturn

import pyarrow as pa

from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.processes import run_and_end
from sluice.state import checksummed_blocks
from sluice.state.checksummed_blocks import LOGGER, DamagedError, Owner

ENDING = ".state"
#: ending of the second copy of a snapshot, where one was written
COPY = ".copy"
Write = Callable[[pa.NativeFile], None]
#: niceness of the copy: other processes get the CPU first
NICE = 10


class Snapshots:
    """The snapshots below `prefix` in a store. The name of an object is the prefix, the version and an ending."""

    def __init__(self, store: CheckpointStore, prefix: str, owner: Owner = Owner()) -> None:  # noqa: B008 - immutable
        self._store, self._prefix, self._owner = store, prefix, owner

    def write(self, version: int, write: Write, *, twice: bool = False) -> None:
        """Writes a snapshot. With `twice` it writes two equal objects, so that one of them may be damaged later."""
        for name in self._names(version)[: 1 + twice]:
            self._store.put(name, lambda file: self._write(file, version, write))

    def newest(self, upto: int) -> int:
        """The newest version up to `upto` (inclusive); 0 if there is none."""
        return next(iter(self.versions(upto)), 0)

    def versions(self, upto: int) -> list[int]:
        """The versions up to `upto` (inclusive), the newest first."""
        names = [name for name in self._store.list(self._prefix) if name.endswith((ENDING, COPY))]
        return sorted({version for name in names if (version := self._version(name)) <= upto}, reverse=True)

    def read(self, version: int) -> memoryview:
        """The state, mapped into memory where the store can do that. Raises DamagedError if no copy is undamaged."""
        first, copy = self._names(version)
        try:
            return self._read(version, first)
        except (DamagedError, FileNotFoundError) as error:
            try:
                content = self._read(version, copy)
            except FileNotFoundError:
                raise error from None
            LOGGER.warning("%s; its second copy %s is used", error, copy.removeprefix(self._prefix))
            return content

    def delete_before(self, before: int) -> None:
        """Removes the snapshots of versions before `before` (exclusive), and what incomplete writes of them left."""
        for version in self.versions(before - 1):
            for name in self._names(version):
                self._store.delete(name)
        for name in set(self._store.list(self._prefix, incomplete=True)):
            if self._version(name) < before:
                self._store.delete(name)

    def _write(self, file: BinaryIO, version: int, write: Write) -> None:
        writer = checksummed_blocks.BlockWriter(file, self._description(version))
        with pa.PythonFile(writer, "w") as sink:
            write(sink)
        writer.finish()

    def _read(self, version: int, name: str) -> memoryview:
        with self._store.get(name) as stored:
            return checksummed_blocks.read(stored, self._description(version))

    def _description(self, version: int) -> checksummed_blocks.Description:
        owner = self._owner
        return {"pipeline": owner.pipeline, "query": owner.query, "bucket": owner.bucket, "version": version}

    def _names(self, version: int) -> tuple[str, str]:
        return f"{self._prefix}{version}{ENDING}", f"{self._prefix}{version}{COPY}"

    def _version(self, name: str) -> int:
        return int(name.removeprefix(self._prefix).partition(".")[0])


class Background:
    """At most one forked copy at a time. `fork` copies only the memory pages that either process changes meanwhile."""

    def __init__(self) -> None:
        self._pid = 0

    def start(self, work: Callable[[], None]) -> None:
        """Runs `work` in a new copy. `work` must use neither open files nor threads of this process."""
        self._pid = os.fork()
        if not self._pid:
            _run(work)

    @property
    def busy(self) -> bool:
        return bool(self._pid)

    def wait(self) -> None:
        """Blocks until the work has ended. Does nothing if no work was started."""
        if self._pid:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)

    def ended(self) -> bool | None:
        """Whether the work succeeded; None while it runs or if none was started. Each result is returned only once."""
        if not self._pid:
            return None
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        self._pid = 0
        return status == 0

    def stop(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


def _run(work: Callable[[], None]) -> NoReturn:
    """Runs `work` and exits, so the copy does not continue what the original process was doing."""

    def alone() -> None:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # a copy that stays open would hide a close by the original
        os.nice(NICE)
        work()

    run_and_end(alone)
