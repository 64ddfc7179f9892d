"""Random joins with a table, and events for them: few keys, so that rows are replaced, deleted and met."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec.join_oracle import CONDITIONS
from tests.spec.join_strategies import LEFT, RIGHT, SMALL, lonely
from tests.spec.strategies import Case, marks, sources

#: the equalities of both sides; those of the right side are the key of the table
equalities = st.sampled_from([
    (["k"], ["k"]), (["k"], ["k"]), (["s"], ["k"]), (["n"], ["n"]), (["i"], ["n"]), (["f"], ["f"]),
    (["k", "n"], ["k", "n"]), (["i", "b"], ["n", "b"]), (["t"], ["t"]), (["d"], ["d"]),
])  # fmt: skip


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
    found: list[dict[str, Any]] = []
    for number in range(draw(st.sampled_from([4, 10, 20, 45]))):
        port, choice = draw(st.sampled_from(["left", "right"])), draw(st.integers(0, 9))
        event: dict[str, Any] = {"at": float(number // 2), "port": port}
        event["topic_partition"] = draw(sources) if several else 0
        if port == "right" and choice < 3:
            event["delete"] = draw(st.fixed_dictionaries({name: st.sampled_from(SMALL[name]) for name in key}))
        elif choice < 9:
            schema = LEFT if port == "left" else RIGHT
            event["tuple"] = draw(st.fixed_dictionaries({name: st.sampled_from(SMALL[name]) for name in schema}))
        elif mark := draw(st.sampled_from([None, *marks])):
            event["punct"] = mark
        found.append(event)
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    operator = draw(operators())
    return {"operator": operator, "input": draw(events(operator["equality_right"]))}
