"""What must hold of every state and of all window events, whatever the input: checked with each batch of a random test.

`checked` puts the checks into `Graph.feed` and around the window events of an aggregate, for as long as a test runs.
They are plain Python and go through the whole state, so no service has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import Tables, walked
from sluice.engine.graph import Graph, GraphState
from sluice.engine.library.window_events import LibraryState
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.dedup.dedup_state import DedupState
from sluice.engine.operators.event_join.event_join_records import LIVE as LIVE_TIMED
from sluice.engine.operators.event_join.event_join_state import EventJoinState
from sluice.engine.operators.join.join_kernel import NOTHING
from sluice.engine.operators.join.join_state import JoinState
from sluice.engine.operators.session.session_state import SessionState
from sluice.engine.operators.sort.progressive_sort import SortState
from sluice.engine.windows.early_results import NOT_WAITING
from sluice.engine.windows.event_time.timeline_blocks import FREE, SHIFT, SIZE, TOP
from sluice.engine.windows.processing_time import CLEAR, EVICT, FIRST, INSERT, LAST, LIVE, LOSE, STORED, time_queue
from sluice.engine.windows.processing_time.window_records import HEAD, TAIL
from sluice.engine.windows.processing_time.window_state import WindowTables
from tests.spec import watermark_oracle


def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks every state and all watermarks after each batch, and all window events of aggregates."""
    feed, window_events = Graph.feed, AggregateOperator.window_events

    def checked_feed(self: Graph, state: Any, *given: Any) -> Any:
        before = watermark_oracle.watermarks(state)
        found = feed(self, state, *given)
        watermark_oracle.check(self, before, watermark_oracle.watermarks(state), found)
        for of in state.operators:
            check_state(of)
        return found

    def checked_events(self: AggregateOperator, state: AggregateState, *given: Any) -> Iterator[Any]:
        of = EventCounts(state)
        for events, firings in window_events(self, state, *given):
            of.check(events)
            yield events, firings
        sizes = state.partitions["size"]
        assert {p: size for p, size in of.sizes.items() if size} == {p: sizes[p] for p in np.flatnonzero(sizes)}

    monkeypatch.setattr(Graph, "feed", checked_feed)
    monkeypatch.setattr(AggregateOperator, "window_events", checked_events)


# ---- window events ---------------------------------------------------------------------------------------------------


class EventCounts:
    """The tuples of each partition by the window events of a batch: each leaves at most once (EVICT, LOSE or CLEAR)."""

    def __init__(self, state: AggregateState) -> None:
        """`state`: as it is before the first event."""
        sizes = state.partitions["size"]
        self.sizes = {p: int(sizes[p]) for p in np.flatnonzero(sizes).tolist()}
        self.by_slot = state.holding and not state.packed and not state.ring
        self.came: set[int] = set()
        self.left: set[int] = set()
        self.lost: Counter[int] = Counter()

    def check(self, events: np.ndarray) -> None:
        for slot, partition, code in events.tolist():
            inside = self.sizes.get(partition, 0)
            if code == INSERT:
                assert not self.by_slot or slot not in self.came, f"slot {slot} is inserted twice"
                self.came.add(slot)
                self.sizes[partition] = inside + 1
            elif code in (EVICT, LOSE):
                assert not self.by_slot or slot not in self.left, f"slot {slot} leaves twice"
                self.left.add(slot)
                assert inside > self.lost[partition], f"partition {partition} has no tuple that could leave"
                if code == LOSE:
                    self.lost[partition] += 1
                else:
                    self.sizes[partition] = inside - 1
            elif code == CLEAR:
                assert self.lost[partition] in (0, inside), f"partition {partition} loses only some of its tuples"
                self.lost[partition] = self.sizes[partition] = 0


# ---- states ----------------------------------------------------------------------------------------------------------


def check_state(state: Any) -> None:
    """What must hold between batches."""
    if "earlies" in getattr(state, "declared", ()):
        _check_early(state)
    match state:
        case AggregateState():
            _check_windows(state)
            _check_groups(state)
        case EventState():
            _check_times(state)
        case SortState():
            _check_windows(state)
            assert state.top - len(state.free) == int(state.scalars[LIVE])
        case JoinState():
            for side in state.sides:
                _check_windows(side)
                _check_buckets(side)
        case EventJoinState():
            _check_event_join(state)
        case SessionState() | DedupState():
            _check_size(state)
        case LibraryState():
            check_state(state.windows) if isinstance(state.windows, EventState) else _check_windows(state.windows)


def _check_size(state: SessionState | DedupState) -> None:
    """The number of tuples, which is counted while they come and go, is that of the tables."""
    counted = state.sizes[1]
    if isinstance(state, DedupState):
        assert counted == state.queued["size"].sum()
        return
    contents = state.contents[: state.rows["content"]]
    assert counted == contents["count"][contents["owner"] != NIL].sum()


def _check_early(state: Any) -> None:
    """The queue has exactly the windows that wait for an early result, in order of their times, linked both ways."""
    queue, windows = state.early_queue, state.earlies
    members, _ = walked(queue["oldest"], windows["younger"])
    due = windows["due"][members]
    assert sorted(members.tolist()) == np.flatnonzero(windows["due"] != NOT_WAITING).tolist()
    assert (np.diff(due) >= 0).all(), "the queue is not in order"
    assert (windows["tuples"][members] > 0).all(), "a window without new tuples waits"
    assert windows["older"][members].tolist() == [NIL, *members[:-1].tolist()][: len(members)]
    assert queue["youngest"][0] == (members[-1] if len(members) else NIL)


def _check_free(state: Any) -> None:
    free = state.free.slots
    assert len(np.unique(free)) == len(free), "a slot is free twice"
    assert not len(free) or 0 <= free.min() <= free.max() < state.top, "a slot that is free was never in use"


def _check_windows(state: WindowTables) -> None:
    """Sizes add up to LIVE and STORED, and lists are linked both ways."""
    sizes = state.partitions["size"]
    assert sizes.min(initial=0) >= 0
    assert int(sizes.sum()) == state.scalars[LIVE]
    stored, _ = walked(state.scalars[[FIRST]], state.partitions["following"])
    assert sorted(stored.tolist()) == np.flatnonzero(sizes).tolist(), "the list of stored partitions has others"
    assert len(stored) == state.scalars[STORED]
    assert state.scalars[LAST] == (stored[-1] if len(stored) else NIL)
    assert state.partitions["preceding"][stored].tolist() == [NIL, *stored[:-1].tolist()][: len(stored)]
    _check_free(state)
    if len(state.chain):
        _check_list(state, state.partitions, np.flatnonzero(sizes), state.chain, sizes)
    if state.queued:
        waiting = int(state.scalars[TAIL] - state.scalars[HEAD])
        gone = int(state.gone["tuples"].sum()) if len(state.gone) else 0
        partitions = time_queue.in_order(state.queue, state.scalars)["partition"]
        assert int((partitions != NIL).sum()) - gone == state.scalars[LIVE], f"{waiting} entries in the queue"


def _check_list(state: Any, lists: np.ndarray, some: np.ndarray, links: np.ndarray, sizes: np.ndarray) -> None:
    """Lists of tuples by slot. The oldest member may still name what left before it (intrusive_list.leave)."""
    members, of = walked(lists["oldest"][some], links["younger"])
    assert np.bincount(of, minlength=len(some)).tolist() == sizes[some].tolist(), "a list has more or fewer members"
    assert len(np.unique(members)) == len(members), "a slot is in two lists"
    assert not np.isin(members, state.free.slots).any(), "a slot in a list is free"
    same = np.flatnonzero(np.diff(of) == 0)
    assert links["older"][members[same + 1]].tolist() == members[same].tolist(), "links are not mutual"
    last = np.flatnonzero(np.append(np.diff(of) != 0, len(of) > 0)) if len(of) else of
    assert lists["youngest"][some].tolist() == members[last].tolist()


def _check_groups(state: AggregateState) -> None:
    """The groups of a partition hold its tuples. Where the window evicts its last tuple, so did its group."""
    if state.ring:
        assert state.rings["size"].tolist() == state.partitions["size"].tolist()
        return
    groups = state.group_records["size"][: state.rows["group"]]
    assert int(groups.sum()) == state.scalars[LIVE]
    group_records = state.group_records[: len(groups)]
    stacks = (groups > 0) & (group_records["root"] == NIL)  # a group that is a heap has no front
    assert (group_records["front"][stacks] <= groups[stacks]).all()
    if state.pairs.count:
        heads = np.where(state.partitions["size"] > 0, state.ends["oldest"][: len(state.partitions)], NIL)
        members, _ = walked(heads, state.group_records["younger"])
        assert sorted(members.tolist()) == np.flatnonzero(groups).tolist(), "a group is in no list"
    if state.linked and not state.packed:
        _check_list(state, state.group_records, np.flatnonzero(groups), state.links, groups)


def _check_times(state: EventState) -> None:
    """Timelines are linked both ways and in order, and blocks know how many of their nodes are in use."""
    _check_free(state)
    groups = state.group_records[: state.rows["group"]]
    held, _ = walked(groups["oldest"][groups["size"] > 0], state.slices["younger"])
    assert state.sizes[1] == state.slices["count"][held].sum()
    _check_timelines(state.partitions[: state.rows["partition"]], state.nodes, state.node_blocks, state.node_room)
    if state.pairs.count:
        _check_timelines(state.group_records[: state.rows["group"]], state.slices, state.slice_blocks, state.slice_room)


def _check_timelines(lists: np.ndarray, nodes: np.ndarray, blocks: np.ndarray, room: np.ndarray) -> None:
    holding = np.flatnonzero(lists["size"])
    members, of = walked(lists["oldest"][holding], nodes["younger"])
    assert np.bincount(of, minlength=len(holding)).tolist() == lists["size"][holding].tolist()
    same = np.flatnonzero(np.diff(of) == 0)
    assert nodes["older"][members[same + 1]].tolist() == members[same].tolist()
    assert (np.diff(nodes["time"][members])[same] > 0).all(), "times are not in order"
    used = np.bincount(members >> SHIFT, minlength=int(room[TOP]) >> SHIFT)
    assert (used <= blocks[: len(used)]).all(), "a block is free while a node of it is in use"
    assert (blocks <= SIZE).all()
    free, _ = walked(room[[FREE]], nodes["younger"])
    assert not blocks[free >> SHIFT].any(), "a free block has nodes"


def _check_buckets(side: Any) -> None:
    """The tuples of a key are linked both ways; those that are stored are in a bucket, but for keys with NaN."""
    counts = side.buckets["count"]
    holding = np.flatnonzero(counts)
    _check_list(side, side.buckets, holding, side.stored_tuples, counts)
    stored = side.stored_slots()[NOTHING + 1 :]
    assert int(counts.sum()) == int((side.stored_tuples["bucket"][stored] != NIL).sum())


def _check_event_join(state: EventJoinState) -> None:
    """The tuples of a key are linked both ways, in order of event time; slots of others are free."""
    stored = 0
    for port, (lists, nodes) in enumerate(
        ((state.left_lists, state.left_nodes), (state.right_lists, state.right_nodes))
    ):
        sizes = lists["size"][: state.rows["key"]]
        holding = np.flatnonzero(sizes)
        _check_list(SimpleNamespace(free=state.free[port]), lists, holding, nodes, sizes)
        members, of = walked(lists["oldest"][holding], nodes["younger"])
        assert (nodes["owner"][members] == holding[of]).all()
        same = np.diff(of) == 0
        assert (np.diff(nodes["time"][members])[same] >= 0).all(), "times are not in order"
        assert len(members) == state.tops[port] - 1 - len(state.free[port])
        stored += len(members)
    assert stored == state.scalars[LIVE_TIMED]


def check_graph_state(state: GraphState) -> None:
    """For states that were just put together: every field that refers to rows does so inside of the table as well."""
    for of in state.operators:
        check_state(of)
        for tables in getattr(of, "sides", [getattr(of, "windows", of)]):
            if isinstance(tables, Tables):
                check_ranges(tables)


def check_ranges(state: Tables) -> None:
    """Every field that refers to rows does so inside of the table."""
    rows = state.rows
    for name, table in state.declared.items():
        for field, space in table.refers.items():
            column = getattr(state, name)[: rows[table.per]]
            numbers = column[field] if field else column
            limit = rows[space] * (state.block if space == "slot" else 1)
            assert not len(numbers) or numbers.max() < max(limit, 1), f"{name}.{field} is out of range"
