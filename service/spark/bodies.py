"""Bodies of state as files beside the checkpoint: Spark's state store would carry 45 MB/s of them.

Spark's state holds which version counts; a file is complete before Spark hears of its version, and equal whoever wrote
it, since a batch that runs again gets equal inputs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: Spark may go back by the batch in hand; one more for who reads the checkpoint of a running service
KEPT = 3


class Bodies:
    """The bodies of one bucket."""

    def __init__(self, checkpoint: str, bucket: int) -> None:
        self._folder = Path(checkpoint, "buckets", str(bucket))

    def save(self, version: int, body: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"{version}.{os.getpid()}.part"
        part.write_bytes(body)
        part.replace(self._folder / str(version))
        with suppress(FileNotFoundError):
            (self._folder / str(version - KEPT)).unlink()

    def load(self, version: int) -> bytes:
        return (self._folder / str(version)).read_bytes()
