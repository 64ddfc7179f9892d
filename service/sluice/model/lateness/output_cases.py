"""The bounds of the event times in the outputs of an operator: cases, each seen from several anchors.

A case is one way in which an output comes about, such as "the left tuple arrives" of a join. Each case has views: the
same facts seen from different anchors, all of them true. `behind` says how far the anchor of a view may be behind the
watermark that the operator has got before.

Tuples are taken to be on time: not older than the watermark before them. Older ones count where the operator accepts
them by `discardAge` or `grace`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sluice.model.lateness.time_bounds import Bound, Span, TimeScope, TupleTimes

ANY_TIME = Span()
FROM_ANCHOR = Span(0)


@dataclass(frozen=True, slots=True)
class View:
    """Facts about one case, seen from an anchor.

    behind    how far the anchor is behind the watermark at most, in nanoseconds; negative if it is always ahead
    scope     the times that an expression can have, from the anchor
    goes_back the most nanoseconds by which the anchor of an output is before the anchor of an earlier output
    """

    behind: Bound
    scope: TimeScope
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


@dataclass(frozen=True, slots=True)
class Reading:
    """How an aggregate reads its window, as far as the event times in its outputs depend on it.

    attribute  the event time of the input
    tick       nanoseconds of its unit
    own        the tuples that make the watermark; None: it comes from elsewhere
    whole      whether all tuples of the input are in one window, without partitions and groups
    arriving   how far an arriving tuple is behind the watermark at most, in nanoseconds
    early      whether there are early results
    at_once    whether a result comes out only with a firing of its own window, not by the clock
    """

    attribute: str
    tick: int
    own: OwnTuples | None
    whole: bool
    arriving: Bound = 0
    early: bool = False
    at_once: bool = True

    @property
    def own_whole(self) -> OwnTuples | None:
        """The tuples that make the watermark, if all of them are in one window."""
        return self.own if self.whole else None

    def times(self, span: Span, last: Span | None = None, greatest: Span | None = None) -> dict[str | None, TupleTimes]:
        """The bounds of the event times in a window: of any tuple, of the last one, of the greatest one."""
        return {None: TupleTimes(self.attribute, self.tick, span, last or span, greatest or span)}
