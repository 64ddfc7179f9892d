"""The storage strategy of an Aggregate: which kernel keeps the contents of its windows, with its tables."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sluice.engine.contents import block_stacks, combine_plan, ring, running_summary, slot_contents
from sluice.engine.contents.block_stacks import BlockStacks
from sluice.engine.contents.blocks import Blocks
from sluice.engine.contents.combine_plan import Summaries, run_planned
from sluice.engine.contents.firing_results import Run
from sluice.engine.contents.groups import Groups
from sluice.engine.contents.ring import Rings
from sluice.engine.contents.running_summary import RunningSummaries
from sluice.engine.contents.slot_contents import SlotContents
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.aggregate_state import AggregateState


def strategy(program: Program, state: AggregateState, blocks: np.ndarray) -> tuple[Run, tuple[Any, ...]]:
    """The kernel that computes window contents, and its arguments. `blocks` has the numbers of free blocks."""
    counted = state.counted.kernel
    if program.ring:
        return ring.run, Rings(
            program.layout, program.edges, state.strings.text, state.rings, state.tuples, program.ring, state.words,
            counted,
        )  # fmt: skip
    if program.packed:
        shift = program.block.bit_length() - 1
        return partial(run_planned, block_stacks.run), BlockStacks(
            _summaries(program, state, shift), program.edges, state.group_records, program.listing, counted,
            Blocks(shift, state.links, state.words, blocks, state.idle, state.used),
        )  # fmt: skip
    sums = _summaries(program, state, 0)
    groups = Groups(state.group_records, bool(program.group_by), state.group_of, state.ends)
    if not program.clause.sliding:
        return partial(run_planned, running_summary.run), RunningSummaries(
            sums, groups, state.links, program.listing, counted
        )  # fmt: skip
    linked = not program.group_by and not program.clause.by_value
    return partial(run_planned, slot_contents.run), SlotContents(
        sums, program.edges, groups, state.chain if linked else state.links, linked, state.nodes,
        program.clause.eviction, program.listing, counted,
    )  # fmt: skip


def _summaries(program: Program, state: AggregateState, shift: int) -> Summaries:
    spread = state.spread.reshape(len(state.spread) << shift, program.summary if program.packed else 0)
    return combine_plan.summaries(
        program.layout, state.strings.text, state.tuples, state.back, state.stack, spread, shift, program.limits.steps
    )  # fmt: skip
