"""What a batch did, as the ledger tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

#: stream -> kind or reason -> how many
Counts = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of records: read and written by stream and kind ("tuple", "window", ...), dead letters by their reason."""

    read: Counts = field(default_factory=dict)
    written: Counts = field(default_factory=dict)
    dead_letters: Counts = field(default_factory=dict)

    def add(self, other: Report) -> None:
        for mine, theirs in ((self.read, other.read), (self.written, other.written)):
            _add(mine, theirs)
        _add(self.dead_letters, other.dead_letters)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the ledger topic, about one batch; its key is the query's name."""

    query: str
    query_id: str
    batch: int
    #: when it was written, milliseconds since 1970
    at: int
    #: how many batches before it were found to be written already, by this writer
    skipped: int
    report: Report

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Entry:
        fields = json.loads(text)
        return cls(**{**fields, "report": Report(**fields["report"])})


def _add(counts: Counts, others: Mapping[str, Mapping[str, int]]) -> None:
    for stream, by_kind in others.items():
        mine = counts.setdefault(stream, {})
        for kind, count in by_kind.items():
            mine[kind] = mine.get(kind, 0) + count
