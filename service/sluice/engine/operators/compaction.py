"""Forgetting keys, texts and slots that no window needs any more, when there are many of them: O(1) amortised."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from sluice.columns.interner import Strings
from sluice.columns.intrusive_list import NOBODY
from sluice.columns.slot_allocator import Free
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.windows.processing_time import FIRST, LAST, Windowed

#: tables with fewer entries are left alone
SMALL = 4096


def clean(state: AggregateState, program: Program) -> None:
    forget(state, program)
    if outgrown(state.top, state.top - len(state.free)):
        move_together(state)


def forget(state: AggregateState, program: Program) -> None:
    """Keys and texts alone: slots keep their numbers."""
    names, tuples = max(state.keys.count, state.pairs.count), state.sizes[1]
    if outgrown(names, state.kept_keys, tuples):
        _forget_partitions(state) if program.partition_by else _forget_cells(state, np.arange(1))
    if outgrown(state.strings.count, state.kept_strings, tuples):
        _forget_strings(state, program)


def outgrown(count: int, kept: int, tuples: int = 0) -> bool:
    """Whether so many entries came since those that were `kept` that all of them, and all tuples, may be gone through.

    An entry that comes pays for one other, and for four of the tuples: few names that come and go beside many tuples
    that stay cost each batch no more than it brings.
    """
    return count > SMALL and count - kept > max(kept, tuples // 4)


def _forget_partitions(state: AggregateState) -> None:
    """Keeps the partitions that hold tuples, and those with a counter or reference, which outlive tuples (S7)."""
    count = state.keys.count
    parts = state.partitions[:count]
    kept = np.flatnonzero((parts["size"] > 0) | (parts["counter"] > 0) | parts["referenced"])
    renamed = state.keys.keep(kept)
    for name in state.per_partition:
        move(getattr(state, name), kept, count)
    rename_partitions(state, renamed)
    state.ends[len(kept) :] = NOBODY
    _forget_cells(state, renamed)


def rename_partitions(state: Windowed, renamed: np.ndarray) -> None:
    """What a window knows partitions by."""
    for link in ("following", "preceding"):
        state.partitions[link] = rename(state.partitions[link], renamed)
    owner = state.queue["partition"]
    owner[:] = rename(owner, renamed)
    state.scalars[[FIRST, LAST]] = rename(state.scalars[[FIRST, LAST]], renamed)


def _forget_cells(state: AggregateState, partitions: np.ndarray) -> None:
    """Keeps the cells that hold tuples. `partitions` gives the new id of each old partition."""
    kept, renamed = np.flatnonzero(partitions != NOBODY), partitions
    if state.pairs.count:
        kept = np.flatnonzero(state.cells["size"][: state.pairs.count] > 0)
        renamed = rename_pairs(state, kept, partitions)
    for name in state.per_cell:
        move(getattr(state, name), kept, len(renamed))
    for records, links in ((state.cells, ("younger", "older")), (state.ends, ("oldest", "youngest"))):
        for link in links:
            records[link] = rename(records[link], renamed)
    state.cell_of[:] = rename(state.cell_of, renamed)
    state.counted.rename_cells(kept, renamed)
    state.kept_keys = max(state.keys.count, state.pairs.count)


class Paired(Protocol):
    """A state whose cells are pairs of partition and group."""

    groups: Strings
    pairs: Strings


def rename_pairs(state: Paired, kept: np.ndarray, partitions: np.ndarray) -> np.ndarray:
    """Interns the kept pairs anew, with the new numbers of partitions and groups."""
    pairs = np.frombuffer(state.pairs.take(kept).buffers()[2] or b"", np.int64).reshape(-1, 2)
    groups = state.groups.keep(pairs[:, 1])
    renamed = state.pairs.keep(np.zeros(0, np.int64))
    fresh = np.ascontiguousarray(np.stack([partitions[pairs[:, 0]], groups[pairs[:, 1]]], axis=1))
    starts = np.arange(len(kept) + 1, dtype=np.int64) * 16
    renamed[kept] = state.pairs.intern(fresh.reshape(-1).view(np.uint8), starts)
    return renamed


def _forget_strings(state: AggregateState, program: Program) -> None:
    """Keeps the texts of stored tuples, of summaries and of counted values, and for a while those of free slots and
    empty cells.
    """
    counted = state.counted.words(program.text_columns)
    tables = [
        (state.stored, program.text_columns),
        (state.back, program.text_words),
        (counted, np.array([0])),
    ]
    if state.stack.shape[1]:
        fronts = state.stack[: state.top], state.spread.reshape(-1, state.stack.shape[1])
        tables += [(front, program.text_words) for front in fronts]
    codes = np.concatenate([table[:, which].reshape(-1) for table, which in tables])
    renamed = state.strings.keep(codes[(codes >= 0) & (codes < state.strings.count)])
    for table, which in tables:
        table[:, which] = rename(np.minimum(table[:, which], len(renamed) - 1), renamed)
    state.counted.reword(counted, program.text_columns)
    state.kept_strings = state.strings.count


class Slotted(Windowed, Protocol):
    """A state whose tuples have slots: its tables with a row for each, and by table the fields that are slots. Where a
    row is for a `block` of several, these are places.
    """

    SLOTS: ClassVar[dict[str, tuple[str, ...]]]
    block: int
    per_slot: list[str]
    free: Free
    top: int


def stored(state: Slotted) -> np.ndarray:
    """The slots in use."""
    used = np.ones(state.top, np.bool_)
    used[state.free.slots] = False
    return np.flatnonzero(used)


def move_together(state: Slotted) -> None:
    """So that no slot or block is free. Most are after a batch larger than the windows, and all would be saved."""
    kept = stored(state)
    renamed = np.full(state.top, NOBODY)
    renamed[kept] = np.arange(len(kept))
    for name in state.per_slot:
        table = getattr(state, name)
        table[: len(kept)] = table.take(kept, axis=0)  # which is many times faster than `table[kept]`
    state.top, state.free = len(kept), Free(np.int32)
    for name, fields in state.SLOTS.items():
        table = getattr(state, name)[: state.top if name in state.per_slot else None]
        for field in fields:
            block, before = np.divmod(table[field], state.block)  # so that NOBODY comes out as NOBODY
            table[field] = rename(block, renamed) * state.block + before


def move(table: np.ndarray, kept: np.ndarray, count: int) -> None:
    """The kept rows to the front, zeros behind them."""
    table[: len(kept)] = table.take(kept, axis=0)
    table[len(kept) : count] = np.zeros(1, table.dtype)


def rename(ids: np.ndarray, renamed: np.ndarray) -> np.ndarray:
    """The new ids; NOBODY, and what was forgotten, is NOBODY."""
    return np.where(ids < 0, NOBODY, renamed.take(ids, mode="clip"))
