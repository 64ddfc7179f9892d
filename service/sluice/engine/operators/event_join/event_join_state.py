"""The state of a join over event time: tables with a row per key, and per stored tuple of each side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Format
from sluice.columns.state_tables import FreeSlots, Maps, Table, added_keys, moved_to, words_of
from sluice.engine.operators.event_join import event_join_records
from sluice.engine.operators.event_join.event_join_records import (
    CLOCK,
    LEFT_FINAL,
    LEFT_REACHED,
    LIVE,
    NOTHING,
    RIGHT_FINAL,
    RIGHT_REACHED,
)
from sluice.engine.operators.join.join_state import SIDES
from sluice.engine.operators.keyed_state import KeyedState
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timer_queue import TournamentTree
from sluice.model.engine_limits import EngineLimits

Layouts = tuple[WordColumns, WordColumns]
ENDS = ("oldest", "youngest")


def tables(layouts: Layouts) -> dict[str, Table]:
    """`layouts` has the stored columns of each side."""
    declared = {"keys_due": Table("key", event_join_records.KEY, fresh={"due": ENDLESS})}
    for name, layout in zip(SIDES, layouts, strict=True):
        neighbours = dict.fromkeys(("older", "younger", "leap"), name)
        declared |= {
            f"{name}_lists": Table(
                "key", event_join_records.LIST, refers=dict.fromkeys(ENDS, name), fresh=dict.fromkeys(ENDS, NIL)
            ),
            f"{name}_nodes": Table(
                name, event_join_records.NODE, refers=neighbours | {"owner": "key"}, fresh={"owner": NIL}
            ),
            f"{name}_words": words_of(name, layout),
        }
    return declared


class EventJoinState(KeyedState):
    """The state of one join over event time.

    The number of a key is its code in `keys`; without equalities there is one row for all tuples. Slot NOTHING of each
    side has the default tuple. `tops` has the number of slots that were ever used of each side, and `free` the unused
    ones of these.
    """

    FORMAT: ClassVar[Format] = Format("join over event time", 1)
    NUMBERS: ClassVar[tuple[str, ...]] = ("kept",)
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = dict.fromkeys(("scalars", "tops"), np.dtype(np.int64))
    STRINGS: ClassVar[tuple[str, ...]] = ("keys", "strings")

    keys_due: np.ndarray
    left_lists: np.ndarray
    left_nodes: np.ndarray
    left_words: np.ndarray
    right_lists: np.ndarray
    right_nodes: np.ndarray
    right_words: np.ndarray

    def __init__(self, layouts: Layouts, limits: EngineLimits) -> None:
        self._layouts, self._limits = layouts, limits
        self.declare(tables(layouts))
        self.scalars = np.zeros(event_join_records.SCALARS, np.int64)
        self.scalars[[CLOCK, LEFT_REACHED, RIGHT_REACHED]] = NEVER
        self.tops = np.full(2, NOTHING + 1)
        self.free = (FreeSlots(np.int64), FreeSlots(np.int64))
        self.keys, self.strings = Interner(), Interner()
        self.agenda = TournamentTree(1)
        self.kept = 0
        for name in SIDES:
            self.reserve(name, NOTHING + 1)
        self.reserve_keys()

    @property
    def rows(self) -> Mapping[str, int]:
        return {"key": max(1, self.keys.count), **dict(zip(SIDES, self.tops.tolist(), strict=True))}

    @property
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        return self.left_words, self.right_words

    @property
    def finished(self) -> bool:
        """Whether the final marks of both sides were received."""
        return bool(self.scalars[LEFT_FINAL] and self.scalars[RIGHT_FINAL])

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of keys in memory, and the number of stored tuples of both sides."""
        stored = int(self.scalars[LIVE])
        return self.keys.count or min(1, stored), stored

    def slots(self, port: int, count: int) -> np.ndarray:
        """Allocates slots for the tuples of a batch. A slot that becomes free is used from the next batch on."""
        slots, self.tops[port] = self.free[port].take(count, int(self.tops[port]))
        self.reserve(SIDES[port], int(self.tops[port]))
        return slots

    def reserve_keys(self) -> None:
        """Makes room for a row per key."""
        self.reserve("key", self.rows["key"])
        self.agenda.enter(self.queued)

    # ---- from one state to another ----------------------------------------------------------------------------------

    @property
    def limits(self) -> EngineLimits:
        return self._limits

    @property
    def queued(self) -> np.ndarray:
        return self.keys_due[: self.rows["key"]]

    @property
    def free_lists(self) -> Mapping[str, FreeSlots]:
        return {f"{name}.free": free for name, free in zip(SIDES, self.free, strict=True)}

    def open_keys(self) -> np.ndarray:
        count = self.rows["key"]
        return np.flatnonzero((self.left_lists["size"][:count] > 0) | (self.right_lists["size"][:count] > 0))

    def new(self, states: Sequence[EventJoinState]) -> EventJoinState:
        new_state = EventJoinState(self._layouts, self._limits)
        new_state.scalars[:] = np.max([state.scalars for state in states], axis=0)
        new_state.scalars[LIVE] = 0
        for port, name in enumerate(SIDES):  # the default tuple
            words = states[0].words[port][:1].copy()
            texts = list(new_state.declared[f"{name}_words"].texts)
            words[:, texts] = new_state.same_texts(words[:, texts], states[0].strings)
            new_state.words[port][:1] = words
        return new_state

    def numbered(self, state: EventJoinState, chosen: np.ndarray) -> Maps:
        numbers = added_keys(self.keys, state.keys, chosen) if state.keys.count else chosen
        rows = state.rows
        maps = {"key": moved_to(chosen, numbers, rows["key"])}
        for port, name in enumerate(SIDES):
            owners = getattr(state, f"{name}_nodes")["owner"][: rows[name]]
            slots = np.flatnonzero((owners != NIL) & (maps["key"][owners] != NIL))
            maps[name] = moved_to(slots, int(self.tops[port]) + np.arange(len(slots)), rows[name])
            self.tops[port] += len(slots)
            self.scalars[LIVE] += len(slots)
        return maps
