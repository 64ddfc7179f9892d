"""The state of an Aggregate over sessions: tables with a row per partition, group, session, content and tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Format
from sluice.columns.state_tables import Maps, Table, added_keys, moved_to, words
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.group_pairs import take_groups
from sluice.engine.operators.keyed_state import PartitionedState
from sluice.engine.operators.session import session_records
from sluice.engine.operators.session.session_records import CONTENTS, FREE_CONTENT, FREE_SESSION, GROUP, LAST, SESSIONS
from sluice.engine.windows import early_results
from sluice.engine.windows.event_time import key_times
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.model.engine_limits import EngineLimits
from sluice.model.spec import KeyTime

ENDS = ("oldest", "youngest")
NEIGHBOURS = ("older", "younger", "leap")


def tables(program: Program) -> dict[str, Table]:
    """The tables of SessionState: a row per key, open session, group of a key, content, and stored tuple."""
    no_member = dict.fromkeys(ENDS, NIL)
    return {
        "partitions": Table(
            "partition", session_records.PARTITION, refers=dict.fromkeys(ENDS, "session"),
            fresh={**no_member, "due": ENDLESS},
        ),
        "sessions": Table("session", session_records.SESSION, refers={
            **dict.fromkeys(NEIGHBOURS, "session"), "owner": "partition",
        }),
        "earlies": early_results.table("session"),
        **key_times.tables(),
        "chains": Table("session", session_records.CHAIN, refers=dict.fromkeys(ENDS, "content"), fresh=no_member),
        "group_records": Table(
            "group", session_records.GROUP_RECORD, refers=dict.fromkeys(ENDS, "content"), fresh=no_member
        ),
        "contents": Table("content", session_records.CONTENT, refers={
            **dict.fromkeys((*NEIGHBOURS, "following"), "content"), "session": "session", "owner": "group",
            "first": "slot", "last": "slot",
        }),
        "sums": words("content", program.summary, program.text_words),
        "links": Table("slot", session_records.LINK, refers={"group": "group", "next": "slot"}),
        "words": words("slot", program.columns.width + 1, program.text_columns, program.columns.flags),
    }  # fmt: skip


class SessionState(PartitionedState, key_times.KeyTimesState):
    """The state of one Aggregate over sessions.

    The number of a partition is the code of its key in `keys`. The number of a group is that of its partition or, with
    `group_by`, the code of its pair in `pairs`. `clocks` is the watermark. The tuples of the current batch and the
    listed tuples have slots: `top` slots were ever used, and `free` has the unused ones of these.
    """

    FORMAT: ClassVar[Format] = Format("aggregate over sessions", 2)
    NUMBERS: ClassVar[tuple[str, ...]] = ("top", "arrived", "finished", "kept")
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = dict.fromkeys(("scalars", "clocks"), np.dtype(np.int64))
    STRINGS: ClassVar[tuple[str, ...]] = ("keys", "groups", "pairs", "strings")

    partitions: np.ndarray
    sessions: np.ndarray
    earlies: np.ndarray
    chains: np.ndarray
    group_records: np.ndarray
    contents: np.ndarray
    sums: np.ndarray
    links: np.ndarray
    words: np.ndarray

    def __init__(self, program: Program, of_keys: KeyTime | None = None) -> None:
        """`of_keys`: how the time of each key is computed; None: the stream has one (KT1)."""
        self._program, self._of_keys = program, of_keys
        declarations = tables(program)
        optional = {"earlies": program.clause.early.wanted, **key_times.needed(of_keys)}
        self.declare(declarations, [name for name in declarations if optional.get(name, True)])
        self._queue()
        self.scalars = np.zeros(session_records.SCALARS, np.int64)
        self.scalars[[FREE_SESSION, FREE_CONTENT]] = NIL
        self.scalars[LAST] = NEVER
        self.clocks = np.full(1, NEVER, np.int64)
        self.begin()
        #: the number of tuples received, which is the number of the next tuple
        self.arrived = 0
        self.groups, self.pairs = Interner(), Interner()

    @property
    def rows(self) -> Mapping[str, int]:
        partitions = max(1, self.keys.count)
        return {
            "partition": partitions, "group": max(partitions, self.pairs.count), "slot": self.top,
            "session": int(self.scalars[SESSIONS]), "content": int(self.scalars[CONTENTS]),
        }  # fmt: skip

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of partitions in memory (with and without open sessions) and of tuples in open sessions. O(1)."""
        return self.keys.count or min(1, len(self.partitions)), int(self.held[0])

    def reserve_batch(self, count: int) -> None:
        """Makes room for a row per key and per group of a key, and for `count` new sessions and contents."""
        rows = self.rows
        for space in ("partition", "group"):
            self.reserve(space, rows[space])
        self.agenda.enter(self.queued)
        for space in ("session", "content"):
            self.reserve(space, rows[space] + count)

    @property
    def limits(self) -> EngineLimits:
        return self._program.limits

    @property
    def entries(self) -> int:
        return super().entries + self.groups.count

    def plan(self) -> None:
        """Builds what is not saved: the queues of the times at which keys and early results are due, and the number of
        tuples.
        """
        super().plan()
        contents = self.contents[: self.rows["content"]]
        self.held[0] = contents["count"][contents["owner"] != NIL].sum()
        self._queue()

    def _queue(self) -> None:
        """Makes the ends of the queues of sessions that wait for an early result, and of keys that wait until they are
        idle or forgotten.
        """
        self.early_queue = early_results.queue_of(self.earlies)
        key_times.queue(self)

    def open_keys(self) -> np.ndarray:
        """The keys with open sessions, and those with a time of their own (KT4). A compaction removes the others
        (G14).
        """
        count = self.rows["partition"]
        needed = self.partitions["size"][:count] > 0
        if len(self.key_times):
            needed |= self.key_times["made"][:count] != NEVER
        return np.flatnonzero(needed)

    def new(self, states: Sequence[SessionState]) -> SessionState:
        new_state = SessionState(self._program, self._of_keys)
        new_state.finished = states[0].finished
        new_state.arrived = max(state.arrived for state in states)
        new_state.clocks = np.max([state.clocks for state in states], axis=0)
        for number in (GROUP, LAST):
            new_state.scalars[number] = max(int(state.scalars[number]) for state in states)
        return new_state

    def numbered(self, state: SessionState, partitions: np.ndarray) -> Maps:
        keyed, rows = self._program.partition_by, state.rows
        numbers = added_keys(self.keys, state.keys, partitions) if keyed else partitions
        partition = moved_to(partitions, numbers, rows["partition"])
        group = take_groups(self, state, partition) if self._program.group_by else partition
        owners = state.sessions["owner"][: rows["session"]]
        sessions = np.flatnonzero((owners != NIL) & (partition[owners] != NIL))
        session = moved_to(sessions, self.scalars[SESSIONS] + np.arange(len(sessions)), rows["session"])
        used = state.contents[: rows["content"]]
        contents = np.flatnonzero(used["owner"] != NIL)
        contents = contents[session[used["session"][contents]] != NIL]
        content = moved_to(contents, self.scalars[CONTENTS] + np.arange(len(contents)), rows["content"])
        slots = state.free.used(state.top)
        slots = slots[group[state.links["group"][slots]] != NIL]
        slot = moved_to(slots, self.top + np.arange(len(slots)), state.top)
        self.scalars[SESSIONS] += len(sessions)
        self.scalars[CONTENTS] += len(contents)
        self.top += len(slots)
        return {"partition": partition, "group": group, "session": session, "content": content, "slot": slot}
