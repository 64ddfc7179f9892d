"""Spark's logs in a checkpoint: which batches are planned and committed, and the planned input of each batch.

Reading: Spark writes its logs itself; they are read through the checkpoint store. `verify` checks the files that Spark
reads when a query starts. Two functions prepare the logs for Spark: `force_plan` forces an entry to the disk, and
`remove_stale_checksums` removes checksum files without their entries.

Writing: `write_logs` writes all logs of a query, so that Spark continues after a batch that another checkpoint has
recorded; `write_first_plan` writes the plan of the first batch, so that Spark begins with this batch.

Spark 4.2 continues with batch N + 1 if a checkpoint has `metadata`, `offsets/N-1`, `offsets/N` and `commits/N`, and
nothing else. Without `offsets/N-1` it refuses to start. The file `sources/0/0` has the offsets at which batch 0 starts:
Spark reads it only before that batch, and `sluice replay --checkpoint` for it.

A planned batch that was not committed is run again by a start. Spark then compares the number of shuffle partitions of
this batch and of the batch before it, and fails if one of them has none.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.checkpoint.checkpoint_store import CheckpointStore, get_bytes, put_bytes
from sluice.files import force, force_entry
from sluice.kafka.batch_report import Planned, flat
from sluice.kafka.client import LOGGER
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


#: the parts of a checkpoint that Spark writes
PARTS = (METADATA, PLANNED, COMMITTED, "sources")
VERSION = "v1"
#: the settings in Spark's log of planned batches. A start of the query uses them. Sluice gives its own number of
#: partitions to each shuffle, so Spark's default changes nothing
CONF = {"spark.sql.shuffle.partitions": "200"}


class SparkFileError(CheckpointError):
    """One of Spark's files is damaged or missing. `found` names the file and the damage, without advice."""

    def __init__(self, store: CheckpointStore, name: str, problem: str) -> None:
        super().__init__(f"{store.location(name)}: it is {problem}; {RESTORE}")
        self.found = f"its file {name} is {problem}"


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
    planned = known(store, batch)
    return None if planned is None else planned.digest


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


def remove_first_plan_if_damaged(store: CheckpointStore, *, with_beginning: bool) -> None:
    """Removes the plan of a query of which no batch was ever written, if a file of it is damaged or missing: the power
    may have failed while Spark wrote them. Spark plans the first batch again.

    with_beginning   whether the file with the beginning may be removed, too: Spark then begins with the oldest records
    """
    try:
        verify(store)
    except SparkFileError as error:
        LOGGER.warning("%s; no batch was ever written, and Spark plans the first one again", error.found)
        planned = [f"{PLANNED}/{batch}" for batch in batches_in(store, PLANNED)]
        for name in (METADATA, *planned, *([FIRST_OFFSETS] if with_beginning else [])):
            folder, slash, file = name.rpartition("/")
            store.delete(f"{folder}{slash}.{file}.crc")
            store.delete(name)


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
    computed = b"".join(zlib.crc32(data[at : at + size]).to_bytes(CRC_SUM, "big") for at in range(0, len(data), size))
    if computed != kept[CRC_HEAD:]:
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


def write_logs(store: CheckpointStore, plans: Mapping[int, Planned], batch: int, *, idle_clock: bool) -> None:
    """Writes Spark's logs as they are after `batch` was committed.

    plans        the planned inputs by batch, of which `batch` is needed. Batch -1 is the position before batch 0
    idle_clock   whether the query has the idle clock as its second source
    """
    put_bytes(store, METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
    for number in range(max(0, batch - 1), batch + 1):
        put_bytes(store, f"{PLANNED}/{number}", _offsets(plans.get(number, plans[batch]), idle_clock=idle_clock))
    if -1 in plans:
        put_bytes(store, FIRST_OFFSETS, b"\0" + _lines(VERSION, _nested(plans[-1])))
    put_bytes(store, f"{COMMITTED}/{batch}", _lines(VERSION, {"nextBatchWatermarkMs": 0}))


def write_first_plan(store: CheckpointStore, before: Planned, first: Planned, *, idle_clock: bool) -> None:
    """Writes Spark's logs of a query that has not begun, so that Spark's first batch is `first`.

    before       the position before the first batch
    idle_clock   as in `write_logs`

    Spark, when it starts a query, runs the last batch of the log `offsets` if the log `commits` does not have it. The
    entry in `offsets` is written last: without it the logs describe a query that has not begun.
    """
    store.delete(f".{METADATA}.crc")
    put_bytes(store, METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
    write_first_offsets(store, before)
    put_bytes(store, f"{PLANNED}/0", _offsets(first, idle_clock=idle_clock))


def write_plan(store: CheckpointStore, batch: int, planned: Planned, *, idle_clock: bool) -> None:
    """Makes this the plan of a batch, in place of another one: Spark runs it first when it starts the query. The batch
    before is committed, or there is none.
    """
    for number in batches_in(store, PLANNED):
        if number > batch:
            store.delete(f"{PLANNED}/{number}")
    store.delete(f"{PLANNED}/.{batch}.crc")
    put_bytes(store, f"{PLANNED}/{batch}", _offsets(planned, idle_clock=idle_clock))


def write_first_offsets(store: CheckpointStore, before: Planned) -> None:
    """Writes the position at which a query that has not begun begins, in place of the one that an earlier start wrote.

    Spark reads a topic partition that is not in it from its oldest record.
    """
    store.delete("sources/0/.0.crc")  # Hadoop's checksums of the old file
    put_bytes(store, FIRST_OFFSETS, b"\0" + _lines(VERSION, _nested(before)))


def _offsets(planned: Planned, *, idle_clock: bool) -> bytes:
    head = {"batchWatermarkMs": 0, "batchTimestampMs": planned.time // MILLISECOND, "conf": CONF}
    # Spark compares offsets as texts, and the idle clock writes a space after the colon.
    time = [json.dumps({IDLE_CLOCK_KEY: planned.idle_clock})] if idle_clock else []
    return _lines(VERSION, head, _nested(planned), *time)


def _nested(planned: Planned) -> object:
    return planned.to_fields()["offsets"]


def _lines(*lines: object) -> bytes:
    texts = (line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) for line in lines)
    return "\n".join(texts).encode()
