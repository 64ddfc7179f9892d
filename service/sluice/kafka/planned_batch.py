"""What a batch reads, as it was planned before it ran. Nothing else enters a batch (docs/exactly-once.md)."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from sluice.kafka.reading import Offsets

#: hexadecimal digits of a digest
DIGITS = 32


class Planned(NamedTuple):
    """When a batch was planned, nanoseconds since 1970, how far it reads, and the pulse up to it."""

    time: int
    offsets: Offsets
    pulse: int

    @property
    def digest(self) -> str:
        """Equal for equal plans. Two batches that were planned apart have different times, and so different digests."""
        text = json.dumps(self.to_fields(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]

    def to_fields(self) -> dict[str, Any]:
        """As JSON can have it: the offsets by topic, and then by the text of a topic partition's number."""
        offsets: dict[str, dict[str, int]] = defaultdict(dict)
        for (topic, number), offset in sorted(self.offsets.items()):
            offsets[topic][str(number)] = offset
        return {"time": self.time, "offsets": offsets, "pulse": self.pulse}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Planned:
        return cls(fields["time"], flat(fields["offsets"]), fields["pulse"])


def flat(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """By topic and topic partition what JSON has by topic and then by the text of a topic partition's number."""
    return {(topic, int(number)): offset for topic, by in offsets.items() for number, offset in by.items()}
