"""Surprises and corners of the references (tests/spec/cases), each a small case with its rule, however it is cut.

The cases have the format of the conformance vectors. `surprises.json` has what users of
other systems expect otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.files import project_file
from sluice.model.engine_limits import EngineLimits
from sluice.testing import run_case
from tests.spec.comparing import differences
from tests.spec.conformance_vectors import Case, all_cases, random_cuts
from tests.spec.test_rule_ids import ids, rows

FOLDER = Path(__file__).parent / "cases"
CASES: list[Case] = [case for file in sorted(FOLDER.glob("*.json")) for case in json.loads(file.read_text())]
RANDOM_CUTS = 2
every_case = pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES])


@every_case
def test_in_one_batch(case: Case):
    assert differences(run_case(case), case["output"], case) == []


@every_case
def test_with_random_cuts(case: Case):
    for seed in range(RANDOM_CUTS):
        cuts = random_cuts(case, seed)
        assert differences(run_case(case, cuts), case["output"], case) == [], f"cuts {cuts}"


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in [*CASES, *all_cases()]])
def test_forgetting_after_every_event_changes_nothing(case: Case):
    at_once = case | {"limits": EngineLimits(uncompacted=0)}
    assert differences(run_case(at_once, [1] * len(case["input"])), case["output"], case) == []


def test_names_are_different_and_rules_have_functions():
    assert len({case["name"] for case in CASES}) == len(CASES)
    rules = {rule for row in rows() for rule in row.ids()}
    assert sorted({rule for case in CASES for rule in ids(case["rule"])} - rules) == []


def test_the_index_of_the_rules_says_where_they_are():
    assert "tests/spec/cases" in project_file("docs/reference/index.md").read_text()
