"""What a batch did, as the ledger tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from sluice.kafka.planned_batch import Planned

#: stream -> kind or reason -> how many
Counts = dict[str, dict[str, int]]


@dataclass(slots=True)
class Report:
    """Counts of records, and what the operators did and hold after it.

    read, written   by stream and kind ("tuple", "window", ...)
    dead_letters    by stream and the word of the reason
    operators       by operator: tuples "in" and "out", "windows" that fired, "partitions" and "tuples" held
    state           bytes "read", "written" and "held"
    watermarks      by stream that has one, nanoseconds since 1970; of several the least
    clock           of the operators, nanoseconds since 1970; of several the least, None where nothing moved one
    due             when time alone will bring something out next, of several the first, None where it never will
    final           whether every topic partition of every input has sent its final mark
    """

    read: Counts = field(default_factory=dict)
    written: Counts = field(default_factory=dict)
    dead_letters: Counts = field(default_factory=dict)
    operators: Counts = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    clock: int | None = None
    due: int | None = None
    final: bool = False

    def add(self, other: Report) -> None:
        for mine, theirs in (
            (self.read, other.read), (self.written, other.written), (self.dead_letters, other.dead_letters),
            (self.operators, other.operators),
        ):  # fmt: skip
            _add(mine, theirs)
        _sum(self.state, other.state)
        for stream, watermark in other.watermarks.items():
            self.watermarks[stream] = min(watermark, self.watermarks.get(stream, watermark))
        self.clock = _least(self.clock, other.clock)
        self.due = _least(self.due, other.due)
        self.final |= other.final

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Report:
        return cls(**json.loads(text))


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
    #: milliseconds that the transaction of the batch before it took, 0 for the first batch of a writer
    took: int = 0
    #: what the batch read; None in entries of earlier versions
    planned: Planned | None = None

    def to_json(self) -> bytes:
        planned = None if self.planned is None else self.planned.to_fields()
        fields = asdict(replace(self, planned=None)) | {"planned": planned}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Entry:
        fields = json.loads(text)
        planned = fields.get("planned")
        own = {"report": Report(**fields["report"]), "planned": planned and Planned.of_fields(planned)}
        return cls(**{**fields, **own})


def _least(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


def _add(counts: Counts, others: Mapping[str, Mapping[str, int]]) -> None:
    for stream, by_kind in others.items():
        _sum(counts.setdefault(stream, {}), by_kind)


def _sum(counts: dict[str, int], others: Mapping[str, int]) -> None:
    for kind, count in others.items():
        counts[kind] = counts.get(kind, 0) + count
