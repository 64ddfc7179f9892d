"""Spark's offset log in a checkpoint: what each batch reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sluice.checkpoint.checkpoint_identity import last_batch
from sluice.kafka.reading import Offsets
from sluice.time_units import MILLISECOND

#: the offset of the pulse is a time under this name
PULSE_KEY = "pulse"
#: and before its first one
NO_PULSE = 0


class Planned(NamedTuple):
    """When a batch was planned, nanoseconds since 1970, how far it reads, and the pulse up to it."""

    time: int
    offsets: Offsets
    pulse: int

    @classmethod
    def of(cls, entry: str) -> Planned:
        """An entry has a line each for its version, the batch, and the offsets of each source, Kafka's first."""
        _, batch, topics, *others = entry.splitlines()
        pulse = next((json.loads(other)[PULSE_KEY] for other in others if other != "-"), NO_PULSE)
        return cls(json.loads(batch).get("batchTimestampMs", 0) * MILLISECOND, flat(json.loads(topics)), pulse)


def planned(checkpoint: Path, batch: int) -> Planned:
    """Raises FileNotFoundError for a batch that is not in the log any more."""
    return Planned.of((checkpoint / "offsets" / str(batch)).read_text())


def before_all(checkpoint: Path) -> Planned:
    """What the first batch goes on from."""
    entry = (checkpoint / "sources" / "0" / "0").read_text()
    return Planned(0, flat(json.loads(entry.splitlines()[-1])), NO_PULSE)


def offsets_read(checkpoint: Path) -> Offsets:
    """How far the last batch in the log reads. It is done when the next is planned."""
    last = last_batch(checkpoint / "offsets")
    return {} if last is None else planned(checkpoint, last).offsets


def flat(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """What Spark has by topic and then by the text of a topic partition's number."""
    return {(topic, int(number)): offset for topic, by in offsets.items() for number, offset in by.items()}
