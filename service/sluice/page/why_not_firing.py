"""Why nothing comes out of an operator: the topic partition, mark, time, tuple or other operator that it waits for.

`answers` is a pure function of an operator and of the facts about its stage (StageFacts). Each answer is a sentence.
An answer with a `cause` is a verdict: the operator holds tuples, or gets none, and something unusual must change first.
The checks of `answers` stand below in the order of their importance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.engine.windows.timers import WallClock
from sluice.model.spec import (
    Aggregate,
    Custom,
    Dedup,
    Delay,
    Each,
    EventTime,
    InWords,
    Join,
    Map,
    Operator,
    Pipeline,
    Sort,
    Split,
    Stream,
    Union,
    Windowed,
)
from sluice.model.windows.window_kind import Panes
from sluice.page.history import RATE_S, Lag, Rates
from sluice.page.stage_inspections import StreamProgress
from sluice.page.times import duration, moment, nanoseconds
from sluice.time_units import SECOND

#: maximum number of topic partitions that a sentence names
MAX_NAMED = 5
#: seconds of silence after which a topic partition that holds tuples back is a verdict
SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class StageFacts:
    """The facts about a stage from which its answers follow. Times are nanoseconds since 1970.

    streams   the progress of each stream with event time, as far as it is known
    clock     the operator clock; None if it has not started
    due       when the clock alone causes the next output; None if it does not
    finals    by input stream: the topic partitions that have sent their final mark
    waiting   by stream with aligned marks: the number of marks of each topic partition that wait for marks of others
    waiting_s by the same streams: for how many seconds such marks have waited
    sizes     by operator: the numbers of its window partitions and of the tuples in them
    upstream  by input stream that an operator of an earlier stage writes: why nothing comes from there
    now       the present time
    since     when the service began to count
    reported  when the last batch was written
    """

    pipeline: Pipeline
    now: int
    since: int = 0
    reported: int = 0
    streams: Mapping[str, StreamProgress] = field(default_factory=dict)
    clock: int | None = None
    due: int | None = None
    finals: Mapping[str, Sequence[int]] = field(default_factory=dict)
    waiting: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    waiting_s: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)
    lags: Sequence[Lag] = ()
    upstream: Mapping[str, Answer] = field(default_factory=dict)

    def age(self, time: int | None) -> float:
        """How many seconds ago an item came at this time of the operator clock; None: since the service counts.

        The operator clock may be far behind the present, while old records are read: after the last batch the present
        time counts, and before that the clock. With `clock: records` only the clock counts.
        """
        if time is None:
            return (self.now - self.since) / SECOND
        reached = time if self.clock is None else self.clock
        waited = 0 if self.pipeline.settings.clock == "records" else max(0, self.now - self.reported)
        return (reached - time + waited) / SECOND

    def progress(self, stream: str) -> StreamProgress:
        return self.streams.get(stream, StreamProgress())

    def unread(self, stream: Stream) -> dict[int, int]:
        """By topic partition of an input stream: the number of records that are not read yet, if there are any."""
        return {lag.partition: lag.unread for lag in self.lags if lag.topic == stream.topic and lag.unread}

    def topic_partitions(self, stream: Stream) -> int:
        return len({lag.partition for lag in self.lags if lag.topic == stream.topic})

    def tuples(self, operator: Operator) -> int:
        return self.sizes.get(operator.name, (0, 0))[1]

    def rate(self, operator: Operator, kind: str) -> float:
        return self.rates.operators.get(operator.name, {}).get(kind, 0.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A sentence about an operator.

    cause     what must change, as a part of a sentence; empty if the operator waits for nothing unusual
    seconds   for how long that has lasted
    delays    whether this also explains, without a cause, why nothing comes out of the stages behind
    """

    text: str
    cause: str = ""
    seconds: float = 0.0
    delays: bool = False


def answers(operator: Operator, facts: StageFacts) -> list[Answer]:
    """Why nothing comes out, the most important answer first. There is always one."""
    checks = (_upstream, _unread, _ended, _unusable, _by_watermark, _by_clock, _by_marks, _dropped)
    reasons = [answer for check in checks for answer in check(operator, facts)]
    return reasons or [Answer(_waits_for_tuples(operator, facts))]


# ---- records ---------------------------------------------------------------------------------------------------------


def _sources(operator: Operator, pipeline: Pipeline) -> list[Stream]:
    """The input streams of the stage from which the tuples of the operator come."""
    sources: dict[str, Stream] = {}
    waiting = list(operator.inputs)
    while waiting:
        name = waiting.pop(0)
        writer = pipeline.writer_of(name)
        if writer is not None:
            waiting += writer.inputs
        else:
            sources[name] = pipeline.streams[name]
    return list(sources.values())


def _upstream(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """Why nothing comes from the operators of earlier stages that this operator reads."""
    names = [stream.name for stream in _sources(operator, facts.pipeline)]
    yield from (facts.upstream[name] for name in names if name in facts.upstream)


def _unread(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """Records that the operator has not received yet, because the service has not read them."""
    for stream in _sources(operator, facts.pipeline):
        unread = facts.unread(stream)
        if unread:
            count, names = sum(unread.values()), _partitions(sorted(unread))
            noun = "record" if count == 1 else "records"
            yield Answer(f"{count:,} {noun} of {stream.name} {_are(count)} not read yet ({names}).", delays=True)


def _ended(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """Inputs, or topic partitions of inputs, that have sent their final mark."""
    for name in operator.inputs:
        finals = facts.finals.get(name, [])
        if finals and len(finals) == facts.topic_partitions(facts.pipeline.streams[name]):
            yield Answer(f"{name} has ended: all its topic partitions sent their final mark. No window fires any more.")
        elif finals:
            yield Answer(_sentence(f"{_partitions(finals)} of {name} ended with a final mark"))


def _unusable(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """Inputs of which the operator could use no record of the last minute."""
    settings = facts.pipeline.settings
    for stream in _sources(operator, facts.pipeline):
        reasons = {reason for reason, rate in facts.rates.dead_letters.get(stream.name, {}).items() if rate}
        usable = facts.rates.read.get(stream.name, {}).get("tuple", 0.0)
        cause = ""
        if reasons and not usable:
            cause = f"every record of {stream.name} becomes a dead letter ({', '.join(sorted(reasons))})"
        elif usable and not facts.rate(operator, "in") and (settings.merge, settings.clock) == ("timestamp", "records"):
            waits = "wait for a silent topic partition (`merge: timestamp` with `clock: records`)"
            cause = f"records of {stream.name} {waits}"
        if cause:
            yield Answer(_sentence(cause), cause, RATE_S)


# ---- watermarks ------------------------------------------------------------------------------------------------------


def _by_watermark(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    if not _fires_at_watermarks(operator, facts.pipeline):
        return
    sources = _sources(operator, facts.pipeline)
    timed = [(stream, stream.event_time) for stream in sources if stream.event_time is not None]
    if facts.tuples(operator):
        yield from _held_back(timed, facts)
    for name in operator.inputs:
        watermark = facts.progress(name).watermark
        if watermark is None:
            yield Answer(f"{name} has no watermark yet, so nothing that waits for its event time can come out.")
        else:
            yield Answer(f"The watermark of {name} is {moment(watermark)}.{_missing(operator, watermark)}")
    for stream, times in timed:
        yield from _slowest(stream, times, facts.progress(stream.name))


def _fires_at_watermarks(operator: Operator, pipeline: Pipeline) -> bool:
    """Whether a watermark makes the operator emit what it holds."""
    match operator:
        case Aggregate() | Sort() | Custom():
            return not operator.window.policies and pipeline.streams[operator.input].event_time is not None
        case Dedup():
            return operator.keep == "last" and operator.over != "clock"
        case Join():
            return operator.fires_at_watermarks
    return False


def _held_back(timed: Sequence[tuple[Stream, EventTime]], facts: StageFacts) -> list[Answer]:
    """The stream that has held the watermark back for the longest time, if that is SILENT_S or more."""
    watermarks = [facts.progress(stream.name).furthest for stream, _ in timed]
    furthest = max((time for time in watermarks if time is not None), default=None)
    causes = [_holds(stream, times, furthest, facts) for stream, times in timed]
    lasting = [cause for cause in causes if cause is not None and cause.seconds >= SILENT_S]
    return sorted(lasting, key=lambda cause: -cause.seconds)[:1]


def _holds(stream: Stream, times: EventTime, furthest: int | None, facts: StageFacts) -> Answer | None:
    """How the stream holds a watermark back that could be `furthest`: it has none, topic partitions are silent, or all
    of them are idle. None if it does not, or if that ends by itself.
    """
    progress = facts.progress(stream.name)
    if progress.watermark is None and not progress.partitions:
        return _no_watermark(stream, times, facts)
    if furthest is None or (progress.watermark is not None and progress.watermark >= furthest):
        return None
    holding = progress.holding
    ends_by_itself = times.idle_after is not None if holding else times.advance
    if ends_by_itself or facts.unread(stream).keys() & set(holding):  # unread: they are not silent
        return None
    age = min(facts.age(progress.partitions[number].last_item) for number in holding or progress.partitions)
    if not holding:
        remedy = "add `advance: true` to its event time"
        return _silence(f"all of {stream.name} is idle and has been silent for", age, remedy)
    verb = "has" if len(holding) == 1 else "have"
    return _silence(f"{_partitions(holding)} of {stream.name} {verb} been silent for", age, "add `idle_after`")


def _no_watermark(stream: Stream, times: EventTime, facts: StageFacts) -> Answer:
    seconds = (facts.now - facts.since) / SECOND
    if times.per_key is not None:
        remedy = "with `idle_after` the windows of a silent key close"
        return _silence(f"no tuple of {stream.name} has completed a window of its key for", seconds, remedy)
    if times.lag is not None:
        return _silence(f"no tuple has come from {stream.name} for", seconds)
    remedy = "declare a `lag`, or let its producer send watermark marks"
    return _silence(f"no watermark mark has come from {stream.name} for", seconds, remedy)


def _silence(begin: str, seconds: float, remedy: str = "") -> Answer:
    cause = f"{begin} {duration(max(0.0, seconds))}" + (f"; {remedy}" if remedy else "")
    return Answer(_sentence(f"{cause}: it holds the watermark back"), cause, seconds)


def _missing(operator: Operator, watermark: int) -> str:
    """How much event time is missing to the end of the next pane."""
    if not isinstance(operator, Windowed) or operator.window.panes is None:
        return ""
    end = next_end(operator.window.panes, watermark)
    return f" The pane that ends next, at {moment(end)}, lacks {nanoseconds(end - watermark)} of event time."


def next_end(panes: Panes, time: int) -> int:
    """The first end of a pane behind a time of the event time, both in nanoseconds since 1970.

    Panes end at offset + k * period + duration; panes of the calendar end where a period of their zone begins.
    """
    if panes.calendar is not None:
        stepped = panes.period < panes.duration
        calendar = replace(panes.calendar, months=None, weekday=None) if stepped else panes.calendar
        return WallClock(calendar, panes.period).after(time)
    behind = (time - panes.offset - panes.duration) // panes.period + 1
    return panes.offset + behind * panes.period + panes.duration


def _slowest(stream: Stream, times: EventTime, progress: StreamProgress) -> Iterator[Answer]:
    """The topic partition with the lowest watermark, and how far the others are."""
    if len(progress.partitions) < 2:  # noqa: PLR2004 - one topic partition alone holds nothing back
        return
    remedy = " With `idle_after` the stream would not wait for silent topic partitions." * (times.idle_after is None)
    unset = [number for number in progress.holding if progress.partitions[number].watermark is None]
    if unset:
        yield Answer(f"No watermark came from {_partitions(unset)} of {stream.name} yet.{remedy}")
    elif progress.holding and progress.furthest is not None:
        yield from _behind(stream, progress, progress.furthest, remedy)
    idle = [number for number, partition in progress.partitions.items() if partition.idle]
    if idle:
        yield Answer(_sentence(f"{_partitions(idle)} of {stream.name} {_are(len(idle))} idle and not waited for"))


def _behind(stream: Stream, progress: StreamProgress, furthest: int, remedy: str) -> Iterator[Answer]:
    number = progress.holding[0]
    slowest = progress.partitions[number]
    ahead = furthest - (slowest.watermark or 0)
    if ahead > 0:
        yield Answer(
            f"Topic partition {number} of {stream.name} holds it back: its watermark is {moment(slowest.watermark)}, "
            f"{nanoseconds(ahead)} behind the furthest one; its last record came at {moment(slowest.last_item)} of the "
            f"operator clock.{remedy}"
        )


# ---- the clock -------------------------------------------------------------------------------------------------------


def _by_clock(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    if _fires_at_watermarks(operator, facts.pipeline) or not _fires_by_clock(operator):
        return
    clock, due = facts.clock, facts.due
    if clock is None:
        yield Answer("The operator clock has not started: it starts with the first record.")
    elif due is not None:
        records = facts.pipeline.settings.clock == "records"
        wait = f", which is in {nanoseconds(due - facts.now)}" if due > facts.now and not records else ""
        needs = f"a record with a timestamp of {moment(due)} or later is missing"
        moved = f" With `clock: records` only records move the clock: {needs}." if records else ""
        reached = f"The operator clock is {moment(clock)}; the clock alone causes the next output at {moment(due)}"
        yield Answer(f"{reached}{wait}.{moved}")


def _fires_by_clock(operator: Operator) -> bool:
    """Whether the operator clock makes the operator emit what it holds."""
    match operator:
        case Aggregate() | Sort() | Custom():
            return operator.window.by_clock
        case Dedup():
            return operator.keep == "last"
        case Delay():
            return True
    return False


# ---- marks -----------------------------------------------------------------------------------------------------------


def _by_marks(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    if not isinstance(operator, Windowed) or not operator.window.flushed_by_marks:
        return
    stream = facts.pipeline.streams[operator.input]
    waiting = facts.waiting.get(stream.name)
    if stream not in facts.pipeline.inputs:
        return
    if waiting:
        yield _unaligned(operator, stream, waiting, facts)
    elif not facts.rates.read.get(stream.name, {}).get("window"):
        cause = "a window mark" if stream.mark_before is None and stream.mark_after is None else "`mark_when`"
        yield Answer(f"No window mark was read from {stream.name} lately; its windows are flushed by {cause} only.")


def _unaligned(operator: Windowed, stream: Stream, waiting: Mapping[str, int], facts: StageFacts) -> Answer:
    """The topic partitions whose aligned marks are missing."""
    arrived = {*waiting, *map(str, facts.finals.get(stream.name, []))}
    missing = [number for number in range(facts.topic_partitions(stream)) if str(number) not in arrived]
    sent = ", ".join(f"topic partition {number} sent {marks}" for number, marks in sorted(waiting.items()))
    seconds = facts.waiting_s.get(stream.name, 0.0)
    lasts = seconds >= SILENT_S and missing and facts.tuples(operator)
    cause = f"no mark of {_partitions(missing)} of {stream.name} has come for {duration(seconds)}" if lasts else ""
    needs = f"the window is flushed when a mark of {_partitions(missing)} comes"
    return Answer(f"Marks are aligned (`marks_in: aligned`). {sent}; {needs}.", cause, seconds)


# ---- tuples ----------------------------------------------------------------------------------------------------------


def _dropped(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """What drops tuples, if tuples went in and none came out within the last minute."""
    if not facts.rate(operator, "in") or facts.rate(operator, "out"):
        return
    match operator:
        case InWords() | Map():
            yield Answer(f"Tuples come in{_let_none_through(operator)}.")
        case Dedup(keep="first"):
            yield Answer("All tuples of the last minute were duplicates.")
        case Join(table=True):
            yield Answer(f"No tuple of the last minute found a row of {operator.right.stream} that matches.")
        case Join() if not operator.fires_at_watermarks:
            yield Answer("No tuple of the last minute found a partner that matches.")
        case Custom() if facts.rate(operator, "windows"):
            yield Answer(f"Its windows fired, and {operator.handler} sent no tuple within the last minute.")
        case Aggregate() if facts.rate(operator, "windows"):
            yield Answer("Its windows fired, and the condition of its outputs was true for no result.")


def _let_none_through(operator: InWords | Map) -> str:
    match operator:
        case InWords():
            return f"; within the last minute {operator.without_output}"
        case Map(each=Each()):
            return ", and their lists were empty, or its `where` let no element through, within the last minute"
        case Split():
            return ", and no condition of its `to` held for one of them within the last minute"
    return ", and its `where` let none of them through within the last minute"


def _waits_for_tuples(operator: Operator, facts: StageFacts) -> str:
    """What comes out with the next tuples, and the inputs of which no tuple came within the last minute."""
    names = [stream.name for stream in _sources(operator, facts.pipeline)]
    quiet = [name for name in names if not any(facts.rates.read.get(name, {}).values())]
    if facts.rate(operator, "in") or not quiet:
        return _at_once(operator)
    follows = f" {_at_once(operator)}" if isinstance(operator, Windowed) else ""
    return f"No record of {' and '.join(quiet)} came within the last minute.{follows}"


def _at_once(operator: Operator) -> str:
    match operator:
        case InWords():
            return f"It emits tuples {operator.fires[0]}."
        case Map() | Union():
            return "It passes each tuple on at once."
        case Dedup():
            return "It passes the first tuple of each key and period on at once."
        case Join():
            return "It emits each pair at once."
    return "Its windows wait for tuples only."


# ---- words -----------------------------------------------------------------------------------------------------------


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _partitions(numbers: Sequence[int]) -> str:
    """`topic partition 1`, or `topic partitions 0, 1 and 3 others`."""
    if len(numbers) == 1:
        return f"topic partition {numbers[0]}"
    named = ", ".join(map(str, numbers[:MAX_NAMED]))
    more = len(numbers) - MAX_NAMED
    return f"topic partitions {named}" + (f" and {more} others" if more > 0 else "")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
