"""The kernel that maintains the contents of sessions: a summary for each group of each session.

If a function lists tuples, a content also has a chain of its tuples. A content is the part of a session that belongs to
one group; without `group_by` a session has one content. Summaries combine in any order, because they carry sequence
numbers (see summaries.py). So inserting a tuple costs O(1), and merging two sessions costs O(contents of the younger
one). With `group_by`, a group has a list of its contents in order of time (session_list.py), in which the kernel finds
the content of a session.
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
    """The tables and settings of the kernel."""

    scalars: np.ndarray
    layout: Layout
    text: InternedText
    rows: np.ndarray
    links: np.ndarray
    groups: np.ndarray
    #: the contents of each session
    chains: np.ndarray
    contents: np.ndarray
    #: the summary of each content
    sums: np.ndarray
    grouped: bool
    listing: bool
    scratch: np.ndarray
    #: the number of tuples in all sessions (one element)
    held: np.ndarray


@kernel
def run(c: SessionArrays, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room for results."""
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
    c.held[0] += 1
    if c.listing:
        c.links[slot].next = NIL
        if c.contents[at].first == NIL:
            c.contents[at].first = slot
        else:
            c.links[c.contents[at].last].next = slot
        c.contents[at].last = slot


@inlined
def _find(c: SessionArrays, s: int, slot: int, last: int) -> int:
    """The content of the session for the group of the tuple; NIL if the session has none."""
    if not c.grouped:
        return c.chains[s].oldest  # type: ignore[no-any-return]
    at = not_after(c.groups, c.contents, c.links[slot].group, last)
    return at if at != NIL and c.contents[at].session == s else NIL


@inlined
def _begin(c: SessionArrays, s: int, slot: int, last: int) -> int:
    """Adds a content to the session. Its time in the list of its group may be any time of the session; it is `last`."""
    at = c.scalars[FREE_CONTENT]
    if at == NIL:
        at = c.scalars[CONTENTS]
        c.scalars[CONTENTS] += 1
    else:
        c.scalars[FREE_CONTENT] = c.contents[at].following
    if c.grouped:
        group = c.links[slot].group
        enter(c.groups, c.contents, group, not_after(c.groups, c.contents, group, last), at, last)
    else:
        c.contents[at].owner = c.links[slot].group
    c.contents[at].count = 0
    c.contents[at].first = c.contents[at].last = NIL
    _append(c, s, at)
    return at  # type: ignore[no-any-return]


@inlined
def _append(c: SessionArrays, s: int, at: int) -> None:
    """Appends the content to the chain of the session's contents."""
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
    """Merges session `other`, the next younger session, into `s`, content by content."""
    at = c.chains[other].oldest
    while at != NIL:
        following = c.contents[at].following
        content = c.contents[at].older if c.grouped else c.chains[s].oldest
        if content != NIL and c.contents[content].session == s:
            _combine(c, content, at)
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
        take(c.groups, c.contents, c.contents[at].owner, at)
    c.contents[at].owner = NIL
    c.contents[at].following = c.scalars[FREE_CONTENT]
    c.scalars[FREE_CONTENT] = at


# ---- out ------------------------------------------------------------------------------------------------------------


@inlined
def _fire(c: SessionArrays, s: int, firing: int, results: Results) -> bool:
    """Writes a result row for each group of the session. Returns False (and writes none) without room."""
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
        c.held[0] -= c.contents[at].count
        while c.listing and slot != NIL:
            results.freed[results.used[FREED]] = slot
            results.used[FREED] += 1
            slot = c.links[slot].next
        _free(c, at)
        at = following
    c.chains[s].oldest = c.chains[s].youngest = NIL
