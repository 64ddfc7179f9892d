"""Random joins and sorts, and events for them (see strategies.py)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec.join_oracle import CONDITIONS
from tests.spec.strategies import (
    SCHEMA,
    SOURCES,
    STEPS,
    VALUES,
    Case,
    choices,
    counts,
    deltas,
    events,
    keys,
    leaving,
    marks,
    passed,
    policies,
    punct,
    schema_of,
    words_of,
)

LEFT = {name: SCHEMA[name] for name in "knbifstdz"}
RIGHT = LEFT | {"i2": "int64"}
SIDES = {"left": LEFT, "right": RIGHT}
SMALL = VALUES | {
    "f": VALUES["f"][:4] + VALUES["f"][-3:], "i": VALUES["i"][:6], "i2": VALUES["i"], "k": VALUES["k"][:3],
}  # fmt: skip

rows = {side: choices({name: SMALL[name] for name in schema}) for side, schema in SIDES.items()}
moments = choices({
    "step": STEPS, "port": list(SIDES), "is_tuple": [True] * 7 + [False], "mark": marks, "source": SOURCES,
})  # fmt: skip

equalities = st.sampled_from([[], ["k"], ["k"], ["n"], ["f"], ["k", "n"], ["b", "k"], ["t"], ["d"]])
tumbling = st.one_of(counts, deltas, st.sampled_from(["time(1.5)", "punct()"]))
algorithms = st.sampled_from(["inner", "leftOuter", "rightOuter", "outer"])


@st.composite
def sides_apart(draw: st.DrawFn, equality: list[str]) -> tuple[str, list[str]]:
    """Windows in which a tuple drives out no tuple with another value of the first equality."""
    partition_by = [*equality[:1], *draw(st.sampled_from([[], [], [name for name in "kn" if name not in equality]]))]
    return f"sliding, {draw(policies)}, partitioned", partition_by


@st.composite
def side_windows(draw: st.DrawFn, equality: list[str]) -> tuple[str, list[str]]:
    partition_by = draw(st.sampled_from([[], [], equality, ["k"], ["n"], ["k", "n"]]))
    return f"sliding, {draw(policies)}{', partitioned' + draw(leaving) if partition_by else ''}", partition_by


@st.composite
def joins(draw: st.DrawFn, *, apart: bool = False) -> Case:
    """`apart`: with equalities that hold everything apart, so that there may be several buckets."""
    equality = draw(equalities.filter(bool) if apart else equalities)
    sides = sides_apart(equality) if apart else side_windows(equality)
    (left, partition_by_left), (right, partition_by_right) = draw(sides), draw(sides)
    operator = {
        "kind": "join",
        "left": left,
        "right": right,
        "partition_by_left": partition_by_left,
        "partition_by_right": partition_by_right,
        "algorithm": draw(algorithms),
        "equality_left": equality,
        "equality_right": equality,
        "output": {
            "li": "left.i",
            "ls": "left.s",
            "lf": "left.f",
            "rt": "right.t",
            "rk": "right.k",
            "r2": "right.i2",
            "ld": "left.d",
            "rz": "right.z",
        },
        "schema_left": LEFT,
        "schema_right": RIGHT,
    }
    if match := draw(st.sampled_from(list(CONDITIONS))):
        operator["match"] = match
    return operator | draw(lonely(operator["algorithm"]))


@st.composite
def lonely(draw: st.DrawFn, algorithm: str) -> dict[str, Any]:
    """The outputs of unmatched tuples: with default tuples, or to streams of their own."""
    left, right = algorithm in ("leftOuter", "outer"), algorithm in ("rightOuter", "outer")
    if draw(st.booleans()):
        return {"unmatched_left": left, "unmatched_right": right}
    values = {"i": 7, "s": "none", "f": 0.5, "t": "2013-01-01T05:15:00Z"}
    given = {"default_right": values} if left and draw(st.booleans()) else {}
    return given | ({"default_left": values} if right and draw(st.booleans()) else {})


@st.composite
def join_events(draw: st.DrawFn) -> list[dict[str, Any]]:
    quarters = draw(st.sampled_from([0, 3, -30]))
    drawn = []
    for _ in range(draw(st.sampled_from([3, 8, 15, 30]))):
        moment = draw(moments)
        quarters += moment["step"]
        port = moment["port"]
        event = {"tuple": draw(rows[port])} if moment["is_tuple"] else punct(moment["mark"])
        more = {"port": port, "topic_partition": moment["source"]} if event else {}
        drawn.append({"at": quarters / 4, **more, **event})
    return drawn


@st.composite
def join_cases(draw: st.DrawFn, *, apart: bool = False) -> Case:
    return {"operator": draw(joins(apart=apart)), "input": draw(join_events())}


@st.composite
def outer_cases(draw: st.DrawFn) -> Case:
    """Outer joins over time windows, many of whose tuples find no match and leave at one moment."""
    operator = draw(joins()) | {
        "left": "sliding, time(1)", "right": "sliding, time(1)", "partition_by_left": [], "partition_by_right": [],
        "algorithm": "outer", "unmatched_left": False, "unmatched_right": False,
    }  # fmt: skip
    at = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=4, max_size=12).map(sorted))
    ports = [draw(st.sampled_from(list(SIDES))) for _ in at]
    found = [{"at": now, "port": port, "tuple": draw(rows[port])} for now, port in zip(at, ports, strict=True)]
    return {"operator": operator, "input": [*found, {"at": 100}]}


directions = st.sampled_from(["asc", "desc"])
orders = st.lists(
    st.tuples(st.sampled_from("ifstkndp"), directions), min_size=1, max_size=3, unique_by=lambda of: of[0]
)


@st.composite
def sorts(draw: st.DrawFn) -> Case:
    partition_by, order_by = draw(st.one_of(st.just([]), keys)), draw(orders)
    window = draw(st.one_of(counts.map("sliding, {}".format), tumbling.map("tumbling, {}".format)))
    return {
        "kind": "sort",
        "window": window + (", partitioned" + draw(leaving) if partition_by else ""),
        "partition_by": partition_by,
        "order_by": order_by,
        "schema": schema_of(partition_by, words_of(window), [name for name, _ in order_by], draw(passed)),
        "limit": draw(st.sampled_from([None, None, 1, 2])) if window.startswith("tumbling") else None,
    }


@st.composite
def sort_cases(draw: st.DrawFn, operators: st.SearchStrategy[dict[str, Any]] | None = None) -> Case:
    operator = draw(sorts() if operators is None else operators)
    return {"operator": operator, "input": draw(events(operator["schema"].keys()))}
