"""The state of an aggregate over event time: tables of partitions, groups, event times, panes and stored tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Format, column
from sluice.columns.state_tables import (  # fmt: skip
    FreeSlots,
    Maps,
    PartOfKey,
    Table,
    Tables,
    added_keys,
    intern_pairs,
    moved_to,
    parts_of,
    walked,
    words,
    words_of,
)
from sluice.engine.contents import slices
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.group_pairs import take_groups
from sluice.engine.windows import early_results
from sluice.engine.windows.event_time import event_records, key_times, timeline_blocks
from sluice.engine.windows.event_time.event_records import ENDLESS, EPOCH, FIRST_PANE, GROUP, LEFT_OUT, NEVER, PANES
from sluice.engine.windows.event_time.timeline_blocks import LONG, SHARED, SHIFT, SIZE, TOP
from sluice.engine.windows.event_time.timer_queue import TournamentTree

#: the fields of a partition that number nodes, those of a group that number slices, and the links of a timeline
OF_PARTITION = ("oldest", "youngest", "open", "fresh")
OF_GROUP = ("oldest", "youngest", "low", "middle", "high")
NEIGHBOURS = ("older", "younger", "leap")
ENDS = dict.fromkeys(("oldest", "youngest"), "group")
#: the tables of which only some windows have need: `closings` has the watermark at which the last pane of a slice
#: closes, `fillings`, `carried` and `spans` are for empty panes, the others for keys with times of their own
PLAIN: Mapping[str, bool] = dict.fromkeys(
    ("closings", "fillings", "carried", "spans", "key_times", "idles", "forgets"), False
)


def tables(program: Program, nodes: np.dtype) -> dict[str, Table]:
    """The tables of an aggregate over event time. `nodes` is the record that the window keeps for each event time."""
    summary, texts = program.summary, program.text_words
    return {
        "partitions": Table(
            "partition", event_records.PARTITION, refers=dict.fromkeys(OF_PARTITION, "node"),
            fresh={**dict.fromkeys(OF_PARTITION, NIL), "due": ENDLESS, "fire": ENDLESS, "epoch": NEVER},
        ),
        "ends": Table("partition", slices.ENDS, refers=ENDS, fresh=dict.fromkeys(ENDS, NIL)),
        "nodes": Table("node", nodes, refers=dict.fromkeys(NEIGHBOURS, "node")),
        "earlies": early_results.table("node"),
        "closings": Table("node", np.dtype(np.int64)),
        "node_blocks": Table("block of nodes", np.dtype(np.int8)),
        "fillings": Table(
            "partition", event_records.FILLING, fresh={"next": NEVER + 1, "until": NEVER, "last": NEVER}
        ),
        "carried": words_of("partition", program.carried.columns),
        "spans": Table("node", np.dtype(np.int64)),
        **key_times.tables(),
        "panes": Table("pane", event_records.PANE),
        "group_records": Table("group", slices.GROUP_RECORD, refers={
            **dict.fromkeys(OF_GROUP, "slice"), "younger": "group", "older": "group",
        }),
        "back": words("group", summary, texts),
        "slices": Table("slice", slices.SLICE, refers={
            **dict.fromkeys(NEIGHBOURS, "slice"), "first": "slot", "last": "slot",
        }),
        "slice_blocks": Table("block of slices", np.dtype(np.int8)),
        "sums": words("slice", summary, texts),
        "stack": words("slice", summary, texts),
        "links": Table("slot", slices.LINK, refers={"group": "group", "next": "slot"}),
        "words": words("slot", program.columns.width + 1, program.text_columns, program.columns.flags),
    }  # fmt: skip


class EventState(Tables, key_times.KeyTimesState):
    """The state of one aggregate over event time.

    The number of a partition is the code of its key in `keys`, or, where each topic partition has windows of its own,
    the code of (topic partition, key) in `places`. The number of a group is that of its partition or, with `group_by`,
    the code of its pair in `pairs`. `clocks` has the event time that was reached; it is saved with the rest (KIP D6).

    Without `group_by` the slices of a group have the same numbers as the nodes of its partition.
    """

    FORMAT: ClassVar[Format] = Format("aggregate over event time", 3)
    NUMBERS: ClassVar[tuple[str, ...]] = ("top", "arrived", "finished", "kept_keys", "kept_strings")
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = dict.fromkeys(
        ("scalars", "node_room", "slice_room", "clocks", "totals"), np.dtype(np.int64)
    )
    STRINGS: ClassVar[tuple[str, ...]] = ("keys", "places", "groups", "pairs", "strings")

    partitions: np.ndarray
    nodes: np.ndarray
    earlies: np.ndarray
    closings: np.ndarray
    fillings: np.ndarray
    carried: np.ndarray
    spans: np.ndarray
    node_blocks: np.ndarray
    slice_blocks: np.ndarray
    panes: np.ndarray
    group_records: np.ndarray
    slices: np.ndarray
    links: np.ndarray
    ends: np.ndarray
    back: np.ndarray
    sums: np.ndarray
    stack: np.ndarray
    words: np.ndarray

    def __init__(self, program: Program, clocks: int, nodes: np.dtype, more: Mapping[str, bool] = PLAIN) -> None:
        """`clocks` is the number of independent event-time clocks; `nodes` is the record that the window keeps for each
        event time. `more`: which of the tables in PLAIN the window needs.
        """
        self._program, self._nodes, self._more, self.limits = program, nodes, more, program.limits
        declarations = tables(program, nodes)
        optional = {"earlies": program.clause.early.wanted, **more}
        self.declare(declarations, [name for name in declarations if optional.get(name, True)])
        self._queue()
        self.scalars = np.zeros(event_records.SCALARS, np.int64)
        self.node_room, self.slice_room = timeline_blocks.scalars(), timeline_blocks.scalars()
        self.clocks = np.full(clocks, NEVER, np.int64)
        self.agenda = TournamentTree(clocks)
        #: slots below `top` that hold no tuple
        self.free = FreeSlots(np.int64)
        #: over all partitions: the times of the slices, then the number of tuples in each of them (pane_totals.py)
        self.totals = np.zeros(0, np.int64)
        self.top = 0
        #: the number of tuples in all windows (one element); not saved, because the slices have it
        self.held = np.zeros(1, np.int64)
        #: the number of tuples so far, which is the arrival number of the next one
        self.arrived = 0
        self.finished = False
        self.keys, self.places, self.groups, self.pairs = Interner(), Interner(), Interner(), Interner()
        self.strings = Interner()
        #: the numbers of entries that the last compaction of the keys and of `strings` left
        self.kept_keys = self.kept_strings = 0

    @property
    def rows(self) -> Mapping[str, int]:
        partitions = max(1, self.keys.count, self.places.count)
        nodes, times = int(self.node_room[TOP]), int(self.slice_room[TOP])
        return {
            "partition": partitions, "group": max(partitions, self.pairs.count), "node": nodes, "slice": times,
            "block of nodes": nodes >> SHIFT, "block of slices": times >> SHIFT, "slot": self.top,
            "pane": int(self.scalars[FIRST_PANE] + self.scalars[PANES]),
        }  # fmt: skip

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of window partitions in memory, including empty ones, and of tuples in their windows. O(1)."""
        return max(self.keys.count, self.places.count) or min(1, len(self.ends)), int(self.held[0])

    @property
    def left_out(self) -> int:
        """The number of empty panes that were left out (EP6)."""
        return int(self.scalars[LEFT_OUT]) if len(self.fillings) else 0

    def reserve(self, space: str, count: int) -> None:
        """Like Tables.reserve; also gives each new row of `partitions` its own number as `key`."""
        rows_before = len(self.partitions)
        super().reserve(space, count)
        if len(self.partitions) > rows_before:
            self.partitions["key"][rows_before:] = np.arange(rows_before, len(self.partitions))

    def reserve_batch(self, count: int) -> None:
        """Makes room for the partitions and groups, for `count` new event times, and for one pane."""
        for space in ("partition", "group"):
            self.reserve(space, self.rows[space])
        self.agenda.enter(self.partitions[: self.rows["partition"]])
        nodes = timeline_blocks.needed(int(self.node_room[TOP]), count)
        times = max(nodes, timeline_blocks.needed(int(self.slice_room[TOP]), count))
        self.reserve("node", nodes)
        self.reserve("slice", times)
        for space in ("block of nodes", "block of slices"):
            self.reserve(space, (times >> SHIFT) + 1)
        self.reserve("pane", self.rows["pane"] + 1)

    def plan(self) -> None:
        """Rebuilds what is not saved: the tournament tree and the queue of early results, from the due times of
        partitions and panes, and the number of tuples.
        """
        self.held[0] = self.slices["count"][: self.rows["slice"]].sum()
        self._queue()
        self.agenda = TournamentTree(len(self.clocks))
        self.agenda.enter(self.partitions[: self.rows["partition"]])

    def _queue(self) -> None:
        """Makes the ends of the queues of panes that wait for an early result, and of keys that wait until they are
        idle or forgotten.
        """
        self.early_queue = early_results.queue_of(self.earlies)
        key_times.queue(self)

    # ---- saving and loading -----------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        return super().columns() | {"free": self.free.slots}

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        """Like Tables.restore. Topic partitions that were added since get clocks that start at NEVER."""
        clocks = len(self.clocks)
        super().restore(saved)
        self.free.give(column(saved["free"], np.int64))
        self.clocks = np.append(self.clocks, np.full(max(0, clocks - len(self.clocks)), NEVER, np.int64))
        self.plan()

    # ---- split and merge --------------------------------------------------------------------------------------------

    def split(self, parts: int, part_of_key: PartOfKey) -> list[EventState]:
        states = [self.gathered([(self, partitions)]) for partitions in self.divided(parts, part_of_key)]
        for number, part in enumerate(states):
            part.scalars[LEFT_OUT] = 0 if number else self.left_out
            if number:
                part.totals = np.zeros(0, np.int64)  # the counts over all partitions stay in one state
        return states

    def merge(self, others: Sequence[EventState]) -> EventState:
        return self.gathered([(state, state.own_partitions(first=state is self)) for state in (self, *others)])

    def divided(self, parts: int, part_of_key: PartOfKey) -> list[np.ndarray]:
        """The partitions of each part of a split. A window without partitions is whole in part 0."""
        partitions = self.own_partitions(first=True)
        part_of = np.zeros(len(partitions), np.int64)
        if self.keyed:
            part_of = (
                parts_of(self.keys, part_of_key)[self.partitions["key"][partitions]] if len(partitions) else part_of
            )
        return [partitions[part_of == part] for part in range(parts)]

    def own_partitions(self, *, first: bool) -> np.ndarray:
        """The numbers of all partitions. Without `partition_by` only the `first` of several states has any."""
        if self.keyed:
            partition_count = self.places.count or self.keys.count
            return np.flatnonzero(self.partitions["key"][:partition_count] < self.keys.count)
        return np.arange(min(self.rows["partition"], len(self.partitions)) if first else 0)

    @property
    def keyed(self) -> bool:
        """Whether the window has partitions."""
        return bool(self._program.partition_by)

    def gathered(self, chosen: Sequence[tuple[EventState, np.ndarray]]) -> EventState:
        """A new state with the given partitions of other states: their groups, event times and tuples."""
        states = [state for state, _ in chosen]
        target = EventState(self._program, len(self.clocks), self._nodes, self._more)
        target._take_clocks(states)
        sources = [(state, dict(target._numbered(state, partitions))) for state, partitions in chosen]
        target._place("node", target.node_room, [
            (state, state.partitions, state.nodes, maps, "partition") for state, maps in sources
        ])  # fmt: skip
        if self._program.group_by:
            target._place("slice", target.slice_room, [
                (state, state.group_records, state.slices, maps, "group") for state, maps in sources
            ])  # fmt: skip
        else:
            target.slice_room[TOP] = target.node_room[TOP] if any(state.slice_room[TOP] for state in states) else 0
            for _, maps in sources:
                maps["slice"] = maps["node"]
        for space, count in target.rows.items():
            target.reserve(space, count if any(len(partitions) for _, partitions in chosen) else 0)
        target.node_blocks[:] = target.slice_blocks[:] = SIZE
        for state, maps in sources:
            target._take_rows(state, maps)
        target.plan()
        target.kept_keys, target.kept_strings = (
            max(target.keys.count, target.places.count, target.pairs.count),
            target.strings.count,
        )
        return target

    def _take_clocks(self, states: Sequence[EventState]) -> None:
        """Takes the data that belongs to no partition. Clocks, panes and counts are combined from all states."""
        self.finished = states[0].finished
        self.arrived = max(state.arrived for state in states)
        self.clocks = np.max([state.clocks for state in states], axis=0)
        for number in (GROUP, EPOCH):
            self.scalars[number] = max(int(state.scalars[number]) for state in states)
        self.scalars[LEFT_OUT] = sum(state.left_out for state in states)
        all_panes = [state.panes[int(state.scalars[FIRST_PANE]) : state.rows["pane"]] for state in states]
        panes = np.sort(np.concatenate(all_panes), order=("end", "count", "epoch"))[::-1]
        _, last = np.unique(panes["end"], return_index=True)
        self.panes = panes[last]
        self.scalars[PANES] = len(last)
        counted = np.concatenate([state.totals.reshape(2, -1) for state in states], axis=1)
        times, place = np.unique(counted[0], return_inverse=True)
        self.totals = np.concatenate([times, np.bincount(place, counted[1], len(times)).astype(np.int64)])

    def _numbered(self, state: EventState, partitions: np.ndarray) -> Maps:
        """The new numbers in this state for the partitions, groups and slots of another state."""
        numbers = partitions
        if self.keyed:
            codes, place = np.unique(state.partitions["key"][partitions], return_inverse=True)
            numbers = added_keys(self.keys, state.keys, codes)[place]
        elif self._apart:
            numbers = state.partitions["key"][partitions]
        if self._apart:
            numbers = intern_pairs(self.places, state.partitions["source"][partitions], numbers)
        partition = moved_to(partitions, numbers, state.rows["partition"])
        group = take_groups(self, state, partition) if self._program.group_by else partition
        slots = state.free.used(state.top)
        slots = slots[group[state.links["group"][slots]] != NIL]
        slot = moved_to(slots, self.top + np.arange(len(slots)), state.top)
        self.top += len(slots)
        return {"partition": partition, "group": group, "slot": slot}

    @property
    def _apart(self) -> bool:
        """Whether each topic partition has a clock, and with it window partitions, of its own."""
        return len(self.clocks) > 1

    def _place(
        self, space: str, room: np.ndarray,
        timelines: Sequence[tuple[EventState, np.ndarray, np.ndarray, dict[str, np.ndarray], str]],
    ) -> None:  # fmt: skip
        """Gives the members of timelines new numbers, and adds the map of `space` to the maps of each state.

        Timelines shorter than LONG share blocks; each longer one has blocks of its own. An entry of `timelines` has a
        state, the table with the ends of its timelines, the table of their members, the state's maps, and the row space
        of the ends.
        """
        walks = []
        for _, ends, members, maps, row_space in timelines:
            count = min(len(maps[row_space]), len(ends))
            holding = (maps[row_space][:count] != NIL) & (ends["size"][:count] > 0)
            member, timeline = walked(np.where(holding, ends["oldest"][:count], NIL), members["younger"])
            walks.append((member, timeline, ends["size"][timeline] >= LONG))
        for (state, *_, maps, _), (member, _, long) in zip(timelines, walks, strict=True):
            maps[space] = moved_to(member[~long], int(room[SHARED]) + np.arange(int((~long).sum())), state.rows[space])
            room[SHARED] += int((~long).sum())
        room[TOP] = -(-int(room[SHARED]) // SIZE) * SIZE
        for (_, *_, maps, _), (member, timeline, long) in zip(timelines, walks, strict=True):
            lists, first, counts = np.unique(timeline[long], return_index=True, return_counts=True)
            blocks = -(-counts // SIZE) * SIZE
            starts = int(room[TOP]) + np.cumsum(blocks) - blocks
            maps[space][member[long]] = np.repeat(starts - first, counts) + np.arange(int(long.sum()))
            maps[f"spare {space}"] = np.stack([lists, starts + counts])
            room[TOP] += int(blocks.sum())

    def _take_rows(self, state: EventState, maps: dict[str, np.ndarray]) -> None:
        self.take(state, {space: numbers for space, numbers in maps.items() if not space.startswith("spare ")})
        for space, table, per in (("node", self.partitions, "partition"), ("slice", self.group_records, "group")):
            moving = maps[per][maps[per] != NIL]
            table["spare"][moving] = 0
            if f"spare {space}" in maps:
                lists, spare = maps[f"spare {space}"]
                table["spare"][maps[per][lists]] = spare
        moving = np.flatnonzero(maps["partition"] != NIL)
        if self.keyed:
            codes = self.keys.intern_arrow(state.keys.take(state.partitions["key"][moving]))
            self.partitions["key"][maps["partition"][moving]] = codes
