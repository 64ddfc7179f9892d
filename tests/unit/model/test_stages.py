"""A pipeline cut at its exchange topics."""

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.model.stages import stages

FILE = """
pipeline: p
streams:
  a: {{topic: a, schema: {{k: string, n: int64}}}}
  b: {{topic: b, exchange: {first}}}
  c: {{topic: c, exchange: {second}}}
  d: {{topic: d}}
operators:
  - {{name: one, map: a, output: [b]}}
  - {{name: two, map: b, output: [c]}}
  - {{name: three, map: c, output: [d]}}
"""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("false", "false", {"p": ["one", "two", "three"]}),
        ("true", "false", {"p": ["one"], "p.two": ["two", "three"]}),
        ("false", "true", {"p": ["one", "two"], "p.three": ["three"]}),
        ("true", "true", {"p": ["one"], "p.two": ["two"], "p.three": ["three"]}),
    ],
)
def test_what_is_linked_inside_the_service_is_one_stage(first: str, second: str, expected: dict[str, list[str]]):
    found = stages(load_text(FILE.format(first=first, second=second), "p.yaml"))
    assert {stage.name: [operator.name for operator in stage.operators] for stage in found} == expected


def test_an_exchange_is_written_by_one_stage_and_read_by_the_next():
    one, two = stages(load_text(FILE.format(first="true", second="false"), "p.yaml"))
    assert [stream.name for stream in one.outputs] == [stream.name for stream in two.inputs] == ["b"]


BACK = """
pipeline: p
streams:
  a: {topic: a, schema: {k: string, n: int64}}
  large: {topic: large, exchange: true}
  small: {}
  pairs: {topic: pairs}
operators:
  - {name: one, map: a, output: [large, small]}
  - name: two
    join: {left: large, right: small}
    window_left: sliding, count(1)
    window_right: sliding, count(1)
    output: {pairs: {k: left.k}}
"""


def test_no_way_leads_back_into_the_stage_that_writes_an_exchange():
    with pytest.raises(PipelineError, match=r"no cycle between stages \(p.one -> p.one\)"):
        load_text(BACK, "p.yaml")
