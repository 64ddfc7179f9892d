"""Random cases whose windows are stored in rings, or in blocks (engine/operators/aggregate/aggregate_program.py).

Of the other random cases few are in blocks, as most windows have groups, flush or evict by delta, and none is in rings,
as they collect tuples.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from sluice.engine.graph import Graph
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.model.engine_limits import EngineLimits
from sluice.testing import limited, pipeline_of
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.strategies import CALLS, Case, cases, operators, times

#: with these sizes windows of two tuples are in blocks
SMALL_BLOCKS = replace(CLEANED_EARLY, min_block=1, block=2)
#: calls that list tuples, which a ring does not
LISTING = re.compile(
    r"Collect|CountByDistinct|Median|Percentile|M..N\(|(First|Last)\(\w,|Sum\(s|(Sum|Average|Min|Max)\([vw]|CountDistinct\([vm]"
)
ungrouped = st.just(list[str]())


@st.composite
def ringed_operators(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(operators(st.integers(1, 5).map("count({})".format), ungrouped))
    calls = draw(st.lists(st.sampled_from([call for call in CALLS if not LISTING.match(call)]), min_size=1, max_size=6))
    return operator | {"output": {f"o{n}": call for n, call in enumerate(calls)}}


in_rings = cases(ringed_operators())
in_blocks = cases(operators(st.one_of(times, st.integers(2, 5).map("count({})".format)), ungrouped))


def block_of(case: Case, limits: EngineLimits = SMALL_BLOCKS) -> int:
    """The number of tuples in a block; 0 if the windows are not in blocks."""
    state = _state(case, limits)
    return state.block if isinstance(state, AggregateState) and state.packed else 0


def is_in_rings(case: Case) -> bool:
    state = _state(case, CLEANED_EARLY)
    return isinstance(state, AggregateState) and bool(state.ring)


def _state(case: Case, limits: EngineLimits) -> Any:
    pipeline = limited(pipeline_of(case), limits)
    (state,) = Graph(pipeline, {stream.name: 1 for stream in pipeline.inputs}).initial().operators
    return state
