"""Random joins with a table, and events for them: few keys, so that rows are replaced, deleted and met."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec.join_oracle import CONDITIONS
from tests.spec.join_strategies import LEFT, RIGHT, SIDES, SMALL, lonely, rows
from tests.spec.strategies import SOURCES, Case, choices, marks, punct

#: the equalities of both sides; those of the right side are the key of the table
equalities = st.sampled_from([
    (["k"], ["k"]), (["k"], ["k"]), (["s"], ["k"]), (["n"], ["n"]), (["i"], ["n"]), (["f"], ["f"]),
    (["k", "n"], ["k", "n"]), (["i", "b"], ["n", "b"]), (["t"], ["t"]), (["d"], ["d"]),
])  # fmt: skip

moments = choices({
    "port": list(SIDES), "what": ["tuple"] * 6 + ["delete"] * 3 + ["mark"], "mark": [None, *marks], "source": SOURCES,
})  # fmt: skip


@st.composite
def operators(draw: st.DrawFn) -> dict[str, Any]:
    left, right = draw(equalities)
    operator: dict[str, Any] = {
        "kind": "join", "table": True, "algorithm": draw(st.sampled_from(["inner", "leftOuter"])),
        "equality_left": left, "equality_right": right, "partition_by_left": [], "partition_by_right": [],
        "output": {"li": "left.i", "ls": "left.s", "lf": "left.f", "rt": "right.t", "rk": "right.k", "r2": "right.i2",
                   "ld": "left.d", "rz": "right.z"},
        "schema_left": LEFT, "schema_right": RIGHT,
    }  # fmt: skip
    if match := draw(st.sampled_from(list(CONDITIONS))):
        operator["match"] = match
    return operator | draw(lonely(operator["algorithm"]))


@st.composite
def events(draw: st.DrawFn, key: list[str]) -> list[dict[str, Any]]:
    several = draw(st.booleans())
    deleted = choices({name: SMALL[name] for name in key})
    drawn: list[dict[str, Any]] = []
    for number in range(draw(st.sampled_from([4, 10, 20, 45]))):
        moment = draw(moments)
        port, what = moment["port"], moment["what"]
        event: dict[str, Any] = {"at": float(number // 2), "port": port}
        event["topic_partition"] = moment["source"] if several else 0
        if what == "delete" and port == "right":
            event["delete"] = draw(deleted)
        elif what == "mark":
            event |= punct(moment["mark"])
        else:
            event["tuple"] = draw(rows[port])
        drawn.append(event)
    return drawn


@st.composite
def cases(draw: st.DrawFn) -> Case:
    operator = draw(operators())
    return {"operator": operator, "input": draw(events(operator["equality_right"]))}
