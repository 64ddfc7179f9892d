"""Expressions over values with an inside (ST8 to ST12)."""

import pyarrow as pa
import pytest

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.columns.column_forms import form
from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.engine.stream.expression_eval import checked
from sluice.model.types import parse_type
from sluice.model.unparse import expression as written

LINE = "tuple<sku: string, price: float64?>"
SCHEMA = {
    "order": f"tuple<customer: tuple<id: int64, name: string?>?, lines: list<{LINE}>>",
    "tags": "map<string, int64>", "doc": "json", "n": "int64", "b": "bytes", "text": "string",
}  # fmt: skip
ROWS = [
    [((1, "ann"), [("x", 1.5), ("y", None)]), (None, [])],
    [[("env", 3)], [("a", 1), ("b", 2)]],
    ['{"a": {"b.c": 1, "d": [1, "z"]}, "e": "q", "n": null}', "[7.50]"],
    [0, 1],
    ["AAE=", ""],
    ['{"a": 1}', "no JSON"],
]
NO = "no value"
VALUES = {
    "order.customer.id": ("int64?", [1, None]),
    "order.customer.name": ("string?", ["ann", None]),
    "order['customer']": ("tuple<id: int64, name: string?>?", [{"id": 1, "name": "ann"}, None]),
    "order.customer!.id": ("int64", [1, NO]),
    "order.customer.id ?: -1": ("int64", [1, -1]),
    "order.lines[0].sku": ("string", ["x", NO]),
    "order.lines[1].price": ("float64?", [None, NO]),
    "order.lines[n].sku": ("string", ["x", NO]),
    "try(order.lines[-1].sku)": ("string?", ["y", None]),
    "size(order.lines)": ("int64", [2, 0]),
    'tags["env"]': ("int64?", [3, None]),
    'tags["env"] ?: 0': ("int64", [3, 0]),
    'contains(tags, "a")': ("boolean", [False, True]),
    "size(tags)": ("int64", [1, 2]),
    "keys(tags)": ("list<string>", [["env"], ["a", "b"]]),
    "merge(tags, {'b': n, 'a0': 9})": ("map<string, int64>", [{"a0": 9, "b": 0, "env": 3}, {"a": 1, "a0": 9, "b": 1}]),
    "merge({'env': 9}, tags)": ("map<string, int64>", [{"env": 3}, {"a": 1, "b": 2, "env": 9}]),
    "splitToMap('b=2,a=1=x,none,b=3', ',', '=')": ("map<string, string>", [{"a": "1=x", "b": "3"}] * 2),
    "splitToMap(text, ',', ':')": ("map<string, string>", [{'{"a"': " 1}"}, {}]),
    "unhex('00fF')": ("bytes", ["AP8=", "AP8="]),
    "unhex(text)": ("bytes", [NO, NO]),
    "values(tags)": ("list<int64>", [[3], [1, 2]]),
    "size(b)": ("int64", [2, 0]),
    "string(b)": ("string", ["AAE=", ""]),
    'bytes("AAE=") == b': ("boolean", [True, False]),
    "bytes(text)": ("bytes", [NO, NO]),
    'jsonText(doc, "e")': ("string?", ["q", None]),
    'jsonText(doc, "a.d")': ("string?", ['[1, "z"]', None]),
    'jsonText(doc, "a.d.1")': ("string?", ["z", None]),
    'jsonText(doc, "0")': ("string?", [None, "7.50"]),
    'jsonText(doc, "n")': ("string?", [None, None]),
    'jsonText(text, "a")': ("string?", ["1", None]),
    "string(doc)": ("string", ROWS[2]),
    "json(text)": ("json", [{"a": 1}, NO]),
    "{id: n, who: order.customer}": (
        "tuple<id: int64, who: tuple<id: int64, name: string?>?>",
        [{"id": 0, "who": {"id": 1, "name": "ann"}}, {"id": 1, "who": None}],
    ),
    "{id: 1 % n}.id": ("int64", [NO, 0]),
    "{id: 1 % n}": ("tuple<id: int64>", [NO, {"id": 0}]),
    "[n, 1.5]": ("list<float64>", [[0.0, 1.5], [1.0, 1.5]]),
    "[order.customer.id, n]": ("list<int64?>", [[1, 0], [None, 1]]),
    '{"b": n, "a": 2, "b": 3}': ("map<string, int64>", [{"a": 2, "b": 3}, {"a": 2, "b": 3}]),
    "[1, 2][1]": ("int64", [2, 2]),
    "{a: {b: 7}}.a.b": ("int64", [7, 7]),
    "order.customer ?: {id: n, name: text}": (
        "tuple<id: int64, name: string?>",
        [{"id": 1, "name": "ann"}, {"id": 1, "name": "no JSON"}],
    ),
    "{id: n, name: text} ?: order.customer": (
        "tuple<id: int64, name: string?>?",
        [{"id": 0, "name": '{"a": 1}'}, {"id": 1, "name": "no JSON"}],
    ),
    "[{sku: text, price: 1.5}, order.lines[0]][0].price": ("float64?", [1.5, NO]),
    "merge(tags, {'b': order.customer.id})": ("map<string, int64?>", [{"b": 1, "env": 3}, {"a": 1, "b": None}]),
    "concatenate([n], [order.customer.id])": ("list<int64?>", [[0, 1], [1, None]]),
    "contains([order.customer.id, n], n)": ("boolean", [True, True]),
    "indexOf([order.customer.name], text)": ("int64", [-1, -1]),
    "without([order.customer.name, text], text)": ("list<string?>", [["ann"], [None]]),
    "distinct([order.customer.id, n, order.customer.id])": ("list<int64?>", [[1, 0], [None, 1]]),
    "maxOf([order.customer.id, n])": ("int64?", [1, 1]),
    "orders.n": ("int64", [0, 1]),
}


def tuples() -> pa.RecordBatch:
    schema = tuple((name, parse_type(text)) for name, text in SCHEMA.items())
    columns = [array_of(values, type_) for values, (_, type_) in zip(ROWS, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def scope() -> Scope:
    return Scope("orders", {name: parse_type(text) for name, text in SCHEMA.items()}, "in a map")


@pytest.mark.parametrize("text", VALUES)
def test_the_value_of_an_expression(text):
    type_, expected = VALUES[text]
    found = parse(text, scope())
    assert str(found.type) == type_
    column = checked(found, tuples())
    kind = form(found.type.present)
    values = [kind.to_json(column.values.slice(row, 1))[0] if column.values[row].is_valid else None for row in range(2)]
    assert [NO if failed else value for failed, value in zip(column.failed(), values, strict=True)] == expected


OPTIONAL = {"m": "map<string, int64>?", "l": "list<string>?", "n": "int64"}
MAPS, LISTS = [[("a", 1)], None, [("b", 2), ("c", 3)], []], [["x"], None, ["y", "z"], []]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keys(m)", [["a"], None, ["b", "c"], []]),
        ("values(m)", [[1], None, [2, 3], []]),
        ("size(m)", [1, None, 2, 0]),
        ('m["c"]', [None, None, 3, None]),
        ('contains(m, "b")', [False, None, True, False]),
        ('merge(m, {"z": n})', [{"a": 1, "z": 0}, None, {"b": 2, "c": 3, "z": 0}, {"z": 0}]),
        ("size(l)", [1, None, 2, 0]),
        ("distinct(l)", LISTS),
        ("reverse(l)", [["x"], None, ["z", "y"], []]),
        ('contains(l, "z")', [False, None, True, False]),
        ("slice(l, 1)", [[], None, ["z"], []]),
    ],
)
def test_a_part_of_a_batch_is_a_slice(text, expected):
    """A slice has offsets, and Arrow makes no lists of them beside nulls."""
    schema = tuple((name, parse_type(kind)) for name, kind in OPTIONAL.items())
    columns = [array_of(rows, type_) for rows, (_, type_) in zip((MAPS, LISTS, [0] * 4), schema, strict=True)]
    tuples = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
    found = parse(text, Scope("orders", dict(schema), "in a map"))
    for first in range(4):
        for last in range(first + 1, 5):
            values = checked(found, tuples.slice(first, last - first)).values
            assert form(found.type).to_json(values) == expected[first:last]


@pytest.mark.parametrize("text", VALUES)
def test_no_rows_have_no_values(text):
    """A batch in which no window fires."""
    assert len(checked(parse(text, scope()), tuples().slice(0, 0)).values) == 0


@pytest.mark.parametrize("text", VALUES)
def test_the_text_of_an_expression_has_its_meaning(text):
    found = parse(text, scope())
    assert parse(written(found), scope()) == found


FAULTS = {
    "order.custmer": ("a member of order (customer, lines)", "order.customer"),
    "order.customer.idd": ("a member of order.customer (id, name)", "order.customer.id"),
    "order.lines.sku": (f"a position in brackets, as a list<{LINE}> has no members", "order.lines[0].sku"),
    "tags.env": ("a key in brackets, as a map<string, int64> has no members", 'tags["env"]'),
    "doc.a": ("jsonText(), as a json has no members", 'jsonText(doc, "a")'),
    "n.x": ("the value alone, as an int64 has no members", "n"),
    "[1, text]": ("values of one type, not int64, string", None),
    "{a: 1, a: 2}": ("members of different names", None),
    "other.n": ("an attribute of orders", "orders.n"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_wrong_name_leads_to_the_nearest_one(text):
    with pytest.raises(ExpressionError) as raised:
        parse(text, scope())
    (fault,) = raised.value.faults
    assert (fault.expected, fault.hint) == FAULTS[text]


def test_the_side_of_a_join_comes_before_an_attribute():
    """`left.id` is the attribute id of the left side, though the left side has a struct `left`."""
    kinds = {"left": parse_type("tuple<id: string>"), "id": parse_type("int64")}
    found = parse("left.id", Scope("joined", {}, sides={"left": kinds, "right": {}}))
    assert (str(found.type), found.port) == ("int64", "left")
    assert str(parse("left.left.id", Scope("joined", {}, sides={"left": kinds, "right": {}})).type) == "string"
