"""Forgetting keys, texts and slots that no window needs any more, when there are many of them: O(1) amortised."""

from __future__ import annotations

import numpy as np

from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.aggregate_state import AggregateState

#: tables with fewer entries are left alone
SMALL = 4096


def compact(state: AggregateState, program: Program) -> None:
    evict_unused(state, program)
    if should_compact(state.top, state.top - len(state.free)):
        state.move_together()


def evict_unused(state: AggregateState, program: Program) -> None:
    """Keys and texts alone: slots keep their numbers."""
    names, tuples = max(state.keys.count, state.pairs.count), state.sizes[1]
    if should_compact(names, state.kept_keys, tuples):
        state.forget_partitions() if program.partition_by else state.forget_groups(np.arange(1))
    if should_compact(state.strings.count, state.kept_strings, tuples):
        state.forget_strings()


def should_compact(count: int, kept: int, tuples: int = 0) -> bool:
    """Whether so many entries came since those that were `kept` that all of them, and all tuples, may be gone through.

    An entry that comes pays for one other, and for four of the tuples: few names that come and go beside many tuples
    that stay cost each batch no more than it brings.
    """
    return count > SMALL and count - kept > max(kept, tuples // 4)
