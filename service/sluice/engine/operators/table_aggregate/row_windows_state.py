"""The state of an Aggregate over a table: the words of the row of each key, and the trees of summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Format
from sluice.columns.state_tables import (
    Maps,
    PartOfKey,
    Table,
    Tables,
    added_keys,
    keep_texts,
    moved_to,
    parts_of,
    words,
)
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.group_pairs import take_groups
from sluice.engine.operators.compaction import should_compact
from sluice.engine.operators.table_aggregate import row_windows_kernel, summary_tree
from sluice.engine.windows.processing_time.window_records import LIVE, SCALARS, STORED, TICK
from sluice.time_units import UNSET

ENDS = ("oldest", "youngest")
NEIGHBOURS = ("older", "younger")


def tables(program: Program) -> dict[str, Table]:
    """The tables of RowWindowsState: a row per key of the table, per window partition, and per group."""
    return {
        "table_rows": Table(
            "row", row_windows_kernel.ROW,
            refers={"partition": "partition", "group": "group", **dict.fromkeys(NEIGHBOURS, "row")},
            fresh={"partition": NIL},
        ),
        "nodes": Table("row", summary_tree.NODE, refers=dict.fromkeys(("parent", "left", "right"), "row")),
        "words": words("row", program.columns.width + 1, program.text_columns),
        "sums": words("row", program.summary, program.text_words),
        "partitions": Table("partition", row_windows_kernel.PARTITION, refers=dict.fromkeys((*ENDS, "edge"), "row")),
        "ends": Table("partition", row_windows_kernel.ENDS, refers=dict.fromkeys(ENDS, "group")),
        "group_records": Table(
            "group", summary_tree.GROUP_RECORD, refers={"root": "row", **dict.fromkeys(NEIGHBOURS, "group")}
        ),
    }  # fmt: skip


class RowWindowsState(Tables):
    """The state of one Aggregate over a table.

    The number of a row is the code of its key in `row_keys`, also while the table has no row of the key. The number of
    a partition is the code of its key in `keys`. The number of a group is that of its partition or, with `group_by`,
    the code of its pair in `pairs`. Every row of the table has its words here, whether it is in a window or not: the
    words are what it takes to remove it (EN16).
    """

    FORMAT: ClassVar[Format] = Format("aggregate over a table", 1)
    NUMBERS: ClassVar[tuple[str, ...]] = ("finished", "kept", "kept_strings")
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {"scalars": np.dtype(np.int64)}
    STRINGS: ClassVar[tuple[str, ...]] = ("row_keys", "keys", "groups", "pairs", "strings")

    table_rows: np.ndarray
    nodes: np.ndarray
    words: np.ndarray
    sums: np.ndarray
    partitions: np.ndarray
    ends: np.ndarray
    group_records: np.ndarray

    def __init__(self, program: Program, *, counting: bool) -> None:
        """`counting`: the windows have the newest rows, so that one without rows may have been full."""
        self._program, self._counting = program, counting
        self.declare(tables(program))
        self.scalars = np.zeros(SCALARS, np.int64)
        self.scalars[TICK] = UNSET
        self.row_keys, self.keys, self.groups, self.pairs = Interner(), Interner(), Interner(), Interner()
        self.strings = Interner()
        self.finished = False
        #: the number of keys, and of texts, after the last compaction
        self.kept = self.kept_strings = 0
        self.reserve_batch()

    @property
    def rows(self) -> Mapping[str, int]:
        partitions = max(1, self.keys.count)
        return {
            "row": self.row_keys.count, "partition": partitions, "group": max(partitions, self.pairs.count)
        }  # fmt: skip

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of partitions in memory (with and without rows) and of rows in windows. O(1)."""
        return max(self.keys.count, int(self.scalars[STORED])), int(self.scalars[LIVE])

    def reserve_batch(self) -> None:
        """Makes room for a row per key, window partition and group."""
        for space, count in self.rows.items():
            self.reserve(space, count)

    def compact(self) -> None:  # type: ignore[override]
        """Removes the keys of deleted rows, and unused partitions, groups and texts, if most may be unused."""
        limits, live = self._program.limits, int(self.scalars[LIVE])
        entries = sum(self.rows.values()) + self.groups.count
        if should_compact(limits, entries, self.kept, live):
            self.__dict__.update(self._gathered([(self, self.open_keys())]).__dict__)
            self.kept = sum(self.rows.values()) + self.groups.count
        if should_compact(limits, self.strings.count, self.kept_strings, live):
            keep_texts(self.strings, self.texts())
            self.kept_strings = self.strings.count

    # ---- split and merge --------------------------------------------------------------------------------------------

    def split(self, parts: int, part_of_key: PartOfKey) -> list[Self]:
        """Divides the rows by the keys of their window partitions. Without `partition_by` all rows are in part 0."""
        opened = self.open_keys()
        part_of = parts_of(self.keys, part_of_key)[opened] if self.keys.count else np.zeros(len(opened), np.int64)
        return [self._gathered([(self, opened[part_of == part])]) for part in range(parts)]

    def merge(self, others: Sequence[Self]) -> Self:
        return self._gathered([(state, state.open_keys()) for state in (self, *others)])

    def open_keys(self) -> np.ndarray:
        """The numbers of the partitions that have rows, or that count for a later firing."""
        used = self.partitions[: self.rows["partition"]]
        return np.flatnonzero((used["size"] > 0) | (used["counter"] > 0) | (used["full"] & self._counting))

    def _gathered(self, chosen: Sequence[tuple[Self, np.ndarray]]) -> Self:
        """A new state with these partitions of other states, and with what belongs to them."""
        target = type(self)(self._program, counting=self._counting)
        first, *_ = (state for state, _ in chosen)
        target.finished = first.finished
        target.scalars[:] = np.max([state.scalars for state, _ in chosen], axis=0)
        target.scalars[[LIVE, STORED]] = 0
        for state, partitions in chosen:
            if len(partitions):
                maps = target.numbered(state, partitions)
                target.reserve_batch()
                target.take(state, maps)
                moved = target.partitions[maps["partition"][partitions]]
                target.scalars[LIVE] += moved["inside"].sum()
                target.scalars[STORED] += np.count_nonzero(moved["size"])
        return target

    def numbered(self, state: RowWindowsState, partitions: np.ndarray) -> Maps:
        """Gives new numbers to these partitions of another state, to their groups, and to their rows."""
        numbers = added_keys(self.keys, state.keys, partitions) if self._program.partition_by else partitions
        partition = moved_to(partitions, numbers, state.rows["partition"])
        owners = state.table_rows["partition"][: state.rows["row"]]
        rows = np.flatnonzero((owners != NIL) & (partition[owners] != NIL))
        # the group of a row outside of the window may have no rows in it, until the row comes back (EN13)
        used = np.zeros(state.rows["group"], np.bool_)
        used[state.table_rows["group"][rows]] = True
        group = take_groups(self, state, partition, used) if self._program.group_by else partition
        codes = added_keys(self.row_keys, state.row_keys, rows)
        return {"partition": partition, "group": group, "row": moved_to(rows, codes, state.rows["row"])}
