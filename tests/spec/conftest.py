from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _distinct_cases(distinct_cases: None) -> None:
    """The strategies of this folder have few values of everything, so things meet without repeated parts."""
