"""When an operator emits, and what is then known of the event times in its outputs (output_cases.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.model.lateness.output_cases import ANY_TIME, Case, OwnTuples, Reading, View
from sluice.model.lateness.time_bounds import Bound, Span, TimeScope, TupleTimes
from sluice.model.spec import Aggregate, Barrier, EventTime, Join, Map, Output, Pipeline, Split, Stream, Union
from sluice.model.windows.join_windows import AsOf, Interval


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
    own_sources = [source for source in sources if source is not None]
    return OwnTuples(
        min(source.lag for source in own_sources), any(source.advances for source in own_sources),
        any(source.idles for source in own_sources),
    )  # fmt: skip


def _may_drop(operator: Map) -> bool:
    """Whether a tuple may be missing in an output: conditions may not hold, the list of `each` may be empty."""
    return operator.where is not None or operator.each is not None or isinstance(operator, Split)


def _unchanged(operator: Map, stream: str, event_time: EventTime) -> bool:
    (output,) = (output for output in operator.outputs if output.stream == stream)
    name = getattr(dict(output.attributes).get(event_time.attribute), "name", None)
    return name == event_time.attribute


# ---- aggregates ------------------------------------------------------------------------------------------------------


def of_aggregate(operator: Aggregate, event_time: EventTime, own: OwnTuples | None, arriving: Bound) -> Iterator[Case]:
    """The cases of an aggregate. `event_time`: the event time of its input. `arriving`: how far an arriving tuple is
    behind the watermark at most.
    """
    by_clock = bool(operator.early and operator.early.time)
    return operator.window.cases(
        Reading(
            event_time.attribute, event_time.tick, own,
            whole=not (operator.partition_by or operator.group_by), arriving=arriving,
            early=operator.early is not None,
            at_once=not (operator.aggregate_evicted_partitions or operator.group_by or by_clock),
        )
    )  # fmt: skip


# ---- joins -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinSide:
    """A side of a join. `times`: the event time of its stream, None without one. `arriving`: as in `of_aggregate`."""

    times: EventTime | None
    arriving: Bound = 0

    def tuples(self, span: Span) -> dict[str, TupleTimes]:
        times = self.times
        return {} if times is None else {"": TupleTimes(times.attribute, times.tick, span, span, span)}


def of_join(join: Join, output: Output, sides: Mapping[str, JoinSide]) -> Iterator[Case]:
    """The cases of a join. Their watermark is that of the join, before the operator holds it back."""
    for name, other in (("left", "right"), ("right", "left")):
        outer = getattr(join, name).outer
        unmatched = getattr(join, name).unmatched
        if unmatched is not None and output == unmatched:
            yield _alone(join, name, other, sides, port=None)
        elif output in join.matched:
            if pair := _pair(join, name, other, sides):
                yield pair
            if outer and unmatched is None:
                yield _alone(join, name, other, sides, port=name)


def _pair(join: Join, name: str, other: str, sides: Mapping[str, JoinSide]) -> Case | None:
    """A tuple of side `name` causes the output of a pair. The anchor is its time."""
    match join.window:
        case Interval(before=before, after=after, grace=grace):
            partner = Span(-before, after) if name == "left" else Span(-after, before)
            return Case((View(grace, _pair_scope(name, other, sides, Span(0, 0), partner)),))
        case AsOf(age=age, grace=grace):
            if name == "right":
                return None
            older = Span(-math.inf if age is None else -age, 0)
            return Case(
                (View(grace, _pair_scope(name, other, sides, Span(0, 0), older)),), "it is older than the left one"
            )
    stored = getattr(join, other)
    if join.table and name == "right":
        return None
    if not join.table and stored.window.eviction.keeps_nothing:
        return None
    scope = _pair_scope(name, other, sides, Span(-sides[name].arriving), ANY_TIME)
    return Case((View(0, scope),), "a window of the join holds tuples while the watermark advances")


def _pair_scope(name: str, other: str, sides: Mapping[str, JoinSide], own: Span, partner: Span) -> TimeScope:
    tuples = {name: sides[name].tuples(own), other: sides[other].tuples(partner)}
    return TimeScope({side: times[""] for side, times in tuples.items() if times}, {})


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
    scope = TimeScope(names, {}, missing=frozenset({other}))
    return Case((View(view_of, scope),), "a tuple without a partner comes out when it leaves its window")


def of_barrier(barrier: Barrier, streams: Mapping[str, Stream]) -> Iterator[Case]:
    """The cases of a Barrier: a tuple may have waited for those of the other inputs for any time."""
    stale = f"the {'pair' if barrier.apart else 'barrier'} holds tuples while the watermark advances"
    timed: dict[str | None, TupleTimes] = {
        port.name: TupleTimes(event_time.attribute, event_time.tick, ANY_TIME, ANY_TIME, ANY_TIME)
        for port in barrier.ports
        if (event_time := streams[port.stream].event_time) is not None
    }
    if not barrier.apart:
        yield Case((View(0, TimeScope(timed, {})),), stale)
        return
    for times in timed.values():
        yield Case((View(0, TimeScope({None: times}, {})),), stale)
