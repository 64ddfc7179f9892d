"""Reads Spark's logs in a checkpoint: the planned input of each batch, and the integrity of the files.

`verify` checks the files that Spark reads when a query starts.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sluice.checkpoint.checkpoint_identity import CheckpointError, batches, last_batch
from sluice.kafka.planned_batch import Planned, flat
from sluice.kafka.reading import Offsets
from sluice.time_units import MILLISECOND

#: name of the idle clock's time in Spark's offset log; the time is the source's offset
IDLE_CLOCK_KEY = "pulse"
#: the time of the idle clock before its first one
NO_IDLE_CLOCK = 0

#: magic number of Hadoop's files of checksums. Then come the number of bytes per checksum, and the checksums
CRC_MAGIC = b"crc\0"
#: size in bytes of the magic number with the length, and of each checksum
CRC_HEAD, CRC_SUM = 8, 4

T = TypeVar("T")

RESTORE = "restore it from a copy of the checkpoint, or start anew with an empty folder and --reset-ledger"


def parsed(entry: str) -> Planned:
    """Parses an entry of the log of offsets.

    Its lines are its version, the batch, and the offsets of each source, Kafka's first. "-" stands for no offsets.
    """
    _, batch, topics, *others = entry.splitlines()
    pulse = next((json.loads(other)[IDLE_CLOCK_KEY] for other in others if other != "-"), NO_IDLE_CLOCK)
    return Planned(json.loads(batch).get("batchTimestampMs", 0) * MILLISECOND, flat(json.loads(topics)), pulse)


def planned(checkpoint: Path, batch: int) -> Planned:
    """The planned input of a batch.

    Raises FileNotFoundError if the log does not have the batch, and CheckpointError if the entry is damaged.
    """
    return _checked(checkpoint / "offsets" / str(batch), parsed)


def known(checkpoint: Path, batch: int | None) -> Planned | None:
    """The planned input of a batch; None if the log does not have the batch."""
    try:
        return None if batch is None else planned(checkpoint, batch)
    except FileNotFoundError:
        return None


def digest(checkpoint: Path, batch: int) -> str | None:
    """The digest of the planned input of a batch; None if the log does not have the batch."""
    found = known(checkpoint, batch)
    return None if found is None else found.digest


def before_all(checkpoint: Path) -> Planned:
    """The position before the first batch: the offsets at which it starts."""
    return Planned(0, _checked(checkpoint / "sources" / "0" / "0", _first_offsets), NO_IDLE_CLOCK)


def offsets_read(checkpoint: Path) -> Offsets:
    """The end offsets of the last planned batch, empty if there is none. Spark plans no batch before it is done."""
    last = last_batch(checkpoint / "offsets")
    return {} if last is None else planned(checkpoint, last).offsets


def verify(checkpoint: Path) -> None:
    """Raises CheckpointError if a file that Spark reads when a query starts is damaged or missing."""
    committed, last = batches(checkpoint)
    if last is None and committed is None:
        if (checkpoint / "metadata").exists():
            _checked(checkpoint / "metadata", _metadata)
        return
    newest = max(number for number in (committed, last) if number is not None)
    for batch in range(max(0, newest - 1), newest + 1):
        _needed(checkpoint / "offsets" / str(batch), parsed)
    if committed is not None:
        _needed(checkpoint / "commits" / str(committed), _committed)
    _needed(checkpoint / "metadata", _metadata)
    first = checkpoint / "sources" / "0" / "0"
    if first.exists() or not newest:  # Spark needs the start of the first batch only for that batch
        _needed(first, _first_offsets)


def _needed(file: Path, parse: Callable[[str], T]) -> T:
    try:
        return _checked(file, parse)
    except FileNotFoundError:
        message = f"{file}: it is missing; {RESTORE}"
        raise CheckpointError(message) from None


def _checked(file: Path, parse: Callable[[str], T]) -> T:
    """The parsed content of one of Spark's files.

    Raises CheckpointError if the file cannot be read or parsed, or if its checksums differ. Raises FileNotFoundError if
    there is no such file.
    """
    try:
        data = file.read_bytes()
        _compare(data, file.with_name(f".{file.name}.crc"))
        return parse(data.decode())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{file}: it is damaged ({error}); {RESTORE}"
        raise CheckpointError(message) from error


def _compare(data: bytes, sums: Path) -> None:
    """Compares a file's bytes with Hadoop's checksums, if that file exists. Raises ValueError if they differ."""
    try:
        kept = sums.read_bytes()
    except FileNotFoundError:
        return
    size = int.from_bytes(kept[len(CRC_MAGIC) : CRC_HEAD], "big")
    if not kept.startswith(CRC_MAGIC) or size < 1:
        message = f"its file of checksums, {sums.name}, is damaged"
        raise ValueError(message)
    found = b"".join(zlib.crc32(data[at : at + size]).to_bytes(CRC_SUM, "big") for at in range(0, len(data), size))
    if found != kept[CRC_HEAD:]:
        message = f"its checksums differ from those in {sums.name}"
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
