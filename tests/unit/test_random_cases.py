"""`make test-random` draws other cases, and as many as it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
from hypothesis import given, settings, strategies as st

@pytest.mark.parametrize("name", "ab")
@given(number=st.integers())
@settings(max_examples=20, derandomize=True)
def test_random(name, number):
    with open("numbers", "a") as file:
        print(name, number, file=file)

def test_of_one_case():
    raise AssertionError
"""


def drawn(folder: Path, seed: str) -> list[str]:
    """The numbers that the random test was called with."""
    (folder / "numbers").unlink(missing_ok=True)
    (folder / "test_it.py").write_text(TESTS)
    environment = os.environ | {"SLUICE_TEST_CASES": "3", "SLUICE_SEED": seed, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.random_cases", "-p", "no:cacheprovider", "test_it.py"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return (folder / "numbers").read_text().splitlines()


def test_three_times_the_cases_of_a_seed(tmp_path: Path):
    first, other = (drawn(tmp_path, seed) for seed in ("1", "2"))
    assert len(first) == len(other) == 2 * 60
    assert first != other
