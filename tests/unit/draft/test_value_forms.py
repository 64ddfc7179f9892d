"""The forms of values: types, units and patterns of times, texts of numbers."""

import pytest

from sluice.draft.value_forms import Form, fit

NOW = 1_700_000_000


def form(values, name="x"):
    found = fit(name, values)
    return found and found.form


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([True, False], "boolean"), ([0, 1], "int64"), ([1, 2], "int64"), ([1, 2.5], "float64"), (["a", "1"], "string"),
        ([2**63 - 1, -(2**63) + 1], "int64"), ([2**64], "decimal(38, 0)"), ([[1], []], "list<int64>"),
        ([[1, 0.5]], "list<float64>"), ([["a"]], "list<string>"), ([["7.10"]], "list<string>"),
        ([[["a"]]], "list<list<string>>"), ([{"a": 1.5}], "map<string, float64>"),
        ([[{"a": 1}]], "list<tuple<a: int64>>"),
        ([1, "a"], "json"), ([[1, "a"]], "json"), ([[1, None]], "json"),
    ],
)  # fmt: skip
def test_types(values, type_):
    assert form(values) == Form(type_)


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        (["7.10", "12.50"], "price", Form("decimal(2)")),
        (["-0.00100000"], "best_bid", Form("decimal(8)")),
        (["12345678901234567.123"], "x", Form("decimal(38, 3)")),
        (["-1234567890123456.78"], "x", Form("decimal(2)")),  # 18 digits; the sign is none
        (["7.1", "12.50", "3"], "price", Form("float64", coerce=True)),
        (["1e-7"], "x", Form("float64", coerce=True)),
        (["7", "12"], "qty", Form("int64", coerce=True)),
        (["7", "12"], "x", Form("string")),
        (["007", "012"], "qty", Form("string")),
        (["1.0", "1.1"], "version", Form("string")),
        (["7.10", "-"], "price", Form("string")),
        (["7.10", "8.10", "-"], "price", Form("string", words=True)),
        (["7", "8", "-"], "status", Form("string")),
        ([7, 8, "VRB"], "wind", Form("string", coerce=True, words=True)),
        ([7, "a", "b", "c", "d"], "x", Form("json")),
        ([7.5, "NaN", "-Infinity"], "x", Form("float64")),
        (["12,50"], "price", Form("string")),
        ([7, "8"], "x", Form("int64", coerce=True)),
        ([7, 7.5, "8.5"], "x", Form("float64", coerce=True)),
        ([True, 0, "true"], "x", Form("boolean", coerce=True)),
        ([10**40], "x", Form("string", coerce=True)),
        ([10**20], "id", Form("string", coerce=True)),
    ],
)
def test_texts_of_numbers(values, name, expected):
    assert form(values, name) == expected


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ([NOW], "ts", Form("timestamp", unit="s")),
        ([NOW + 0.5], "ts", Form("timestamp", unit="s")),
        ([NOW], "phone", Form("int64")),
        ([NOW * 10**3], "x", Form("timestamp", unit="ms")),
        ([NOW * 10**3], "order_id", Form("int64")),
        ([NOW * 10**6], "x", Form("timestamp", unit="us")),
        ([NOW * 10**9], "timeUnixNano", Form("timestamp", unit="ns")),
        ([NOW * 10**9], "snowflake", Form("int64")),
        ([str(NOW * 10**3)], "ts", Form("timestamp", unit="ms", coerce=True)),
        ([f"{NOW}.125"], "ts", Form("timestamp", unit="s", coerce=True)),
        ([str(NOW * 10**3)], "card", Form("string")),
        (["2013-01-01", "2013-01-01T10:00Z"], "x", Form("timestamp")),
        (["2013-01-01", "later"], "x", Form("string")),
        (["2013-01-01"], "api_version", Form("string")),
        ([2_463_457_000], "timestamp", Form("int64")),
        (["0001-01-01T00:00:00Z"], "x", Form("string")),
        (["13/02/2013 10:00:00"], "x", Form("timestamp", pattern="%d/%m/%Y %H:%M:%S")),
        (["02/13/2013 10:00:00"], "x", Form("timestamp", pattern="%m/%d/%Y %H:%M:%S")),
        (["13/Feb/2013:10:00:00 +0100"], "x", Form("timestamp", pattern="%d/%b/%Y:%H:%M:%S %z")),
        (["20130213-10:00:00.123"], "x", Form("timestamp", pattern="%Y%m%d-%H:%M:%S.%f")),
    ],
)
def test_times(values, name, expected):
    assert form(values, name) == expected


@pytest.mark.parametrize("values", [[], [[]], [{}], [[[]], []]])
def test_values_without_a_form(values):
    assert fit("x", values) is None


def test_a_value_of_another_kind_among_a_hundred_is_a_mistake():
    found = fit("x", [*range(99), "n/a"])
    assert found is not None
    assert (found.form, found.accepts(7), found.accepts("n/a")) == (Form("int64"), True, False)
    assert form([*range(98), "n/a", "-"]) == Form("string", coerce=True, words=True)


def test_day_and_month_that_cannot_be_told_apart_are_a_text():
    assert form(["01/02/2013 10:00:00"]) == Form("string")


@pytest.mark.parametrize(
    ("objects", "type_"),
    [
        ([{"a": 1, "b": "7.10"}, {"a": 2}], "list<tuple<a: int64, b: decimal(2)?>>"),
        ([{"a": {"b": 1.5, "c": None}}], "list<tuple<a: tuple<b: float64>>>"),
        ([{"a": [{"b": True}]}, {"a": []}], "list<tuple<a: list<tuple<b: boolean>>>>"),
        ([{"T": NOW * 10**3, "at": "13/02/2013 10:00:00"}], "list<tuple<T: int64, at: string>>"),
        ([{"a": 1, "order-id": 2, "null": 3}], "list<tuple<a: int64>>"),
        ([{"a": 1}, {"a": "x"}], "list<tuple<a: json>>"),
        ([{"a-b": 1}], "json"),
        ([{f"m{number}": number for number in range(41)}], "json"),
    ],
    ids=["members that some lack", "objects in objects", "lists in objects", "times", "names that are no identifiers",
         "values of two kinds", "no member with a name", "too many members"],
)  # fmt: skip
def test_lists_of_objects(objects, type_):
    """The type of a list that may be null, which has no options inside."""
    assert form([objects, []]).without_inside == Form(type_)
