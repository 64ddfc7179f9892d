"""Null in expressions (NU7 to NU17): each function of each table, and the logic of three values."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.arrow_types import array_of
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.engine.stream.expression_eval import checked
from sluice.engine.stream.value_errors import OF_ERRORS
from sluice.model.expressions import Attribute, Call, Literal
from sluice.model.functions import CONSTANTS, FUNCTIONS, OPERATORS, match
from sluice.model.types import BOOLEAN, INT64, STRING, list_of, optional_of, parse_type

TRUE, FALSE, NULL = True, False, None
VALUES = (TRUE, FALSE, NULL)
LOGIC = {
    "p and q": [TRUE, FALSE, NULL, FALSE, FALSE, FALSE, NULL, FALSE, NULL],
    "p or q": [TRUE, TRUE, TRUE, TRUE, FALSE, NULL, TRUE, NULL, NULL],
    "not p": [FALSE, FALSE, FALSE, TRUE, TRUE, TRUE, NULL, NULL, NULL],
    "p == q": [TRUE, FALSE, NULL, FALSE, TRUE, NULL, NULL, NULL, NULL],
    "p != q": [FALSE, TRUE, NULL, TRUE, FALSE, NULL, NULL, NULL, NULL],
    "p ? q : false": [TRUE, FALSE, NULL, FALSE, FALSE, FALSE, FALSE, FALSE, FALSE],
    "isPresent(p)": [TRUE, TRUE, TRUE, TRUE, TRUE, TRUE, FALSE, FALSE, FALSE],
    "p ?: q": [TRUE, TRUE, TRUE, FALSE, FALSE, FALSE, TRUE, FALSE, NULL],
}


@pytest.mark.parametrize(("text", "expected"), LOGIC.items())
def test_three_values(text, expected):
    scope = Scope("input", {"p": optional_of(BOOLEAN), "q": optional_of(BOOLEAN)})
    pairs = list(zip(*product(VALUES, VALUES), strict=True))
    tuples = pa.record_batch({name: pa.array(column, pa.bool_()) for name, column in zip("pq", pairs, strict=True)})
    found = checked(parse(text, scope), tuples)
    assert (found.values.to_pylist(), found.errors) == (expected, None)


#: word of a parameter -> values of it; of a constant the value
SAMPLES = {
    "any": (INT64, [1, 2, 3]), "scalar": (STRING, ["a", "b", "c"]), "list<any>": (list_of(INT64), [[1, 2], [3], [4]]),
    "list<scalar>": (list_of(STRING), [["a"], ["b"], ["c"]]), "list<string>": (list_of(STRING), [["a"], ["b"], ["c"]]),
    "list<int64>": (list_of(INT64), [[1, 2], [3], [4]]),
    "list<float64>": (list_of(parse_type("float64")), [[0.5, 2.0], [3.0], [4.0]]),
    "int64": (INT64, [0, 0, 0]), "float64": (parse_type("float64"), [0.5, 0.25, 0.75]),
    "string": (STRING, ["1", "2", "3"]), "boolean": (BOOLEAN, [True, False, True]),
    "timestamp": (parse_type("timestamp"), [1, 2, 3]), "key": (STRING, ["a", "b", "c"]),
    "map<key, any>": (parse_type("map<string, int64>"), [[("a", 1)], [("b", 2)], [("c", 3)]]),
    "bytes": (parse_type("bytes"), ["AA==", "AAE=", ""]),
    "json": (parse_type("json"), ['{"a": 1}', '{"a": 2}', '{"a": 3}']),
    **dict.fromkeys(("decimal", "exact"), (parse_type("decimal(2)"), ["1.25", "0.50", "-3.00"])),
}  # fmt: skip
FIXED = {
    "width": 3, "character": "x", "separator": ",", "seconds": 60.0, "strftime": "%H", "format": "%Y",
    "regex": "([0-9])",
    "replacement": "y", "zone": "Europe/Berlin", "int64 literal": 1, "path": "a",
    "unit": "day", "part": "host", "group": 1, "scale": 2, "digits": 30, "places": 2,
}  # fmt: skip
#: functions that give no null for a null of their arguments
OWN = {"and", "or", "if", "?:", "!", "isPresent", "coalesce", "try", "hasValue", "orElse"}
PROPAGATING = [
    (function, signature, position)
    for function in [*OPERATORS.values(), *FUNCTIONS.values()]
    if function.name not in OWN
    for signature in function.signatures
    for position, word in enumerate(signature.parameters)
    if word not in FIXED
]


def test_each_function_with_rules_of_its_own_is_named():
    assert {
        f.name for f in (*OPERATORS.values(), *FUNCTIONS.values()) for s in f.signatures if s.kernel in OF_ERRORS
    } <= OWN


@pytest.mark.parametrize(
    ("function", "signature", "position"), PROPAGATING, ids=[f"{f.name}({s})-{n}" for f, s, n in PROPAGATING]
)
def test_a_function_of_a_null_is_null(function, signature, position):
    """The other rows have the values that they have without the null."""
    present, absent = (called(function, signature, null_at) for null_at in (None, position))
    found, expected = checked(*absent), checked(*present)
    assert absent[0].type == optional_of(present[0].type)
    assert found.values.to_pylist() == [expected.values[0].as_py(), None, expected.values[2].as_py()]
    errors = np.zeros(3, np.int8) if found.errors is None else found.errors
    assert errors[1] == 0


def called(function, signature, null_at):
    """A call of the signature, and tuples; the argument `null_at` is null in the second tuple."""
    arguments, columns = [], {}
    for position, word in enumerate(signature.parameters):
        if word in FIXED:
            kind = INT64 if word == "int64 literal" else CONSTANTS[word].type
            arguments.append(Literal(FIXED[word], kind))
            continue
        kind, values = SAMPLES[word]
        if position == null_at:
            kind, values = optional_of(kind), [values[0], None, values[2]]
        columns[f"a{position}"] = array_of(values, kind)
        arguments.append(Attribute(f"a{position}", kind))
    constants = tuple(argument.value if isinstance(argument, Literal) else None for argument in arguments)
    fitting = match(function, tuple(argument.type for argument in arguments), constants)
    return Call(function.name, tuple(arguments), fitting.result), pa.record_batch(columns)
