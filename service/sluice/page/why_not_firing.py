"""Why nothing comes out of an operator: which topic partition, mark, time, tuple or other operator it waits for.

`answers` is a pure function of the operator and of what is known of its stage (StageFacts). Each answer is a sentence.
An answer with a `cause` is a verdict: the operator holds tuples, or gets none, and something unusual must change first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.engine.windows.timers import WallClock
from sluice.model.spec import Aggregate, Custom, Dedup, Join, Map, Operator, Pipeline, Sort, Stream, Union, Windowed
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.page.history import RATE_S, Lag, Rates
from sluice.page.stage_inspections import StreamProgress, TopicPartition
from sluice.page.times import duration, moment, nanoseconds
from sluice.time_units import SECOND

#: maximum number of topic partitions that a sentence names
MAX_NAMED = 5
#: seconds of silence after which a topic partition that holds tuples back is a verdict
SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What is known of a stage. Times are nanoseconds since 1970.

    streams   the progress of each stream with event time, as far as it is known
    clock     the operator clock; None if it has not started
    due       when the clock alone causes the next output; None if it does not
    finals    by input stream: the topic partitions that have sent their final mark
    waiting   by stream with aligned marks: the marks of each topic partition that wait for those of others
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
    checks = (_upstream, _unread, _ended, _unusable, _of_kind)
    found = [answer for check in checks for answer in check(operator, facts)]
    return found or [Answer(_quiet(operator, facts) or _waits_for_tuples(operator))]


def _of_kind(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """What operators of this kind wait for beside tuples."""
    if waits_for_watermark(operator, facts.pipeline):
        yield from _by_watermark(operator, facts)
    elif follows_the_clock(operator):
        yield from _by_clock(facts)
    if isinstance(operator, Windowed) and operator.window.flushed_by_marks:
        yield from _by_marks(operator, facts)
    yield from _nothing_came_through(operator, facts)


def waits_for_watermark(operator: Operator, pipeline: Pipeline) -> bool:
    """Whether a watermark makes the operator emit what it holds."""
    match operator:
        case Aggregate() | Sort() | Custom():
            return not operator.window.policies and pipeline.streams[operator.input].event_time is not None
        case Dedup():
            return operator.keep == "last" and operator.over != "clock"
        case Join():
            return operator.fires_at_watermarks
    return False


def follows_the_clock(operator: Operator) -> bool:
    """Whether the operator clock makes the operator emit what it holds."""
    match operator:
        case Aggregate() | Sort() | Custom():
            return operator.window.by_clock
        case Dedup():
            return operator.keep == "last"
    return False


# ---- watermarks ------------------------------------------------------------------------------------------------------


def _by_watermark(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    silent = _verdict(operator, facts)
    yield from [silent] if silent is not None else []
    for name in operator.inputs:
        progress = facts.streams.get(name, StreamProgress())
        if progress.watermark is None:
            yield Answer(f"{name} has no watermark yet, so nothing that waits for its event time can come out.")
        else:
            missing = _missing(operator, progress.watermark)
            yield Answer(f"The watermark of {name} is {moment(progress.watermark)}.{missing}")
    for stream in roots(operator, facts.pipeline):
        yield from _slowest(stream, facts.streams.get(stream.name, StreamProgress()))


def roots(operator: Operator, pipeline: Pipeline) -> list[Stream]:
    """The input streams with event time from whose watermarks the watermark of the operator follows."""
    found: dict[str, Stream] = {}
    waiting = list(operator.inputs)
    while waiting:
        name = waiting.pop(0)
        writer = pipeline.writer_of(name)
        if writer is not None:
            waiting += writer.inputs
        elif pipeline.streams[name].event_time is not None:
            found[name] = pipeline.streams[name]
    return list(found.values())


def _verdict(operator: Operator, facts: StageFacts) -> Answer | None:
    """What holds back the watermark of an operator that holds tuples, if it lasts and does not end by itself."""
    if not facts.tuples(operator):
        return None
    streams = roots(operator, facts.pipeline)
    known = [facts.streams.get(stream.name, StreamProgress()) for stream in streams]
    furthest = max((progress.furthest for progress in known if progress.furthest is not None), default=None)
    found = [_holds(stream, progress, furthest, facts) for stream, progress in zip(streams, known, strict=True)]
    held = [one for one in found if one is not None and one.seconds >= SILENT_S]
    return max(held, key=lambda one: one.seconds, default=None)


def _holds(stream: Stream, progress: StreamProgress, furthest: int | None, facts: StageFacts) -> Answer | None:
    """How the stream holds a watermark back that could be `furthest`: it has none, topic partitions are silent, or all
    of them are idle.
    """
    of = stream.event_time
    if progress.watermark is None and not progress.partitions:
        came = "tuple" if of is not None and of.lag is not None else "watermark mark"
        add = "" if came == "tuple" else "; declare a `lag`, or let its producer send watermark marks"
        return _cause(f"no {came} has come from {stream.name} for", (facts.now - facts.since) / SECOND, add)
    if furthest is None or (progress.watermark is not None and progress.watermark >= furthest):
        return None
    holding = progress.holding
    unread = {lag.partition for lag in facts.lags if lag.topic == stream.topic and lag.unread}
    if unread.intersection(holding):
        return None  # they are not silent: the service has not read them yet
    if not holding:
        age = min(facts.age(one.last_item) for one in progress.partitions.values())
        advances = of is not None and of.advance
        add = "" if advances else "; add `advance: true` to its event time"
        return None if advances else _cause(f"all of {stream.name} is idle and has been silent for", age, add)
    if of is not None and of.idle_after is not None:
        return None  # it ends by itself
    age = min(facts.age(progress.partitions[number].last_item) for number in holding)
    has = "has" if len(holding) == 1 else "have"
    return _cause(f"{_partitions(holding)} of {stream.name} {has} been silent for", age, "; add `idle_after`")


def _cause(what: str, seconds: float, remedy: str) -> Answer:
    cause = f"{what} {duration(max(0.0, seconds))}{remedy}"
    return Answer(f"{cause[0].upper()}{cause[1:]}: it holds the watermark back.", cause, seconds)


def _missing(operator: Operator, watermark: int) -> str:
    """How much event time is missing to the end of the next pane."""
    if not isinstance(operator, Windowed) or not isinstance(operator.window, TimeInterval):
        return ""
    end = next_end(operator.window, watermark)
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


def _slowest(stream: Stream, progress: StreamProgress) -> Iterator[Answer]:
    """The topic partition with the lowest watermark, and how far the others are."""
    if len(progress.partitions) < 2:  # noqa: PLR2004 - one topic partition alone holds nothing back
        return
    unset = [number for number in progress.holding if progress.partitions[number].watermark is None]
    if unset:
        yield Answer(f"No watermark came from {_partitions(unset)} of {stream.name} yet.{_remedy(stream)}")
    elif progress.holding and progress.furthest is not None:
        yield from _behind(stream, progress, progress.holding[0], progress.furthest)
    idle = [number for number, one in progress.partitions.items() if one.idle]
    if idle:
        names = _partitions(idle)
        yield Answer(f"{names[0].upper()}{names[1:]} of {stream.name} {_is(idle)} idle and not waited for.")


def _behind(stream: Stream, progress: StreamProgress, number: int, furthest: int) -> Iterator[Answer]:
    one = progress.partitions[number]
    ahead = furthest - (one.watermark or 0)
    if ahead > 0:
        yield Answer(
            f"Topic partition {number} of {stream.name} holds it back: its watermark is {moment(one.watermark)}, "
            f"{nanoseconds(ahead)} behind the furthest one; its last record came at {moment(one.last_item)} of the "
            f"operator clock.{_remedy(stream)}"
        )


def _remedy(stream: Stream) -> str:
    of = stream.event_time
    if of is None or of.idle_after is not None:
        return ""
    return " With `idle_after` the stream would not wait for silent topic partitions."


# ---- the clock -------------------------------------------------------------------------------------------------------


def _by_clock(facts: StageFacts) -> Iterator[Answer]:
    clock, due = facts.clock, facts.due
    if clock is None:
        yield Answer("The operator clock has not started: it starts with the first record.")
        return
    if due is None:
        return
    records = facts.pipeline.settings.clock == "records"
    wait = f", which is in {nanoseconds(due - facts.now)}" if due > facts.now and not records else ""
    need = (
        f" With `clock: records` only records move the clock: a record with a timestamp of {moment(due)} or later is "
        "missing."
        if records
        else ""
    )
    yield Answer(
        f"The operator clock is {moment(clock)}; the clock alone causes the next output at {moment(due)}{wait}.{need}"
    )


# ---- marks -----------------------------------------------------------------------------------------------------------


def _by_marks(operator: Windowed, facts: StageFacts) -> Iterator[Answer]:
    stream = facts.pipeline.streams[operator.input]
    waiting = facts.waiting.get(stream.name)
    if waiting and stream in facts.pipeline.inputs:
        yield _unaligned(operator, stream, waiting, facts)
    elif stream in facts.pipeline.inputs and not facts.rates.read.get(stream.name, {}).get("window"):
        how = "a window mark" if stream.mark_before is None and stream.mark_after is None else "`mark_when`"
        yield Answer(f"No window mark was read from {stream.name} lately; its windows are flushed by {how} only.")


def _unaligned(operator: Windowed, stream: Stream, waiting: Mapping[str, int], facts: StageFacts) -> Answer:
    """The topic partitions whose aligned marks are missing."""
    finals = {str(number) for number in facts.finals.get(stream.name, [])}
    count = _topic_partitions(stream, facts)
    missing = [number for number in range(count) if str(number) not in waiting and str(number) not in finals]
    sent = ", ".join(f"topic partition {number} sent {marks}" for number, marks in sorted(waiting.items()))
    seconds = facts.waiting_s.get(stream.name, 0.0)
    lasts = seconds >= SILENT_S and missing and facts.tuples(operator)
    cause = f"no mark of {_partitions(missing)} of {stream.name} has come for {duration(seconds)}" if lasts else ""
    return Answer(
        f"Marks are aligned (`marks_in: aligned`). {sent}; the window is flushed when a mark of {_partitions(missing)} "
        "comes.",
        cause, seconds,
    )  # fmt: skip


# ---- records ---------------------------------------------------------------------------------------------------------


def _upstream(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """Why nothing comes from the operators of earlier stages that this operator reads."""
    yield from (facts.upstream[name] for name in _sources(operator, facts.pipeline) if name in facts.upstream)


def _sources(operator: Operator, pipeline: Pipeline) -> list[str]:
    """The input streams of the stage from which the tuples of the operator come."""
    found: dict[str, None] = {}
    waiting = list(operator.inputs)
    while waiting:
        name = waiting.pop(0)
        writer = pipeline.writer_of(name)
        waiting += () if writer is None else writer.inputs
        found |= {} if writer is not None else {name: None}
    return list(found)


def _unread(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """Records that the operator has not received yet, because the service has not read them."""
    for name in _sources(operator, facts.pipeline):
        topic = facts.pipeline.streams[name].topic
        unread = {lag.partition: lag.unread for lag in facts.lags if lag.topic == topic and lag.unread}
        if unread:
            count, names = sum(unread.values()), _partitions(sorted(unread))
            what = f"{count:,} {_records(count)} of {name} {_is(range(count))}"
            yield Answer(f"{what} not read yet ({names}).", delays=True)


def _ended(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    for name in operator.inputs:
        finals = facts.finals.get(name, [])
        if finals and len(finals) == _topic_partitions(facts.pipeline.streams[name], facts):
            yield Answer(f"{name} has ended: all its topic partitions sent their final mark. No window fires any more.")
        elif finals:
            names = _partitions(finals)
            yield Answer(f"{names[0].upper()}{names[1:]} of {name} ended with a final mark.")


def _unusable(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """Inputs of which no record of the last minute could be used."""
    for name in _sources(operator, facts.pipeline):
        reasons = {reason: rate for reason, rate in facts.rates.dead_letters.get(name, {}).items() if rate}
        usable = facts.rates.read.get(name, {}).get("tuple", 0.0)
        if reasons and not usable:
            cause = f"every record of {name} becomes a dead letter ({', '.join(sorted(reasons))})"
            yield Answer(f"{cause[0].upper()}{cause[1:]}.", cause, RATE_S)
        elif usable and not facts.rate(operator, "in") and _merges(facts):
            cause = f"records of {name} wait for a silent topic partition (`merge: timestamp` with `clock: records`)"
            yield Answer(f"{cause[0].upper()}{cause[1:]}.", cause, RATE_S)


def _merges(facts: StageFacts) -> bool:
    """Whether records wait without a limit until each topic partition has a later one."""
    return facts.pipeline.settings.merge == "timestamp" and facts.pipeline.settings.clock == "records"


def _nothing_came_through(operator: Operator, facts: StageFacts) -> Iterator[Answer]:
    """What drops tuples, if tuples went in and none came out within the last minute."""
    if not facts.rate(operator, "in") or facts.rate(operator, "out"):
        return
    match operator:
        case Map():
            yield Answer("Tuples come in, and its `where` let none of them through within the last minute.")
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


def _quiet(operator: Operator, facts: StageFacts) -> str:
    """A sentence about inputs of which no tuple came within the last minute; empty if there is none."""
    quiet = [name for name in _sources(operator, facts.pipeline) if not any(facts.rates.read.get(name, {}).values())]
    if facts.rate(operator, "in") or not quiet:
        return ""
    return f"No record of {' and '.join(quiet)} came within the last minute.{_last_windows(operator)}"


def _last_windows(operator: Operator) -> str:
    return f" {_waits_for_tuples(operator)}" if isinstance(operator, Windowed) else ""


def _waits_for_tuples(operator: Operator) -> str:
    match operator:
        case Map() | Union():
            return "It passes each tuple on at once."
        case Dedup():
            return "It passes the first tuple of each key and period on at once."
        case Join():
            return "It emits each pair at once."
    return "Its windows wait for tuples only."


# ---- words -----------------------------------------------------------------------------------------------------------


def _topic_partitions(stream: Stream, facts: StageFacts) -> int:
    return len({lag.partition for lag in facts.lags if lag.topic == stream.topic})


def _partitions(numbers: Sequence[int]) -> str:
    """`topic partition 1`, or `topic partitions 0, 1 and 3 others`."""
    if len(numbers) == 1:
        return f"topic partition {numbers[0]}"
    named = ", ".join(map(str, numbers[:MAX_NAMED]))
    more = len(numbers) - MAX_NAMED
    return f"topic partitions {named}" + (f" and {more} others" if more > 0 else "")


def _is(some: Sequence[int]) -> str:
    return "is" if len(some) == 1 else "are"


def _records(count: int) -> str:
    return "record" if count == 1 else "records"


def slowest_first(progress: StreamProgress) -> list[tuple[int, TopicPartition]]:
    """The topic partitions of a stream for a table."""
    return sorted(progress.partitions.items(), key=lambda one: -1 if one[1].watermark is None else one[1].watermark)
