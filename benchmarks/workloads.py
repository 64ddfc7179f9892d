"""What is measured: a pipeline, and what its outputs must add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import yaml

#: the window that the sliding workload keeps
LAST = 100
WINDOW = {"n": "Count()", "s": "Sum(v)", "m": "Max(v)", "k": "Last(k)", "w": "Last(w)"}
Check = Callable[[int, int, int, int], bool]


@dataclass(frozen=True, slots=True)
class Workload:
    """A query.

    right      says by the numbers of records, keys and outputs, and the sum of n, whether as much came out as must
    settings   further keys of the pipeline file
    """

    name: str
    keys: int
    operator: dict[str, Any]
    right: Check
    marks: str = "none"
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name}, {self.keys:,} keys" + (", with marks" if self.marks == "record" else "")

    def pipeline(self, name: str, source: str, target: str) -> str:
        """The pipeline file; its names are this run's own."""
        schema = {"k": "string", "v": "float64", "ts": "int64", "w": "float64"}
        return yaml.safe_dump({
            "pipeline": name,
            "clock": "records",
            "max_records_per_batch": 500_000,
            "streams": {
                "records": {"topic": source, "format": "json", "schema": schema},
                "results": {"topic": target, "format": "json", "marks": self.marks, "partitions": 2},
                "dead": {"topic": f"{target}.dead"},
            },
            "operators": [{"name": "measured", **self.operator}],
            "dead_letters": "dead",
            **self.settings,
        })  # fmt: skip


def _each_record(records: int, _: int, outputs: int, __: int) -> bool:
    return outputs == records


def _each_once(records: int, _: int, outputs: int, total: int) -> bool:
    """Every record is in one window."""
    return total == records and outputs > 0


def _growing(length: int, records: int, keys: int, outputs: int, total: int) -> bool:
    """The first outputs of a key are over 1, 2, 3 ... records, the others over `length`."""
    of_key = [records // keys + (key < records % keys) for key in range(keys)]
    expected = sum(min(n, length) * (min(n, length) + 1) // 2 + max(0, n - length) * length for n in of_key)
    return outputs == records and total == expected


def _aggregate(window: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    clause = f"{window}, partitioned"
    return {"aggregate": "records", "window": clause, "partition_by": ["k"], "output": {"results": WINDOW}, **more}


PASS = {"map": "records", "output": {"results": {"k": "k", "v": "v", "ts": "ts", "w": "w"}}}
TUMBLING = _aggregate("tumbling, time(10.0)")


def tumbling(keys: int) -> Workload:
    """An output for each key and ten seconds."""
    return Workload("tumbling, time(10)", keys, TUMBLING, _each_once)


def sliding(keys: int, length: int = LAST) -> Workload:
    """An output for each record, over the last `length` records of its key."""
    window = f"sliding, count({length}), count(1)"
    return Workload(window, keys, _aggregate(window), partial(_growing, length))


WORKLOADS = [
    Workload("pass-through", 100, PASS, _each_record),
    tumbling(100),
    tumbling(10_000),
    sliding(100),
    sliding(10_000),
    replace(sliding(100), marks="record"),
]
