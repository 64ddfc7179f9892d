"""A pipeline that is read from its definition is the pipeline that was defined."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load, load_text
from sluice.files import project_file
from sluice.model.changes.definition_reader import DefinitionError, pipeline_of
from sluice.model.engine_limits import LIMITS
from sluice.model.fingerprint import fingerprint, plain
from sluice.model.spec import Coding, Key, Pipeline, Stream
from sluice.testing import limited
from sluice.testing import pipeline_of as pipeline_of_case
from tests.spec import dedup_strategies, event_join_strategies, event_strategies, session_strategies
from tests.spec.join_strategies import join_cases, sort_cases
from tests.spec.strategies import Case, cases

EXAMPLES = sorted(project_file("examples").rglob("*.yaml"))


def defined(pipeline: Pipeline) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plain(pipeline)))
    return found


def without_ignored(pipeline: Pipeline) -> Pipeline:
    """Without what a definition does not have, and without the options of formats, which are not read."""
    streams = {name: of_stream(stream) for name, stream in pipeline.streams.items()}
    return replace(limited(pipeline, LIMITS), streams=streams)


def of_stream(stream: Stream) -> Stream:
    key = None if stream.key is None else Key(stream.key.attributes, Coding())
    return replace(stream, value=Coding(), key=key, partitions=1, marks_in_given=False)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples(file, monkeypatch):
    monkeypatch.syspath_prepend(str(file.parent))
    pipeline = load(file, environment=None)
    assert without_ignored(pipeline_of(defined(pipeline), pipeline.settings)) == without_ignored(pipeline)


@given(
    st.one_of(
        cases(), sort_cases(), join_cases(), event_strategies.cases, event_strategies.sort_cases,
        event_join_strategies.cases, dedup_strategies.cases, session_strategies.cases,
    )
)  # fmt: skip
@settings(max_examples=200, derandomize=True, deadline=None)
def test_any_operator(case: Case):
    pipeline = pipeline_of_case(case)
    assert without_ignored(pipeline_of(defined(pipeline), pipeline.settings)) == without_ignored(pipeline)


FLOATS = """
pipeline: p
dead_letters: dead
streams:
  left: {topic: left, schema: {k: string, x: float64, v: list<float64>}, defaults: {x: 1.0, v: [0.5, 2.0]}}
  right: {topic: right, schema: {k: string, y: float64, s: string}}
  out: {topic: out}
  dead: {topic: dead}
operators:
  - name: match
    join: {left: left, right: right}
    window_left: "sliding, delta(x, 1.5)"
    window_right: "sliding, count(3)"
    equality_left: [k]
    equality_right: [k]
    match: x > 1.0 and s != "1.0"
    algorithm: leftOuter
    default_right: {k: "", y: 1.0, s: "1.0"}
    output: {out: {k: left.k, x: x, s: s}}
"""


def test_texts_and_floats_stay_apart():
    """JSON has a text for a float: 1.0 and "1.0" look alike there."""
    pipeline = load_text(FLOATS, "p.yaml")
    found = pipeline_of(defined(pipeline), pipeline.settings)
    assert without_ignored(found) == without_ignored(pipeline)
    assert repr(found.operators) == repr(pipeline.operators)


def test_settings_on_which_nothing_depends_come_from_the_new_file():
    old = load_text(FLOATS + "clock: records\ntrigger_interval: 3\n", "p.yaml")
    new = load_text(FLOATS + "trigger_interval: 5\n", "p.yaml")
    found = pipeline_of(defined(old), new.settings)
    assert found.settings == replace(new.settings, clock="records")
    assert fingerprint(found) == fingerprint(old)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda of: of | {"later": 1}, "cannot be read by this version"),
        (lambda of: {name: one for name, one in of.items() if name != "operators"}, "cannot be read by this version"),
        (lambda of: of | {"operators": [{"is": "Later", "name": "x"}]}, "cannot be read by this version"),
        (lambda of: of | {"settings": of["settings"] | {"later": 1}}, "cannot be read by this version"),
        (lambda of: of | {"dead_letters": None}, "has parts that this version does not know"),
    ],
)
def test_a_definition_of_another_version_is_refused(change, message):
    pipeline = load_text(FLOATS, "p.yaml")
    with pytest.raises(DefinitionError, match=message):
        pipeline_of(change(defined(pipeline)), pipeline.settings)
