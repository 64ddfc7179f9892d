"""The final mark flushes what a tumbling window holds, if its operator has `emit_rest` (H6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.engine_limits import EngineLimits
from tests.spec.every_cut import check_expected
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind, size = draw(st.sampled_from(["aggregate", "sort"])), draw(st.integers(1, 4))
    operator: dict[str, Any] = {
        "kind": kind, "window": f"tumbling, count({size}), partitioned", "partition_by": ["k"], "emit_rest": True,
        "schema": {"k": "string", "i": "int64"},
    }  # fmt: skip
    if kind == "sort":
        operator["order_by"] = {"i": "desc"}
    else:
        operator["output"] = {"k": "k", "all": "Collect(i)", "why": "flushReason()"}
    tuples = draw(st.lists(st.sampled_from("abcd"), max_size=15))
    events: list[dict[str, Any]] = [{"at": float(n), "tuple": {"k": k, "i": n}} for n, k in enumerate(tuples)]
    events += [{"at": float(len(tuples)), "punct": "final"}] * draw(st.booleans())
    return {"operator": operator, "input": events, "limits": EngineLimits(uncompacted=2), "size": size}


def expected(case: Case) -> list[dict[str, Any]]:
    held: dict[str, list[int]] = {}
    records: list[dict[str, Any]] = []

    def flush(number: int, key: str, why: str) -> None:
        numbers = held.pop(key)
        rows = [{"k": key, "i": n} for n in reversed(numbers)]
        if case["operator"]["kind"] == "aggregate":
            rows = [{"k": key, "all": numbers, "why": why}]
        records.extend([*({"after": number, "tuple": row} for row in rows), {"after": number, "punct": "window"}])

    for number, event in enumerate(case["input"]):
        if "tuple" in event:
            key = event["tuple"]["k"]
            held.setdefault(key, []).append(number)
            if len(held[key]) == case["size"]:
                flush(number, key, "count")
        else:
            for key in sorted(held):
                flush(number, key, "end")
            records.append({"after": number, "punct": "final"})
    return records


@given(cases(), cuts)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_random_batches_by_count(case: Case, batches: list[int]):
    check_expected(expected, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=20, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)
