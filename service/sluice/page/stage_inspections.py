"""Inspects the state servers of a stage: clocks, watermarks, sizes and windows of all its buckets, taken together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from sluice.time_units import UNSET

#: sends an inspection request to one bucket (state/bucket_inspection.py): bucket, question -> answer, or None
Inspect = Callable[[int, Mapping[str, Any]], "dict[str, Any] | None"]
#: number of buckets that are inspected at the same time
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class StageInspection:
    """The answers of the buckets of a stage, in order of their numbers, and how many buckets did not answer."""

    answers: Sequence[Mapping[str, Any]] = ()
    silent: int = 0

    @property
    def clock(self) -> int | None:
        """The smallest operator clock of the buckets; None if none has started."""
        return _least(answer.get("clock") for answer in self.answers)

    @property
    def due(self) -> int | None:
        return _least(answer.get("due") for answer in self.answers)

    @property
    def streams(self) -> dict[str, StreamProgress]:
        """The progress of each stream. Each bucket has the times of all topic partitions; the slowest one counts."""
        slowest: dict[str, StreamProgress] = {}
        for answer in self.answers:
            for name, progress in answer.get("streams", {}).items():
                partitions = dict(enumerate(TopicPartition(**times) for times in progress["topic_partitions"]))
                reported = StreamProgress(progress["watermark"], partitions)
                slowest[name] = reported if name not in slowest else slowest[name].slower(reported)
        return slowest

    @property
    def finals(self) -> dict[str, list[int]]:
        return next((answer.get("finals", {}) for answer in self.answers), {})

    @property
    def waiting(self) -> dict[str, dict[str, int]]:
        """By stream with aligned marks: the most marks of each topic partition that wait in a bucket."""
        marks: dict[str, dict[str, int]] = {}
        for answer in self.answers:
            for name, by_partition in answer.get("waiting", {}).items():
                by_number = marks.setdefault(name, {})
                for partition, count in by_partition.items():
                    by_number[partition] = max(count, by_number.get(partition, 0))
        return marks

    @property
    def windows(self) -> list[Mapping[str, Any]]:
        return [window for answer in self.answers for window in answer.get("windows", ())]

    @property
    def keys(self) -> list[str]:
        """The newest keys of window partitions, in turn from each bucket."""
        of_buckets = zip_longest(*(answer.get("keys", ()) for answer in self.answers))
        return list(dict.fromkeys(key for keys in of_buckets for key in keys if key is not None))

    @property
    def too_large(self) -> bool:
        """Whether a bucket has more windows of the key than an answer may have bytes."""
        return any(answer.get("too_large") for answer in self.answers)


class TopicPartition(NamedTuple):
    """A topic partition of a stream: its watermark (None: none yet), the operator clock when its last item came, and
    whether it is idle.
    """

    watermark: int | None
    last_item: int | None
    idle: bool = False


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """The watermark of a stream (None: none yet), and its topic partitions by number, as far as they are known."""

    watermark: int | None = None
    partitions: Mapping[int, TopicPartition] = field(default_factory=dict)

    @property
    def furthest(self) -> int | None:
        """The highest watermark of a topic partition."""
        watermarks = [partition.watermark for partition in self.partitions.values()]
        return max((time for time in watermarks if time is not None), default=None)

    @property
    def holding(self) -> list[int]:
        """The topic partitions with the lowest watermark, in ascending order. Idle topic partitions do not count."""
        waited = {
            number: _known(partition.watermark) for number, partition in self.partitions.items() if not partition.idle
        }
        return sorted(number for number, time in waited.items() if time == min(waited.values()))

    def slower(self, other: StreamProgress) -> StreamProgress:
        """The one with the earlier watermark."""
        first, second = _known(self.watermark), _known(other.watermark)
        return self if first <= second else other


def inspect_all(inspect: Inspect, buckets: int, question: Mapping[str, Any]) -> StageInspection:
    """Inspects all buckets of a stage, AT_ONCE at a time; each group takes the time of its slowest bucket."""
    with ThreadPoolExecutor(min(AT_ONCE, buckets), "sluice-inspection") as pool:
        answers = list(pool.map(partial(_inspected, inspect, question), range(buckets)))
    valid_answers = [answer for answer in answers if answer is not None and answer.get("version") is not None]
    return StageInspection(valid_answers, buckets - len(valid_answers))


def _inspected(inspect: Inspect, question: Mapping[str, Any], bucket: int) -> dict[str, Any] | None:
    return inspect(bucket, question)


def _known(watermark: int | None) -> int:
    """The watermark; a time before all others if there is none."""
    return UNSET if watermark is None else watermark


def _least(times: Any) -> int | None:  # noqa: ANN401 - an iterable of times
    return min((time for time in times if time is not None), default=None)
