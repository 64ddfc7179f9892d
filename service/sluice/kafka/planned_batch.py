"""The planned input of a batch: everything that a batch depends on, fixed before it runs (docs/exactly-once.md)."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from sluice.kafka.range_reader import Offsets

#: number of hexadecimal digits of a digest
DIGITS = 32


class Planned(NamedTuple):
    """The planned input of a batch.

    time         when the batch was planned, nanoseconds since 1970
    offsets      where the batch ends in each topic partition (exclusive)
    idle_clock   time of the idle clock at the end of the batch, nanoseconds since 1970
    """

    time: int
    offsets: Offsets
    idle_clock: int

    @property
    def digest(self) -> str:
        """The digest of the plan. Equal plans have equal digests; plans with different times have different ones."""
        text = json.dumps(self.to_fields(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]

    def to_fields(self) -> dict[str, Any]:
        """The fields as JSON values: offsets by topic, then by the topic partition's number as text (see `flat`)."""
        offsets: dict[str, dict[str, int]] = defaultdict(dict)
        for (topic, number), offset in sorted(self.offsets.items()):
            offsets[topic][str(number)] = offset
        return {"time": self.time, "offsets": offsets, "pulse": self.idle_clock}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Planned:
        return cls(fields["time"], flat(fields["offsets"]), fields["pulse"])


def flat(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets by (topic, topic partition), from JSON's nested form: topic -> topic partition as text -> offset."""
    return {(topic, int(number)): offset for topic, by in offsets.items() for number, offset in by.items()}
