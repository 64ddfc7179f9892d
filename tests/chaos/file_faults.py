"""Faults of files: bits that flip, a disk that is full or can only be read, and pipeline files that change."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.chaos.flows import EXTRA
from tests.recovery.harness.waiting import wait_until
from tests.unit.state.damaged_files import flip

if TYPE_CHECKING:
    from tests.chaos.faults import Fault, World

#: Spark's files of a checkpoint, as paths below the folder of a stage
OF_SPARK = re.compile(r"(offsets|commits)/\.?\d+(\.crc)?|\.?metadata(\.crc)?")
IDENTITY = "sluice.json"
#: exit code of a start whose checkpoint or file cannot be used, and those of a start that cannot write
REFUSED, UNWRITABLE = 4, (3, 4, 6)
#: exit codes of `sluice upgrade`: nothing is lost, or Kafka does not answer
UPGRADES = (0, 3)
#: what a start says if a batch in parts, or a damaged checkpoint, needs the file as it was
EARLIER = ("file as it was", "that it was made for")


# ---- bits ------------------------------------------------------------------------------------------------------------


def flipped(what: str, chosen: Callable[[Path], Sequence[Path]]) -> Fault:
    """A bit of one of these files of the checkpoint, while the service is down."""

    def harm(world: World) -> str:
        world.service.kill()
        paths = [path for path in chosen(world.checkpoint) if path.stat().st_size]
        if not paths:
            return f"no {what} to damage"
        path = world.seed.choice(sorted(paths))
        flip(path, world.seed.randrange(path.stat().st_size))
        return f"a bit of {path.relative_to(world.checkpoint)} flipped"

    return harm


def of_buckets(checkpoint: Path) -> list[Path]:
    """All files of buckets."""
    return [path for path in checkpoint.rglob("buckets/*/*") if path.is_file()]


def snapshots(checkpoint: Path, *, newest: bool) -> list[Path]:
    """The newest snapshot of each bucket, or the older ones."""
    by_bucket: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in checkpoint.rglob("buckets/*/*.state"):
        by_bucket[path.parent].append(path)
    ordered = [sorted(paths, key=lambda path: int(path.stem)) for paths in by_bucket.values()]
    return [path for paths in ordered for path in (paths[-1:] if newest else paths[:-1])]


def logs(checkpoint: Path) -> list[Path]:
    return [*checkpoint.rglob("buckets/*/*.log")]


def of_spark(checkpoint: Path) -> list[Path]:
    """The files that a start needs: the newest two of each log, with their checksums, and the metadata."""
    files = [path for path in checkpoint.rglob("*") if path.is_file() and _of_spark(path)]
    numbers = [int(path.name) for path in files if path.name.isdecimal()]
    needed = {str(number) for number in sorted(set(numbers))[-2:]} | {"metadata"}
    return [path for path in files if path.name.strip(".").removesuffix(".crc") in needed]


def _of_spark(path: Path) -> bool:
    return bool(OF_SPARK.fullmatch(path.name) or OF_SPARK.fullmatch(f"{path.parent.name}/{path.name}"))


def identity_flipped(world: World) -> str:
    """The start is refused with advice: an empty folder, which it restores."""
    world.service.kill()
    paths = sorted(world.checkpoint.rglob(IDENTITY))
    if not paths:
        return f"no {IDENTITY} to damage"
    path = world.seed.choice(paths)
    flip(path, world.seed.randrange(path.stat().st_size))
    world.service.start()
    if world.service.await_end(120) == REFUSED:
        shutil.rmtree(path.parent)
    return f"a bit of {path.relative_to(world.checkpoint)} flipped: exit code {world.service.exit_code}"


# ---- disks -----------------------------------------------------------------------------------------------------------


def disk_full(role: str) -> Fault:
    def harm(world: World) -> str:
        if not world.pids(role):
            return f"no {role} whose disk is full"
        duration = world.seconds(5)
        with world.service.unable_to_write(role):
            time.sleep(duration)
        return f"the disk of {role} full for {duration:.1f} s"

    return harm


def read_only(world: World) -> str:
    """At a start, as after an error of the file system: Linux refuses the change while a file is open for writing."""
    world.service.kill()
    with world.surroundings.read_only(world.service.folder):
        world.service.start()
        code = world.service.await_end(120)
    if code not in UNWRITABLE:
        raise AssertionError(f"a start on a disk that can only be read ended with {code}: {world.service.log()}")
    return f"a start on a disk that can only be read: exit code {code}"


# ---- pipeline files --------------------------------------------------------------------------------------------------


def other_buckets(world: World) -> str:
    """The service ends in order, and starts with another number of buckets."""
    _ended(world)
    file = yaml.safe_load(world.service.file.read_text())
    file["buckets"] = world.seed.choice([number for number in (1, 2, 3) if number != file["buckets"]])
    world.service.file.write_text(yaml.safe_dump(file, sort_keys=False))
    return f"{file['buckets']} buckets"


def changed_settings(world: World) -> str:
    """The service is killed, and starts with other settings."""
    world.service.kill()
    file = yaml.safe_load(world.service.file.read_text())
    file["max_records_per_batch"] = world.seed.choice([20, 100, 5000, 250_000])
    file["trigger_interval"] = world.seed.choice([0, 0.05, 0.5])
    file["direct_records"] = world.seed.choice([0, 50, 10_000])
    world.service.file.write_text(yaml.safe_dump(file, sort_keys=False))
    return f"batches of {file['max_records_per_batch']} records, {file['direct_records']} of them direct"


def upgraded(world: World) -> str:
    """While the service runs its file gets an operator, or loses it again; `sluice upgrade` says that nothing is lost.
    Then the service ends in order or is killed, and starts with the file. If a batch in parts needs the file as it was,
    the start says so, and the file becomes it again.
    """
    path, before = world.service.file, world.service.file.read_text()
    changed, what = with_or_without(yaml.safe_load(before), world.load.extra)
    path.write_text(yaml.safe_dump(changed, sort_keys=False))
    command = [sys.executable, "-m", "sluice", "upgrade", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode not in UPGRADES:
        raise AssertionError(f"`sluice upgrade` ended with {said.returncode}: {said.stdout} {said.stderr}")
    _ended(world) if world.seed.random() < 0.5 else world.service.kill()
    world.service.start()
    ready = lambda: world.service.page("/readyz")[0] == 200 or not world.service.running  # noqa: E731
    with suppress(AssertionError):
        wait_until(ready, "the service is ready with a changed file", 120)
    if world.service.exit_code == REFUSED and any(words in world.service.log() for words in EARLIER):
        world.service.await_no_process()
        path.write_text(before)
        return f"{what} was refused, and the file is as it was"
    world.load.changes += 1
    return what


def with_or_without(file: dict[str, Any], extra: str) -> tuple[dict[str, Any], str]:
    """The file with one operator more, a map of the stream `extra`, or without it. The order of the streams changes."""
    streams = dict(reversed([*file["streams"].items()]))
    operators = [one for one in file["operators"] if one["name"] != EXTRA]
    if len(operators) < len(file["operators"]):
        del streams[EXTRA]
        return file | {"streams": streams, "operators": operators}, "an operator less"
    streams[EXTRA] = {"topic": f"{file['pipeline']}.{EXTRA}", "marks": "none"}
    operators.append({"name": EXTRA, "map": extra, "output": {EXTRA: {"k": "k", "n": "n"}}})
    return file | {"streams": streams, "operators": operators}, f"an operator more, a map of {extra}"


def _ended(world: World) -> None:
    if world.service.running:
        os.kill(world.service.pid, signal.SIGTERM)
        with suppress(AssertionError):
            world.service.await_end(120)
