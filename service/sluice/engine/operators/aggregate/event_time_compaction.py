"""Forgetting partitions, cells and texts that no window needs any more, when there are many of them."""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NOBODY
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.compaction import move, outgrown, rename, rename_pairs
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timeline_blocks import TOP


def clean(state: EventState, program: Program, *, full: bool) -> None:
    """`full`: partitions that took part in the completion of a pane are kept for ever (E34)."""
    if outgrown(max(state.keys.count, state.places.count, state.pairs.count), state.kept_keys, state.top):
        _forget_partitions(state, full=full)
    if outgrown(state.strings.count, state.kept_strings, state.top):
        _forget_strings(state, program)


def _forget_partitions(state: EventState, *, full: bool) -> None:
    count = state.used["partitions"]
    parts = state.partitions[:count]
    needed = parts["size"] > 0
    if full:
        needed |= parts["full"]
    if not state.keys.count:  # without keys there is one partition for each topic partition
        needed[:] = True
    kept = np.flatnonzero(needed)
    renamed = np.full(count, NOBODY, np.int64)
    renamed[kept] = np.arange(len(kept))
    move(state.partitions, kept, count)
    move(state.ends, kept, count)
    rest = state.partitions[len(kept) : count]
    for node in ("oldest", "youngest", "open", "fresh"):
        rest[node] = NOBODY
    rest["due"], rest["fire"], rest["epoch"] = ENDLESS, ENDLESS, NEVER
    state.ends[len(kept) : count] = NOBODY
    _forget_keys(state, len(kept))
    state.plan()
    _forget_cells(state, renamed, kept)


def _forget_keys(state: EventState, partitions: int) -> None:
    """Keeps the keys of the partitions, which are in their new order already."""
    if not state.keys.count:
        return
    parts = state.partitions[:partitions]
    codes = state.keys.keep(parts["key"])
    parts["key"] = codes[parts["key"]]
    if state.places.count:
        state.places = type(state.places)()
        pairs = np.ascontiguousarray(np.stack([parts["source"], parts["key"]], axis=1).astype(np.int64))
        state.places.intern(pairs.reshape(-1).view(np.uint8), np.arange(partitions + 1, dtype=np.int64) * 16)
    rest = state.partitions[partitions:]
    rest["key"] = np.arange(partitions, len(state.partitions))


def _forget_cells(state: EventState, partitions: np.ndarray, kept: np.ndarray) -> None:
    """Keeps the cells that hold tuples; without `group_by` they are the partitions."""
    renamed = partitions
    if state.pairs.count:
        kept = np.flatnonzero(state.cells["size"][: state.pairs.count] > 0)
        renamed = rename_pairs(state, kept, partitions)
    move(state.cells, kept, len(renamed))
    move(state.back, kept, len(renamed))
    for table, links in ((state.cells, ("younger", "older")), (state.ends, ("oldest", "youngest"))):
        for link in links:
            table[link] = rename(table[link], renamed)
    state.links["cell"][: state.top] = rename(state.links["cell"][: state.top], renamed)
    state.kept_keys = max(state.keys.count, state.places.count, state.pairs.count)


def _forget_strings(state: EventState, program: Program) -> None:
    """Keeps the texts of listed tuples and of summaries, and for a while those of free slots and times."""
    times = int(state.slice_room[TOP])
    tables = (
        (state.words[: state.top], program.text_columns), (state.sums[:times], program.text_words),
        (state.stack[:times], program.text_words), (state.back, program.text_words),
    )  # fmt: skip
    codes = np.concatenate([table[:, which].reshape(-1) for table, which in tables])
    renamed = state.strings.keep(codes[(codes >= 0) & (codes < state.strings.count)])
    for table, which in tables:
        table[:, which] = rename(np.minimum(table[:, which], len(renamed) - 1), renamed)
    state.kept_strings = state.strings.count
