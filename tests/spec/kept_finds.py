"""Cases that a comparison with the oracle once found wrong, each as small as it could be made."""

from __future__ import annotations

import math
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
    find(
        "NaN and both infinities were one group",
        {"window": "tumbling, punct()", "group_by": ["f"], "output": {"f": "Last(f)", "n": "Count()"}},
        *({"tuple": {"f": f}} for f in (math.nan, 1.0, math.nan, math.inf, -math.inf)),
        {"punct": "window"},
    ),
    find(
        "zero and negative zero were two partitions",
        {"window": "tumbling, count(2), partitioned", "partition_by": ["f", "k"], "output": {"n": "Count()"}},
        {"tuple": {"f": 0.0, "k": "a"}},
        {"tuple": {"f": -0.0, "k": "a"}},
    ),
    find(
        "the oracle had no word for a sum beyond float64",
        {"window": "tumbling, count(2)", "output": {"sum": "Sum(f)", "least": "Sum(g)"}},
        {"tuple": {"f": 1.7e308, "g": -1.7e308}},
        {"tuple": {"f": 1.7e308, "g": -1.7e308}},
    ),
]
