"""Computes the watermark of a stream, from the watermarks of its topic partitions or from its tuples.

The watermark of the stream is the least watermark of its topic partitions (E4), without the idle ones, and never
decreases (E5). If a stream declares how far watermarks lag, they are computed from its tuples (E3), and incoming
watermarks are ignored. A stream that an operator writes gets the maximum watermark before its final mark (E36), unless
it has it already; a stream that comes from a topic does not (E37), nor does the union of such streams (R2).

A tuple that another bucket has is here a STEP with its time (ET2). It does to the watermark what the tuple does.

With `advance`, the watermark follows the operator clock less the lag while all topic partitions are idle, in steps that
depend on the beginning of the silence alone (`step_offset`), not on how the input is cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sluice import time_units
from sluice.columns.due_times import earlier, later
from sluice.columns.kernel import inlined, kernel, read_only
from sluice.engine.stream.clock import all_later
from sluice.engine.stream.event_times import ahead_of
from sluice.engine.stream.items import FINAL, MADE, MAX_TIME, STEP, TIMER, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import rejected
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.model.spec import UNLIMITED, Stream

#: one record per topic partition: its watermark, the last watermark computed from its tuples, the operator clock when
#: its last item came, and whether it is idle
SOURCE = np.dtype([("watermark", np.int64), ("made", np.int64), ("heard", np.int64), ("idle", np.bool_)])
#: how many steps of a watermark that follows the clock have the same length, and their least length in nanoseconds
STEPS, LEAST_STEP = 100, 10_000_000
#: after so many doublings, a step of any length is beyond the range of times
MOST_DOUBLINGS = 40
#: a bit of the number of an event: behind the tuple, at the watermark that the tuple moves. So what both cause is
#: apart, in any number of buckets (ET4). Graph makes room for the bit
BEHIND = 1
#: an item of the output: the index of the input item (-1: a new watermark of the stream), and its columns
ROW = np.dtype([("place", np.int64), ("event", np.int64), ("at", np.int64), ("watermark", np.int64)])


@dataclass(slots=True)
class Progress:
    """The state of a stream: its watermark, and one record per topic partition.

    `steps` is the number of steps of the clock since all topic partitions are idle.
    """

    watermark: int
    sources: np.ndarray
    steps: int = 0


def combined(progresses: Sequence[Progress]) -> Progress:
    """The progress of a stream in several buckets as that of one. All have the same watermarks, unless a bucket has had
    no item yet; the last item of a topic partition came when it came to the bucket that has its tuple.
    """
    furthest = max(progresses, key=lambda progress: (len(progress.sources), progress.watermark))
    sources = furthest.sources.copy()
    for other in progresses:
        heard = sources["heard"][: len(other.sources)]
        np.maximum(heard, other.sources["heard"], out=heard)
    return Progress(furthest.watermark, sources, furthest.steps)


class WatermarkSettings(NamedTuple):
    """How watermarks are computed. Durations in nanoseconds; -1 if the stream does not declare one."""

    lag: int
    gap: int
    idle_after: int
    #: whether an operator writes the stream
    made: bool
    #: whether the maximum watermark comes before the final mark
    ends: bool
    #: nanoseconds of the first steps of a watermark that follows the clock of a silent stream; 0: it does not follow
    step: int
    #: whether steps go on, as a window reads them
    passes: bool


class Watermarks:
    """The watermarks of one stream."""

    def __init__(
        self, stream: Stream, sources: int, *, written: bool, joined: bool = False, passes: bool = False
    ) -> None:
        """`sources` is the number of topic partitions. `written`: an operator writes the stream. `joined`: the stream
        is several streams as one, so its watermarks are theirs alone. `passes`: a window reads its steps.
        """
        event_time = stream.event_time
        self._stream, self._of, self._sources, self._made = stream.name, event_time, sources, written
        if event_time is not None:
            self._type = dict(stream.schema)[event_time.attribute]
            lag = -1 if event_time.lag is None else event_time.lag
            idle = -1 if event_time.idle_after is None else event_time.idle_after
            step = max(event_time.minimum_gap, LEAST_STEP) if event_time.advance else 0
            self._rule = WatermarkSettings(
                lag, event_time.minimum_gap, idle, written, written and not joined, step, passes
            )

    def initial(self) -> Progress:
        return Progress(NEVER, np.zeros(0, SOURCE))

    def feed(self, progress: Progress, items: Items, start: int, end: int) -> tuple[Items, Items | None]:
        """Returns the items with the stream's own watermarks among them, and the tuples that are rejected because their
        event time is too far in the future, or None. In a stream without event time, all watermarks are dropped.

        `start` and `end` are the operator clock before and after the items.
        """
        if self._of is None:
            return (items.only(items.kind != WATERMARK) if (items.kind == WATERMARK).any() else items), None
        if self._of.per_key is not None:  # KT1: operators compute the watermark of each key
            items = items.only(items.kind != WATERMARK)
        items, times, ahead = self._within_future_limit(items)
        marked = bool(((items.kind == WATERMARK) | (items.kind == FINAL)).any())
        if self._rule.lag < 0 and self._rule.idle_after < 0 and not marked:
            return items, ahead
        self._add_topic_partitions(progress, start)
        value = np.zeros(len(items), np.int64)
        if self._rule.lag >= 0:
            value[items.kind == STEP] = items.watermark[items.kind == STEP]
            value[items.kind == TUPLE] = times
        else:
            value[:] = items.watermark
        rows = np.empty(2 * len(items) + len(progress.sources) + 1 + self._most_steps(items.at, start, end), ROW)
        kind, event, at, source, value = map(
            read_only, (items.kind, items.event, items.at, self._source_of(items), value)
        )
        count, progress.watermark, progress.steps = _walk(
            self._rule, progress.sources, progress.watermark, progress.steps, kind, event, at, source, value, end, rows
        )
        return _taken(items, rows[:count]), ahead

    def _source_of(self, items: Items) -> np.ndarray:
        """The number of each item's record in `progress.sources`. A stream that an operator writes has one record,
        though tuples and marks that passed an operator keep their topic partitions.
        """
        return np.zeros(len(items), np.int32) if self._rule.made else np.maximum(items.source, 0)

    def records(self, saved: np.ndarray) -> np.ndarray:
        """The records of a saved state. Of a stream that an operator writes, earlier versions saved one for each topic
        partition of its topic, of which the first alone was used.
        """
        return saved[:1] if self._made else saved

    def due(self, progress: Progress) -> int:
        """The operator clock at which the next topic partition becomes idle if nothing comes from it before, or
        of the next step of the watermark; MAX_TIME if neither happens.
        """
        if self._of is None or self._rule.idle_after < 0 or not len(progress.sources):
            return MAX_TIME
        heard = progress.sources["heard"][~progress.sources["idle"]]
        if len(heard):
            return time_units.later(int(heard.min()), self._rule.idle_after)
        if not self._rule.step or progress.watermark in (NEVER, MAX_TIME):
            return MAX_TIME
        silent = time_units.later(int(progress.sources["heard"].max()), self._rule.idle_after)
        return time_units.later(silent, step_offset(self._rule.step, progress.steps))

    def _most_steps(self, at: np.ndarray, start: int, end: int) -> int:
        """No fewer than the steps that the watermark makes between items at these times, and until `end`."""
        if not self._rule.step:
            return 0
        times = np.maximum.accumulate(np.concatenate([[start], at, [end]]))
        gaps = np.diff(times.view(np.uint64))  # a gap may be longer than int64 holds
        gaps = np.append(gaps[1:][gaps[1:] >= self._rule.idle_after], gaps[:1])  # a silence may be older than the batch
        doublings = np.log2(gaps / (STEPS * self._rule.step) + 1)
        return int(np.minimum(gaps // self._rule.step + 2, STEPS * (doublings + 2)).sum())

    def _add_topic_partitions(self, progress: Progress, start: int) -> None:
        """Adds records for new topic partitions. A new topic partition holds the watermark back until it sends
        something or becomes idle.
        """
        count_before = len(progress.sources)
        if count_before < self._sources:
            more = np.zeros(self._sources - count_before, SOURCE)
            more["watermark"] = more["made"] = NEVER
            more["heard"] = start
            progress.sources = np.concatenate([progress.sources, more])

    def _within_future_limit(self, items: Items) -> tuple[Items, np.ndarray, Items | None]:
        """Separates the tuples that are too far in the future. Returns the other items, their event times in
        nanoseconds (empty if no rule needs them), and the rejected tuples or None.
        """
        event_time = self._of
        assert event_time is not None  # noqa: S101 - the caller has checked
        most = None if event_time.max_future in (None, UNLIMITED) else event_time.max_future
        if self._rule.lag < 0 and most is None:
            return items, np.zeros(0, np.int64), None
        if most is not None and (steps := items.kind == STEP).any():
            steps[steps] = items.watermark[steps] > all_later(items.at[steps], most)
            items = items.only(~steps)
        is_tuple = items.kind == TUPLE
        times, ahead = ahead_of(items.tuples, event_time, self._type, items.at[is_tuple], most)
        if most is None or not ahead.any():
            return items, times, None
        kept = ~is_tuple
        kept[is_tuple] = ~ahead
        reasons = [f"too far ahead: {event_time.attribute} is more than {most / 1e9:g} s ahead of the clock"] * int(
            ahead.sum()
        )
        return items.only(kept), times[~ahead], rejected(items.only(~kept), self._stream, reasons)


def _taken(items: Items, rows: np.ndarray) -> Items:
    """Builds the output: the items that go on, with the new watermarks between them."""
    is_new = rows["place"] < 0
    if not is_new.any() and len(rows) == len(items):
        return items
    place = np.maximum(rows["place"], 0)

    def column(values: np.ndarray, of_watermarks: int) -> np.ndarray:
        taken = values.take(place) if len(values) else np.zeros(len(place), values.dtype)
        taken[is_new] = of_watermarks
        return taken

    event, at = rows["event"].copy(), rows["at"].copy()
    return Items(
        event, at, column(items.kind, WATERMARK), column(items.source, MADE), column(items.key, -1), items.keys,
        items.tuples, np.where(is_new, rows["watermark"], column(items.watermark, 0)),
    )  # fmt: skip


@kernel
def step_offset(step: int, number: int) -> int:
    """How long after the beginning of the silence the watermark makes step `number` (from 0), in nanoseconds (Q3).

    STEPS steps have the same length, the next STEPS have twice that, and so on. So a step is at most 2 / STEPS of the
    silence before it, or `step`, and a silence of a year has some thousand steps.
    """
    doublings, rest = number // STEPS, number % STEPS
    longer = 1 << min(doublings, MOST_DOUBLINGS)
    steps = STEPS * (longer - 1) + rest * longer
    return MAX_TIME if doublings > MOST_DOUBLINGS or steps > MAX_TIME // step else step * steps


@kernel
def _walk(
    rule: WatermarkSettings, sources: np.ndarray, watermark: int, steps: int, kind: np.ndarray, event: np.ndarray,
    at: np.ndarray, source: np.ndarray, value: np.ndarray, end: int, rows: np.ndarray,
) -> tuple[int, int, int]:  # fmt: skip
    """Writes the output items to `rows`, in order. Returns their number, the stream's watermark, which never decreases
    (E5), and the steps of the clock in the present silence, which each item ends (Q4). A watermark that a tuple moves
    has an event of its own (ET4).
    """
    count, last = 0, TIMER
    for i in range(len(kind) + 1):
        now = at[i] if i < len(kind) else end
        if rule.idle_after >= 0:
            watermark, count = _fall_silent(rule, sources, watermark, now, rows, count)
        if rule.step > 0:
            watermark, steps, count = _follow(rule, sources, watermark, steps, now, rows, count)
        if i == len(kind):
            break
        s, steps = source[i], 0
        sources[s].heard, sources[s].idle = now, 0
        if kind[i] == FINAL and rule.ends and watermark < MAX_TIME:  # E36; a stream from a topic gets none (E37, P16)
            watermark = MAX_TIME
            count = _write(rows, count, -1, event[i], now, watermark)
        if kind[i] != WATERMARK and (kind[i] != STEP or rule.passes):
            count = _write(rows, count, i, max(event[i], last) if event[i] >= 0 else event[i], now, 0)
        if _moves(rule, sources, s, kind[i], value[i]):
            least = _least(sources)
            if least > watermark:
                watermark = least
                cause = event[i] if kind[i] == WATERMARK or event[i] < 0 else event[i] | BEHIND
                last = max(last, cause)
                count = _write(rows, count, -1, cause, now, watermark)
    return count, watermark, steps


@inlined
def _fall_silent(
    rule: WatermarkSettings, sources: np.ndarray, watermark: int, now: int, rows: np.ndarray, count: int
) -> tuple[int, int]:
    """Topic partitions become idle. Returns the watermark and the number of output items."""
    while True:
        silent = _first_silent(sources)
        if silent < 0 or later(sources[silent].heard, rule.idle_after) > now:
            return watermark, count
        sources[silent].idle = 1
        least = _least(sources)
        if least > watermark:
            watermark = least
            count = _write_timed(rows, count, later(sources[silent].heard, rule.idle_after), watermark)


@inlined
def _follow(
    rule: WatermarkSettings, sources: np.ndarray, watermark: int, steps: int, now: int, rows: np.ndarray, count: int
) -> tuple[int, int, int]:
    """The watermark follows the clock (Q1), if all topic partitions are idle and it has ever been set (Q2). Returns it,
    the number of steps in this silence, and the number of output items.
    """
    heard = _silent_since(sources)
    while heard != NEVER and NEVER < watermark < MAX_TIME:
        time = later(later(heard, rule.idle_after), step_offset(rule.step, steps))
        if time > now:
            break
        steps += 1
        if earlier(time, rule.lag) > watermark:
            watermark = earlier(time, rule.lag)
            count = _write_timed(rows, count, time, watermark)
    return watermark, steps, count


@inlined
def _moves(rule: WatermarkSettings, sources: np.ndarray, s: int, kind: int, value: int) -> bool:
    """Advances the watermark of topic partition `s` if the item does so, and returns whether it does."""
    if rule.lag < 0:
        moves = kind == WATERMARK and value > sources[s].watermark
    else:  # E3
        last_mark = sources[s].made
        moves = kind in (TUPLE, STEP) and value > NEVER + rule.lag
        value -= rule.lag if moves else 0
        moves = moves and value > last_mark and (last_mark == NEVER or value >= later(last_mark, rule.gap))
        if moves:
            sources[s].made = value
    if moves:
        sources[s].watermark = value
    return moves


@inlined
def _least(sources: np.ndarray) -> int:
    """The least watermark of the topic partitions that are not idle (E4); the greatest watermark if all are idle."""
    least = ENDLESS
    greatest = NEVER
    some = False
    for s in range(len(sources)):
        greatest = max(greatest, sources[s].watermark)
        if not sources[s].idle:
            some = True
            least = min(least, sources[s].watermark)
    return least if some else greatest


@inlined
def _silent_since(sources: np.ndarray) -> int:
    """The operator clock when the last item of the stream came, if all its topic partitions are idle; else NEVER."""
    last = NEVER
    for s in range(len(sources)):
        if not sources[s].idle:
            return NEVER
        last = max(last, sources[s].heard)
    return last


@inlined
def _first_silent(sources: np.ndarray) -> int:
    first = -1
    for s in range(len(sources)):
        if not sources[s].idle and (first < 0 or sources[s].heard < sources[first].heard):
            first = s
    return first


@inlined
def _write_timed(rows: np.ndarray, count: int, at: int, watermark: int) -> int:
    """Writes a watermark that the clock causes. Of several at one instant, the last one is written alone (ET4)."""
    last = rows[count - 1]
    if count and last.place < 0 and last.event == TIMER and last.at == at:
        last.watermark = watermark
        return count
    return _write(rows, count, -1, TIMER, at, watermark)


@inlined
def _write(rows: np.ndarray, count: int, place: int, event: int, at: int, watermark: int) -> int:
    row = rows[count]
    row.place = place
    row.event = event
    row.at = at
    row.watermark = watermark
    return count + 1
