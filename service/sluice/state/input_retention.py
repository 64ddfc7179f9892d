"""Gets from Kafka the oldest offset of each topic partition that a restore reads, and returns it beside the first
offset that the restore needs. The caller compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sluice.kafka.range_reader import Offsets, beginnings
from sluice.kafka.requests import clients


class NeededOffset(NamedTuple):
    """The first offset that a restore needs from a topic partition, and the oldest one that Kafka still has."""

    needed: int
    oldest: int


def oldest_needed(kafka: Mapping[str, str], starts: Offsets, ends: Offsets) -> dict[tuple[str, int], NeededOffset]:
    """For each topic partition from which a restore reads records: those from `starts` to `ends` (exclusive)."""
    needed = {one: starts.get(one, 0) for one, end in ends.items() if starts.get(one, 0) < end}
    if not needed:
        return {}
    with clients(kafka, "admin") as requests:
        oldest = beginnings(requests, needed)
    return {one: NeededOffset(start, oldest[one]) for one, start in needed.items()}
