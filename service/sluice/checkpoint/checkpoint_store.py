"""The contract of a checkpoint store: where the objects of a checkpoint are, and how they are read and written.

    service, state servers, commands            Spark, local processes
          |                                             |
    CheckpointStore                               a local folder
    - sluice.json, the identity                   - offsets/, commits/, sources/, metadata: Spark's own logs
    - buckets/<number>/<version>.state, .copy     - buckets/<number>/*.log, to which state servers append
    - reads Spark's logs                          - spool/, rows of the batch that runs
                                                  - sluice.lock

An object is a sequence of bytes under a name, such as `buckets/3/17.state`. It is written as a whole and never changed
in place, as in an object store. What is appended to, locked, or written by Spark itself needs a file system and stays
in a local folder: it does not go through this contract, except that Spark's logs are read through it.

`FolderStore` (folder_store.py) is the store of a folder, `ObjectStore` (object_store.py) the store of S3 and others.
Another store is one module with the functions of `CheckpointStore`, and one row in `store_at`
(checkpoint_folder.py).
`tests/unit/checkpoint/test_checkpoint_store.py` checks the contract for each store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol, Self

from sluice.model.errors import SluiceError

#: writes the bytes of an object to the binary file that it gets; it uses no function of the file but `write`
Write = Callable[[BinaryIO], object]
#: bytes that `copy` reads at once
CHUNK = 32 << 20


class StoreError(OSError):
    """The store cannot be reached, or refuses the request."""


class StoreRefusedError(StoreError):
    """The store refuses the request: wrong credentials, a missing bucket, an unknown setting."""


class StoreUnavailableError(SluiceError):
    """The service cannot start without the store, and the store cannot be used."""

    exit_code = 3


class StoredObject(Protocol):
    """An object that was opened for reading. `close` ends a `with` block; views of `content` stay valid after it."""

    @property
    def location(self) -> str:
        """Where the object is, as a text for messages."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def read_into(self, start: int, room: memoryview) -> int:
        """Reads bytes from offset `start` on until `room` is full or the object ends. Returns the number of bytes read.

        Raises OSError if the bytes cannot be read, for instance because a sector of the disk is damaged.
        """

    def content(self) -> memoryview:
        """All bytes. They may be mapped instead of read.

        A mapped byte that cannot be read ends the process, so a caller first reads all bytes with `read_into`.
        """

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class CheckpointStore(Protocol):
    """The objects of one checkpoint, by name. A store is a value that can be pickled, because tasks of Spark get it.

    A name has parts that are separated by `/`. All functions raise OSError if the store cannot be reached or refuses.
    """

    def get(self, name: str) -> StoredObject:
        """Opens an object. Raises FileNotFoundError if there is none of this name."""

    def put(self, name: str, write: Write) -> None:
        """Writes an object, and replaces an older one of this name, atomically.

        A reader gets the whole old object or the whole new one, and never a part, also if this process is killed
        meanwhile. If `write` raises an error, nothing changes. Of several processes that put the same name at once, the
        object of one remains.
        """

    def create(self, name: str, data: bytes) -> bool:
        """Writes a small object if there is none of this name. False if there is one, which does not change.

        Of several processes that create the same name at once, one gets True.
        """

    def list(self, prefix: str = "", *, incomplete: bool = False) -> Iterator[str]:
        """The names of all objects that begin with `prefix`, in no particular order.

        With `incomplete`, the names of puts that have not ended instead, for instance because the process was killed.
        An object of such a name may exist, too.
        """

    def delete(self, name: str) -> None:
        """Removes an object and the incomplete puts of this name. Does nothing if there are none."""

    def location(self, name: str = "") -> str:
        """Where the object is, or with an empty name the whole checkpoint, as a text for messages."""


def get_bytes(store: CheckpointStore, name: str) -> bytes:
    """The bytes of a small object. Raises FileNotFoundError if there is none of this name."""
    with store.get(name) as stored:
        data = bytearray(stored.size)
        return bytes(data[: stored.read_into(0, memoryview(data))])


def copy(store: CheckpointStore, name: str, to: CheckpointStore, new: str) -> int:
    """Copies an object into another store. Returns its size in bytes. Raises FileNotFoundError if there is none."""
    with store.get(name) as stored:
        to.put(new, lambda file: _write_all(stored, file))
        return stored.size


def _write_all(stored: StoredObject, file: BinaryIO) -> None:
    room = memoryview(bytearray(min(CHUNK, stored.size)))
    for start in range(0, stored.size, CHUNK):
        part = room[: min(CHUNK, stored.size - start)]
        if stored.read_into(start, part) != len(part):
            raise StoreError(f"{stored.location}: it ends before its size of {stored.size} bytes")
        file.write(part)


def put_bytes(store: CheckpointStore, name: str, data: bytes) -> None:
    """Writes a small object atomically."""
    store.put(name, lambda file: file.write(data))
