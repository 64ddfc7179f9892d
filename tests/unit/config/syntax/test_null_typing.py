"""The checker follows null through expressions (NU7 to NU17, NU31)."""

import pytest

from sluice.api.custom import function
from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.model.functions import match
from sluice.model.types import BOOLEAN, FLOAT64, INT64, parse_type
from sluice.model.unparse import expression as written

SCOPE = Scope("input", {
    "a": INT64, "b": parse_type("int64?"), "f": FLOAT64, "g": parse_type("float64?"), "s": parse_type("string?"),
    "p": BOOLEAN, "q": parse_type("boolean?"), "xs": parse_type("list<int64>?"),
})  # fmt: skip
TYPED = {
    "a + 1": "int64",
    "a + b": "int64?",
    "b + f": "float64?",
    "b < 1": "boolean?",
    "p and q": "boolean?",
    "s + 'x'": "string?",
    "string(b)": "string?",
    "xs[0]": "int64?",
    "size(xs)": "int64?",
    "q ? a : 1": "int64",
    "p ? b : 1": "int64?",
    "p ? null : a": "int64?",
    "p ? 1.5 : b": "float64?",
    "isPresent(b)": "boolean",
    "hasValue(b)": "boolean",
    "b ?: a": "int64",
    "a ?: b": "int64?",
    "b ?: g ?: 0": "float64",
    "coalesce(b, g, f)": "float64",
    "coalesce(b, null)": "int64?",
    "b!": "int64",
    "b! + a": "int64",
    "try(a % 2)": "int64?",
    "orElse(a % 2, 0)": "int64",
    "orElse(b, 0)": "int64?",
    "orElse(a, b)": "int64?",
    "orElse(int64(s!), null)": "int64?",
}
AGGREGATED = {
    "Sum(b)": "int64?", "Sum(a)": "int64", "Average(g)": "float64?", "Median(b)": "float64?", "Max(s)": "string?",
    "Count()": "int64", "Count(b)": "int64", "Count(a)": "int64", "CountDistinct(b)": "int64", "MaxCount(b)": "int64?",
    "Collect(b)": "list<int64>", "CollectDistinct(s, 2)": "list<string>", "CountByDistinct(s)": "list<int64>",
    "MaxN(b, 2)": "list<int64>", "CollectMaxN(b, g, 2)": "list<int64>", "CollectArgMin(b, g)": "list<float64>",
    "First(b)": "int64?", "First(b, 2)": "list<int64>", "Last(b)": "int64?", "Any(b)": "int64?",
    "FirstPresent(b)": "int64?", "LastPresent(a)": "int64", "ArgMax(b, a)": "int64?", "ArgMax(a, b)": "int64?",
    "Sum(b) / Count(b)": "float64?", "Sum(b) ?: 0": "int64", "Percentile(b, 0.5)": "float64?",
    "Sum(b ?: 0)": "int64", "b": "int64?",
}  # fmt: skip
UNDERSTOOD = {
    "b ?: 0 > 1": "(b ?: 0) > 1",
    "b + 1 ?: 0": "(b + 1) ?: 0",
    "-b!": "-b!",
    "!q!": "not q!",
    "b != a": "b != a",
    "b! != a": "b! != a",
    "p?b:a": "p ? b : a",
}
REFUSED = {
    "b == null": ("not isPresent(b), as a comparison with null is null (rule NU16)", "not isPresent(b)"),
    "null != b": ("isPresent(b), as a comparison with null is null (rule NU16)", "isPresent(b)"),
    "b < null": ("isPresent(b), as a comparison with null is null (rule NU16)", "isPresent(b)"),
    "null": (
        "null as a branch of ? : or an argument of coalesce(), where the other one has a type (rule NU16)", None,
    ),
    "a + null": (
        "null as a branch of ? : or an argument of coalesce(), where the other one has a type (rule NU16)", None,
    ),
    "isnull(b)": ("not isPresent(x)", None),
    "ifnull(b, 1)": ("a function", "coalesce"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "type_"), TYPED.items())
def test_the_type_of_an_expression(text, type_):
    found = parse(text, SCOPE)
    assert str(found.type) == type_
    assert parse(written(found), SCOPE) == found


@pytest.mark.parametrize(("text", "type_"), AGGREGATED.items())
def test_the_type_of_an_aggregate(text, type_):
    """NU18 to NU22."""
    assert str(parse(text, SCOPE).type) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    {
        "Sum(a, where: a > 1)": "int64?", "Sum(b, where: a > 1)": "int64?", "Count(where: a > 1)": "int64",
        "Collect(a, where: b > 1)": "list<int64>", "CountByGroup(where: a > 1)": "list<int64>",
        "ArgMax(a, b, where: a > 1)": "int64?", "First(a, 2, where: a > 1)": "list<int64>",
        "Sum(a, where: a > 1) ?: 0": "int64", "Sum(1, where: a > 1)": "int64?",
    }.items(),
)  # fmt: skip
def test_the_type_of_a_function_of_a_part(text, type_):
    """FN2."""
    found = parse(text, SCOPE)
    assert str(found.type) == type_
    assert parse(written(found), SCOPE) == found


@pytest.mark.parametrize(("text", "understood"), UNDERSTOOD.items())
def test_how_an_expression_is_understood(text, understood):
    assert written(parse(text, SCOPE)) == understood


@pytest.mark.parametrize(("text", "fault"), REFUSED.items())
def test_an_expression_that_is_refused(text, fault):
    with pytest.raises(ExpressionError) as error:
        parse(text, SCOPE)
    (found,) = error.value.faults
    assert (found.expected, found.hint) == fault


@pytest.mark.parametrize("text", ["p ? null : null", "coalesce(null, null)"])
def test_null_alone_has_no_type(text):
    with pytest.raises(ExpressionError, match="where the other one has a type"):
        parse(text, SCOPE)


class OfPresent:
    signature = "float64 -> float64"


class OfNull:
    signature = "float64?, int64 -> string?"


@pytest.mark.parametrize(
    ("given", "types", "result"),
    [
        (OfPresent, "float64", "float64"),
        (OfPresent, "int64", "float64"),
        (OfPresent, "float64?", None),
        (OfNull, "float64?, int64", "string?"),
        (OfNull, "float64, int64", "string?"),
        (OfNull, "int64?, int64", "string?"),
        (OfNull, "float64?, int64?", None),
    ],
)
def test_a_parameter_takes_null_if_its_type_has_a_question_mark(given, types, result):
    """NU23."""
    found = match(function(given), tuple(map(parse_type, types.split(", "))))
    assert (found and str(found.result)) == result
