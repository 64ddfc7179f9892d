"""The list of the partitions that hold tuples, least recently inserted into first (V1)."""

from __future__ import annotations

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.windows.processing_time.window_records import FIRST, LAST, STORED, Window


@inlined
def remember(w: Window, p: int) -> None:
    """Appends a partition that gets its first tuple to the list."""
    last = w.scalars[LAST]
    w.partitions[p].preceding = last
    w.partitions[p].following = NIL
    if last == NIL:
        w.scalars[FIRST] = p
    else:
        w.partitions[last].following = p
    w.scalars[LAST] = p
    w.scalars[STORED] += 1


@inlined
def forget(w: Window, p: int) -> None:
    preceding, following = w.partitions[p].preceding, w.partitions[p].following
    if preceding == NIL:
        w.scalars[FIRST] = following
    else:
        w.partitions[preceding].following = following
    if following == NIL:
        w.scalars[LAST] = preceding
    else:
        w.partitions[following].preceding = preceding
    w.scalars[STORED] -= 1


@inlined
def refresh(w: Window, p: int) -> None:
    """Moves a stored partition to the end of the list. Only an insertion does so (V1), and partitions leave in this
    order (W5).
    """
    if w.scalars[LAST] != p:
        forget(w, p)
        remember(w, p)
