"""Whether an operator gives what its oracle says, however the events are cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sluice.model.engine_limits import EngineLimits
from sluice.replayer.player import replay
from sluice.testing import pipeline_of, run_case
from tests.spec.comparing import Record, differences, with_groups_in_any_order
from tests.spec.strategies import Case

#: what no window holds any more is forgotten at once, not only among thousands of keys, so row numbers change
CLEANED_EARLY = EngineLimits(uncompacted=2)


def check_every_cut(case: Case, expected: list[Record], *cuts: list[int]) -> None:
    """The order of groups is open in SPL (A8) and so in the oracle; but it must not depend on the cuts."""
    whole = run_case(case)
    found = differences(whole, expected, with_groups_in_any_order(case))
    assert found == [], f"{found} in one batch"
    for sizes in cuts:
        found = differences(run_case(case, sizes), whole, case)
        assert found == [], f"{found}, cuts {sizes}"


def check_expected(
    oracle: Callable[[Case], Iterable[Record]], case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY
) -> None:
    """Whether an operator gives exactly what a calculation says, in one batch and with each of these cuts."""
    case = case | {"limits": limits}
    wanted = list(oracle(case))
    for sizes in (None, *cuts):
        assert differences(run_case(case, sizes), wanted, case) == [], f"cuts {sizes}"


def dead_letters(case: Case) -> list[int]:
    """The numbers of the events whose tuples became dead letters, in the order of the dead letters."""
    records = replay(pipeline_of(case), case["input"], clock_origin=0)
    return [record["after"] for record in records if "dead_letter" in record]
