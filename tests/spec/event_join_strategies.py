"""Random joins over event time, and events for them: times few and close, so that tuples meet."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from tests.spec.event_strategies import STARTS, STEPS, TYPES, shown
from tests.spec.join_oracle import CONDITIONS
from tests.spec.join_strategies import LEFT, RIGHT, SIDES, algorithms, equalities, lonely, rows
from tests.spec.strategies import SOURCES, Case, choices, punct

#: in place of a delay: the tuple has the time of the watermark of the join less its grace, and is just not late
CLOCK = -1
sizes = st.sampled_from(["0", "0.001", "0.5", "1", "2", "2", "5"])
moments = choices({
    "step": STEPS, "port": list(SIDES), "what": ["tuple"] * 6 + ["watermark"] * 3 + ["mark"],
    "delay": [0, 0, 0, 1, 500, 1_000, 3_000, CLOCK], "behind": [0, 0, 1_000, 4_000], "mark": [None, "window", "final"],
    "source": SOURCES,
})  # fmt: skip
graces = st.sampled_from(["", "", ", grace(0.5)", ", grace(1)", ", grace(4)"])


@st.composite
def intervals(draw: st.DrawFn) -> str:
    before, after = draw(sizes), draw(sizes)
    if draw(st.integers(0, 4)) == 0:  # the whole interval on one side
        before, after = sorted((before, after), key=float)
        before = f"-{before}"
        if draw(st.booleans()):
            before, after = after, before
    return f"interval, before({before}), after({after}){draw(graces)}"


as_ofs = st.tuples(st.sampled_from(["", "", ", maximumAge(0)", ", maximumAge(1)", ", maximumAge(3)"]), graces).map(
    lambda parts: "asOf" + "".join(parts)
)


@st.composite
def operators(draw: st.DrawFn, window: st.SearchStrategy[str], *, outer: st.SearchStrategy[str]) -> dict[str, Any]:
    kind, equality, clause = draw(st.sampled_from(sorted(TYPES))), draw(equalities), draw(window)
    operator: dict[str, Any] = {
        "kind": "join", "window": clause, "event_time": "e", "algorithm": draw(outer),
        "equality_left": equality, "equality_right": equality, "partition_by_left": [], "partition_by_right": [],
        "output": {"li": "left.i", "ls": "left.s", "le": "left.e", "re": "right.e", "rk": "right.k", "r2": "right.i2",
                   "ld": "left.d", "rz": "right.z"},
        "schema_left": LEFT | {"e": kind}, "schema_right": RIGHT | {"e": kind},
    } | ({"event_time_resolution": TYPES[kind]} if TYPES[kind] else {})  # fmt: skip
    match = draw(st.sampled_from(list(CONDITIONS)))
    if match and clause.startswith("interval"):
        operator["match"] = match
    return operator | draw(lonely(operator["algorithm"]))


@st.composite
def events(draw: st.DrawFn, kind: str, grace: int) -> list[dict[str, Any]]:
    """`grace` in milliseconds."""
    newest = draw(st.sampled_from(STARTS))
    several = draw(st.booleans())
    watermarks = dict.fromkeys(SIDES, newest)
    drawn: list[dict[str, Any]] = []
    for number in range(draw(st.sampled_from([4, 10, 20, 45]))):
        moment = draw(moments)
        newest += moment["step"]
        event: dict[str, Any] = {"at": float(number), "port": moment["port"]}
        event["topic_partition"] = moment["source"] if several else 0
        if moment["what"] == "tuple":
            time = min(watermarks.values()) - grace if moment["delay"] == CLOCK else newest - moment["delay"]
            event["tuple"] = draw(rows[moment["port"]]) | {"e": shown(time, kind)}
        elif moment["what"] == "watermark":
            watermarks[moment["port"]] = newest - moment["behind"]
            event["watermark"] = watermarks[moment["port"]] / 1000
        else:
            event |= punct(moment["mark"])
        drawn.append(event)
    return drawn


@st.composite
def _cases(draw: st.DrawFn, kinds: st.SearchStrategy[dict[str, Any]]) -> Case:
    operator = draw(kinds)
    found = re.search(r"grace\(([\d.]+)\)", operator["window"])
    grace = round(1000 * float(found[1])) if found else 0
    return {"operator": operator, "input": draw(events(operator["schema_left"]["e"], grace))}


interval_cases = _cases(operators(intervals(), outer=algorithms))
as_of_cases = _cases(operators(as_ofs, outer=st.sampled_from(["inner", "leftOuter"])))
cases = st.one_of(interval_cases, as_of_cases)
