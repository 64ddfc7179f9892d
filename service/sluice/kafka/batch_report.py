"""What the ledger has of a batch: its planned input, on which everything in the batch depends and which is fixed before
it runs (docs/exactly-once.md); its report; and the entry of the ledger's topic that contains both.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import orjson

from sluice.kafka.range_reader import Offsets

#: number of hexadecimal digits of a digest
DIGITS = 32


#: name of a stream or an operator -> kind, reason or quantity -> count
Counts = dict[str, dict[str, int]]


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
    return {(topic, int(number)): offset for topic, ends in offsets.items() for number, offset in ends.items()}


@dataclass(slots=True)
class Report:
    """The report of a batch: counts of records, and the sizes and times of the operators after the batch.

    Each task of the batch makes a report; `add` combines them. Times are in nanoseconds since 1970.

    read, written   number of records by stream and kind ("tuple", "window", ...)
    changes         number of change events by stream and operation ("create", "update", ...)
    dead_letters    number of dead letters by stream and reason (the words before its colon)
    operators       by operator: tuples read ("in") and emitted ("out"), firings ("windows"), and the "partitions" and
                    "tuples" that its windows contain after the batch; with results of empty panes also how many of
                    these were "left_out" so far
    lost            number of offsets by topic and topic partition whose records Kafka had deleted before they were read
    state           bytes "read" from the checkpoint, "written" to it, and "held": the size of the state after the batch
    watermarks      by stream with event time: the smallest watermark of all reports
    slowest         by input stream with event time: topic partitions that hold its watermark back, and the furthest
                    one, each as number, watermark (None: none yet), operator clock when its last item came, and
                    whether it is idle
    waiting         by stream with aligned marks: the number of marks of each topic partition that wait for others
    clock           the smallest operator clock of all reports; None if no operator clock has started
    due             the earliest time at which the operator clock alone causes an output; None if there is none
    final           whether every topic partition of every input has sent its final mark
    oldest, newest  the smallest and the largest record timestamp that was read; None without records
    first_dead      of the first dead letter by stream and reason (the words before its colon): topic, topic partition,
                    offset and the whole reason
    """

    read: Counts = field(default_factory=dict)
    written: Counts = field(default_factory=dict)
    changes: Counts = field(default_factory=dict)
    dead_letters: Counts = field(default_factory=dict)
    operators: Counts = field(default_factory=dict)
    lost: Counts = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    clock: int | None = None
    due: int | None = None
    final: bool = False
    oldest: int | None = None
    newest: int | None = None
    first_dead: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    slowest: dict[str, list[list[Any]]] = field(default_factory=dict)
    waiting: Counts = field(default_factory=dict)

    def add(self, other: Report) -> None:
        for own_counts, added in (
            (self.read, other.read), (self.written, other.written), (self.changes, other.changes),
            (self.dead_letters, other.dead_letters), (self.operators, other.operators), (self.lost, other.lost),
        ):  # fmt: skip
            _add(own_counts, added)
        _sum(self.state, other.state)
        for stream, watermark in other.watermarks.items():
            self.watermarks[stream] = min(watermark, self.watermarks.get(stream, watermark))
        self.slowest = other.slowest | self.slowest  # all buckets have the times of all topic partitions
        for stream, marks in other.waiting.items():
            counts = self.waiting.setdefault(stream, {})
            counts.update({partition: max(count, counts.get(partition, 0)) for partition, count in marks.items()})
        self.clock = _least(self.clock, other.clock)
        self.due = _least(self.due, other.due)
        self.final |= other.final
        self.oldest = _least(self.oldest, other.oldest)
        self.newest = max((time for time in (self.newest, other.newest) if time is not None), default=None)
        for stream, by_word in other.first_dead.items():
            self.first_dead[stream] = by_word | self.first_dead.get(stream, {})

    def to_json(self) -> bytes:
        return orjson.dumps(self)

    @classmethod
    def from_json(cls, text: bytes | memoryview) -> Report:
        return cls.of_fields(orjson.loads(text))

    @classmethod
    def of_fields(cls, values: Mapping[str, Any]) -> Report:
        """The report of these JSON values. Fields that only a newer version has are left out."""
        return cls(**_own(cls, values))


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the ledger topic about one batch. The record's key is the query's name.

    After a return to an earlier version of Sluice, the last entry may have fields that this version does not know. They
    are left out: what an entry reports is counted and shown, and what a batch read is in `planned`, whose digest is
    compared. Whether this version can read the states is decided by the formats of the states.
    """

    query: str
    query_id: str
    batch: int
    #: time at which the entry was written, milliseconds since 1970
    at: int
    #: number of batches since the previous entry that this writer skipped because the ledger already had them
    skipped: int
    report: Report
    #: time at which the batch's transaction began, milliseconds since 1970; 0 if the batch was written without one
    began: int = 0
    #: the input of the batch; None in entries that earlier versions wrote
    planned: Planned | None = None
    #: the fingerprint of the pipeline and its number of buckets, with which a lost checkpoint is made again
    fingerprint: str = ""
    buckets: int = 0
    #: the input topics and Kafka's ids of them, with which a start without a checkpoint finds out whether one was
    #: created again
    topics: Mapping[str, str] = field(default_factory=dict)
    #: of a part: the streams of which each bucket writes its part of the batch, with or without records in this one
    parted: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        planned = None if self.planned is None else self.planned.to_fields()
        return orjson.dumps({field.name: getattr(self, field.name) for field in fields(self)} | {"planned": planned})

    @classmethod
    def from_json(cls, text: bytes) -> Entry:
        values = orjson.loads(text)
        planned = values.get("planned")
        read = {
            "report": Report.of_fields(values["report"]), "planned": planned and Planned.of_fields(planned),
            "parted": tuple(values.get("parted", ())),
        }  # fmt: skip
        return cls(**{**_own(cls, values), **read})


def _own(class_: type[Report | Entry], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields that the class has."""
    names = {field.name for field in fields(class_)}
    return {name: value for name, value in values.items() if name in names}


def _least(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


def _add(counts: Counts, others: Mapping[str, Mapping[str, int]]) -> None:
    for stream, by_kind in others.items():
        _sum(counts.setdefault(stream, {}), by_kind)


def _sum(counts: dict[str, int], others: Mapping[str, int]) -> None:
    for kind, count in others.items():
        counts[kind] = counts.get(kind, 0) + count
