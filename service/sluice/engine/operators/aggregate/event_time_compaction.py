"""Compaction of the state of an event-time aggregate: removes partitions, groups and texts that no window uses."""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import intern_pairs, keep_texts
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.aggregate.group_pairs import rename_pairs
from sluice.engine.operators.compaction import should_compact
from sluice.engine.windows.event_time.event_records import NEVER


def compact(state: EventState, late_before: int = NEVER) -> None:
    """Compacts the tables that have many unused entries. `late_before`: the time before which tuples are late."""
    names = max(state.keys.count, state.places.count, state.pairs.count)
    if should_compact(state.limits, names, state.kept_keys, state.top):
        _forget_partitions(state, late_before)
    if should_compact(state.limits, state.strings.count, state.kept_strings, state.top):
        keep_texts(state.strings, state.texts())
        state.kept_strings = state.strings.count


def _forget_partitions(state: EventState, late_before: int) -> None:
    count = state.rows["partition"]
    parts = state.partitions[:count]
    needed = parts["size"] > 0
    if len(state.key_times):
        needed |= state.key_times["made"][:count] != NEVER
    if len(state.fillings):
        filling = state.fillings[:count]
        needed |= (filling["next"] <= filling["until"]) | (filling["next"] > late_before)
    if not state.keys.count:  # without keys each topic partition has one partition, which stays
        needed[:] = True
    kept = np.flatnonzero(needed)
    renamed = np.full(count, NIL, np.int64)
    renamed[kept] = np.arange(len(kept))
    state.compact("partition", kept, count)
    _keep_keys(state, len(kept))
    state.plan()
    _keep_groups(state, renamed, kept)


def _keep_keys(state: EventState, partitions: int) -> None:
    """Keeps the keys of the remaining `partitions` partitions, which have their new numbers already."""
    if not state.keys.count:
        return
    parts = state.partitions[:partitions]
    codes = state.keys.keep(parts["key"])
    parts["key"] = codes[parts["key"]]
    if state.places.count:
        state.places = type(state.places)()
        intern_pairs(state.places, parts["source"], parts["key"])
    rest = state.partitions[partitions:]
    rest["key"] = np.arange(partitions, len(state.partitions))


def _keep_groups(state: EventState, partitions: np.ndarray, kept: np.ndarray) -> None:
    """Keeps the groups that hold tuples. Without `group_by` the groups are the partitions."""
    renamed = partitions
    if state.pairs.count:
        kept = np.flatnonzero(state.group_records["size"][: state.pairs.count] > 0)
        renamed = rename_pairs(state, kept, partitions)
    state.compact("group", kept, len(renamed))
    state.kept_keys = max(state.keys.count, state.places.count, state.pairs.count)
