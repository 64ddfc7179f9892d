"""All tuples of a window under time eviction, in order of arrival: the partitions expire together."""

from __future__ import annotations

from service.engine.items import MAXIMUM
from service.engine.kernel import inlined
from service.engine.linked import NOBODY
from service.engine.policies import Clause
from service.engine.windows.events import NEWEST, OLDEST, Window
from service.engine.windows.tables import Windowed


@inlined
def append(w: Window, p: int, slot: int, at: int) -> None:
    newest = w.scalars[NEWEST]
    w.queue[slot].at = at
    w.queue[slot].partition = p
    w.queue[slot].earlier = newest
    w.queue[slot].later = NOBODY
    if newest == NOBODY:
        w.scalars[OLDEST] = slot
    else:
        w.queue[newest].later = slot
    w.scalars[NEWEST] = slot


@inlined
def take(w: Window, slot: int) -> None:
    earlier, later = w.queue[slot].earlier, w.queue[slot].later
    if earlier == NOBODY:
        w.scalars[OLDEST] = later
    else:
        w.queue[earlier].later = later
    if later == NOBODY:
        w.scalars[NEWEST] = earlier
    else:
        w.queue[later].earlier = earlier


@inlined
def expired(w: Window, now: int) -> int:
    """The oldest tuple if it has been inside for more than the time (S5), else NOBODY."""
    oldest = w.scalars[OLDEST]
    if oldest == NOBODY or now - w.queue[oldest].at <= w.clause.eviction.size:
        return NOBODY
    return oldest  # type: ignore[no-any-return]


def leaves(clause: Clause, state: Windowed) -> int:
    """When the oldest tuple will have been inside for more than the time; MAXIMUM where time takes none out."""
    if not clause.expiring or state.scalars[OLDEST] == NOBODY:
        return MAXIMUM
    return int(state.queue["at"][state.scalars[OLDEST]]) + int(clause.eviction.size) + 1
