"""Compaction of a state: removes keys, texts and slots that no window uses any more.

A table is compacted only if it has at least doubled since its last compaction, so the cost of an added entry is O(1)
amortised.
"""

from __future__ import annotations

import numpy as np

from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.model.engine_limits import EngineLimits


def compact(state: AggregateState, program: Program) -> None:
    evict_unused(state, program)
    if should_compact(program.limits, state.top, state.top - len(state.free)):
        state.move_together()


def evict_unused(state: AggregateState, program: Program) -> None:
    """Removes unused keys, groups and texts. Slots keep their numbers."""
    names, tuples = max(state.keys.count, state.pairs.count), state.sizes[1]
    if should_compact(program.limits, names, state.kept_keys, tuples):
        state.remove_empty_partitions() if program.partition_by else state.remove_empty_groups(np.arange(1))
    if should_compact(program.limits, state.strings.count, state.kept_strings, tuples):
        state.remove_unused_texts()


def should_compact(limits: EngineLimits, count: int, kept: int, tuples: int = 0) -> bool:
    """Whether a table of `count` entries should be compacted; its last compaction kept `kept` of them.

    True if the table has more than `limits.uncompacted` entries, and more entries were added since than were kept, and
    more than a quarter of the stored `tuples`. A compaction visits all entries and all tuples, so each added entry pays
    for one kept entry and four tuples.
    """
    return count > limits.uncompacted and count - kept > max(kept, tuples // 4)
