"""`make fuzz MINUTES=n`: compares the engine with the oracle on new random cases until the time is up.

A difference is printed as the smallest case that shows it, and belongs into tests/spec/finds.py.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

from sluice.engine.contents import firing_results
from sluice.engine.operators import compaction
from sluice.engine.operators.aggregate import aggregate_operator, aggregate_program
from sluice.engine.operators.join import join_operator
from tests.spec import event_strategies
from tests.spec import test_joins_against_oracle as joins
from tests.spec.join_oracle import run_join, run_sort
from tests.spec.join_strategies import join_cases, sort_cases
from tests.spec.strategies import Case, cases, cuts
from tests.spec.test_against_oracle import check
from tests.unit.engine.operators.aggregate import test_event_time_aggregate as event_time

ROUND = 200
#: random cases, and what compares one of them, given cuts
KINDS = [
    (cases(), check),
    (join_cases(), partial(joins.check, oracle=run_join)),
    (sort_cases(), partial(joins.check, oracle=run_sort)),
    (event_strategies.cases, event_time.check),
    (event_strategies.sort_cases, event_time.check),
]


def fuzz(minutes: float) -> int:
    """The number of cases that ran."""
    compaction.SMALL, join_operator.ENTRIES, aggregate_operator.MOST_EVENTS = 2, 4, 8
    aggregate_program.BLOCK = 2
    firing_results.MOST_LISTED = 4
    until = time.monotonic() + 60 * minutes
    ran = 0
    while time.monotonic() < until:
        aggregate_program.MIN_BLOCK = random.choice((1, 8))  # windows of a few tuples in blocks, or in rings
        ran += one_round(random.getrandbits(32))
        print(f"{ran} cases", flush=True)  # noqa: T201
    return ran


def one_round(number: int) -> int:
    return sum(compare(number, *kind) for kind in KINDS)


def compare(number: int, strategy: SearchStrategy[Case], compared: Callable[..., None]) -> int:
    ran = 0

    @seed(number)
    @given(strategy, cuts)
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def of(case: Case, batches: list[int]) -> None:
        nonlocal ran
        ran += 1
        compared(case, [1] * len(case["input"]), batches)

    of()
    return ran


if __name__ == "__main__":
    fuzz(float(sys.argv[1]))
