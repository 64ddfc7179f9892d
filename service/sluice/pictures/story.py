"""The story of a replay: what each event does to each window, as immutable values that pictures are drawn from.

A story is a list of steps. A step is one moment of the operator clock: an event, or timers that are due between two
events. Its changes show the windows that it touched; its outputs are the records that come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Scale:
    """How a time in nanoseconds is written: as an attribute of the type `type` with units of `tick` nanoseconds."""

    name: str
    type: str
    tick: int = 1


@dataclass(frozen=True, slots=True)
class Chip:
    """A tuple in a window. `number` distinguishes the tuples of an operator's port, in the order of their arrival.

    label   the values of the tuple in a few letters
    time    its event time in nanoseconds; None if the window does not use event time, or it is unknown
    """

    number: int
    label: str
    values: Mapping[str, Any] = field(compare=False)
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What a step does to one window.

    window   identifies the window: operator, side of a join, key of the partition, and start and end where it has them
    inside   the tuples that are in the window after the step, oldest first
    entered, left   the tuples that are inserted, and the tuples that are evicted
    fired    the tuples of each firing, in order
    full     whether the window is full for the first time
    ended    "" or why the window ends: "closed", "merged" or "evicted"
    late     tuples that no window accepts
    replaces   of a session that has grown: the sessions that it was before
    """

    window: WindowId
    inside: tuple[Chip, ...]
    entered: tuple[Chip, ...] = ()
    left: tuple[Chip, ...] = ()
    fired: tuple[tuple[Chip, ...], ...] = ()
    full: bool = False
    ended: str = ""
    late: tuple[Chip, ...] = ()
    replaces: tuple[WindowId, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class WindowId:
    """The identity of a window. `start` and `end` are event times in nanoseconds, of panes, sessions and the like."""

    operator: str
    side: str = ""
    key: str = ""
    start: int | None = None
    end: int | None = None

    @property
    def port(self) -> tuple[str, str]:
        return self.operator, self.side


@dataclass(frozen=True, slots=True)
class Port:
    """One windowed input of an operator.

    clause   the window clause
    scale    the event time of its windows; None if its windows follow the operator clock
    clears   whether a window that fires is empty afterwards
    """

    operator: str
    side: str
    clause: str
    scale: Scale | None
    clears: bool

    @property
    def id(self) -> tuple[str, str]:
        return self.operator, self.side


@dataclass(frozen=True, slots=True)
class Shown:
    """A record that comes out: a tuple, a mark, a watermark or a dead letter."""

    stream: str
    kind: str
    values: Mapping[str, Any]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One moment.

    after        the number of the event; for timers, the event that moved the clock past them
    at           the operator clock in nanoseconds
    event        the event with its record decoded; None for timers; `before`: of a zoomed story, the number of events
                 before its range
    watermarks   the watermark of each stream with an event time, after the step, nanoseconds
    """

    after: int
    at: int
    event: Mapping[str, Any] | None
    watermarks: Mapping[str, int]
    changes: tuple[Change, ...]
    outputs: tuple[Shown, ...]

    def of(self, port: Port) -> list[Change]:
        """The changes of the windows of a port."""
        return [change for change in self.changes if change.window.port == port.id]


@dataclass(frozen=True, slots=True)
class Story:
    """All steps of a replay.

    calendar   whether the clock shows times of the calendar, not seconds from 0
    left_out   the number of events that the story leaves out, because it would be too long
    """

    pipeline: str
    ports: tuple[Port, ...]
    steps: tuple[Step, ...]
    calendar: bool = False
    left_out: int = 0
