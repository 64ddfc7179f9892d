"""The state of a join over event time: tables with a row per key, and per stored tuple of each side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import (  # fmt: skip
    FreeSlots,
    Maps,
    PartOfKey,
    Table,
    Tables,
    distinct,
    moved_to,
    parts_of,
    words,
)
from sluice.columns.tables import Format, column
from sluice.engine.operators.compaction import should_compact
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
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timer_queue import TournamentTree
from sluice.model.engine_limits import EngineLimits
from sluice.model.types import Kind, Type

Types = tuple[Type, ...]
ENDS = ("oldest", "youngest")


def tables(types: tuple[Types, Types]) -> dict[str, Table]:
    """`types` has the types of the stored words of each side."""
    found = {"keys_due": Table("key", event_join_records.KEY, fresh={"due": ENDLESS})}
    for name, own in zip(SIDES, types, strict=True):
        texts = [place for place, kind in enumerate(own) if kind.kind in (Kind.STRING, Kind.LIST)]
        neighbours = dict.fromkeys(("older", "younger", "leap"), name)
        found |= {
            f"{name}_lists": Table(
                "key", event_join_records.LIST, refers=dict.fromkeys(ENDS, name), fresh=dict.fromkeys(ENDS, NIL)
            ),
            f"{name}_nodes": Table(
                name, event_join_records.NODE, refers=neighbours | {"owner": "key"}, fresh={"owner": NIL}
            ),
            f"{name}_words": words(name, len(own), texts),
        }
    return found


class EventJoinState(Tables):
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

    def __init__(self, types: tuple[Types, Types], limits: EngineLimits) -> None:
        self._types, self._limits = types, limits
        known = tables(types)
        self.declare(known, known)
        self.scalars = np.zeros(event_join_records.SCALARS, np.int64)
        self.scalars[[CLOCK, LEFT_REACHED, RIGHT_REACHED]] = NEVER
        self.tops = np.full(2, NOTHING + 1)
        self.free = (FreeSlots(np.int64), FreeSlots(np.int64))
        self.keys, self.strings = Interner(), Interner()
        self.agenda = TournamentTree(1)
        #: the number of entries of all tables after the last compaction
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
        count = self.rows["key"]
        self.reserve("key", count)
        self.agenda.enter(self.keys_due[:count])

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        return super().columns() | {f"{name}.free": free.slots for name, free in zip(SIDES, self.free, strict=True)}

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        super().restore(saved)
        for name, free in zip(SIDES, self.free, strict=True):
            free.give(column(saved[f"{name}.free"], np.int64))
        self.plan()

    def plan(self) -> None:
        """Builds the queue of the times at which keys are due."""
        self.agenda = TournamentTree(1)
        self.agenda.enter(self.keys_due[: self.rows["key"]])

    # ---- from one state to another ----------------------------------------------------------------------------------

    def forget(self) -> None:
        """Removes keys without tuples, unused slots and unused texts, if most entries may be unused. O(1) amortised."""
        if should_compact(self._limits, self._entries, self.kept):
            self.__dict__.update(self._gathered([self]).__dict__)
            self.kept = self._entries

    @property
    def _entries(self) -> int:
        return sum(self.rows.values()) + self.strings.count

    def split(self, parts: int, part_of_key: PartOfKey) -> list[EventJoinState]:
        """Divides the tuples by the keys of the equalities. Without equalities all tuples are in part 0."""
        holding = self._holding()
        of = parts_of(self.keys, part_of_key)[holding] if self.keys.count else np.zeros(len(holding), np.int64)
        return [self._gathered([self], holding[of == part]) for part in range(parts)]

    def merge(self, others: Sequence[EventJoinState]) -> EventJoinState:
        return self._gathered([self, *others])

    def _holding(self) -> np.ndarray:
        """The keys that have stored tuples."""
        count = self.rows["key"]
        return np.flatnonzero((self.left_lists["size"][:count] > 0) | (self.right_lists["size"][:count] > 0))

    def _gathered(self, states: Sequence[EventJoinState], keys: np.ndarray | None = None) -> EventJoinState:
        """A new state with the given keys of other states; None: all keys that have stored tuples."""
        made = EventJoinState(self._types, self._limits)
        made.scalars[:] = np.max([state.scalars for state in states], axis=0)
        made.scalars[LIVE] = 0
        for port, name in enumerate(SIDES):  # the default tuple
            words = states[0].words[port][:1].copy()
            texts = list(made.declared[f"{name}_words"].texts)
            words[:, texts] = made.same_texts(words[:, texts], states[0].strings)
            made.words[port][:1] = words
        for state in states:
            chosen = state._holding() if keys is None else keys  # noqa: SLF001
            if len(chosen):
                maps = made._numbered(state, chosen)
                for space, count in made.rows.items():
                    made.reserve(space, count)
                made.take(state, maps)
                made.scalars[LIVE] += sum(int(np.count_nonzero(maps[name] != NIL)) for name in SIDES)
        made.plan()
        return made

    def _numbered(self, state: EventJoinState, chosen: np.ndarray) -> Maps:
        """The new numbers in this state for these keys of another state, and for their tuples."""
        numbers, known, rows = chosen, self.keys.count, state.rows
        if state.keys.count:
            numbers = distinct(self.keys.intern_arrow(state.keys.take(chosen)), known)
        maps = {"key": moved_to(chosen, numbers, rows["key"])}
        for port, name in enumerate(SIDES):
            owners = getattr(state, f"{name}_nodes")["owner"][: rows[name]]
            slots = np.flatnonzero((owners != NIL) & (maps["key"][owners] != NIL))
            maps[name] = moved_to(slots, int(self.tops[port]) + np.arange(len(slots)), rows[name])
            self.tops[port] += len(slots)
        return maps
