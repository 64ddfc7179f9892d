"""Sums of sliding windows stay exact however long they slide: nothing is ever subtracted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.clock import Clock
from tests.spec.tuple_batches import items

BATCH, WINDOW = 100_000, 1_000
PIPELINE = f"""
pipeline: drift
streams:
  numbers: {{topic: numbers, schema: {{x: float64, i: int64}}}}
  sums: {{topic: sums}}
operators:
  - name: sum
    aggregate: numbers
    window: sliding, count({WINDOW}), count({BATCH})
    output:
      sums: {{sum: Sum(x), mean: Average(x), deviation: PopulationStdDev(x), whole: Sum(i)}}
"""


@pytest.mark.parametrize("steps", [10**6, pytest.param(10**8, marks=pytest.mark.slow)])
def test_mixed_magnitudes(steps: int):
    """Values of both signs from 1e-8 to 1e8; after each hundred thousand steps the sum is the exact one."""
    graph = Graph(load_text(PIPELINE, "drift", environment=None), {"numbers": 1})
    state, choose = graph.initial(), np.random.default_rng(7)
    for start in range(0, steps, BATCH):
        x = choose.choice([-1.0, 1.0], BATCH) * 10.0 ** choose.uniform(-8, 8, BATCH)
        i = choose.integers(-(2**62), 2**62, BATCH)
        (found,) = graph.feed(state, {"numbers": items(pa.record_batch({"x": x, "i": i}), start)}, Clock(0, start))[
            "sums"
        ].tuples.to_pylist()
        inside = x[-WINDOW:].tolist()
        assert math.isclose(found["sum"], math.fsum(inside), rel_tol=1e-15)
        assert math.isclose(found["mean"], math.fsum(inside) / WINDOW, rel_tol=1e-15)
        assert math.isclose(found["deviation"], deviation(inside), rel_tol=1e-12)
        assert found["whole"] == (sum(i[-WINDOW:].tolist()) + 2**63) % 2**64 - 2**63


def deviation(values: list[float]) -> float:
    mean = Fraction(math.fsum(values)) / len(values)
    return math.sqrt(math.fsum((v - float(mean)) ** 2 for v in values) / len(values))
