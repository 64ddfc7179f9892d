"""Random dedups, and events for them: periods that are near to the steps of time, and few keys, so that tuples meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec import event_strategies, strategies
from tests.spec.event_strategies import TYPES
from tests.spec.strategies import Case, passed, schema_of

lengths = st.sampled_from(["0.25", "0.5", "1", "1", "2", "5", "30"])
keys = st.sampled_from([["k"], ["n"], ["b"], ["k", "n"], ["f"], ["t", "b"]])
words = st.sampled_from(["first", "last"])


@st.composite
def _over_event_time(draw: st.DrawFn) -> Case:
    kind, by = draw(st.sampled_from(sorted(TYPES))), draw(keys)
    operator: dict[str, Any] = {
        "kind": "dedup", "by": by, "within": f"eventTime({draw(lengths)})", "keep": draw(words),
        "event_time": "e", "schema": schema_of(by, draw(passed)) | {"e": kind},
    } | ({"event_time_resolution": TYPES[kind]} if TYPES[kind] else {})  # fmt: skip
    return {"operator": operator, "input": draw(event_strategies.events(operator["schema"], watermarks=True))}


@st.composite
def _over_the_clock(draw: st.DrawFn) -> Case:
    by = draw(keys)
    operator = {
        "kind": "dedup", "by": by, "within": f"time({draw(lengths)})", "keep": draw(words),
        "schema": schema_of(by, draw(passed)),
    }  # fmt: skip
    return {"operator": operator, "input": draw(strategies.events(operator["schema"].keys()))}


over_the_clock = _over_the_clock()
cases = st.one_of(_over_event_time(), over_the_clock)
