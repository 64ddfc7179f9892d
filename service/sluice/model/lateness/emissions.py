"""When an operator emits, and what is then known of the event times in its outputs.

A case is one way in which an output comes about, such as "the left tuple arrives" of a join. Each case has views: the
same facts seen from different anchors, all of them true. `behind` says how far the anchor of a view may be behind the
watermark that the operator has got before.

Tuples are taken to be on time: not older than the watermark before them. Older ones count where the operator accepts
them by `discardAge` or `grace`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.model.lateness.time_bounds import Bound, Known, Span, TupleTimes
from sluice.model.spec import (  # fmt: skip
    Aggregate,
    Barrier,
    EventTime,
    Join,
    Map,
    Output,
    Pipeline,
    Side,
    Sliding,
    SlidingTime,
    Split,
    Stream,
    TimeInterval,
    Tumbling,
    Union,
)
from sluice.model.windows.join_windows import AsOf, Interval
from sluice.model.windows.session_window import Session

ANY_TIME = Span()
FROM_ANCHOR = Span(0)


@dataclass(frozen=True, slots=True)
class View:
    """Facts about one case, seen from an anchor.

    behind    how far the anchor is behind the watermark at most, in nanoseconds; negative if it is always ahead
    known     what is known of the times in an expression, from the anchor
    goes_back how far the anchor of an output is before that of an earlier output at most, in nanoseconds
    """

    behind: Bound
    known: Known
    goes_back: Bound = math.inf


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which an output comes about. `stale` says why its times may be behind the watermark, for messages."""

    views: tuple[View, ...]
    stale: str = ""


@dataclass(frozen=True, slots=True)
class OwnTuples:
    """A stream whose watermark is made from tuples of the stream that all reach its reader, `lag` nanoseconds behind
    the newest.

    `advances`: the watermark also follows the clock. `idles`: it also advances when a topic partition becomes idle.
    """

    lag: int
    advances: bool = False
    idles: bool = False


def own_tuples(pipeline: Pipeline, stream: str) -> OwnTuples | None:
    """None if the watermark of the stream comes from elsewhere: from producers, or from tuples that were dropped."""
    event_time, writer = pipeline.streams[stream].event_time, pipeline.writer_of(stream)
    if event_time is not None and event_time.lag is not None:
        return OwnTuples(event_time.lag, event_time.advance, event_time.idle_after is not None)
    if event_time is None or not isinstance(writer, Union | Map) or (isinstance(writer, Map) and _may_drop(writer)):
        return None
    sources = [own_tuples(pipeline, name) for name in writer.inputs]
    if any(source is None for source in sources) or (
        isinstance(writer, Map) and not _unchanged(writer, stream, event_time)
    ):
        return None
    known = [source for source in sources if source is not None]
    return OwnTuples(
        min(source.lag for source in known), any(source.advances for source in known),
        any(source.idles for source in known),
    )  # fmt: skip


def _may_drop(operator: Map) -> bool:
    """Whether a tuple may be missing in an output: conditions may not hold, the list of `each` may be empty."""
    return operator.where is not None or operator.each is not None or isinstance(operator, Split)


def _unchanged(operator: Map, stream: str, event_time: EventTime) -> bool:
    (output,) = (output for output in operator.outputs if output.stream == stream)
    name = getattr(dict(output.attributes).get(event_time.attribute), "name", None)
    return name == event_time.attribute


# ---- windows of aggregates -------------------------------------------------------------------------------------------


def of_aggregate(operator: Aggregate, event_time: EventTime, own: OwnTuples | None, arriving: Bound) -> Iterator[Case]:
    """The cases of an aggregate. `event_time`: that of its input. `arriving`: how far an arriving tuple is behind
    the watermark at most.
    """
    whole = not (operator.partition_by or operator.group_by)
    match operator.window:
        case TimeInterval() as window:
            return _panes(window, event_time, own if whole else None)
        case Session() as window:
            return _sessions(window, event_time, early=operator.early is not None) if not window.clock else iter(())
        case SlidingTime() as window:
            return _sliding_times(window, event_time, own)
        case window:
            assert isinstance(window, Tumbling | Sliding)  # noqa: S101 - all kinds of windows
            return _by_arrival(operator, window, event_time, own if whole else None, arriving)


def _times(
    event_time: EventTime, some: Span, last: Span | None = None, greatest: Span | None = None
) -> dict[str | None, TupleTimes]:
    return {None: TupleTimes(event_time.attribute, event_time.tick, some, last or some, greatest or some)}


def _panes(window: TimeInterval, event_time: EventTime, own: OwnTuples | None) -> Iterator[Case]:
    """The anchor is the end of the pane, which is at least one unit after the watermark before. In one pane for all
    tuples of a stream without lag, the tuple that has made this watermark is the newest one, unless the pane begins
    later.
    """
    tick, longest = event_time.tick, window.longest
    start = Span(-longest, -tick if window.calendar else -window.shortest)
    ends = {"intervalStart": start, "intervalEnd": Span(0, 0), "intervalLast": Span(-tick, -tick)}
    known = Known(_times(event_time, Span(-longest, -tick)), ends, tick)
    views = [View(window.discard_age - tick, known, window.discard_age)]
    if own is not None and not (own.lag or own.advances or window.discard_age):
        views.append(View(0, Known(_times(event_time, Span(tick - longest), FROM_ANCHOR, FROM_ANCHOR), {}, tick)))
    yield Case(tuple(views))


def _sessions(window: Session, event_time: EventTime, *, early: bool) -> Iterator[Case]:
    """The anchor is the last time of the session, or with `maximumDuration` also the watermark less grace and maximum
    duration, after which a session that is open at this watermark begins (G9).
    """
    gap, _, grace = window.sizes
    longest = math.inf if window.longest is None else window.longest
    inside, last = Span(-longest, 0), Span(0, 0)
    known = Known(
        _times(event_time, inside, inside, last), {"sessionStart": inside, "sessionEnd": last}, event_time.tick
    )
    if window.emit == "updates" and not early:
        yield Case((View(0, known),))
        return
    in_order = isinstance(window.gap, int) and window.longest is None and not early
    views = [View(gap + grace, known, 0 if in_order else math.inf)]
    if window.longest is not None:
        begun = Known(
            _times(event_time, FROM_ANCHOR), {"sessionStart": FROM_ANCHOR, "sessionEnd": FROM_ANCHOR}, event_time.tick
        )
        views.append(View(grace + window.longest, begun))
    yield Case(tuple(views))


def _sliding_times(window: SlidingTime, event_time: EventTime, own: OwnTuples | None) -> Iterator[Case]:
    """The anchor is the end of the window. A window closes by stream time, which is ahead of the watermark by the lag
    if the watermark is made from the same tuples. An update comes with a tuple at or before the end.
    """
    behind: Bound = math.inf
    if window.emit == "updates":
        behind = 0
    elif own is not None:
        behind = window.grace - (0 if own.advances else own.lag)
    inside = Span(-window.difference, 0)
    ends = {"intervalStart": Span(-window.difference, -window.difference), "intervalEnd": Span(0, 0)}
    stale = "its watermark does not follow the tuples of the window" if math.isinf(behind) else ""
    yield Case((View(behind, Known(_times(event_time, inside), ends, event_time.tick)),), stale)


def _by_arrival(
    operator: Aggregate, window: Tumbling | Sliding, event_time: EventTime, own: OwnTuples | None, arriving: Bound
) -> Iterator[Case]:
    """Windows by count, clock, delta and marks hold tuples for a time that has nothing to do with event time. The tuple
    that came last is on time if it fires the window, or if only tuples of the window make the watermark.
    """
    arrived = Span(-arriving)
    fired_by_it = _fired_by_last(window) and not (
        operator.aggregate_evicted_partitions or operator.group_by or (operator.early and operator.early.time)
    )
    followed = own is not None and not (own.idles or own.advances)
    last = arrived if fired_by_it or followed else ANY_TIME
    single = isinstance(window, Tumbling) and any(policy.tuples == 1 for policy in window.policies)
    yield Case(
        (View(0, Known(_times(event_time, arrived if single else ANY_TIME, last, last), {}, event_time.tick)),),
        _held(window),
    )


def _fired_by_last(window: Tumbling | Sliding) -> bool:
    """Whether each firing is caused by the arrival of a tuple which is then the last one in the window."""
    if isinstance(window, Tumbling):
        return all(policy.tuples is not None for policy in window.policies)
    return window.trigger.tuples is not None and not window.eviction.keeps_nothing


def _held(window: Tumbling | Sliding) -> str:
    timer = window.timer
    return (
        "the window holds tuples while the watermark advances"
        if timer is None
        else "the window holds tuples by the clock"
    )


# ---- joins -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinSide:
    """A side of a join. `times`: the event time of its stream, None without one. `arriving`: as in `of_aggregate`."""

    side: Side
    times: EventTime | None
    arriving: Bound = 0

    def tuples(self, span: Span) -> dict[str, TupleTimes]:
        times = self.times
        return {} if times is None else {"": TupleTimes(times.attribute, times.tick, span, span, span)}


def of_join(join: Join, output: Output, sides: Mapping[str, JoinSide]) -> Iterator[Case]:
    """The cases of a join. Their watermark is that of the join, before the operator holds it back."""
    for name, other in (("left", "right"), ("right", "left")):
        alone = getattr(join, name).outer
        unmatched = getattr(join, name).unmatched
        if unmatched is not None and output == unmatched:
            yield _alone(join, name, other, sides, port=None)
        elif output in join.matched:
            if pair := _pair(join, name, other, sides):
                yield pair
            if alone and unmatched is None:
                yield _alone(join, name, other, sides, port=name)


def _pair(join: Join, name: str, other: str, sides: Mapping[str, JoinSide]) -> Case | None:
    """A tuple of side `name` causes the output of a pair. The anchor is its time."""
    match join.window:
        case Interval(before=before, after=after, grace=grace):
            partner = Span(-before, after) if name == "left" else Span(-after, before)
            return Case((View(grace, _pair_known(name, other, sides, Span(0, 0), partner)),))
        case AsOf(age=age, grace=grace):
            if name == "right":
                return None
            older = Span(-math.inf if age is None else -age, 0)
            return Case(
                (View(grace, _pair_known(name, other, sides, Span(0, 0), older)),), "it is older than the left one"
            )
    stored = getattr(join, other)
    if join.table and name == "right":
        return None
    if not join.table and stored.window.eviction.keeps_nothing:
        return None
    known = _pair_known(name, other, sides, Span(-sides[name].arriving), ANY_TIME)
    return Case((View(0, known),), "a window of the join holds tuples while the watermark advances")


def _pair_known(name: str, other: str, sides: Mapping[str, JoinSide], own: Span, partner: Span) -> Known:
    tuples = {name: sides[name].tuples(own), other: sides[other].tuples(partner)}
    return Known({side: times[""] for side, times in tuples.items() if times}, {})


def _alone(join: Join, name: str, other: str, sides: Mapping[str, JoinSide], port: str | None) -> Case:
    """A tuple without a partner comes out when it leaves. `port`: how its attributes are named in the output."""
    side = sides[name]
    match join.window:
        case Interval(before=before, after=after, grace=grace):
            view_of, span = grace + (after if name == "left" else before), Span(0, 0)
        case AsOf(grace=grace):
            view_of, span = grace, Span(0, 0)
        case _:
            stored = not join.table and not getattr(join, name).window.eviction.keeps_nothing
            view_of, span = 0, ANY_TIME if stored else Span(-side.arriving)
    tuples = side.tuples(span)
    names = {port: tuples[""], name: tuples[""]} if tuples else {}
    known = Known(names, {}, missing=frozenset({other}))
    return Case((View(view_of, known),), "a tuple without a partner comes out when it leaves its window")


def of_barrier(barrier: Barrier, streams: Mapping[str, Stream]) -> Iterator[Case]:
    """The cases of a Barrier: a tuple may have waited for those of the other inputs for any time."""
    stale = f"the {'pair' if barrier.apart else 'barrier'} holds tuples while the watermark advances"
    timed: dict[str | None, TupleTimes] = {
        port.name: TupleTimes(event_time.attribute, event_time.tick, ANY_TIME, ANY_TIME, ANY_TIME)
        for port in barrier.ports
        if (event_time := streams[port.stream].event_time) is not None
    }
    if not barrier.apart:
        yield Case((View(0, Known(timed, {})),), stale)
        return
    for times in timed.values():
        yield Case((View(0, Known({None: times}, {})),), stale)
