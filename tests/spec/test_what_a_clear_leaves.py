"""Single cases of what leaves a window at once: nothing of it stays, and it leaves in the order of keys."""

from __future__ import annotations

from typing import Any

from sluice.config.load import load_text
from sluice.replayer.player import replay

STREAMS = """
pipeline: numbers
streams:
  in: {topic: in, schema: {k: string, f: float64}}
  out: {topic: out}
operators:
"""


def tuples(operator: str, *rows: tuple[str, float]) -> list[list[Any]]:
    """What the operator writes, the final mark behind the rows included."""
    events = [{"at": n, "tuple": {"k": key, "f": number}} for n, (key, number) in enumerate(rows)]
    pipeline = load_text(f"{STREAMS}  - {operator}", "numbers", environment=None)
    records = list(replay(pipeline, [*events, {"at": len(rows), "punct": "final"}]))
    return [[*record["tuple"].values()] for record in records if "tuple" in record]


def test_the_nans_of_a_batch_are_not_counted_in_the_next_one():
    operator = '{name: o, aggregate: in, window: "tumbling, count(2)", output: {out: {n: CountDistinct(f)}}}'
    assert tuples(operator, ("a", float("nan")), ("a", 1.0), ("a", 2.0), ("a", 2.0)) == [[2], [1]]


def test_a_progressive_sort_ends_in_the_order_of_keys():
    operator = '{name: o, sort: in, window: "sliding, count(5), partitioned", partition_by: [k], order_by: {f: asc}, '
    found = tuples(operator + "output: [out]}", ("b", 4.0), ("b", 1.0), ("a", 2.0))
    assert found == [["a", 2.0], ["b", 1.0], ["b", 4.0]]
