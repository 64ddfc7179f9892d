"""`make fuzz MINUTES=n`: compares the engine with the oracle on new random cases until the time is up.

A difference is printed as the smallest case that shows it, and belongs into tests/engine/finds.py.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

from service.engine import aggregate, clean, join, program, results
from tests.engine import event_strategies
from tests.engine import test_event_time as event_time
from tests.engine import test_joins_against_oracle as joins
from tests.engine.oracle_join import run_join, run_sort
from tests.engine.strategies import Case, cases, cuts
from tests.engine.strategies_join import join_cases, sort_cases
from tests.engine.test_against_oracle import check

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
    clean.SMALL, join.ENTRIES, aggregate.MOST_EVENTS = 2, 4, 8
    program.BLOCK = 2
    results.MOST_LISTED = 4
    until = time.monotonic() + 60 * minutes
    ran = 0
    while time.monotonic() < until:
        program.LEAST = random.choice((1, 8))  # windows of a few tuples in blocks, or in rings
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
