"""Random session windows and events for them: gaps that are near to the steps of time, so that sessions meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec import event_strategies, strategies
from tests.spec.event_strategies import TYPES
from tests.spec.strategies import CALLS, SCHEMA, Case, groups, keys, narrowed

gaps = st.sampled_from(["0.5", "0.5", "1", "1", "2", "5", "f", "n", "n"])
longest = st.sampled_from(["", "", "", "0.5", "1.5", "3", "10"])
graces = st.sampled_from(["", "", "0", "0.5", "2", "5"])
SESSION_CALLS = ["sessionStart()", "sessionEnd()", "Count()", "Collect(i)"]


@st.composite
def windows(draw: st.DrawFn, *, event_time: bool) -> str:
    parts = [f"inactivityGap({draw(gaps)})"]
    if limit := draw(longest):
        parts.append(f"maximumDuration({limit})")
    if event_time and (grace := draw(graces)):
        parts.append(f"grace({grace})")
    return ", ".join(["session", *draw(st.permutations(parts))])


@st.composite
def operators(draw: st.DrawFn, kind: str | None) -> dict[str, Any]:
    """`kind`: the type of the event time; None: over the clock."""
    calls = draw(st.lists(st.sampled_from(CALLS), max_size=4, unique=True))
    more: dict[str, Any] = {}
    if kind is not None:
        more = {"event_time": "e"} | ({"event_time_resolution": TYPES[kind]} if TYPES[kind] else {})
    return {
        "kind": "aggregate", "window": draw(windows(event_time=kind is not None)),
        "partition_by": draw(st.one_of(st.just([]), keys)), "group_by": draw(groups),
        "emit": draw(st.sampled_from(["final", "final", "updates"])), "aggregate_incomplete_windows": False,
        "output": {f"o{n}": call for n, call in enumerate([*SESSION_CALLS, *calls])},
        "schema": SCHEMA | ({"e": kind} if kind else {}),
    } | more  # fmt: skip


@st.composite
def _over_event_time(draw: st.DrawFn) -> Case:
    operator = narrowed(draw(operators(draw(st.sampled_from(sorted(TYPES))))))
    return {"operator": operator, "input": draw(event_strategies.events(operator["schema"], watermarks=True))}


over_the_clock = strategies.cases(operators(None))
cases = st.one_of(_over_event_time(), over_the_clock)
