"""Records that cannot be used, on their way to the dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.pipeline.spec import Stream
from service.spark.packed import pack
from service.spark.places import topic_partition_of
from service.wire.dead_letters import DeadLetter


class Setting:
    """Sets records of a batch aside: which of them are still alive, and why the others aren't."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._reasons: dict[int, str] = {}
        self.alive = np.ones(batch.num_rows, np.bool_)

    def aside(self, rows: Iterable[int], reason: str) -> None:
        """Sets these rows aside, all for one reason."""
        for row in rows:
            self.alive[row] = False
            self._reasons.setdefault(int(row), reason)

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def packed(self, stream: Stream, places: np.ndarray) -> bytes:
        """The dead letters; `places` has that of each record of the batch."""
        rows = sorted(self._reasons)
        taken = self._batch.take(pa.array(rows, pa.int64()))
        columns = {
            "place": pa.array(places[rows]),
            "reason": pa.array([self._reasons[row] for row in rows], pa.string()),
            "timestamp": pc.cast(pc.cast(taken.column("timestamp"), pa.timestamp("ms", "UTC"), safe=False), pa.int64()),
            "partition": pa.array(topic_partition_of(places[rows]).astype(np.int32)),
            **{name: taken.column(name) for name in ("offset", "key", "value", "headers")},
        }
        return pack(pa.RecordBatch.from_pydict(columns), {"stream": stream.name, "topic": str(stream.topic)})


def letters(batch: pa.RecordBatch, about: Mapping[str, str]) -> Iterator[tuple[int, DeadLetter]]:
    """The dead letters of an unpacked row, each with its place."""
    for row in batch.to_pylist():
        place = row.pop("place")
        headers = [(header["key"], header["value"]) for header in row.pop("headers") or ()]
        yield place, DeadLetter(stream=about["stream"], topic=about["topic"], headers=headers, **row)
