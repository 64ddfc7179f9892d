"""Every conformance vector, and random operators, through a real broker and the real Spark job.

The whole of it takes minutes (`make conformance`); a sample of the vectors is part of every run of the tests.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from itertools import count, islice
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests.service.many_operators import Case, Playing, in_handling_order, spreads, with_scope
from tests.spec import (
    event_strategies,
    join_strategies,
    strategies,
    test_empty_panes_against_oracle,
    test_key_sessions_against_oracle,
    test_key_times_against_oracle,
    test_recent_duplicates_against_oracle,
)
from tests.spec.conformance_vectors import all_cases

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SEED = int(os.environ.get("SLUICE_SEED", "1"))
PER_QUERY = 40
RANDOM = 200
SAMPLE = 8


def chunks(cases: Sequence[Case]) -> list[Any]:
    parts = [list(cases[start : start + PER_QUERY]) for start in range(0, len(cases), PER_QUERY)]
    return [pytest.param(part, id=f"{number * PER_QUERY}-") for number, part in enumerate(parts)]


def drawn(strategy: st.SearchStrategy[Case], number: int) -> Case:
    """A random case, the same one for a number. The first that Hypothesis draws is no random one."""
    found: list[Case] = []

    @seed(number)
    @settings(max_examples=3, database=None, phases=[Phase.generate])
    @given(strategy)
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return with_scope(in_handling_order(found[-1]))


@cache
def randoms(*, spreading: bool = False) -> list[Case]:
    cases = (drawn(ANY, RANDOM * SEED + place) for place in count())
    return list(islice((case for case in cases if case["input"] and (spreads(case) or not spreading)), RANDOM))


#: empty panes, times of keys, sessions of keys, and dedups by count and delta
RECENT = st.one_of(
    test_empty_panes_against_oracle.cases(),
    test_key_times_against_oracle.cases(),
    test_key_sessions_against_oracle.cases(),
    test_recent_duplicates_against_oracle.cases(),
)
ANY = st.one_of(strategies.cases(), event_strategies.cases, join_strategies.join_cases(), join_strategies.sort_cases())
VECTORS = all_cases()
SPREADING = [case for case in VECTORS if spreads(case)]


def test_a_sample(service):
    """Vectors of every kind, since neighbours are alike."""
    playing = Playing(service, VECTORS[:: len(VECTORS) // SAMPLE])
    playing.play()
    assert playing.wrong() == []


def test_a_sample_in_several_buckets_and_runs(service):
    playing = Playing(service, SPREADING[:: len(SPREADING) // SAMPLE], buckets=3)
    playing.play(rounds=2)
    assert playing.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("cases", chunks(VECTORS))
def test_vectors(service, cases):
    playing = Playing(service, cases)
    playing.play()
    assert playing.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("cases", chunks(SPREADING))
def test_vectors_in_several_buckets_and_runs(service, cases):
    playing = Playing(service, cases, buckets=3)
    playing.play(rounds=3)
    assert playing.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1, 3])
def test_recent_kinds(service, buckets: int):
    drawn_cases = (drawn(RECENT, RANDOM * SEED + place) for place in count())
    fitting = (case for case in drawn_cases if case["input"] and (spreads(case) or buckets == 1))
    cases = list(islice(fitting, PER_QUERY))
    playing = Playing(service, cases, buckets=buckets, merge="timestamp", max_records_per_batch=200)
    playing.play()
    assert playing.wrong() == []


def chunk(cases: list[Case], number: int) -> list[Case]:
    return cases[number * PER_QUERY : (number + 1) * PER_QUERY]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RANDOM // PER_QUERY))
def test_random_operators(service, number):
    """In one batch and one bucket."""
    playing = Playing(service, chunk(randoms(), number))
    playing.play()
    assert playing.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RANDOM // PER_QUERY))
def test_random_operators_whose_records_wait_for_each_other(service, number):
    """In small batches, and several runs."""
    playing = Playing(service, chunk(randoms(), number), merge="timestamp", max_records_per_batch=200)
    playing.play(rounds=2)
    assert playing.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RANDOM // PER_QUERY))
def test_random_operators_in_several_buckets(service, number):
    cases = chunk(randoms(spreading=True), number)
    playing = Playing(service, cases, buckets=3, merge="timestamp", max_records_per_batch=200)
    playing.play()
    assert playing.wrong() == []
