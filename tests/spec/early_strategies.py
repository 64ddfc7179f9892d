"""Random windows with early results, and events for them."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from tests.spec import event_strategies, session_strategies, strategies
from tests.spec.event_strategies import TYPES, shown
from tests.spec.strategies import Case, narrowed, tuples

counts = st.sampled_from(["count(1)", "count(2)", "count(3)", "count(4)"])
#: waits that end at events, at ticks, between them, and 1 ns behind them, as a session over the clock does
times = st.sampled_from(["time(0.25)", "time(0.5)", "time(1)", "time(1.000000001)", "time(1.5)", "time(3)"])
earlies = st.one_of(
    counts, times, times, st.builds("{} or {}".format, counts, times), st.builds("{} or {}".format, times, counts)
)


def apart(window: str) -> str:
    """The clause without a creationPeriod that makes its panes overlap."""
    sizes = {name: float(size) for name, size in re.findall(r"(\w+)\(([^)]*)\)", window)}
    if sizes.get("creationPeriod", sizes["intervalDuration"]) >= sizes["intervalDuration"]:
        return window
    return re.sub(r", creationPeriod\([^)]*\)", "", window)


@st.composite
def with_early(draw: st.DrawFn, cases: st.SearchStrategy[Case], early: st.SearchStrategy[str] = earlies) -> Case:
    case = draw(cases)
    operator: dict[str, Any] = case["operator"]
    window = operator["window"]
    more = {"early": draw(early), "output": operator["output"] | {"early": "isEarly()"}}
    if window.startswith("session"):
        more["emit"] = "final"
    if window.startswith("timeInterval"):
        more["window"] = apart(window)
    return case | {"operator": operator | more}


@st.composite
def that_evict_at_ticks(draw: st.DrawFn) -> dict[str, Any]:
    """Tumbling windows with a timer, from which partitions leave with a result."""
    operator = draw(strategies.operators())
    period = draw(st.sampled_from(["time(2)", "time(3)", "time(7.25)"]))
    others = draw(st.sampled_from(["", " or count(4)", " or punct()"]))
    leaving = draw(
        st.sampled_from(["partitionAge(0)", "partitionAge(1)", "partitionAge(2)", "partitionCount(2)", "tupleCount(3)"])
    )
    return operator | {
        "window": f"tumbling, {period}{others}, partitioned, {leaving}",
        "partition_by": draw(strategies.keys),
        "aggregate_incomplete_windows": False,
        "aggregate_evicted_partitions": True,
        "output": operator["output"] | {"why": "flushReason()"},
    }


@st.composite
def that_merge(draw: st.DrawFn) -> Case:
    """Sessions of one or two keys whose tuples come in any order: a tuple between two sessions merges them."""
    kind = draw(st.sampled_from(sorted(TYPES)))
    few = {
        "partition_by": draw(st.sampled_from([[], ["b"]])),
        "window": "session, inactivityGap(1)" + draw(st.sampled_from(["", "", ", maximumDuration(4)"])),
    }
    operator = narrowed(draw(session_strategies.operators(kind)) | few)
    rows, places = tuples(operator["schema"].keys() - {"e"}), st.integers(0, 15)
    drawn = [
        {"at": n / 4, "topic_partition": 0, "tuple": {**draw(rows), "e": shown(700 * draw(places), kind)}}
        for n in range(draw(st.sampled_from([6, 12, 25])))
    ]
    return {"operator": operator, "input": drawn}


def _of_kind(cases: st.SearchStrategy[Case], word: str) -> st.SearchStrategy[Case]:
    return cases.filter(lambda case: case["operator"]["window"].startswith(word))


tumbling = with_early(_of_kind(strategies.cases(), "tumbling"))
evicting = with_early(strategies.cases(that_evict_at_ticks()))
panes = with_early(_of_kind(event_strategies.cases, "timeInterval"))
sessions = with_early(session_strategies.cases)
merging = with_early(that_merge(), st.sampled_from(["count(3)", "count(4)", "time(3)", "count(5) or time(3)"]))
cases = st.one_of(tumbling, evicting, panes, sessions, merging)
