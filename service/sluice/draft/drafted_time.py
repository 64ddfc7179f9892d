"""The event time of a draft: whether the time of the records is clear, its lag, and the panes of a window over it."""

from __future__ import annotations

from typing import NamedTuple

from sluice.draft.envelopes import UPSERT
from sluice.draft.name_words import EVENT_TIMES, OTHER_TIMES, words
from sluice.draft.roles import MOST_DISORDER, disorder_of, seconds
from sluice.draft.sampled_attributes import CHANGE, Attribute
from sluice.draft.user_choices import Roles

#: lengths, as the file has them -> seconds
LAGS = {"10s": 10, "1m": 60, "10m": 600, "1h": 3600, "6h": 2 * MOST_DISORDER}
PANES = {"1m": 60, "10m": 600, "1h": 3600, "1d": 86_400}
#: length of a pane -> its name in the draft
NAMES = {"1m": "minute", "10m": "ten_minutes", "1h": "hour", "1d": "day"}
#: the lag is at least this many times what the sampled records are out of order by
MARGIN = 2
#: tuples that a pane of a key has on the average
IN_PANE = 10
#: panes that the sample has at least, if they are longer than the shortest ones
SAMPLED_PANES = 4
#: seconds by which the clocks of producers and brokers differ
CLOCKS = 60
#: the first time of a record's timestamp that is one, in seconds; in an event written by hand it may be a small number
FIRST = 10**9


class EventTime(NamedTuple):
    """The event time of the stream.

    lag       how long windows wait for earlier records, as the file has it
    pane      the length of the panes, as the file has it
    disorder  the most seconds by which a sampled record is behind an earlier one of its topic partition
    """

    attribute: Attribute
    lag: str
    pane: str
    disorder: float

    @property
    def stream(self) -> str:
        """The name of the stream with the results of the window."""
        return f"by_{NAMES[self.pane]}"

    @property
    def operator(self) -> str:
        return f"each_{NAMES[self.pane]}"

    @property
    def each(self) -> str:
        return f"each {NAMES[self.pane]}".replace("each ten_minutes", "every ten minutes")

    @property
    def order(self) -> str:
        """How far the records are out of order, in words."""
        if not self.disorder:
            return "the records are in order"
        return f"the records are up to {round(self.disorder, 3):g} s out of order"


def event_time_of(roles: Roles, *, table: bool) -> EventTime | None:
    """The event time; None if there is no time, or if it is only a suggestion, since it is not clear."""
    if roles.time is None or unclear(roles, table=table):
        return None
    times = list(seconds(roles.time))
    disorder = disorder_of(times, roles.sample.origins)
    return EventTime(roles.time, _lag(disorder), _pane(roles, max(times) - min(times)), disorder)


def unclear(roles: Roles, *, table: bool) -> str:
    """Why it is not clear that the time is the event time, in words; empty if it is clear.

    A time is clear if all records have it, its name is that of an event's time (or the user has chosen it), its
    values differ, are not ahead of the timestamps of the records, and are nearly in order. The rows of a table are no
    events.
    """
    time, origins = roles.time, roles.sample.origins
    if time is None or table or roles.sample.envelope.word == UPSERT:
        return "the records are rows of a table"
    if time.optional or time.unfit:
        return "some records lack it"
    if not roles.time_is_chosen and time.part != CHANGE and (doubt := _doubt(time)):
        return doubt
    times = list(seconds(time))
    if len(set(times)) == 1:
        return "it is always the same"
    dated = [(moment, at) for moment, (_, at) in zip(times, origins, strict=True) if at is not None and at > FIRST]
    if any(moment > at + CLOCKS for moment, at in dated):
        return "it is later than the timestamp of the record"
    return "" if _lag(disorder_of(times, origins)) else "the records are hours out of order"


def _doubt(time: Attribute) -> str:
    """Why the time may not be the time of an event; empty if nothing says so."""
    if time.is_date:
        return "its values are dates"
    listed = words(time.last_name)
    of_event = "".join(listed) in EVENT_TIMES or OTHER_TIMES.isdisjoint(listed)
    return "" if of_event else "its name may be that of another time"


def _lag(disorder: float) -> str:
    """The shortest lag with a margin; empty if none is long enough."""
    return next((text for text, length in LAGS.items() if MARGIN * disorder <= length), "")


def _pane(roles: Roles, span: float) -> str:
    """The shortest length with IN_PANE tuples of a key, if the sample has several such panes; `span` is in seconds."""
    keys = len(set(zip(*(map(str, attribute.values) for attribute in roles.key), strict=False))) or 1
    needed = span * keys * IN_PANE / max(1, roles.sample.usable)
    possible = {text: length for text, length in PANES.items() if length <= max(PANES["1m"], span / SAMPLED_PANES)}
    return next((text for text, length in possible.items() if needed <= length), list(possible)[-1])
