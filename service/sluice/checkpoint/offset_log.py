"""Reads Spark's logs in a checkpoint: which batches are planned and committed, and the planned input of each batch.

`verify` checks the files that Spark reads when a query starts. Spark writes its logs itself; they are read through the
checkpoint store. Two functions prepare the logs for Spark: `force_plan` forces an entry to the disk, and
`remove_stale_checksums` removes checksum files without their entries.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.checkpoint.checkpoint_store import CheckpointStore, get_bytes
from sluice.files import force, force_entry
from sluice.kafka.planned_batch import Planned, flat
from sluice.kafka.range_reader import Offsets
from sluice.time_units import MILLISECOND

#: key of the idle clock's time in Spark's offset log; existing checkpoints have this key
IDLE_CLOCK_KEY = "pulse"
#: the time of the idle clock before its first one
NO_IDLE_CLOCK = 0

#: magic number of Hadoop's files of checksums. Then come the number of bytes per checksum, and the checksums
CRC_MAGIC = b"crc\0"
#: name of a file of checksums of a log entry
CHECKSUMS = re.compile(r".*/\.(?P<entry>\d+)\.crc")
#: size in bytes of the magic number with the length, and of each checksum
CRC_HEAD, CRC_SUM = 8, 4

#: folders of Spark's logs in the checkpoint: the planned batches, and the committed batches
PLANNED, COMMITTED = "offsets", "commits"
#: other files of Spark: the id of the query, and the offsets at which the first batch starts
METADATA, FIRST_OFFSETS = "metadata", "sources/0/0"

T = TypeVar("T")

RESTORE = "restore it from a copy of the checkpoint, or start anew with an empty folder and --reset-ledger"


class SparkFileError(CheckpointError):
    """One of Spark's files is damaged or missing. `found` names the file and the damage, without advice."""

    def __init__(self, store: CheckpointStore, name: str, found: str) -> None:
        super().__init__(f"{store.location(name)}: it is {found}; {RESTORE}")
        self.found = f"its file {name} is {found}"


def batches(store: CheckpointStore) -> tuple[int | None, int | None]:
    """The numbers of the last committed batch and of the last planned batch; None if there is none."""
    return max(batches_in(store, COMMITTED), default=None), last_planned(store)


def force_plan(folder: Path, batch: int) -> None:
    """Waits until the disk has the entry of the batch in Spark's log of planned batches, which Spark does not do."""
    path = folder / PLANNED / str(batch)
    for file in (path, path.with_name(f".{batch}.crc")):  # Hadoop writes the checksum beside it
        if file.exists():
            force(file)
    force_entry(path, folder)


def last_planned(store: CheckpointStore) -> int | None:
    """The number of the last planned batch, None if there is none."""
    return max(batches_in(store, PLANNED), default=None)


def batches_in(store: CheckpointStore, log: str) -> set[int]:
    """The numbers of the batches in one of Spark's logs. Spark removes old entries."""
    try:
        names = [name.removeprefix(f"{log}/") for name in store.list(f"{log}/")]
    except OSError as error:
        message = f"{store.location(log)}: it cannot be listed ({error})"
        raise CheckpointError(message) from error
    return {int(name) for name in names if name.isdigit()}


def remove_stale_checksums(store: CheckpointStore) -> None:
    """Removes files of checksums whose log entry is missing. Spark cannot write an entry beside them."""
    for log in (PLANNED, COMMITTED):
        names = set(store.list(f"{log}/"))
        for name in names:
            sums = CHECKSUMS.fullmatch(name)
            if sums and f"{log}/{sums['entry']}" not in names:
                store.delete(name)


def parsed(entry: str) -> Planned:
    """Parses an entry of the log of offsets.

    Its lines are its version, the batch, and the offsets of each source, Kafka's first. "-" stands for no offsets.
    """
    _, batch, topics, *others = entry.splitlines()
    idle_clock = next((json.loads(other)[IDLE_CLOCK_KEY] for other in others if other != "-"), NO_IDLE_CLOCK)
    return Planned(json.loads(batch).get("batchTimestampMs", 0) * MILLISECOND, flat(json.loads(topics)), idle_clock)


def planned(store: CheckpointStore, batch: int) -> Planned:
    """The planned input of a batch.

    Raises FileNotFoundError if the log does not have the batch, and CheckpointError if the entry is damaged.
    """
    return _checked(store, f"{PLANNED}/{batch}", parsed)


def known(store: CheckpointStore, batch: int | None) -> Planned | None:
    """The planned input of a batch; None if the log does not have the batch."""
    try:
        return None if batch is None else planned(store, batch)
    except FileNotFoundError:
        return None


def digest(store: CheckpointStore, batch: int) -> str | None:
    """The digest of the planned input of a batch; None if the log does not have the batch."""
    found = known(store, batch)
    return None if found is None else found.digest


def before_all(store: CheckpointStore) -> Planned:
    """The position before the first batch: the offsets at which it starts."""
    return Planned(0, _checked(store, FIRST_OFFSETS, _first_offsets), NO_IDLE_CLOCK)


def before_batch(store: CheckpointStore, batch: int) -> Planned:
    """The position at which a batch starts: the plan of the batch before it. Raises as `planned` does."""
    return planned(store, batch - 1) if batch else before_all(store)


def first_offsets(store: CheckpointStore) -> Offsets:
    """The offsets at which the first batch starts; empty if the store does not have them."""
    try:
        return before_all(store).offsets
    except FileNotFoundError:
        return {}


def offsets_read(store: CheckpointStore) -> Offsets:
    """The end offsets of the last planned batch, empty if there is none. Spark plans no batch before it is done."""
    last = last_planned(store)
    return {} if last is None else planned(store, last).offsets


def verify(store: CheckpointStore) -> None:
    """Raises SparkFileError if a file that Spark reads when a query starts is damaged or missing."""
    committed, last = batches(store)
    if last is None and committed is None:
        _optional(store, METADATA, _metadata)
        return
    newest = max(number for number in (committed, last) if number is not None)
    for batch in range(max(0, newest - 1), newest + 1):
        _needed(store, f"{PLANNED}/{batch}", parsed)
    if committed is not None:
        _needed(store, f"{COMMITTED}/{committed}", _committed)
    _needed(store, METADATA, _metadata)
    # Spark needs the start of the first batch only for that batch.
    (_optional if newest else _needed)(store, FIRST_OFFSETS, _first_offsets)


def _optional(store: CheckpointStore, name: str, parse: Callable[[str], object]) -> None:
    """Checks a file, if it exists."""
    with suppress(FileNotFoundError):
        _checked(store, name, parse)


def _needed(store: CheckpointStore, name: str, parse: Callable[[str], object]) -> None:
    """Checks a file. Raises SparkFileError if it does not exist."""
    try:
        _checked(store, name, parse)
    except FileNotFoundError:
        raise SparkFileError(store, name, "missing") from None


def _checked(store: CheckpointStore, name: str, parse: Callable[[str], T]) -> T:
    """The parsed content of one of Spark's files.

    Raises SparkFileError if the file cannot be read or parsed, or if its checksums differ. Raises FileNotFoundError if
    there is no such file.
    """
    try:
        data = get_bytes(store, name)
        _compare(data, store, name)
        return parse(data.decode())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SparkFileError(store, name, f"damaged ({error})") from error


def _compare(data: bytes, store: CheckpointStore, name: str) -> None:
    """Compares a file's bytes with Hadoop's checksums, if that file exists. Raises ValueError if they differ."""
    folder, slash, file = name.rpartition("/")
    sums = f".{file}.crc"
    try:
        kept = get_bytes(store, f"{folder}{slash}{sums}")
    except FileNotFoundError:
        return
    size = int.from_bytes(kept[len(CRC_MAGIC) : CRC_HEAD], "big")
    if not kept.startswith(CRC_MAGIC) or size < 1:
        message = f"its file of checksums, {sums}, is damaged"
        raise ValueError(message)
    found = b"".join(zlib.crc32(data[at : at + size]).to_bytes(CRC_SUM, "big") for at in range(0, len(data), size))
    if found != kept[CRC_HEAD:]:
        message = f"its checksums differ from those in {sums}"
        raise ValueError(message)


def _metadata(text: str) -> None:
    json.loads(text)["id"]


def _committed(text: str) -> None:
    _version, entry = text.splitlines()
    json.loads(entry).items()


def _first_offsets(text: str) -> Offsets:
    """Parses the offsets at which the first batch starts. Spark writes a zero byte before the version in this file."""
    _version, offsets = text.splitlines()
    return flat(json.loads(offsets))
