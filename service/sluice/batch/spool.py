"""Large packed rows as files in the checkpoint instead of bytes in memory.

A batch may have gigabytes of rows: it was planned by the number of its records, and any producer may write large ones.
Spark returns what its tasks have made through the heap of the JVM, which is smaller. So each process keeps at most
`limit` bytes of packed rows in memory. The bytes of all further rows go to a file of its own in `spool/`, and a
reference stands in their place. A process that needs the row maps the file into its memory; the operating system reads
the pages that are used and drops them again.

The process that commits a batch removes the files of this batch and of all earlier ones, also of tasks that failed.
"""

from __future__ import annotations

import mmap
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

import orjson

from sluice.batch.envelope import SPOOLED, Packed


class Spool:
    """The rows that one process hands over. It makes its file with the first row that exceeds `limit`."""

    def __init__(self, checkpoint: str, batch: int, limit: int) -> None:
        self._path = folder_of(checkpoint) / f"{batch}.{uuid.uuid4().hex}"
        self._left = limit
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def handed(self, row: Packed) -> Packed:
        """The row itself, or a reference to it. A reference can be read after this spool was closed or flushed."""
        holds, body = row
        if holds & SPOOLED:
            return row
        if len(body) <= self._left:
            self._left -= len(body)
            return row
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
        start = self._file.tell()
        self._file.write(body)
        return holds | SPOOLED, orjson.dumps({"file": self._path.name, "start": start, "size": len(body)})

    def flush(self) -> None:
        """Makes all references readable."""
        if self._file is not None:
            self._file.flush()

    def remove(self) -> None:
        """Removes the file, whose rows nobody needs any more."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)


def in_memory(checkpoint: str, rows: Iterable[Packed]) -> Iterator[Packed]:
    """The rows with the bytes that their references name. These are read from the file when they are used."""
    files: dict[str, memoryview] = {}
    for holds, body in rows:
        if not holds & SPOOLED:
            yield holds, body
            continue
        place = orjson.loads(body)
        name, start = place["file"], place["start"]
        if name not in files:
            files[name] = _mapped(folder_of(checkpoint) / name)
        yield holds & ~SPOOLED, files[name][start : start + place["size"]]


def forget(checkpoint: str, batch: int) -> None:
    """Removes the files of this batch and of all earlier ones."""
    for path in folder_of(checkpoint).glob("*.*"):
        if int(path.name.partition(".")[0]) <= batch:
            path.unlink(missing_ok=True)
    with suppress(OSError):  # it is not there, or has a file of a later batch
        folder_of(checkpoint).rmdir()


def folder_of(checkpoint: str) -> Path:
    return Path(checkpoint, "spool")


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
