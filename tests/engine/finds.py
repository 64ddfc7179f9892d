"""Cases that a comparison with the oracle once found wrong, each as small as it could be made."""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]


def find(name: str, operator: dict[str, Any], *events: dict[str, Any]) -> Case:
    """A case with the usual parameters; an event without `at` comes at 0."""
    usual = {"kind": "aggregate", "partition_by": [], "group_by": [], "aggregate_incomplete_windows": False}
    return {"name": name, "operator": usual | operator, "input": [{"at": 0.0} | event for event in events]}


FINDS = [
    find(
        "the first tuple of a partition under delta eviction drove out one of another partition",
        {"window": "sliding, delta(x, 0), partitioned", "partition_by": ["k"], "output": {"n": "Count()"}},
        {"tuple": {"k": "a", "x": 0}},
        {"tuple": {"k": "b", "x": 1}},
    ),
]
