"""The tuples of a partition of a sliding window in order of arrival, from which any can be taken."""

from __future__ import annotations

from service.engine.kernel import inlined
from service.engine.windows.events import NOBODY, Window


@inlined
def append(w: Window, p: int, slot: int) -> None:
    youngest = w.partitions[p].youngest if w.partitions[p].size else NOBODY
    w.chain[slot].older = youngest
    w.chain[slot].younger = NOBODY
    if youngest == NOBODY:
        w.partitions[p].oldest = slot
    else:
        w.chain[youngest].younger = slot
    w.partitions[p].youngest = slot


@inlined
def take(w: Window, p: int, slot: int) -> None:
    older, younger = w.chain[slot].older, w.chain[slot].younger
    if older == NOBODY:
        w.partitions[p].oldest = younger
    else:
        w.chain[older].younger = younger
    if younger == NOBODY:
        w.partitions[p].youngest = older
    else:
        w.chain[younger].older = older
