"""The disk of a service's checkpoint is full, read-only, or returns other bytes than were written (fault_rows.py)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.recovery.harness.service import Service
from tests.recovery.harness.shared_service import Shared, created
from tests.recovery.harness.sums_and_runs import FILE, tuples
from tests.recovery.harness.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: the checkpoint cannot be read or written, or a batch failed
CHECKPOINT, FAILED = 4, 6
DISK_BYTES = 32 << 20


class Disk:
    """A file system of its own. Mounting one needs root; without that right the tests of it fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        self._mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs")

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(self.folder)], check=True)

    def fill(self) -> None:
        """Until not one byte fits."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def empty(self) -> None:
        self._filler.unlink(missing_ok=True)

    def make_read_only(self) -> None:
        self._mount("-o", "remount,ro")

    def make_writable(self) -> None:
        self._mount("-o", "remount,rw")

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


@pytest.fixture(scope="module")
def disk(tmp_path_factory) -> Iterator[Disk]:
    folder = tmp_path_factory.mktemp("disk")
    one = Disk(folder)
    yield one
    one.remove()


@pytest.fixture(scope="module")
def shared(services) -> Shared:
    return Shared(lambda: created(services(FILE)))


@pytest.fixture(scope="module")
def shared_on_disk(services, disk) -> Shared:
    numbers = count()
    return Shared(lambda: created(services(FILE, checkpoint=disk.folder / f"checkpoint-{next(numbers)}")))


@pytest.fixture
def service(shared) -> Service:
    return rested(shared.service())


@pytest.fixture
def on_disk(shared_on_disk) -> Service:
    return rested(shared_on_disk.service())


def rested(service: Service) -> Service:
    service.send("in", tuples(600))
    service.await_rest()
    return service


# ---- nothing can be written ------------------------------------------------------------------------------------------


def test_k12_the_disk_is_full(on_disk, disk):
    """The service ends; a start on the full disk ends too; with room it goes on."""
    disk.fill()
    try:
        on_disk.send("in", tuples(600))
        assert on_disk.await_end() in (CHECKPOINT, FAILED), on_disk.log()
        on_disk.start()
        assert on_disk.await_end() in (CHECKPOINT, FAILED), on_disk.log()
    finally:
        disk.empty()
    on_disk.start()
    on_disk.await_outputs()


def test_k12_the_disk_can_only_be_read(on_disk, disk):
    """At a start, as after an error of the file system: while a file is open for writing, Linux refuses the change."""
    on_disk.end()
    disk.make_read_only()
    try:
        on_disk.send("in", tuples(600))
        on_disk.start()
        assert on_disk.await_end() in (CHECKPOINT, FAILED), on_disk.log()
    finally:
        disk.make_writable()
    on_disk.start()
    on_disk.await_outputs()


@pytest.mark.parametrize("role", ["state", "jvm"])
def test_k12_one_process_cannot_write(service, role):
    """A state server, which writes logs and snapshots, or Spark, which writes what it has planned and done."""
    with service.unable_to_write(role):
        service.send("in", tuples(600))
        assert service.await_end() in (CHECKPOINT, FAILED), service.log()
    service.start()
    service.await_outputs()


# ---- other bytes -----------------------------------------------------------------------------------------------------


def test_k08_a_bit_of_a_snapshot_is_flipped(service):
    """The service says which file, or does without it; with the sound file it goes on."""
    with_a_flipped_bit(service, "*.state")


def test_k09_a_bit_of_the_log_is_flipped(service):
    with_a_flipped_bit(service, "*.log")


def with_a_flipped_bit(service: Service, pattern: str) -> None:
    await_file(service, f"buckets/*/{pattern}")
    service.kill()
    file = newest(service, f"buckets/*/{pattern}")
    sound = file.read_bytes()
    at = len(sound) // 2
    file.write_bytes(sound[:at] + bytes([sound[at] ^ 16]) + sound[at + 1 :])
    service.send("in", tuples(300))
    assert_right_or_refused(service, file, sound)


@pytest.mark.parametrize("pattern", ["*.log", "*.state"])
def test_k10_a_file_of_the_state_is_missing(service, pattern):
    await_file(service, f"buckets/*/{pattern}")
    service.kill()
    file = newest(service, f"buckets/*/{pattern}")
    sound = file.read_bytes()
    file.unlink()
    service.send("in", tuples(300))
    assert_right_or_refused(service, file, sound)


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_k11_the_machine_loses_power_and_sparks_newest_entry_is_empty(service, log):
    """Spark does not force its files to the disk."""
    service.kill()
    file = max((service.checkpoint / log).glob("[0-9]*"), key=lambda path: int(path.name))
    sound = file.read_bytes()
    file.write_bytes(b"")
    service.send("in", tuples(300))
    assert_right_or_refused(service, file, sound)


def await_file(service: Service, pattern: str) -> None:
    """Sends tuples until such a file exists: the first snapshot comes after some batches."""

    def exists() -> bool:
        if any(service.checkpoint.glob(pattern)):
            return True
        rested(service)
        return False

    service.wait_until(exists, f"{pattern} exists in the checkpoint")


def newest(service: Service, pattern: str) -> Path:
    return max(service.checkpoint.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def assert_right_or_refused(service: Service, file: Path, sound: bytes) -> None:
    """Never wrong outputs. A service that ends names the folder of the file, and goes on once the file is restored."""
    expected = sum(map(len, service.expected().values()))
    service.start()

    def ended_or_done() -> bool:
        return not service.running or service.records("sums", "runs") == expected

    wait_until(ended_or_done, "it ends or goes on", log=service.log)
    if not service.running:
        assert service.exit_code == CHECKPOINT, service.log()
        assert str(file.parent) in service.log(), service.log()
        service.await_no_process()
        file.write_bytes(sound)
        service.start()
    service.await_outputs()
