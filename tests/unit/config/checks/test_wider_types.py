"""A value of T is a value of T?, wherever a stream, a class or a schema takes values (NU33)."""

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.model.types import parse_type, takes, united
from sluice.testing import run_case

INNER = "tuple<id: int64, names: list<string>, tags: map<string, int64>>"
WIDER = "tuple<id: int64?, names: list<string?>?, tags: map<string, int64?>>"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int64", "int64", "int64"),
        ("int64", "int64?", "int64?"),
        ("int64?", "int64", "int64?"),
        ("list<int64>", "list<int64?>", "list<int64?>"),
        ("list<int64?>", "list<int64>?", "list<int64?>?"),
        (INNER, WIDER, WIDER),
        ("tuple<a: int64?, b: int64>", "tuple<a: int64, b: int64?>", "tuple<a: int64?, b: int64?>"),
    ],
)
def test_the_type_of_both(one, other, both):
    assert str(united(parse_type(one), parse_type(other))) == both
    assert takes(parse_type(both), parse_type(one))
    assert takes(parse_type(both), parse_type(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int64", "float64"), ("int64", "decimal(2)"), ("list<int64>", "list<string?>"), ("list<int64>", "int64"),
        ("tuple<a: int64>", "tuple<b: int64>"), ("tuple<a: int64>", "tuple<a: int64, b: int64?>"),
        ("map<string, int64>", "map<int64, int64>"), ("decimal(2)", "decimal(3)"),
    ],
)  # fmt: skip
def test_types_that_differ_otherwise(one, other):
    assert united(parse_type(one), parse_type(other)) is None
    assert not takes(parse_type(one), parse_type(other))


def test_a_type_without_a_question_mark_takes_no_null():
    assert not takes(parse_type("int64"), parse_type("int64?"))
    assert not takes(parse_type(INNER), parse_type(WIDER))


def test_streams_of_a_union_may_differ_in_their_question_marks():
    text = f"""
pipeline: p
streams:
  a: {{topic: a, schema: {{x: int64, z: "{INNER}"}}}}
  b: {{topic: b, schema: {{x: "int64?", z: "{WIDER}"}}}}
  out: {{topic: out}}
operators:
  - {{name: o, aggregate: [a, b], window: "tumbling, count(4)", output: {{out: {{sum: Sum(x), z: Collect(z)}}}}}}
"""
    schema = dict(load_text(text, "p.yaml", environment={}).streams["out"].schema)
    assert {name: str(kind) for name, kind in schema.items()} == {"sum": "int64?", "z": f"list<{WIDER}>"}


def test_streams_of_a_union_with_other_types_are_refused():
    text = """
pipeline: p
streams:
  a: {topic: a, schema: {x: int64}}
  b: {topic: b, schema: {x: "float64?"}}
  out: {topic: out}
operators:
  - {name: o, aggregate: [a, b], window: "tumbling, count(4)", output: {out: {sum: Sum(x)}}}
"""
    with pytest.raises(PipelineError, match="which has the int64 x; b has the float64\\? x"):
        load_text(text, "p.yaml", environment={})


@pytest.mark.parametrize("cuts", [None, [1, 1, 1, 1], [2, 2]])
def test_a_handler_that_reads_null_gets_a_stream_without(cuts):
    case = {
        "operator": {
            "kind": "custom", "window": "tumbling, count(2)", "schema": {"x": "int64", "z": "list<int64>"},
            "handler": "tests.spec.handler_classes:Present",
        },
        "input": [{"at": n, "tuple": {"x": n, "z": [n, n + 1]}} for n in range(4)],
    }  # fmt: skip
    tuples = [record["tuple"] for record in run_case(case, cuts) if "tuple" in record]
    assert tuples == [{"xs": [0, 1], "sum": 4}, {"xs": [2, 3], "sum": 12}]
