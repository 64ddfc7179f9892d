"""Sizes of windows from the environment."""

from __future__ import annotations

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.model.spec import Aggregate, Dedup

FILE = """
pipeline: p
streams: {a: {topic: a, schema: {x: int64}}, b: {topic: b}, c: {topic: c}}
operators:
  - {name: n, aggregate: a, window: "tumbling, count(${SIZE}) or time(${AGE}) since first", output: {b: {n: Count()}}}
  - {name: d, dedup: a, by: [x], within: "time(${AGE})", output: [c]}
"""


def test_a_variable_is_a_size():
    pipeline = load_text(FILE, "p.yaml", environment={"SIZE": "500", "AGE": "30s"})
    batch, dedup = pipeline.operators
    assert isinstance(batch, Aggregate)
    assert isinstance(dedup, Dedup)
    assert batch.window.clause() == "tumbling, count(500) or time(30.0) since first"
    assert dedup.within == 30 * 10**9


def test_a_variable_that_is_missing():
    with pytest.raises(PipelineError) as raised:
        load_text(FILE, "p.yaml", environment={"AGE": "30s"})
    wanted = 'p.yaml:5: operators[0].window: expected the environment variable SIZE, got "${SIZE}"'
    assert [str(problem) for problem in raised.value.problems] == [wanted]


def test_a_value_that_is_no_size_is_shown():
    with pytest.raises(PipelineError) as raised:
        load_text(FILE, "p.yaml", environment={"SIZE": "many", "AGE": "30s"})
    assert 'got "count(many)"' in str(raised.value.problems[0])
