"""The summary of a group as two stacks: for windows that only their oldest tuple leaves. O(1) amortised per tuple.

    oldest                                                youngest
    [ block A | block B | block C ]  [ tuple  tuple  tuple  tuple ]      summary of the group = summary of block A
      A + B + C  B + C     C           one summary for all of these                           + summary of the back
      front: a summary per block       back

The summary of a block covers the block and all younger blocks of the front. Evicting the oldest tuple needs no
subtraction, so sums do not drift and a NaN that left has no effect. When the front is empty, the whole back becomes the
front. This handles each tuple once.

A block has 2 ** `shift` tuples (blocks.py), or is a slot with one tuple (`shift` 0).
"""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.columns.prefetch import prefetch
from sluice.engine.contents.combine_plan import ADD, BEGIN, FOLD, OUTPUT, OUTPUT_SUFFIX, Summaries, append_step
from sluice.engine.contents.summaries import OLDEST, Layout


@inlined
def add_to_back(s: Summaries, records: np.ndarray, group: int, place: int) -> None:
    """Plans the summary of a group that gets the tuple in `place`: one step. `size` does not yet count the tuple."""
    append_step(s, BEGIN if records[group].size == records[group].front else ADD, group, NIL, place)


@inlined
def steps_to_evict(s: Summaries, records: np.ndarray, group: int) -> int:
    """The most steps that the eviction of the oldest tuple plans: a step per block if the back becomes the front."""
    return 1 if records[group].front else (records[group].size >> s.shift) + 3


@inlined
def build_front(s: Summaries, records: np.ndarray, group: int, links: np.ndarray) -> None:
    """Makes the whole group the front: plans a summary for each block, from the youngest block back to the oldest.

    The summary of a block is combined with that of the next younger block, so nothing is ever subtracted (A23).
    Following links means one cache miss per block. So `ahead` runs in the other direction, from the oldest block, and
    prefetches the second half. A block that has lost tuples already gets no summary, because only the summaries of its
    remaining tuples are read.
    """
    shift, place, oldest = s.shift, records[group].youngest, records[group].oldest
    block, younger, ahead = place >> shift, NIL, oldest >> shift
    while block != oldest >> shift:
        append_step(s, FOLD, block, place, younger)
        younger, place = block, links[block].older
        block = place >> shift
        ahead = links[ahead].younger >> shift
        prefetch(links, ahead)
    if oldest == block << shift:
        append_step(s, FOLD, block, place, younger)
    records[group].front = records[group].size


@inlined
def take_from_front(s: Summaries, records: np.ndarray, group: int, links: np.ndarray) -> None:
    """Removes the oldest tuple from the front stack. If the front is empty, the back first becomes the front."""
    if not records[group].front:
        build_front(s, records, group, links)
    records[group].front -= 1


@inlined
def plan_output(s: Summaries, records: np.ndarray, group: int, row: int) -> None:
    """Plans the summary of the group as output number `row`: one step."""
    record, shift = records[group], s.shift
    back = group if record.front < record.size else NIL
    block = record.oldest >> shift
    if not record.front:
        append_step(s, OUTPUT, row, NIL, back)
    elif record.oldest == block << shift:
        append_step(s, OUTPUT, row, block, back)
    else:
        append_step(s, OUTPUT_SUFFIX, row, (record.spread - block << shift) + record.oldest, back)


@inlined
def write_edges(edges: Layout, rows: np.ndarray, records: np.ndarray, group: int, into: np.ndarray, row: int) -> None:
    """Writes the values that are read from the oldest or the youngest tuple of the group to `into[row]`."""
    record = records[group]
    for a in range(len(edges)):
        edge = edges[a]
        into[row, edge.word] = rows[record.oldest if edge.code == OLDEST else record.youngest, edge.value]
