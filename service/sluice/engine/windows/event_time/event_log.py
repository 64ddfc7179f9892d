"""Appends window events, firings and late tuples to the output tables of the event-time kernels (panes.py and
sliding_time.py).
"""

# The fields of an array's record are attributes, which numpy does not declare to type checkers.
# ruff: noqa: ANN401

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import EARLY_FIRING, WATERMARK, WINDOW
from sluice.engine.windows.event_time.event_records import FIRE, GROUP, INSERT, LAST, Window


@inlined
def room(w: Window, events: int, firings: int) -> bool:
    return w.used[0] + events <= len(w.events) and w.used[1] + firings <= len(w.firings)  # type: ignore[no-any-return]


@inlined
def append_event(w: Window, code: int, p: int, slot: int, begin: int, end: int) -> None:
    event = w.events[w.used[0]]
    event.code = code
    event.partition = p
    event.slot = slot
    event.begin = begin
    event.end = end
    w.used[0] += 1


@inlined
def append_insert(w: Window, p: int, slot: int, node: int) -> None:
    """Appends the insertion of a tuple at the time of `node`."""
    event = w.events[w.used[0]]
    event.node = node
    event.older = w.nodes[node].older
    append_event(w, INSERT, p, slot, w.nodes[node].time, w.nodes[node].time)


@inlined
def append_firing(
    w: Window, p: int, event: int, at: int, start: int, end: int, last: int, index: int
) -> None:  # fmt: skip
    """Appends the firing of the window from `start` to `end`, whose last time is `last`. Consecutive firings with the
    same last time share a group.

    The results of earlier firings of the same window are not withdrawn (E33).
    """
    if w.scalars[LAST] != last:
        w.scalars[LAST] = last
        w.scalars[GROUP] += 1
    _append_firing(w, WINDOW, p, event, at, start, end, last, index)


@inlined
def append_early_firing(w: Window, p: int, event: int, at: int, start: int, end: int, last: int) -> None:
    """Appends the firing that gives an early result of an open window."""
    w.scalars[GROUP] += 1
    _append_firing(w, EARLY_FIRING, p, event, at, start, end, last, 0)


@inlined
def _append_firing(
    w: Window, kind: int, p: int, event: int, at: int, start: int, end: int, last: int, index: int
) -> None:  # fmt: skip
    append_event(w, FIRE, p, w.used[1], start, last)
    firing = w.firings[w.used[1]]
    firing.event = event
    firing.at = at
    firing.kind = kind
    firing.partition = w.partitions[p].key
    firing.group = w.scalars[GROUP]
    firing.start = start
    firing.end = end
    firing.index = index
    firing.watermark = end
    w.used[1] += 1


class FiringTables(Protocol):
    """The tables that `pass_watermark_on` changes. `scalars` has GROUP at its index, `used[1]` counts the firings."""

    @property
    def scalars(self) -> np.ndarray: ...

    @property
    def firings(self) -> np.ndarray: ...

    @property
    def used(self) -> np.ndarray: ...


@inlined
def pass_watermark_on(w: FiringTables, item: Any) -> None:
    """Passes a watermark on, behind the firings that it caused (E6). Sessions use it, too."""
    w.scalars[GROUP] += 1
    firing = w.firings[w.used[1]]
    firing.event = item.event
    firing.at = item.at
    firing.kind = WATERMARK
    firing.partition = NIL
    firing.watermark = item.watermark
    firing.group = w.scalars[GROUP]
    w.used[1] += 1


@inlined
def append_late(w: Window, item: int, behind: int) -> None:
    w.late[w.used[2]].item = item
    w.late[w.used[2]].behind = behind
    w.used[2] += 1
