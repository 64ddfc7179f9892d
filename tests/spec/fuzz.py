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

from sluice.model.engine_limits import EngineLimits
from tests.spec import dedup_strategies, event_join_strategies, event_strategies, session_strategies
from tests.spec import test_dedups_against_oracle as dedups
from tests.spec import test_event_joins_against_oracle as event_joins
from tests.spec import test_joins_against_oracle as joins
from tests.spec import test_sessions_against_oracle as sessions
from tests.spec.join_oracle import run_join, run_sort
from tests.spec.join_strategies import join_cases, sort_cases
from tests.spec.null_strategies import with_nulls
from tests.spec.strategies import Case, cases, cuts
from tests.spec.table_oracle import run as run_table
from tests.spec.table_strategies import cases as table_cases
from tests.spec.test_against_oracle import check
from tests.unit.engine.operators.aggregate import test_event_time_aggregate as event_time

ROUND = 50
#: random cases, and what compares one of them, given cuts
OPERATORS: list[tuple[SearchStrategy[Case], Callable[..., None]]] = [
    (cases(), check),
    (join_cases(), partial(joins.check, oracle=run_join)),
    (sort_cases(), partial(joins.check, oracle=run_sort)),
    (event_strategies.cases, event_time.check),
    (event_strategies.sort_cases, event_time.check),
    (dedup_strategies.cases, dedups.check),
    (session_strategies.cases, sessions.check),
    (event_join_strategies.cases, event_joins.check),
    (table_cases(), partial(joins.check, oracle=run_table)),
]
#: each as it is, and with optional attributes
KINDS = [*OPERATORS, *((with_nulls(operators), compared) for operators, compared in OPERATORS)]


def fuzz(minutes: float) -> int:
    """The number of cases that ran."""
    until = time.monotonic() + 60 * minutes
    ran = 0
    while time.monotonic() < until:
        # windows of a few tuples are in blocks, or in rings
        limits = EngineLimits(2, random.choice((1, 8)), block=2, events=8, steps=3, listed=4, candidates=4)
        ran += one_round(random.getrandbits(32), limits)
        print(f"{ran} cases", flush=True)  # noqa: T201
    return ran


def one_round(number: int, limits: EngineLimits) -> int:
    return sum(compare(number, limits, *kind) for kind in KINDS)


def compare(number: int, limits: EngineLimits, strategy: SearchStrategy[Case], compared: Callable[..., None]) -> int:
    ran = 0

    @seed(number)
    @given(strategy, cuts)
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def of(case: Case, batches: list[int]) -> None:
        nonlocal ran
        ran += 1
        compared(case, [1] * len(case["input"]), batches, limits=limits)

    of()
    return ran


if __name__ == "__main__":
    fuzz(float(sys.argv[1]))
