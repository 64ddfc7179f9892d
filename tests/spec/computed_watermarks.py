"""Random settings of computed watermarks: how an input gets them from its tuples and from the clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from sluice.model.spec import Pipeline
from sluice.time_units import SECOND

MILLISECOND = SECOND // 1000


@st.composite
def computed(draw: st.DrawFn) -> dict[str, Any]:
    """How the watermarks of an input are computed, beside its attribute."""
    lag = draw(st.sampled_from([None, 0, 0, 500, 2_000]))
    idle_after = draw(st.sampled_from([None, None, 1, 1_500, 4_000])) if lag is not None else 1_500
    found = {
        "lag": lag, "minimum_gap": draw(st.sampled_from([0, 0, 100, 2_000])), "idle_after": idle_after,
        "max_future": draw(st.sampled_from([None, None, None, 3_000])),
    }  # fmt: skip
    nanoseconds = {name: None if value is None else value * MILLISECOND for name, value in found.items()}
    return nanoseconds | {"advance": lag is not None and idle_after is not None and draw(st.booleans())}


def with_computed(pipeline: Pipeline, **of: Any) -> Pipeline:
    inputs = {s.name: replace(s, event_time=replace(s.event_time, **of)) for s in pipeline.inputs if s.event_time}
    return replace(pipeline, streams={**pipeline.streams, **inputs})
