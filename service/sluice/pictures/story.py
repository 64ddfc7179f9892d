"""The story of a replay: what each event does to each window, as immutable values that pictures are drawn from.
A story is a list of steps. A step is one moment of the operator clock: an event, or timers that are due between two
events. Its changes show the windows that it touched; its outputs are the records that come out. A zoomed story has
the windows of one key, or the steps of a range of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.time_units import SECOND


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
    """The change of one window in a step.

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


@dataclass(frozen=True, slots=True)
class Zoom:
    """The part of a story that is drawn.

    key           the key of the windows; None: all keys
    start, end    the range of the operator clock in nanoseconds, both included; None: unbounded
    """

    key: str | None = None
    start: int | None = None
    end: int | None = None

    def starts_after(self, step: Step) -> bool:
        return self.start is not None and step.at < self.start

    def shows(self, step: Step) -> bool:
        return not self.starts_after(step) and (self.end is None or step.at <= self.end)


def keys(story: Story) -> list[str]:
    """The keys of all windows, in order."""
    return sorted({change.window.key for step in story.steps for change in step.changes} - {""})


def zoomed(story: Story, zoom: Zoom) -> Story:
    """The story within the zoom. Its first step shows the windows as they are when the range starts."""
    steps = [step for step in story.steps if zoom.key in (None, *(change.window.key for change in step.changes))]
    if zoom.key is not None:
        steps = [_of_key(step, zoom.key) for step in steps]
    before = [step for step in steps if zoom.starts_after(step)]
    shown = [step for step in steps if zoom.shows(step)]
    return replace(story, steps=(*_opening(before, zoom), *shown))


# ---- a key -----------------------------------------------------------------------------------------------------------


def _of_key(step: Step, key: str) -> Step:
    """The step with the windows of this key alone, and what comes out of them."""
    changes = tuple(change for change in step.changes if change.window.key == key)
    return replace(step, changes=changes, outputs=tuple(_outputs(step, key)))


def _outputs(step: Step, key: str) -> Iterator[Shown]:
    """What comes out of the windows of the key: as many results as there are firings belong to these in order; else
    they cannot be told apart, and all results of a step with such a window are shown.
    """
    owners = [change.window.key for change in step.changes for _ in change.fired]
    tuples = sum(output.kind == "tuple" for output in step.outputs)
    paired = len({*owners}) > 1 and len(owners) == tuples
    place = -1
    for output in step.outputs:
        place += output.kind == "tuple"
        if not paired or owners[max(place, 0)] == key:
            yield output


# ---- a range ---------------------------------------------------------------------------------------------------------


def _opening(before: list[Step], zoom: Zoom) -> Iterator[Step]:
    """A step with the contents of all windows at the start of the range, if there is something in them."""
    contents: dict[WindowId, tuple[Chip, ...]] = {}
    for change in (change for step in before for change in step.changes):
        for window in (change.window, *change.replaces):
            contents.pop(window, None)
        if change.inside and not change.ended:
            contents[change.window] = change.inside
    changes = tuple(Change(window, inside, entered=inside) for window, inside in contents.items())
    if before and (changes or before[-1].watermarks) and zoom.start is not None:
        count = sum(step.event is not None for step in before)
        event = {"at": zoom.start / SECOND, "before": count}
        yield Step(before[-1].after, zoom.start, event, before[-1].watermarks, changes, ())
