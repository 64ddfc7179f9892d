from __future__ import annotations

import pytest

from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.spark.source import Pace, read, received

PIPELINE = """
pipeline: p
kafka: {bootstrap.servers: "127.0.0.1:1"}
streams:
  in: {topic: in, schema: {n: int64}}
  out: {topic: out}
operators:
  - {name: all, map: in, output: [out]}
"""


@pytest.mark.spark
def test_nothing_depends_on_the_time_of_the_batch(spark, capsys):
    """It would be a constant in the code that Spark generates, and that would be compiled anew for each batch."""
    plan = Plan(load_text(PIPELINE, "p", environment=None), "q", "s", "c", 1, {"in": 1, "out": 1})
    received(plan, read(spark, plan, Pace(1, 1))).explain(extended=True)
    words = capsys.readouterr().out
    assert "current" not in words
    assert "timestamp" in words
