"""Random dedups, and events for them: periods that are near to the steps of time, and few keys, so that tuples meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec import event_strategies, strategies
from tests.spec.event_strategies import TYPES
from tests.spec.strategies import SCHEMA, Case

lengths = st.sampled_from(["0.25", "0.5", "1", "1", "2", "5", "30"])
keys = st.sampled_from([["k"], ["n"], ["b"], ["k", "n"], ["f"], ["t", "b"]])
words = st.sampled_from(["first", "last"])


@st.composite
def _over_event_time(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(sorted(TYPES)))
    operator: dict[str, Any] = {
        "kind": "dedup", "by": draw(keys), "within": f"eventTime({draw(lengths)})", "keep": draw(words),
        "event_time": "e", "schema": SCHEMA | {"e": kind},
    } | ({"event_time_resolution": TYPES[kind]} if TYPES[kind] else {})  # fmt: skip
    return {"operator": operator, "input": draw(event_strategies.events(operator["schema"], watermarks=True))}


@st.composite
def _over_the_clock(draw: st.DrawFn) -> Case:
    operator = {
        "kind": "dedup", "by": draw(keys), "within": f"time({draw(lengths)})", "keep": draw(words), "schema": SCHEMA,
    }  # fmt: skip
    return {"operator": operator, "input": draw(strategies.events())}


over_the_clock = _over_the_clock()
cases = st.one_of(_over_event_time(), over_the_clock)
