"""The oracle must itself give what the conformance vectors say, before it may judge the engine."""

from __future__ import annotations

import pytest

from tests.engine import oracle
from tests.engine.comparing import differences
from tests.engine.vectors import Case, all_cases, supported


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in all_cases() if supported(c)])
def test_oracle_gives_the_outputs_of_the_vector(case: Case):
    assert differences(oracle.run(case), case["output"], case) == []
