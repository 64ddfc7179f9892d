"""What an aggregate over sessions remembers between batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sluice.columns.interner import Strings
from sluice.columns.intrusive_list import NOBODY
from sluice.columns.slot_allocator import Free
from sluice.columns.tables import Data, Saved, StateError, column, grown, load, save
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.compaction import outgrown
from sluice.engine.operators.session import session_records
from sluice.engine.operators.session.session_records import CONTENTS, FREE_CONTENT, FREE_SESSION, LAST, SESSIONS
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timer_queue import Agenda

#: tables of records, by what a row of each is about
RECORDS = {
    "partitions": session_records.PARTITION, "sessions": session_records.SESSION, "chains": session_records.CHAIN,
    "cells": session_records.CELL, "contents": session_records.CONTENT, "links": session_records.LINK,
}  # fmt: skip
STRINGS = ("keys", "groups", "pairs", "strings")
#: the fields that start without a member
NO_MEMBER = ("oldest", "youngest")

#: the part of each key, given the bytes of the key
PartOfKey = Callable[[bytes], int]


class SessionState:
    """Partition ids are codes of `keys`; cell ids are partition ids or, with `group_by`, codes of `pairs`.

    sums    the summary of each content
    words   those of the tuples of a batch, and of the tuples that functions list: `top` slots, of which some are `free`
    clocks  the watermark
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.partitions, self.sessions, self.chains, self.cells, self.contents, self.links = (
            np.zeros(0, dtype) for dtype in RECORDS.values()
        )
        self.sums = np.zeros((0, program.summary), np.int64)
        self.words = np.zeros((0, len(program.columns) + 1), np.int64)
        self.scalars = np.zeros(session_records.SCALARS, np.int64)
        self.scalars[[FREE_SESSION, FREE_CONTENT]] = NOBODY
        self.scalars[LAST] = NEVER
        self.clocks = np.full(1, NEVER, np.int64)
        self.agenda = Agenda(1)
        self.free = Free(np.int64)
        self.top = 0
        #: tuples that came in so far: the next one's number
        self.arrived = 0
        self.finished = False
        self.keys, self.groups, self.pairs, self.strings = Strings(), Strings(), Strings(), Strings()
        #: entries of all tables after they were last compacted
        self.kept = 0

    @property
    def used(self) -> dict[str, int]:
        """The rows of each table that mean something."""
        partitions = max(1, self.keys.count)
        sessions, contents = int(self.scalars[SESSIONS]), int(self.scalars[CONTENTS])
        return {
            "partitions": partitions, "sessions": sessions, "chains": sessions,
            "cells": max(partitions, self.pairs.count), "contents": contents, "links": self.top,
            "sums": contents, "words": self.top,
        }  # fmt: skip

    @property
    def sizes(self) -> tuple[int, int]:
        """How many partitions are known, with and without open sessions, and how many tuples are stored."""
        return self.keys.count or min(1, len(self.partitions)), self.top - len(self.free)

    def reserve_partitions(self) -> None:
        """A row for each key and for each group of a key."""
        used, known = self.used, len(self.partitions)
        self._reserve(("partitions",), used["partitions"])
        self.partitions["due"][known:] = ENDLESS
        self._reserve(("cells",), used["cells"])
        self.agenda.enter(self.partitions[: used["partitions"]])

    def reserve_sessions(self, more: int) -> None:
        """Rows for so many more sessions and contents."""
        self._reserve(("sessions", "chains"), self.used["sessions"] + more)
        self._reserve(("contents", "sums"), self.used["contents"] + more)

    def reserve_rows(self, count: int) -> None:
        self._reserve(("links", "words"), count)

    def _reserve(self, names: Sequence[str], count: int) -> None:
        for name in names:
            table = getattr(self, name)
            longer = grown(table, count)
            for field in NO_MEMBER if longer is not table else ():
                if longer.dtype.names and field in longer.dtype.names:
                    longer[field][len(table) :] = NOBODY
            setattr(self, name, longer)

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def save(self) -> Saved:
        used = self.used
        tables = {name: getattr(self, name)[: used[name]] for name in (*RECORDS, "sums", "words")}
        for name in STRINGS:
            tables |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        numbers = [self.top, self.arrived, self.finished, self.kept, self.sums.shape[1], self.words.shape[1]]
        more = {"scalars": self.scalars, "clocks": self.clocks, "free": self.free.slots}
        return save(tables | more | {"numbers": np.array(numbers, np.int64)})

    @classmethod
    def load(cls, data: Data, program: Program) -> SessionState:
        """Raises StateError where `data` is not what the `save` of such an aggregate wrote."""
        state, saved = cls(program), load(data)
        parts = {f"{name}.{part}" for name in STRINGS for part in Strings.PARTS}
        if saved.keys() != {*RECORDS, "sums", "words", "scalars", "clocks", "free", "numbers", *parts}:
            msg = "the saved state belongs to another operator"
            raise StateError(msg)
        numbers = column(saved["numbers"], np.int64).tolist()
        state.top, state.arrived, finished, state.kept, *widths = numbers
        state.finished = bool(finished)
        if widths != [state.sums.shape[1], state.words.shape[1]]:
            msg = "the saved state belongs to another aggregate"
            raise StateError(msg)
        for name, dtype in RECORDS.items():
            setattr(state, name, column(saved[name], dtype))
        state.scalars, state.clocks = (column(saved[name], np.int64) for name in ("scalars", "clocks"))
        for name in ("sums", "words"):
            width = getattr(state, name).shape[1]
            rows = column(saved[name], np.int64)
            setattr(state, name, rows.reshape(-1, width) if width else np.zeros((state.used[name], 0), np.int64))
        state.free.give(column(saved["free"], np.int64))
        for name in STRINGS:
            setattr(state, name, Strings.load({part: saved[f"{name}.{part}"] for part in Strings.PARTS}))
        state.plan()
        return state

    def plan(self) -> None:
        """Makes the queue of what is due from the partitions."""
        self.agenda = Agenda(1)
        self.agenda.enter(self.partitions[: self.used["partitions"]])

    # ---- from one state to another ----------------------------------------------------------------------------------

    def compact(self) -> None:
        """Forgets keys without sessions, and all that none needs, when that is most of it: O(1) amortised (G14)."""
        entries = sum(self.used.values()) + self.groups.count + self.strings.count
        if outgrown(entries, self.kept):
            self.__dict__.update(self._gathered([(self, self.open_partitions())]).__dict__)
            self.kept = sum(self.used.values()) + self.groups.count + self.strings.count

    def split(self, parts: int, part_of_key: PartOfKey) -> list[SessionState]:
        """The state of each part of the keys. A window without partitions is whole in part 0."""
        needed = self.open_partitions()
        of = np.zeros(len(needed), np.int64)
        if self._program.partition_by and len(needed):
            names = self.keys.take(needed).to_pylist()
            of = np.fromiter(map(part_of_key, names), np.int64, len(names))
        return [self._gathered([(self, needed[of == part])]) for part in range(parts)]

    def merge(self, others: Sequence[SessionState]) -> SessionState:
        """One state of several that have no key in common. Without partitions one of them has all."""
        return self._gathered([(state, state.open_partitions()) for state in (self, *others)])

    def open_partitions(self) -> np.ndarray:
        """The partitions that have open sessions."""
        return np.flatnonzero(self.partitions["size"][: self.used["partitions"]] > 0)

    def _gathered(self, chosen: Sequence[tuple[SessionState, np.ndarray]]) -> SessionState:
        made = SessionState(self._program)
        made.scalars[session_records.GROUP] = max(s.scalars[session_records.GROUP] for s, _ in chosen)
        made.scalars[LAST] = max(s.scalars[LAST] for s, _ in chosen)
        made.clocks = np.max([s.clocks for s, _ in chosen], axis=0)
        made.arrived = max(s.arrived for s, _ in chosen)
        made.finished = any(s.finished for s, _ in chosen)
        for state, partitions in chosen:
            _Move(made, state, partitions).run()
        made.reserve_partitions()
        made.plan()
        return made


class _Move:
    """Takes partitions, with all that they hold, from one state to another that has none of these keys."""

    def __init__(self, made: SessionState, state: SessionState, partitions: np.ndarray) -> None:
        self._made, self._state = made, state
        self._partitions = partitions
        known = len(state.partitions)
        self._partition = np.full(known, NOBODY, np.int64)
        #: with groups: the cells that are moved, and their new numbers
        self._moved_cells = np.zeros(0, np.int64), np.zeros(0, np.int64)
        keyed = bool(state._program.partition_by)  # noqa: SLF001 - both are of one module
        self._partition[partitions] = made.keys.intern_arrow(state.keys.take(partitions)) if keyed else 0

    def run(self) -> None:
        """Renumbers and appends table after table."""
        made, state, used = self._made, self._state, self._state.used
        made.reserve_partitions()
        rows = state.partitions[self._partitions]
        cell = self._cells()
        live = self._partition[state.sessions["owner"][: used["sessions"]]] != NOBODY
        live &= state.sessions["owner"][: used["sessions"]] != NOBODY
        sessions, session = _numbered(live, int(made.scalars[SESSIONS]))
        live = state.contents["owner"][: used["contents"]] != NOBODY
        live &= _renamed(state.contents["session"][: used["contents"]], session) != NOBODY
        contents, content = _numbered(live, int(made.scalars[CONTENTS]))
        slots, slot = self._slots(cell)
        for name in NO_MEMBER:
            rows[name] = _renamed(rows[name], session)
        rows["leaf"] = 0
        made.partitions[self._partition[self._partitions]] = rows
        made.reserve_sessions(max(len(sessions), len(contents)))
        links = {"older": session, "younger": session, "leap": session, "owner": self._partition}
        _append(made.sessions, int(made.scalars[SESSIONS]), state.sessions[sessions], links)
        chains = {"oldest": content, "youngest": content}
        _append(made.chains, int(made.scalars[SESSIONS]), state.chains[sessions], chains)
        links = {
            "older": content, "younger": content, "leap": content, "following": content, "session": session,
            "owner": cell, "first": slot, "last": slot,
        }  # fmt: skip
        _append(made.contents, int(made.scalars[CONTENTS]), state.contents[contents], links)
        _append(made.links, made.top, state.links[slots], {"cell": cell, "next": slot})
        self._words(contents, slots)
        made.scalars[SESSIONS] += len(sessions)
        made.scalars[CONTENTS] += len(contents)
        made.top += len(slots)

    def _cells(self) -> np.ndarray:
        """The new number of each cell; with groups, of those that hold something."""
        made, state = self._made, self._state
        if not state.pairs.count:
            return self._partition
        held = np.flatnonzero(state.cells["size"][: state.pairs.count] > 0)
        pairs = np.frombuffer(state.pairs.take(held).buffers()[2] or b"", np.int64).reshape(-1, 2)
        chosen = self._partition[pairs[:, 0]] != NOBODY
        held, pairs = held[chosen], pairs[chosen]
        groups = np.unique(pairs[:, 1])
        group = made.groups.intern_arrow(state.groups.take(groups))[np.searchsorted(groups, pairs[:, 1])]
        fresh = np.ascontiguousarray(np.stack([self._partition[pairs[:, 0]], group], axis=1))
        cell = np.full(state.pairs.count, NOBODY, np.int64)
        cell[held] = made.pairs.intern(fresh.reshape(-1).view(np.uint8), np.arange(len(held) + 1, dtype=np.int64) * 16)
        made.reserve_partitions()
        self._moved_cells = held, cell[held]
        return cell

    def _slots(self, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slots of listed tuples, and the new number of each."""
        state = self._state
        used = np.ones(state.top, np.bool_)
        used[state.free.slots] = False
        used &= _renamed(state.links["cell"][: state.top], cell) != NOBODY
        slots, slot = _numbered(used, self._made.top)
        self._made.reserve_rows(self._made.top + len(slots))
        return slots, slot

    def _words(self, contents: np.ndarray, slots: np.ndarray) -> None:
        """Summaries and listed tuples, with the texts that they name."""
        made, state = self._made, self._state
        program = state._program  # noqa: SLF001 - both are of one module
        sums, words = state.sums[contents], state.words[slots]
        tables = ((sums, program.text_words), (words, program.text_columns))
        codes = np.unique(np.concatenate([table[:, which].reshape(-1) for table, which in tables]))
        codes = codes[(codes >= 0) & (codes < state.strings.count)]
        fresh = made.strings.intern_arrow(state.strings.take(codes))
        for table, which in tables:
            if len(which) and len(table) and len(codes):
                at = np.minimum(np.searchsorted(codes, table[:, which]), len(codes) - 1)
                table[:, which] = fresh[at]
        made.sums[made.scalars[CONTENTS] : made.scalars[CONTENTS] + len(contents)] = sums
        made.words[made.top : made.top + len(slots)] = words
        if state.pairs.count:  # the lists of contents of the groups; their members have their new numbers already
            old, new = self._moved_cells
            made.cells[new] = state.cells[old]
            self._rename_cells(contents, new)

    def _rename_cells(self, contents: np.ndarray, cells: np.ndarray) -> None:
        content = np.full(len(self._state.contents), NOBODY, np.int64)
        content[contents] = self._made.scalars[CONTENTS] + np.arange(len(contents))
        for name in NO_MEMBER:
            self._made.cells[name][cells] = _renamed(self._made.cells[name][cells], content)


def _numbered(live: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that live, and the new number of each row, from `first` on."""
    rows = np.flatnonzero(live)
    numbers = np.full(len(live), NOBODY, np.int64)
    numbers[rows] = first + np.arange(len(rows))
    return rows, numbers


def _renamed(ids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The new numbers; of NOBODY, and of what is left behind, NOBODY."""
    if not len(numbers):
        return np.full(len(ids), NOBODY, np.int64)
    return np.where(ids < 0, NOBODY, numbers.take(ids, mode="clip"))


def _append(table: np.ndarray, at: int, rows: np.ndarray, links: dict[str, np.ndarray]) -> None:
    for name, numbers in links.items():
        rows[name] = _renamed(rows[name], numbers)
    table[at : at + len(rows)] = rows
