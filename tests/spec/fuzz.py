"""`make fuzz MINUTES=n SLUICE_SEED=7`: compares the engine with the oracle on new random cases until the time is up.

A difference is printed as the smallest case that shows it, and belongs into tests/spec/kept_finds.py. The same seed
draws the same cases again; without one a new seed is chosen, and printed.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.internal.conjecture.engine import ConjectureRunner
from hypothesis.strategies import SearchStrategy

from sluice.model.engine_limits import EngineLimits
from tests.spec import (
    dedup_strategies,
    early_strategies,
    event_join_strategies,
    event_strategies,
    quiet_strategies,
    session_strategies,
)
from tests.spec import test_barriers_against_oracle as barriers
from tests.spec import test_calendar_panes_against_oracle as calendar_panes
from tests.spec import test_dedups_against_oracle as dedups
from tests.spec import test_delays_against_oracle as delays
from tests.spec import test_early_against_oracle as early
from tests.spec import test_empty_panes_against_oracle as empty_panes
from tests.spec import test_event_joins_against_oracle as event_joins
from tests.spec import test_joins_against_oracle as joins
from tests.spec import test_key_sessions_against_oracle as key_sessions
from tests.spec import test_key_times_against_oracle as key_times
from tests.spec import test_marks_by_key as marks_by_key
from tests.spec import test_previous_against_oracle as previous
from tests.spec import test_quiet_against_oracle as quiet
from tests.spec import test_ranks_against_oracle as ranks
from tests.spec import test_recent_duplicates_against_oracle as recent_duplicates
from tests.spec import test_rest_at_the_end as rest
from tests.spec import test_row_windows_against_oracle as row_windows
from tests.spec import test_sessions_against_oracle as sessions
from tests.spec import test_since_first_against_oracle as since_first
from tests.spec.every_cut import check_expected
from tests.spec.join_oracle import run_join, run_sort
from tests.spec.join_strategies import join_cases, sort_cases
from tests.spec.null_strategies import with_nulls
from tests.spec.row_windows_strategies import cases as row_windows_cases
from tests.spec.strategies import Case, cases, cuts
from tests.spec.table_oracle import run as run_table
from tests.spec.table_strategies import cases as table_cases
from tests.spec.test_against_oracle import check
from tests.unit.engine.operators import test_split as splits
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
#: whose oracles have no null
WITHOUT_NULL: list[tuple[SearchStrategy[Any], Callable[..., None]]] = [
    (early_strategies.cases, early.check),
    (quiet_strategies.cases, quiet.check),
    (empty_panes.cases(), empty_panes.compared),
    (calendar_panes.cases(), partial(check_expected, calendar_panes.expected)),
    (key_times.cases(), partial(check_expected, key_times.expected)),
    (key_sessions.cases(), partial(check_expected, key_sessions.expected)),
    (recent_duplicates.cases(), partial(check_expected, recent_duplicates.expected)),
    (since_first.cases(), partial(check_expected, since_first.expected)),
    (rest.cases(), partial(check_expected, rest.expected)),
    (marks_by_key.cases(), partial(check_expected, marks_by_key.expected)),
    (previous.cases(), partial(check_expected, previous.oracle)),
    (ranks.cases(), partial(check_expected, ranks.oracle)),
    (row_windows_cases(), row_windows.check),
    (barriers.cases(), barriers.compared),
    (delays.cases(), partial(delays.compared, "", delays.in_one_line)),
    (delays.cases(), partial(delays.compared, ", partition_by: [k]", delays.in_a_line_of_each_key)),
    (splits.cases(), splits.compared),
]
#: each as it is, and with optional attributes
KINDS = [*WITHOUT_NULL, *OPERATORS, *((with_nulls(operators), compared) for operators, compared in OPERATORS)]


def fuzz(minutes: float, number: int) -> int:
    """The number of cases that ran; those of the seed `number`."""
    until, rounds = time.monotonic() + 60 * minutes, random.Random(number)
    ran = 0
    while time.monotonic() < until:
        # windows of a few tuples are in blocks, or in rings
        limits = EngineLimits(2, rounds.choice((1, 8)), block=2, events=8, steps=3, listed=4, candidates=4)
        ran += one_round(rounds.getrandbits(32), limits)
        print(f"{ran} cases", flush=True)  # noqa: T201
    return ran


def one_round(number: int, limits: EngineLimits) -> int:
    return sum(compare(number, limits, *kind) for kind in KINDS)


def compare(number: int, limits: EngineLimits, strategy: SearchStrategy[Any], compared: Callable[..., None]) -> int:
    ran = 0

    @seed(number)
    @given(strategy, cuts)
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def of(case: Any, batches: list[int]) -> None:
        nonlocal ran
        ran += 1
        events = case["input"] if isinstance(case, dict) else case[-1]
        compared(case, [1] * len(events), batches, limits=limits)

    of()
    return ran


def main(minutes: str, number: str = "") -> None:
    chosen = int(number) if number else random.getrandbits(32)
    print(f"SLUICE_SEED={chosen}", flush=True)  # noqa: T201
    # as the fixture `_distinct_cases` does: each case is drawn anew
    ConjectureRunner.generate_mutations_from = lambda *_: None  # type: ignore[method-assign]
    fuzz(float(minutes), chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
