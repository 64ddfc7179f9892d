"""`make fuzz MINUTES=n`: compares the engine with the oracle on new random cases until the time is up.

A difference is printed as the smallest case that shows it, and belongs into tests/engine/finds.py.
"""

from __future__ import annotations

import random
import sys
import time

from hypothesis import HealthCheck, given, seed, settings

from service.engine import clean
from tests.engine.strategies import Case, cases, cuts
from tests.engine.test_against_oracle import check

ROUND = 500


def fuzz(minutes: float) -> int:
    """The number of cases that ran."""
    clean.SMALL = 2
    until = time.monotonic() + 60 * minutes
    ran = 0
    while time.monotonic() < until:
        ran += one_round(random.getrandbits(32))
        print(f"{ran} cases", flush=True)  # noqa: T201
    return ran


def one_round(number: int) -> int:
    ran = 0

    @seed(number)
    @given(cases(), cuts)
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def compare(case: Case, batches: list[int]) -> None:
        nonlocal ran
        ran += 1
        check(case, [1] * len(case["input"]), batches)

    compare()
    return ran


if __name__ == "__main__":
    fuzz(float(sys.argv[1]))
