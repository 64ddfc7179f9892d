"""A class in Python may state a version: the state of an operator does not go on with another one (FN12)."""

from __future__ import annotations

import pytest

from sluice.model.changes.operator_changes import changes_of
from sluice.model.fingerprint import fingerprint
from sluice.model.spec import Pipeline
from sluice.testing import pipeline_of, run_case
from tests.spec import custom_classes, handler_classes

EVENTS = [{"at": float(n), "tuple": {"i": n, "f": float(n)}} for n in range(4)]
SCHEMA = {"i": "int64", "f": "float64"}
FUNCTION = {"window": "tumbling, count(2)", "schema": SCHEMA,
            "output": {"r": f'Custom("{custom_classes.__name__}:Range", f)'}}  # fmt: skip
HANDLER = {"kind": "custom", "window": "tumbling, count(2)", "schema": SCHEMA,
           "handler": f"{handler_classes.__name__}:Contents"}  # fmt: skip
CASES = [(FUNCTION, custom_classes.Range), (HANDLER, handler_classes.Contents)]


def of(operator: dict[str, object]) -> Pipeline:
    return pipeline_of({"operator": operator, "input": EVENTS})


@pytest.mark.parametrize(("operator", "named"), CASES)
def test_another_version_begins_with_an_empty_state(
    operator: dict[str, object], named: type, monkeypatch: pytest.MonkeyPatch
):
    before = of(operator)
    assert [one.word for one in changes_of(before, of(operator)).all] == ["kept"]
    monkeypatch.setattr(named, "version", "2", raising=False)
    (change,) = changes_of(before, of(operator)).all
    assert (change.word, "#2" in change.reason) == ("emptied", True)
    assert fingerprint(before) != fingerprint(of(operator))
    assert run_case({"operator": operator, "input": EVENTS})
