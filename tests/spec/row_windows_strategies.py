"""Random aggregates over tables, and changes for them: few keys, so that rows are replaced, moved and deleted."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec.strategies import CALLS, SCHEMA, SOURCES, STEPS, Case, choices, lengths, punct, read_by, tuples

table_keys = st.sampled_from([["k"], ["n"], ["i"], ["k", "n"], ["t"]])
clauses = st.one_of(
    st.just("table"), st.integers(1, 3).map("table, count({})".format),
    st.sampled_from(["0.5", "1", "7.25"]).map("table, time({})".format),
    st.tuples(st.integers(1, 4), st.integers(1, 2)).map(lambda sizes: "sliding, count({}), count({})".format(*sizes)),
    st.integers(1, 4).map("sliding, count({}), time(1)".format),
)  # fmt: skip
#: with the key of the table among them, rows may be in several buckets
partitions = st.sampled_from([[], [], ["g"], ["b"], ["g", "n"], "key", "key"])
groups = st.sampled_from([[], [], ["g"], ["b"], ["g", "n"], ["f"]])
marks = ["window"] * 8 + [None] * 8 + ["final"]
moments = choices({
    "step": STEPS, "what": ["tuple"] * 14 + ["delete"] * 4 + ["truncate", "mark"], "mark": marks, "source": SOURCES,
})  # fmt: skip


@st.composite
def operators(draw: st.DrawFn) -> dict[str, Any]:
    key, window, chosen = draw(table_keys), draw(clauses), draw(partitions)
    partition_by = key[:1] if chosen == "key" else chosen
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=5, unique=True))
    if draw(st.booleans()):
        calls.append("Collect(i)")
    operator = {
        "kind": "aggregate", "window": window + ", partitioned" * bool(partition_by), "table_key": key,
        "partition_by": partition_by, "group_by": draw(groups), "output": {f"o{n}": c for n, c in enumerate(calls)},
        "schema": SCHEMA,
    }  # fmt: skip
    incomplete = {"aggregate_incomplete_windows": draw(st.booleans())} if window.startswith("sliding") else {}
    return operator | incomplete


@st.composite
def changes(draw: st.DrawFn, names: set[str], key: list[str]) -> list[dict[str, Any]]:
    quarters, drawn = 0, []
    rows = tuples(names)
    for _ in range(draw(lengths)):
        moment = draw(moments)
        quarters += moment["step"]
        event: dict[str, Any] = {"truncate": True}
        if moment["what"] == "tuple":
            event = {"tuple": draw(rows)}
        elif moment["what"] == "delete":
            row = draw(rows)
            event = {"delete": {name: row[name] for name in key}}
        elif moment["what"] == "mark":
            event = punct(moment["mark"])
        drawn.append({"at": quarters / 4, **event, "topic_partition": moment["source"]})
    return drawn


@st.composite
def cases(draw: st.DrawFn) -> Case:
    operator = draw(operators())
    names = read_by(operator) | {*operator["table_key"]}
    operator["schema"] = {name: SCHEMA[name] for name in sorted(names)}
    return {"operator": operator, "input": draw(changes(names, operator["table_key"]))}
