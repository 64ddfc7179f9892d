"""The spool stores large packed rows in files of the checkpoint instead of memory.

A batch may have gigabytes of rows: it is planned by the number of its records, and a producer may write large records.
Spark returns the outputs of tasks through the heap of the JVM, which is smaller. So a spool keeps at most `limit` bytes
of packed rows in memory. It writes each row that does not fit into the rest of this limit to its own file in `spool/`,
and passes a reference in place of the row. A process that needs such a row maps the file into its memory; the operating
system loads the pages that are used, and can drop them again.

The process that commits a batch removes the files of this batch and of all earlier batches, also the files
of failed tasks.
"""

from __future__ import annotations

import mmap
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Self

import orjson

from sluice.batch.packed_rows import SPOOLED, Packed

#: the name of a spool's file: the number of its batch, and a random UUID. NFS keeps a file that is removed while a
#: process has mapped it under another name (.nfs...) in the same folder, until the process unmaps it
FILE_NAME = re.compile(r"(\d+)\.[0-9a-f]{32}")


class Spool:
    """The packed rows that one task passes on.

    `limit` is the number of bytes that may stay in memory. The first row that does not fit creates the file.
    """

    def __init__(self, checkpoint: str, batch: int, limit: int) -> None:
        self._checkpoint, self._batch = checkpoint, batch
        self._left = limit
        self._file: BinaryIO | None = None

    @cached_property
    def _path(self) -> Path:
        return folder_of(self._checkpoint) / f"{self._batch}.{uuid.uuid4().hex}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def stored(self, row: Packed) -> Packed:
        """The row itself, or a reference to its bytes in the file.

        A reference can be read after `flush`, or after the end of the `with` block.
        """
        kind, body = row
        if kind & SPOOLED:
            return row
        if len(body) <= self._left:
            self._left -= len(body)
            return row
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
        start = self._file.tell()
        self._file.write(body)
        return kind | SPOOLED, orjson.dumps({"file": self._path.name, "start": start, "size": len(body)})

    def flush(self) -> None:
        """Writes all bytes to the file, so that other processes can read all references."""
        if self._file is not None:
            self._file.flush()

    def remove(self) -> None:
        """Removes the file. Its references become invalid."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)


def in_memory(checkpoint: str, rows: Iterable[Packed]) -> Iterator[Packed]:
    """The rows, in which views of the mapped files replace references. Pages of a file are read when they are used."""
    files: dict[str, memoryview] = {}
    for kind, body in rows:
        if not kind & SPOOLED:
            yield kind, body
            continue
        reference = orjson.loads(body)
        name, start = reference["file"], reference["start"]
        if name not in files:
            files[name] = _mapped(folder_of(checkpoint) / name)
        yield kind & ~SPOOLED, files[name][start : start + reference["size"]]


def remove_files(checkpoint: str, batch: int) -> None:
    """Removes the files of this batch and of all earlier ones. Files with other names than a spool's stay."""
    for path in folder_of(checkpoint).glob("*.*"):
        name = FILE_NAME.fullmatch(path.name)
        if name and int(name[1]) <= batch:
            path.unlink(missing_ok=True)
    with suppress(OSError):  # the folder does not exist, or has another file
        folder_of(checkpoint).rmdir()


def folder_of(checkpoint: str) -> Path:
    return Path(checkpoint, "spool")


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
