"""The partitions that hold tuples, as a list: least recently inserted into first (V1)."""

from __future__ import annotations

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.windows.processing_time.window_records import FIRST, LAST, STORED, Window


@inlined
def remember(w: Window, p: int) -> None:
    """Puts a partition that holds its first tuple behind all others."""
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
    """Puts a stored partition behind all others: only an insertion does (V1), and they leave in this order (W5)."""
    if w.scalars[LAST] != p:
        forget(w, p)
        remember(w, p)
