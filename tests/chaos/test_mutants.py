"""The planted bugs: each patch fits the code of today, and names faults that exist."""

from __future__ import annotations

import subprocess

import pytest

from sluice.files import project_file
from tests.chaos.faults import FAULTS
from tests.chaos.mutants import BEGIN, END, PAGE, Mutant, mutants, simulated, verdict, with_rows
from tests.chaos.simulation.schedule import KINDS

MUTANTS = mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_patch_fits_the_code(mutant: Mutant):
    command = [
        "git",
        "apply",
        "-C1",
        "--check",
        "--unsafe-paths",
        f"--directory={project_file('.')}",
        str(mutant.patch),
    ]
    checked = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert not checked.returncode, checked.stderr


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_says_what_is_wrong_and_names_faults_and_schedules(mutant: Mutant):
    assert mutant.what.endswith(".")
    assert set(mutant.faults) <= set(FAULTS)
    assert set(mutant.schedules) <= set(KINDS)


def test_a_campaign_that_found_nothing_has_not_found_the_bug():
    assert verdict("    0.5 s  kill state   state killed\n**Nothing was lost.**") == ("", "nothing in 1 faults")
    found = verdict("    0.5 s  kill state   state killed\n**VIOLATIONS:**\nsums: lost\n")
    assert found == ("1 faults", "sums: lost")


def test_the_simulation_says_after_how_many_schedules_it_found_a_bug():
    failed = (
        "seed 9: kind one, buckets 2; kill state\n  sums a: 3 outputs, 4 expected\n3 schedules in 1 s (180 a minute)"
    )
    assert simulated(done(1, failed), first=7) == ("3", "sums a: 3 outputs, 4 expected")
    passed = "2,000 schedules in 90 s (1,333 a minute), 1,900,000 operations"
    assert simulated(done(0, passed), first=7) == ("", "nothing in 2,000 schedules")
    assert simulated(done(2, ""), first=7) == ("", "failed: no such module")


def done(code: int, output: str) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, output, "no such module")


def test_the_list_of_the_page_keeps_the_rows_of_bugs_that_were_not_run():
    empty = f"above\n{BEGIN}{END}\nbelow\n"
    one = with_rows(empty, {"no-skip": "2"})
    two = with_rows(one, {"half-a-batch": ""})
    assert two.splitlines()[2:4] == ["* `half-a-batch`: not found", "* `no-skip`: 2"]
    assert two.startswith("above\n")
    assert two.endswith(f"{END}\nbelow\n")


def test_the_page_has_a_row_for_each_bug():
    page = project_file(PAGE).read_text()
    for mutant in MUTANTS:
        row = next((line for line in page.splitlines() if line.startswith(f"* `{mutant.name}`:")), "")
        assert row, f"make mutants ARGS='--write {mutant.name}'"
        assert "not found" not in row
