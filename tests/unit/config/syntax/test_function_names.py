"""What is said of the functions of other systems: an expression of this project, or the reason why there is none."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.function_names import rows
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.model.functions import FUNCTIONS
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, list_of, parse_type

SCOPE = Scope(
    "input",
    {
        **dict.fromkeys(("x", "y", "base", "latitude", "longitude", "latitude2", "longitude2"), FLOAT64),
        "i": INT64, **dict.fromkeys(("s", "s2"), STRING), **dict.fromkeys(("t", "t2"), TIMESTAMP),
        "xs": list_of(FLOAT64), "m": parse_type("map<string, int64>"),
    },
    "here",
)  # fmt: skip
ROWS = list(rows())
#: a call, or an expression around calls, in the text of a row
CALL = re.compile(r"[\w.]+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)(?:\[0\])?")


@pytest.mark.parametrize("row", ROWS, ids=[row.names[0] for row in ROWS])
def test_what_is_written_here_is_an_expression(row):
    """Each call in the text has a type; `=` means that the function has the same name."""
    if row.here == "=":
        assert {name.lower() for name in row.names} <= FUNCTIONS.keys()
    scope = replace(SCOPE, no_aggregates=None) if row.group == "Aggregation functions" else SCOPE
    for call in CALL.findall(row.here):
        assert parse(call, scope)
    assert row.here or row.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "SUBSTRING_INDEX(s, ',', 1)":
            'split(s, ",")[0], the part before the first separator, in place of SUBSTRING_INDEX',
        "TIMESTAMPDIFF(t, t2)": 'timeBetween(t, t2, "day"), or seconds with t2 - t, in place of TIMESTAMPDIFF',
        "GEO_DISTANCE(x, y, x, y)":
            "haversine(latitude, longitude, latitude2, longitude2) / 1000.0, in place of GEO_DISTANCE",
        "date_trunc('day', t)": 'startOf(t, "month"), in place of date_trunc',
        "UUID()": "an expression over the tuple alone: there is no function for the present time or for random numbers",
        "soundex(s)": "an expression without soundex: no comparison of texts by likeness",
    }.items(),
)  # fmt: skip
def test_the_name_of_another_system(text, expected):
    with pytest.raises(ExpressionError) as raised:
        parse(text, SCOPE)
    assert [fault.expected for fault in raised.value.faults] == [expected]


@pytest.mark.parametrize(
    ("text", "hint"),
    {"RADIANS(x)": "radians", "lpad(s, 3)": None, "startof(t, 'day')": "startOf", "NVL(x, 1)": "coalesce"}.items(),
)
def test_the_same_name_in_other_letters(text, hint):
    with pytest.raises(ExpressionError) as raised:
        parse(text, SCOPE)
    assert raised.value.faults[0].hint == hint
