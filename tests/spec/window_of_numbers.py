"""A sliding window over the numbers from 0 on, and its state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.stream.clock import Clock
from sluice.model.engine_limits import LIMITS, EngineLimits
from sluice.testing import limited
from tests.spec.tuple_batches import items

PIPELINE = """
pipeline: numbers
streams:
  numbers: {{topic: numbers, schema: {{i: int64}}}}
  sums: {{topic: sums}}
operators:
  - name: sum
    aggregate: numbers
    window: sliding, {window}, count(1)
    output:
      sums: {{sum: Sum(i)}}
"""


class Numbers:
    """A window over the numbers from 0 on, and what is known of it."""

    def __init__(self, window: str, limits: EngineLimits = LIMITS) -> None:
        pipeline = load_text(PIPELINE.format(window=window), "numbers", environment=None)
        self.graph = Graph(limited(pipeline, limits), {"numbers": 1})
        self.state = self.graph.initial()
        self.came = 0

    def come(self, count: int, at: int = 0) -> list[int]:
        """The sums that come out of so many more."""
        batch = items(pa.record_batch({"i": np.arange(self.came, self.came + count)}), self.came, at)
        self.came += count
        return self.graph.feed(self.state, {"numbers": batch}, Clock(0, at))["sums"].tuples["sum"].to_pylist()

    @property
    def stored(self) -> list[int]:
        return [row["i"] for one in self.graph.inspect(self.state, None) for row in one.held]

    @property
    def tables(self) -> AggregateState:
        return self.state.operators[0]
