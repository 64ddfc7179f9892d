"""The invariants of operators' states that cost a walk through the whole state (invariants.py).

They hold between batches. Each check is plain numpy, as slow as the state is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import Tables, walked
from sluice.engine.library.window_events import LibraryState
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.barrier.barrier_state import BarrierState
from sluice.engine.operators.dedup.dedup_state import DedupState
from sluice.engine.operators.event_join.event_join_records import LIVE as LIVE_TIMED
from sluice.engine.operators.event_join.event_join_state import EventJoinState
from sluice.engine.operators.join.join_kernel import NOTHING
from sluice.engine.operators.join.join_state import JoinState, SideState
from sluice.engine.operators.operator import OperatorState
from sluice.engine.operators.previous.previous_state import PreviousState
from sluice.engine.operators.session.session_state import SessionState
from sluice.engine.operators.sort.progressive_sort import SortState
from sluice.engine.windows.early_results import NOT_WAITING
from sluice.engine.windows.event_time.timeline_blocks import FREE, SHIFT, SIZE, TOP
from sluice.engine.windows.processing_time import FIRST, LAST, LIVE, STORED, time_queue
from sluice.engine.windows.processing_time.window_state import WindowTables
from sluice.invariants import require

SIZES, LINKED, ONCE, ORDER, RANGE, PRESENCE = (
    "sizes add up", "lists are linked", "slots are used once", "held in order", "rows in range", "present or null",
)  # fmt: skip


#: the words of presence of a table without optional types
NO_FLAGS = np.zeros((0, 0), np.int64)


def check_states(states: Iterable[OperatorState | None]) -> None:
    """Raises InvariantError if one of the operators' states violates an invariant. None stands for no state."""
    for state in states:
        _check(state)


def check_ranges(states: Iterable[OperatorState | None]) -> None:
    """Raises InvariantError if a field that refers to rows refers to none of the table: for states that were loaded or
    put together.
    """
    for state in states:
        # A library keeps the contents itself: the groups of its windows are never filled, and refer to nothing.
        unfilled = "group" if isinstance(state, LibraryState) else ""
        for tables in getattr(state, "sides", [getattr(state, "windows", state)]):
            if isinstance(tables, Tables):
                _check_ranges(tables, unfilled)


def _check(state: object) -> None:
    if isinstance(state, LibraryState):  # it keeps the contents itself, and the groups have none
        if isinstance(state.windows, EventState):
            _check_times(state.windows)
        else:
            _check_windows(state.windows)
    if isinstance(state, Tables) and "earlies" in state.declared:
        _check_early(state)
    if isinstance(state, Tables) and "waits" in state.declared:
        _check_early(state, ("wait_queue", "waits"))
    for kind, check in CHECKS:
        if isinstance(state, kind):
            check(state)


def _equal(name: str, subject: str, expected: ArrayLike, actual: ArrayLike) -> None:
    """Raises InvariantError unless two numbers or arrays are equal."""
    if not np.array_equal(expected, actual):
        require(name, holds=False, detail=f"{subject}: {_short(expected)} is not {_short(actual)}")


def _short(values: ArrayLike) -> str:
    """At most ten values, as text."""
    return np.array2string(np.asarray(values), threshold=10)


# ---- lists -----------------------------------------------------------------------------------------------------------


def _check_linked(subject: str, members: np.ndarray, older: np.ndarray, youngest: ArrayLike) -> None:
    """One list, from the oldest member on, is linked in the other direction as well."""
    before = np.append(NIL, members)[: len(members)]
    _equal(LINKED, f"{subject}, the members before each", older[members], before)
    _equal(LINKED, f"{subject}, the youngest", youngest, members[-1] if len(members) else NIL)


def _check_list(lists: np.ndarray, chosen: np.ndarray, links: np.ndarray, sizes: np.ndarray, free: np.ndarray) -> None:
    """Lists of tuples by slot. The oldest member may still name what left before it (intrusive_list.leave)."""
    members, list_of = walked(lists["oldest"][chosen], links["younger"])
    _equal(SIZES, "members of lists", np.bincount(list_of, minlength=len(chosen)), sizes[chosen])
    require(ONCE, len(np.unique(members)) == len(members), "a slot is in two lists")
    require(ONCE, not np.isin(members, free).any(), "a slot in a list is free")
    in_list = np.flatnonzero(np.diff(list_of) == 0)
    _equal(LINKED, "older members", links["older"][members[in_list + 1]], members[in_list])
    last = np.flatnonzero(np.append(np.diff(list_of) != 0, len(list_of) > 0)) if len(list_of) else list_of
    _equal(LINKED, "youngest members", lists["youngest"][chosen], members[last])


def _check_free(state: WindowTables | EventState) -> None:
    free = state.free.slots
    require(ONCE, len(np.unique(free)) == len(free), "a slot is free twice")
    require(ONCE, not len(free) or 0 <= free.min() <= free.max() < state.top, "a free slot was never in use")


def _check_early(state: Tables, names: tuple[str, str] = ("early_queue", "earlies")) -> None:
    """The queue has exactly the windows that wait for an early result, in order of their times, linked both ways."""
    queue, windows = (getattr(state, name) for name in names)
    members, _ = walked(queue["oldest"], windows["younger"])
    due = windows["due"][members]
    _equal(
        LINKED, "windows that wait for an early result", np.sort(members), np.flatnonzero(windows["due"] != NOT_WAITING)
    )
    require(ORDER, (np.diff(due) >= 0).all(), "the queue of early results is not in order")
    require(SIZES, (windows["tuples"][members] > 0).all(), "a window without new tuples waits for an early result")
    _check_linked("the queue of early results", members, windows["older"], queue["youngest"][0])


# ---- windows by the operator clock -----------------------------------------------------------------------------------


def _check_windows(state: WindowTables) -> None:
    """Sizes add up to LIVE and STORED, and lists are linked both ways."""
    sizes = state.partitions["size"]
    require(SIZES, sizes.min(initial=0) >= 0, "a partition has fewer than 0 tuples")
    _equal(SIZES, "tuples", state.scalars[LIVE], sizes.sum())
    stored, _ = walked(state.scalars[[FIRST]], state.partitions["following"])
    _equal(LINKED, "partitions with tuples", np.sort(stored), np.flatnonzero(sizes))
    _equal(SIZES, "partitions", state.scalars[STORED], len(stored))
    _check_linked("partitions", stored, state.partitions["preceding"], state.scalars[LAST])
    _check_free(state)
    if len(state.chain):
        _check_list(state.partitions, np.flatnonzero(sizes), state.chain, sizes, state.free.slots)
    if state.queued:
        gone = int(state.gone["tuples"].sum()) if len(state.gone) else 0
        partitions = time_queue.in_order(state.queue, state.scalars)["partition"]
        _equal(SIZES, "tuples in the queue", (partitions != NIL).sum() - gone, state.scalars[LIVE])


def _check_groups(state: AggregateState) -> None:
    """The groups of a partition hold its tuples. Where the window evicts its last tuple, so did its group."""
    if state.ring:
        _equal(SIZES, "tuples of rings", state.rings["size"], state.partitions["size"])
        return
    groups = state.group_records["size"][: state.rows["group"]]
    _equal(SIZES, "tuples of groups", state.scalars[LIVE], groups.sum())
    group_records = state.group_records[: len(groups)]
    stacks = (groups > 0) & (group_records["root"] == NIL)  # a group that is a heap has no front
    require(SIZES, (group_records["front"][stacks] <= groups[stacks]).all(), "a front is longer than its group")
    if state.pairs.count:
        heads = np.where(state.partitions["size"] > 0, state.ends["oldest"][: len(state.partitions)], NIL)
        members, _ = walked(heads, state.group_records["younger"])
        _equal(LINKED, "groups with tuples", np.sort(members), np.flatnonzero(groups))
    if state.linked and not state.packed:
        _check_list(state.group_records, np.flatnonzero(groups), state.links, groups, state.free.slots)


def _check_buckets(side: SideState) -> None:
    """The tuples of a key are linked both ways. Each stored tuple is in a bucket, except one whose key has a NaN."""
    counts = side.buckets["count"]
    _check_list(side.buckets, np.flatnonzero(counts), side.stored_tuples, counts, side.free.slots)
    stored = side.stored_slots()[NOTHING + 1 :]
    _equal(SIZES, "tuples of keys", counts.sum(), (side.stored_tuples["bucket"][stored] != NIL).sum())


# ---- windows by event time -------------------------------------------------------------------------------------------


def _check_times(state: EventState) -> None:
    """Timelines are linked both ways and in order, and blocks count their nodes that are in use."""
    _check_free(state)
    groups = state.group_records[: state.rows["group"]]
    held, _ = walked(groups["oldest"][groups["size"] > 0], state.slices["younger"])
    _equal(SIZES, "tuples of times", state.sizes[1], state.slices["count"][held].sum())
    _check_timelines(state.partitions[: state.rows["partition"]], state.nodes, state.node_blocks, state.node_room)
    if state.pairs.count:
        _check_timelines(groups, state.slices, state.slice_blocks, state.slice_room)


def _check_timelines(lists: np.ndarray, nodes: np.ndarray, blocks: np.ndarray, room: np.ndarray) -> None:
    holding = np.flatnonzero(lists["size"])
    members, list_of = walked(lists["oldest"][holding], nodes["younger"])
    _equal(SIZES, "times of a timeline", np.bincount(list_of, minlength=len(holding)), lists["size"][holding])
    in_list = np.flatnonzero(np.diff(list_of) == 0)
    _equal(LINKED, "older times", nodes["older"][members[in_list + 1]], members[in_list])
    require(ORDER, (np.diff(nodes["time"][members])[in_list] > 0).all(), "the times of a timeline are not in order")
    used = np.bincount(members >> SHIFT, minlength=int(room[TOP]) >> SHIFT)
    require(SIZES, (used <= blocks[: len(used)]).all(), "a block is free while a node of it is in use")
    require(SIZES, (blocks <= SIZE).all(), "a block has more nodes than it can have")
    free, _ = walked(room[[FREE]], nodes["younger"])
    require(ONCE, not blocks[free >> SHIFT].any(), "a free block has nodes")


def _check_event_join(state: EventJoinState) -> None:
    """The tuples of a key are linked both ways, in order of event time. All other slots are free."""
    stored = 0
    for port, (lists, nodes) in enumerate(
        ((state.left_lists, state.left_nodes), (state.right_lists, state.right_nodes))
    ):
        sizes = lists["size"][: state.rows["key"]]
        holding, free = np.flatnonzero(sizes), state.free[port].slots
        _check_list(lists, holding, nodes, sizes, free)
        members, list_of = walked(lists["oldest"][holding], nodes["younger"])
        _equal(LINKED, "owners of tuples", nodes["owner"][members], holding[list_of])
        require(
            ORDER, (np.diff(nodes["time"][members])[np.diff(list_of) == 0] >= 0).all(), "a side is not in order of time"
        )
        _equal(SIZES, "tuples of a side", len(members), state.tops[port] - 1 - len(free))
        stored += len(members)
    _equal(SIZES, "tuples of both sides", stored, state.scalars[LIVE_TIMED])


# ---- rows that others refer to ---------------------------------------------------------------------------------------


def _check_ranges(state: Tables, unfilled: str) -> None:
    """`unfilled`: the space whose rows are not looked at; "": none."""
    rows = state.rows
    for name, table in state.declared.items():
        flags = getattr(state, name)[: rows[table.per]][:, table.flags] if table.flags else NO_FLAGS
        require(PRESENCE, not (flags & ~1).any(), f"{name} has a word of presence that is not 0 or 1")
    for name, table in state.declared.items():
        for field, space in table.refers.items() if table.per != unfilled else ():
            column = getattr(state, name)[: rows[table.per]]
            numbers = column[field] if field else column
            limit = max(rows[space] * (state.block if space == "slot" else 1), 1)
            require(RANGE, not len(numbers) or numbers.max() < limit, f"{name}.{field} is {numbers.max(initial=NIL)}")


# ---- by kind of state ------------------------------------------------------------------------------------------------


def _check_sort(state: SortState) -> None:
    _equal(SIZES, "slots in use", state.top - len(state.free), state.scalars[LIVE])


def _check_join(state: JoinState) -> None:
    for side in state.sides:
        _check_windows(side)
        _check_buckets(side)


def _check_sessions(state: SessionState) -> None:
    contents = state.contents[: state.rows["content"]]
    _equal(SIZES, "tuples of sessions", state.sizes[1], contents["count"][contents["owner"] != NIL].sum())


def _check_dedup(state: DedupState) -> None:
    _equal(SIZES, "queued tuples", state.sizes[1], state.queued["size"].sum())


def _check_previous(state: PreviousState) -> None:
    sizes = state.partitions["size"][: state.keys.count]
    _equal(SIZES, "stored tuples", state.sizes[1], sizes.sum())
    require(RANGE, holds=bool((sizes <= state.longest).all()), detail="a key has more tuples than are stored of one")


def _check_barrier(state: BarrierState) -> None:
    """Each queue has as many tuples as its size says, in order of arrival; no key has a tuple of each input."""
    queues = state.queues[: state.rows["queue"]]
    heads = np.where(queues["size"] > 0, queues["oldest"], NIL)
    slots, list_of = walked(heads, state.waiting["younger"])
    _equal(LINKED, "tuples of queues", queues["size"], np.bincount(list_of, minlength=len(queues)))
    _equal(SIZES, "waiting tuples", state.sizes[1], len(slots))
    at = state.waiting["at"][slots]
    require(
        ORDER, holds=not ((np.diff(at) < 0) & (np.diff(list_of) == 0)).any(), detail="a tuple is before an earlier one"
    )
    of_keys = queues["size"].reshape(-1, state.ports)
    _equal(SIZES, "tuples of keys", state.partitions["size"][: len(of_keys)], of_keys.sum(axis=1))
    require(ONCE, holds=not (of_keys > 0).all(axis=1).any(), detail="a key has a tuple of each input")


#: the checks of a state: all whose class it has
CHECKS: tuple[tuple[type, Callable[[Any], None]], ...] = (
    (WindowTables, _check_windows),
    (AggregateState, _check_groups),
    (EventState, _check_times),
    (SortState, _check_sort),
    (JoinState, _check_join),
    (EventJoinState, _check_event_join),
    (SessionState, _check_sessions),
    (DedupState, _check_dedup),
    (PreviousState, _check_previous),
    (BarrierState, _check_barrier),
)
