"""Why the windows of an operator do not fire: which topic partition, which mark, or which time they wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.engine.windows.timers import WallClock
from sluice.model.spec import Operator, Pipeline, Stream, Windowed
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.page.history import Lag
from sluice.page.stage_inspections import StageInspection, StreamProgress
from sluice.page.times import moment, nanoseconds

#: maximum number of topic partitions that a sentence names
MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What is known of a stage: its pipeline, its state servers' answers, its offsets, and the present time.

    marks   by input stream: the number of window marks that were read lately
    now     nanoseconds since 1970
    """

    pipeline: Pipeline
    inspection: StageInspection
    lags: Sequence[Lag]
    marks: Mapping[str, int]
    now: int


def held_back(operator: Operator, facts: StageFacts) -> list[str]:
    """Sentences that say what the windows of this operator wait for. Empty: they wait for nothing but tuples."""
    if not isinstance(operator, Windowed):
        return list(_unread(operator, facts))
    sentences = [*_unread(operator, facts), *_ended(operator, facts)]
    if _by_event_time(operator, facts.pipeline):
        sentences += _by_watermark(operator, facts)
    elif operator.window.by_clock:
        sentences += _by_clock(operator, facts)
    if operator.window.flushed_by_marks:
        sentences += _by_marks(operator, facts)
    return sentences


def _by_event_time(operator: Windowed, pipeline: Pipeline) -> bool:
    return not operator.window.policies and pipeline.streams[operator.input].event_time is not None


# ---- watermarks ------------------------------------------------------------------------------------------------------


def _by_watermark(operator: Windowed, facts: StageFacts) -> Iterator[str]:
    stream = facts.pipeline.streams[operator.input]
    progress = facts.inspection.streams.get(stream.name, StreamProgress())
    if progress.watermark is None:
        yield from _no_watermark(stream, progress, made=stream not in facts.pipeline.inputs)
        return
    yield f"The watermark of {stream.name} is {moment(progress.watermark)}.{_missing(operator, progress.watermark)}"
    yield from _slowest(progress)


def _no_watermark(stream: Stream, progress: StreamProgress, *, made: bool) -> Iterator[str]:
    yield f"{stream.name} has no watermark yet, so no window over its event time can fire."
    if made:
        return
    silent = [n for n, one in enumerate(progress.partitions) if one["watermark"] is None and not one["idle"]]
    of = stream.event_time
    came = "tuple" if of is not None and of.lag is not None else "watermark mark"
    if silent:
        one = len(silent) == 1
        yield (
            f"No {came} came from {_partitions(silent)}: "
            f"{'it holds' if one else 'they hold'} back the watermark of the stream.{_remedy(stream)}"
        )
    elif of is not None and of.lag is None:
        yield "The stream declares no `lag`, so its watermarks must come as marks in its topic; none came."


def _missing(operator: Windowed, watermark: int) -> str:
    """How much event time is missing to the end of the next pane."""
    window = operator.window
    if not isinstance(window, TimeInterval):
        return ""
    end = next_end(window, watermark)
    return f" The pane that ends next, at {moment(end)}, lacks {nanoseconds(end - watermark)} of event time."


def next_end(window: TimeInterval, time: int) -> int:
    """The first end of a pane behind a time of the event time, both in nanoseconds since 1970.

    Panes end at offset + k * period + duration; panes of the calendar end where a day, week, month or year of their
    zone begins.
    """
    if window.calendar is not None:
        return WallClock(window.calendar, window.duration).after(time)
    behind = (time - window.offset - window.duration) // window.period + 1
    return window.offset + behind * window.period + window.duration


def _slowest(progress: StreamProgress) -> Iterator[str]:
    """The topic partition with the lowest watermark, and how far the others are."""
    times = {n: one["watermark"] for n, one in enumerate(progress.partitions) if not one["idle"]}
    idle = [n for n, one in enumerate(progress.partitions) if one["idle"]]
    if len(progress.partitions) < 2:  # noqa: PLR2004 - one topic partition alone holds nothing back
        return
    unset = [n for n, time in times.items() if time is None]
    known = {n: time for n, time in times.items() if time is not None}
    if unset:
        yield f"No watermark came from {_partitions(unset)} yet, so the watermark of the stream stays where it is."
    elif known:
        slowest = min(known, key=lambda n: known[n])
        ahead = max(known.values()) - known[slowest]
        since = progress.partitions[slowest]["last_item"]
        quiet = f"; its last record came at {moment(since)} of the operator clock" if since is not None else ""
        if ahead:
            yield (
                f"Topic partition {slowest} holds it back: its watermark is {moment(known[slowest])}, "
                f"{nanoseconds(ahead)} behind the furthest one{quiet}."
            )
    if idle:
        yield f"{_partitions(idle).capitalize()} {'is' if len(idle) == 1 else 'are'} idle and not waited for."


def _remedy(stream: Stream) -> str:
    of = stream.event_time
    if of is None or of.idle_after is not None:
        return ""
    return " With `idle_after` the stream would not wait for silent topic partitions."


# ---- the clock -------------------------------------------------------------------------------------------------------


def _by_clock(operator: Windowed, facts: StageFacts) -> Iterator[str]:
    clock, due = facts.inspection.clock, facts.inspection.due
    if clock is None:
        yield "The operator clock has not started: it starts with the first record."
        return
    if due is None:
        return
    records = facts.pipeline.settings.clock == "records"
    wait = f", which is in {nanoseconds(due - facts.now)}" if due > facts.now and not records else ""
    yield f"The operator clock is {moment(clock)}; the clock alone causes the next output at {moment(due)}{wait}."
    if records:
        yield (
            f"With `clock: records` only records move the clock: a record with a timestamp of {moment(due)} or later "
            "is missing."
        )
    del operator


# ---- marks -----------------------------------------------------------------------------------------------------------


def _by_marks(operator: Windowed, facts: StageFacts) -> Iterator[str]:
    stream = facts.pipeline.streams[operator.input]
    waiting = facts.inspection.waiting.get(stream.name)
    if waiting and stream in facts.pipeline.inputs:
        count = len({lag.partition for lag in facts.lags if lag.topic == stream.topic})
        finals = {str(n) for n in facts.inspection.finals.get(stream.name, [])}
        missing = [n for n in range(count) if str(n) not in waiting and str(n) not in finals]
        sent = ", ".join(f"topic partition {n} sent {marks}" for n, marks in sorted(waiting.items()))
        yield (
            f"Marks are aligned (`marks_in: aligned`). {sent}; the window is flushed when a mark of "
            f"{_partitions(missing)} comes."
        )
        return
    if stream in facts.pipeline.inputs and not facts.marks.get(stream.name):
        how = "a window mark" if stream.mark_before is None and stream.mark_after is None else "`mark_when`"
        yield f"No window mark was read from {stream.name} lately; its windows are flushed by {how} only."


# ---- records ---------------------------------------------------------------------------------------------------------


def _unread(operator: Operator, facts: StageFacts) -> Iterator[str]:
    """Records that the operator has not received yet, because the service has not read them."""
    topics = {stream.topic: stream.name for stream in facts.pipeline.inputs if stream.name in operator.inputs}
    for topic, name in topics.items():
        unread = {lag.partition: lag.unread for lag in facts.lags if lag.topic == topic and lag.unread}
        if unread:
            yield f"{sum(unread.values()):,} records of {name} are not read yet ({_partitions(sorted(unread))})."


def _ended(operator: Windowed, facts: StageFacts) -> Iterator[str]:
    finals = facts.inspection.finals.get(operator.input, [])
    count = len({lag.partition for lag in facts.lags if lag.topic == facts.pipeline.streams[operator.input].topic})
    if finals and len(finals) == count:
        yield f"{operator.input} has ended: all its topic partitions sent their final mark. No window fires any more."
    elif finals:
        yield f"{_partitions(finals).capitalize()} of {operator.input} ended with a final mark."


def _partitions(numbers: Sequence[int]) -> str:
    """`topic partition 1`, or `topic partitions 0, 1 and 3 others`."""
    if len(numbers) == 1:
        return f"topic partition {numbers[0]}"
    named = ", ".join(map(str, numbers[:MAX_NAMED]))
    more = len(numbers) - MAX_NAMED
    return f"topic partitions {named}" + (f" and {more} others" if more > 0 else "")


def described(progress: StreamProgress) -> list[dict[str, Any]]:
    """The topic partitions of a stream for a table, slowest first."""
    order = sorted(
        enumerate(progress.partitions), key=lambda one: -1 if one[1]["watermark"] is None else one[1]["watermark"]
    )
    return [{"topic_partition": number, **one} for number, one in order]
