"""Detection of damaged files of a state: the error, and the bucket that a file belongs to, which seeds the checksums.

The checksum is XXH3 with 64 bits. It is not a signature: it detects accidents, not attacks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property

from xxhash import xxh3_64_intdigest

from sluice.columns.tables import StateError

LOGGER = logging.getLogger("sluice.state")


class DamagedError(StateError):
    """A file of the state differs from what was written. The message has the file and the position of the damage."""

    def __init__(self, location: str, what: str) -> None:
        super().__init__(f"{location}: {what}")
        self._location, self._what = location, what

    def but(self, more: str) -> DamagedError:
        """The same error with `more` appended to its message."""
        return DamagedError(self._location, self._what + more)


@dataclass(frozen=True)
class Owner:
    """The bucket whose state a file holds. `query` is the id of the checkpoint."""

    pipeline: str = ""
    query: str = ""
    bucket: int = 0

    @cached_property
    def seed(self) -> int:
        """The seed of the checksums, so that a file of one bucket does not pass as a file of another bucket."""
        return xxh3_64_intdigest(f"{self.query}/{self.bucket}".encode())
