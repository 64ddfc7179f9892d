"""The oracle must itself give what the conformance vectors say, before it may judge the engine.

Windows over event time, joins and sorts have oracles of their own, with such a test beside their comparison.
"""

from __future__ import annotations

import pytest

from tests.spec import oracle
from tests.spec.comparing import differences
from tests.spec.conformance_vectors import Case, all_cases, supported

CASES = [
    c for c in all_cases()
    if supported(c) and c["operator"]["kind"] == "aggregate" and "event_time" not in c["operator"]
]  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES])
def test_oracle_gives_the_outputs_of_the_vector(case: Case):
    assert differences(oracle.run(case), case["output"], case) == []
