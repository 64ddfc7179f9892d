import pytest

from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.model.expressions import Attribute, Call, Literal
from sluice.model.functions import AGGREGATES, CONSTANTS, FUNCTIONS, OPERATORS, fit, match
from sluice.model.types import BOOLEAN, BYTES, FLOAT64, INT64, JSON, STRING, TIMESTAMP, list_of, map_of
from sluice.model.types.decimal_type import DecimalType

ATTRIBUTES = {
    "a": INT64, "b": INT64, "f": FLOAT64, "s": STRING, "t": TIMESTAMP, "p": BOOLEAN, "q": BOOLEAN, "xs": list_of(INT64),
    "order": INT64, "android": INT64, "nothing": INT64, "truely": INT64, "size": INT64,
}  # fmt: skip
SCOPE = Scope("input", ATTRIBUTES)


def shown(expression):
    """With parentheses around every call: how it was understood."""
    match expression:
        case Literal(value):
            return repr(value)
        case Attribute(name):
            return name
        case Call(function, arguments) if function in OPERATORS and len(arguments) == 2:
            return f"({shown(arguments[0])} {function} {shown(arguments[1])})"
        case _:
            return f"{expression.function}({', '.join(map(shown, expression.arguments))})"


UNDERSTOOD = {
    "a + b * 2": "(a + (b * 2))",
    "a - b - 2": "((a - b) - 2)",
    "a * b % 2": "((a * b) % 2)",
    "-a * -2": "(-(a) * -2)",
    "- -a": "-(-(a))",
    "+a": "a",
    "a - -1": "(a - -1)",
    "a -1": "(a - 1)",
    "-9223372036854775808": "-9223372036854775808",
    "a < b == p": "error",
    "(a < b) == p": "((a < b) == p)",
    "a + 1 < b * 2": "((a + 1) < (b * 2))",
    "p or q and not p": "(p or (q and not(p)))",
    "p || q && !p": "(p or (q and not(p)))",
    "not a == b": "not((a == b))",
    "!p == q": "not((p == q))",
    "p ? a : q ? b : 1": "if(p, a, if(q, b, 1))",
    "p ? a : 1.5": "if(p, float64(a), 1.5)",
    "a + f": "(float64(a) + f)",
    "a / b": "(float64(a) / float64(b))",
    "2 / 4": "(2.0 / 4.0)",
    "a == 1.5": "(float64(a) == 1.5)",
    "t + 1": "(t + 1)",
    "size + size(xs)": "(size + size(xs))",
    "order + android + nothing + truely": "(((order + android) + nothing) + truely)",
    "'it\\'s' + \"\\u00e9\\n\"": r"""("it's" + 'é\n')""",
    "1e3": "1000.0",
    ".5": "0.5",
    "5.": "5.0",
    "a\n + b": "(a + b)",
    "min(a, f)": "min(float64(a), f)",
    "Sum(a) / Count()": "(float64(Sum(a)) / float64(Count()))",
    "ArgMax(f, s)": "ArgMax(f, s)",
}


@pytest.mark.parametrize(("text", "understood"), UNDERSTOOD.items())
def test_understood(text, understood):
    try:
        assert shown(parse(text, SCOPE)) == understood
    except ExpressionError:
        assert understood == "error"


@pytest.mark.parametrize("text", ["not " * 50_000 + "p", "a" + " + a" * 50_000, "abs(" * 200 + "a" + ")" * 200])
def test_too_deep(text):
    with pytest.raises(ExpressionError, match="less deeply nested"):
        parse(text, SCOPE)


TYPES = [INT64, FLOAT64, STRING, TIMESTAMP, BOOLEAN]
INSIDES = [BYTES, JSON]
COMPARED = [(one, other) for one in TYPES for other in TYPES]


@pytest.mark.parametrize(("one", "other"), COMPARED)
def test_values_of_one_type_and_numbers_compare(one, other):
    """Nothing else becomes something else by itself."""
    found = match(OPERATORS["<"], (one, other))
    assert bool(found) == (one == other or (one.numeric and other.numeric))


@pytest.mark.parametrize("table", [OPERATORS, FUNCTIONS, AGGREGATES])
def test_each_signature_takes_what_it_says(table):
    for function in table.values():
        for signature in function.signatures:
            words = [word.removesuffix(" literal") for word in signature.parameters]
            types = {"any": INT64, "scalar": INT64, "list<any>": list_of(INT64), "list<scalar>": list_of(INT64)}
            types |= {f"list<{type_}>": list_of(type_) for type_ in TYPES}
            types |= {"decimal": DecimalType(), "exact": DecimalType()}
            types |= {word: constant.type for word, constant in CONSTANTS.items()}
            types |= {str(type_): type_ for type_ in (*TYPES, *INSIDES)}
            types |= {"key": STRING, "map<key, any>": map_of(STRING, INT64)}
            assert fit(signature, [types[word] for word in words])
