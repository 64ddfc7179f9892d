"""Doubly linked lists whose links are fields of the members' own records. Adding or removing a member costs O(1).

    list       oldest --> A                                         youngest --> C
    members    NIL <--older-- A <--older, younger--> B <--older, younger--> C --younger--> NIL

A list is a record with the fields `oldest` and `youngest`. A member is a record with the fields `older` and `younger`.
All four fields hold row numbers of the member table, or NIL. Any table with these fields can be used.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import inlined

#: the row number that stands for no row: no member, or no list
NIL = -1


@inlined
def make_empty(lists: np.ndarray, at: int) -> None:
    """Makes the list empty."""
    lists[at].oldest = lists[at].youngest = NIL


@inlined
def append(lists: np.ndarray, at: int, members: np.ndarray, member: int) -> None:
    """Adds the member behind the youngest one."""
    insert(lists, at, members, lists[at].youngest, member)


@inlined
def push_linked(lists: np.ndarray, at: int, member: int) -> None:
    """Adds the member behind the youngest one without writing links.

    Use it if the members are already linked, because another list over the same records linked them.
    """
    if lists[at].oldest == NIL:
        lists[at].oldest = member
    lists[at].youngest = member


@inlined
def insert(lists: np.ndarray, at: int, members: np.ndarray, older: int, member: int) -> None:
    """Adds the member behind `older`, or in front of all others if `older` is NIL."""
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
    """Removes the member from the list. The removed member keeps its own links."""
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
    """Removes the member from the list. If the member is the oldest one, writes only the record of the list.

    All links between members then stay as they were, so another list over the same records can still follow them. The
    `older` link of the new oldest member still refers to the removed one: iteration towards older members must stop at
    `oldest`.
    """
    if member != lists[at].oldest:
        unlink(lists, at, members, member)
    else:
        younger = members[member].younger
        lists[at].oldest = younger
        if younger == NIL:
            lists[at].youngest = NIL
