"""Lists whose members are found and taken out in one step: every member knows its neighbours.

A list is a record with the fields `oldest` and `youngest`, a member one with `older` and `younger`, in whatever tables.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import inlined

#: no member, no list
NIL = -1


@inlined
def make_empty(lists: np.ndarray, at: int) -> None:
    """The list is empty."""
    lists[at].oldest = lists[at].youngest = NIL


@inlined
def append(lists: np.ndarray, at: int, members: np.ndarray, member: int) -> None:
    """Behind the youngest."""
    insert(lists, at, members, lists[at].youngest, member)


@inlined
def push_linked(lists: np.ndarray, at: int, member: int) -> None:
    """Behind the youngest, which knows it already: other lists of the same members linked them."""
    if lists[at].oldest == NIL:
        lists[at].oldest = member
    lists[at].youngest = member


@inlined
def insert(lists: np.ndarray, at: int, members: np.ndarray, older: int, member: int) -> None:
    """Behind `older`; where that is NOBODY, before all others."""
    younger = lists[at].oldest if older == NIL else members[older].younger
    members[member].older = older
    members[member].younger = younger
    if older == NIL:
        lists[at].oldest = member
    else:
        members[older].younger = member
    if younger == NIL:
        lists[at].youngest = member
    else:
        members[younger].older = member


@inlined
def unlink(lists: np.ndarray, at: int, members: np.ndarray, member: int) -> None:
    """Out of the list; the member itself still says who its neighbours were."""
    older, younger = members[member].older, members[member].younger
    if older == NIL:
        lists[at].oldest = younger
    else:
        members[older].younger = younger
    if younger == NIL:
        lists[at].youngest = older
    else:
        members[younger].older = older


@inlined
def pop_keep_links(lists: np.ndarray, at: int, members: np.ndarray, member: int) -> None:
    """Out of the list, as `take`, but where the oldest leaves no member is touched.

    So who reads along behind still finds the others beside their neighbours, and the oldest may say who left before it:
    who goes back stops at `oldest`.
    """
    if member != lists[at].oldest:
        unlink(lists, at, members, member)
    else:
        younger = members[member].younger
        lists[at].oldest = younger
        if younger == NIL:
            lists[at].youngest = NIL
