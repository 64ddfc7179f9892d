"""What sessions hold: a summary for each group of a session, and where functions list tuples these in a chain.

Summaries combine in any order, as the layout knows of the arrival (summaries.py), so a tuple costs O(1), and so does
each content of a session that another session takes over. With `group_by` the content of a group is found by time: a
cell has a list of contents, as a key has a list of sessions (session_list.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.interner import InternedText
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.contents.firing_results import FREED, ROWS, TUPLES, Results, room
from sluice.engine.contents.summaries import Layout, combine, lift
from sluice.engine.operators.session.session_list import enter, not_after, take
from sluice.engine.operators.session.session_records import CONTENTS, FIRE, FREE_CONTENT, INSERT, MERGE


class SessionArrays(NamedTuple):
    """All that the kernel works on."""

    scalars: np.ndarray
    layout: Layout
    text: InternedText
    rows: np.ndarray
    links: np.ndarray
    cells: np.ndarray
    #: the contents of each session
    chains: np.ndarray
    contents: np.ndarray
    #: the summary of each content
    sums: np.ndarray
    grouped: bool
    listing: bool
    scratch: np.ndarray


@kernel
def run(c: SessionArrays, events: np.ndarray, results: Results, start: int) -> int:
    """Handles the window events from number `start` on; gives the number at which the room for results ran out."""
    for k in range(start, len(events)):
        code, s = events[k].code, events[k].session
        if code == INSERT:
            _insert(c, s, events[k].other, events[k].last)
        elif code == MERGE:
            _take_over(c, s, events[k].other)
        elif code == FIRE:
            if not _fire(c, s, events[k].other, results):
                return k
        else:
            _forget(c, s, results)
    return len(events)


# ---- in -------------------------------------------------------------------------------------------------------------


@inlined
def _insert(c: SessionArrays, s: int, slot: int, last: int) -> None:
    lift(c.layout, c.rows, slot, c.scratch, 0)
    at = _find(c, s, slot, last)
    if at == NIL:
        at = _begin(c, s, slot, last)
        for k in range(c.scratch.shape[1]):
            c.sums[at, k] = c.scratch[0, k]
    else:
        combine(c.layout, c.text, c.sums, at, c.scratch, 0, c.sums, at)
    c.contents[at].count += 1
    if c.listing:
        c.links[slot].next = NIL
        if c.contents[at].first == NIL:
            c.contents[at].first = slot
        else:
            c.links[c.contents[at].last].next = slot
        c.contents[at].last = slot


@inlined
def _find(c: SessionArrays, s: int, slot: int, last: int) -> int:
    """What the session holds of the tuple's group: without groups that is one content."""
    if not c.grouped:
        return c.chains[s].oldest  # type: ignore[no-any-return]
    at = not_after(c.cells, c.contents, c.links[slot].cell, last)
    return at if at != NIL and c.contents[at].session == s else NIL


@inlined
def _begin(c: SessionArrays, s: int, slot: int, last: int) -> int:
    """A new content, in a record that is free. Its time is any time of the session: `last`."""
    at = c.scalars[FREE_CONTENT]
    if at == NIL:
        at = c.scalars[CONTENTS]
        c.scalars[CONTENTS] += 1
    else:
        c.scalars[FREE_CONTENT] = c.contents[at].following
    if c.grouped:
        cell = c.links[slot].cell
        enter(c.cells, c.contents, cell, not_after(c.cells, c.contents, cell, last), at, last)
    else:
        c.contents[at].owner = c.links[slot].cell
    c.contents[at].count = 0
    c.contents[at].first = c.contents[at].last = NIL
    _append(c, s, at)
    return at  # type: ignore[no-any-return]


@inlined
def _append(c: SessionArrays, s: int, at: int) -> None:
    """To the contents of a session."""
    c.contents[at].session = s
    c.contents[at].following = NIL
    if c.chains[s].oldest == NIL:
        c.chains[s].oldest = at
    else:
        c.contents[c.chains[s].youngest].following = at
    c.chains[s].youngest = at


# ---- merging --------------------------------------------------------------------------------------------------------


@inlined
def _take_over(c: SessionArrays, s: int, other: int) -> None:
    """The contents of `other`, the next younger session, become contents of `s`, or part of those that `s` has."""
    at = c.chains[other].oldest
    while at != NIL:
        following = c.contents[at].following
        own = c.contents[at].older if c.grouped else c.chains[s].oldest
        if own != NIL and c.contents[own].session == s:
            _combine(c, own, at)
            _free(c, at)
        else:
            _append(c, s, at)
        at = following
    c.chains[other].oldest = c.chains[other].youngest = NIL


@inlined
def _combine(c: SessionArrays, into: int, at: int) -> None:
    combine(c.layout, c.text, c.sums, into, c.sums, at, c.sums, into)
    c.contents[into].count += c.contents[at].count
    if c.listing:
        c.links[c.contents[into].last].next = c.contents[at].first
        c.contents[into].last = c.contents[at].last


@inlined
def _free(c: SessionArrays, at: int) -> None:
    if c.grouped:
        take(c.cells, c.contents, c.contents[at].owner, at)
    c.contents[at].owner = NIL
    c.contents[at].following = c.scalars[FREE_CONTENT]
    c.scalars[FREE_CONTENT] = at


# ---- out ------------------------------------------------------------------------------------------------------------


@inlined
def _fire(c: SessionArrays, s: int, firing: int, results: Results) -> bool:
    """A result for each group of the session. False: the room ran out."""
    rows, tuples, at = 0, 0, c.chains[s].oldest
    while at != NIL:
        rows += 1
        tuples += c.contents[at].count if c.listing else 0
        at = c.contents[at].following
    if not room(results, rows, tuples, 0):
        return False
    at = c.chains[s].oldest
    while at != NIL:
        row = results.used[ROWS]
        results.used[ROWS] = row + 1
        results.firing[row] = firing
        results.size[row] = c.contents[at].count
        for k in range(c.sums.shape[1]):
            results.summary[row, k] = c.sums[at, k]
        if c.listing:
            _list(c, c.contents[at].first, results)
        at = c.contents[at].following
    return True


@inlined
def _list(c: SessionArrays, slot: int, results: Results) -> None:
    k = results.used[TUPLES]
    while slot != NIL:
        results.tuples[k] = slot
        k += 1
        slot = c.links[slot].next
    results.used[TUPLES] = k


@inlined
def _forget(c: SessionArrays, s: int, results: Results) -> None:
    at = c.chains[s].oldest
    while at != NIL:
        following = c.contents[at].following
        slot = c.contents[at].first
        while c.listing and slot != NIL:
            results.freed[results.used[FREED]] = slot
            results.used[FREED] += 1
            slot = c.links[slot].next
        _free(c, at)
        at = following
    c.chains[s].oldest = c.chains[s].youngest = NIL
