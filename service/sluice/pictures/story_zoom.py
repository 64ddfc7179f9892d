"""A part of a story: the windows of one key, or the steps of a range of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sluice.pictures.story import Change, Chip, Shown, Step, Story, WindowId
from sluice.time_units import SECOND


@dataclass(frozen=True, slots=True)
class Zoom:
    """What of a story is drawn.

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
    steps = [step for step in story.steps if zoom.key is None or _touches(step, zoom.key)]
    if zoom.key is not None:
        steps = [_of_key(step, zoom.key) for step in steps]
    before = [step for step in steps if zoom.starts_after(step)]
    shown = [step for step in steps if zoom.shows(step)]
    return replace(story, steps=(*_opening(before, zoom), *shown))


# ---- a key -----------------------------------------------------------------------------------------------------------


def _touches(step: Step, key: str) -> bool:
    return any(change.window.key == key for change in step.changes)


def _of_key(step: Step, key: str) -> Step:
    """The step with the windows of this key alone, and what comes out of them."""
    changes = tuple(change for change in step.changes if change.window.key == key)
    return replace(step, changes=changes, outputs=tuple(_outputs(step, key)))


def _outputs(step: Step, key: str) -> Iterator[Shown]:
    """What comes out of the windows of the key: as many results as there are firings belong to these in order; else
    they cannot be told apart, and all results of a step with such a window are shown.
    """
    owners = [change.window.key for change in step.changes for _ in change.fired]
    tuples = sum(one.kind == "tuple" for one in step.outputs)
    paired = len({*owners}) > 1 and len(owners) == tuples
    place = -1
    for one in step.outputs:
        place += one.kind == "tuple"
        if not paired or owners[max(place, 0)] == key:
            yield one


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
