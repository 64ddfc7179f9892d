"""What `sluice check` says of null (NU31, NU32)."""

import pytest

from sluice.commands.check import summary
from sluice.config.load import load_text
from sluice.model.errors import PipelineError

FILE = """
pipeline: p
streams:
  trades: {{topic: trades, schema: {{price: float64?, size: int64}}}}
  sums: {{topic: sums, schema: {schema}}}
operators:
  - name: sums
    aggregate: trades
    window: tumbling, count(2)
    output:
      sums: {{value: {value}}}
"""


def load(schema, value="Sum(price * size)"):
    return load_text(FILE.format(schema=schema, value=value), "p.yaml", environment={})


def test_a_schema_without_a_question_mark_is_refused():
    with pytest.raises(PipelineError) as raised:
        load("{value: float64}")
    (problem,) = raised.value.problems
    assert str(problem) == (
        "p.yaml:5: streams.sums.schema.value: expected float64?, as sums writes it: null comes from price; "
        'Sum(price * float64(size))! or Sum(price * float64(size)) ?: y is a float64, got "float64"'
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("{value: float64?}", "Sum(price)"),
        ("{value: float64}", "Sum(price)!"),
        ("{value: float64}", "'Sum(price) ?: 0.0'"),
        ("{value: int64}", "Count(price)"),
        ("{value: int64?}", "Sum(size)"),
    ],
)
def test_a_schema_that_holds_the_value(schema, value):
    assert dict(load(schema, value).streams["sums"].schema).keys() == {"value"}


def test_a_schema_may_be_wider_than_the_value():
    assert str(dict(load("{value: int64?}", "Sum(size)").streams["sums"].schema)["value"]) == "int64?"


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("Sum(price * size)", ["    sums.value may be null: price may be"]),
        ("try(Sum(size) % 2) ?: Last(price)", ["    sums.value may be null: price may be"]),
        ("try(Sum(size) % 2)", ["    sums.value may be null: try(Sum(size) % 2) may be"]),
        ("Sum(size)", []),
        ("Sum(price)!", []),
    ],
)
def test_the_summary_says_where_null_comes_from(value, lines):
    text = FILE.format(schema="", value=f"'{value}'").replace(", schema: }", "}")
    assert [line for line in summary(load_text(text, "p.yaml", environment={})) if "null" in line] == lines
