import math
import re
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.arrow_types import arrow_schema, arrow_type
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.engine.stream.expression_eval import evaluate
from sluice.engine.stream.functions.function_kernels import kernel
from sluice.engine.stream.value_errors import OF_ERRORS
from sluice.model.expressions import AggregateCall
from sluice.model.functions import FUNCTIONS, OPERATORS
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, list_of
from tests.unit.engine.stream.function_examples import EXAMPLES

LOW, HIGH = -(2**63), 2**63 - 1
NAN, INF = math.nan, math.inf
SCHEMA = (
    ("i", INT64), ("j", INT64), ("f", FLOAT64), ("g", FLOAT64), ("s", STRING), ("r", STRING), ("t", TIMESTAMP),
    ("u", TIMESTAMP), ("p", BOOLEAN), ("q", BOOLEAN), ("xs", list_of(STRING)),
)  # fmt: skip
TYPES = dict(SCHEMA)
SCOPE = Scope("input", TYPES)


def results(text, /, row=None, **columns):
    """What the expression gives over these columns, or over a slice with one row; a timestamp as its ISO text."""
    rows = max(map(len, columns.values()), default=1)
    fields = tuple((name, kind) for name, kind in SCHEMA if name in columns)
    arrays = [
        times(columns[name]) if kind == TIMESTAMP else pa.array(columns[name], arrow_type(kind))
        for name, kind in fields
    ]
    tuples = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields)) if fields else nothing(rows)
    if row is not None:
        tuples, rows = tuples.slice(row, 1), 1
    expression = parse(text, SCOPE)
    found = evaluate(expression, tuples)
    assert found.type == arrow_type(expression.type)
    assert len(found) == rows
    return [iso(value) if pa.types.is_timestamp(found.type) else value.as_py() for value in found]


def nothing(rows):
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def times(texts):
    """2013-01-01T00:00:00.5Z as nanoseconds."""
    return pa.array([None if text is None else np.datetime64(text.removesuffix("Z"), "ns") for text in texts]).cast(
        arrow_type(TIMESTAMP)
    )


def iso(value):
    if not value.is_valid:
        return None
    whole, nanoseconds = divmod(value.value, 10**9)
    fraction = f".{nanoseconds:09}".rstrip("0") if nanoseconds else ""
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def same(found, expected):
    assert [repr(value) for value in found] == [repr(value) for value in expected]


BATCHES = [
    # int64: exact, wraps around
    ("i + j", {"i": [1, HIGH, LOW], "j": [2, 1, -1]}, [3, LOW, HIGH]),
    ("i - j", {"i": [1, LOW, 2**53 + 1], "j": [2, 1, 1]}, [-1, HIGH, 2**53]),
    ("i * j", {"i": [3, 2**62, LOW], "j": [-2, 4, -1]}, [-6, 0, LOW]),
    ("-i", {"i": [5, LOW]}, [-5, LOW]),
    ("abs(i)", {"i": [-5, LOW]}, [5, LOW]),
    ("i % j", {"i": [7, -7, 7, -7, LOW, 5], "j": [2, 2, -2, -2, -1, 0]}, [1, -1, 1, -1, 0, None]),
    ("7 % i", {"i": [4, 0]}, [3, None]),
    ("i % 3 + 1", {"i": [HIGH, None]}, [2, None]),
    ("i > j", {"i": [2**53 + 1, 1], "j": [2**53, 1]}, [True, False]),
    # float64
    ("i / j", {"i": [1, 7, -1, 0], "j": [2, 7, 0, 0]}, [0.5, 1.0, -INF, NAN]),
    ("f + i", {"f": [0.5, NAN], "i": [2**53 + 1, 1]}, [2.0**53 + 0.5, NAN]),
    ("f % g", {"f": [7.5, -7.5, 1e300, 1.0, INF, 1.0], "g": [2.0, 2.0, 7.0, 0.0, 1.0, INF]},
     [1.5, -1.5, math.fmod(1e300, 7.0), NAN, NAN, 1.0]),
    ("f % 2.5", {"f": [6.0, None]}, [1.0, None]),
    ("-f", {"f": [0.0, INF]}, [-0.0, -INF]),
    ("floor(f)", {"f": [-1.5, 2.0]}, [-2.0, 2.0]),
    ("ceil(f)", {"f": [-1.5, 2.0]}, [-1.0, 2.0]),
    ("floor(i)", {"i": [HIGH]}, [HIGH]),
    ("round(f)", {"f": [2.5, -2.5, 0.49999999999999994, NAN, INF, 1e300]}, [3.0, -3.0, 0.0, NAN, INF, 1e300]),
    ("round(f, 2)", {"f": [2.345, -2.345, 1e300, 1e16]}, [2.35, -2.35, 1e300, 1e16]),
    ("round(f, -2)", {"f": [1250.0, 49.9]}, [1300.0, 0.0]),
    ("round(f, 400)", {"f": [1.5, 0.0]}, [1.5, 0.0]),
    ("sqrt(i)", {"i": [9, -1]}, [3.0, NAN]),
    ("pow(f, 2)", {"f": [1.5]}, [2.25]),
    ("log(f)", {"f": [1.0, 0.0, -1.0]}, [0.0, -INF, NAN]),
    ("isNaN(f)", {"f": [NAN, 1.0, None]}, [True, False, None]),
    ("isFinite(f)", {"f": [NAN, 1.0, INF, None]}, [False, True, False, None]),
    ("trunc(f)", {"f": [-1.5, 1.5, NAN]}, [-1.0, 1.0, NAN]),
    ("trunc(i)", {"i": [HIGH]}, [HIGH]),
    ("sign(i)", {"i": [LOW, 0, HIGH, None]}, [-1, 0, 1, None]),
    ("sign(f)", {"f": [-0.5, 0.0, INF, NAN]}, [-1.0, 0.0, 1.0, NAN]),
    ("log2(f)", {"f": [8.0, -1.0]}, [3.0, NAN]),
    ("atan2(f, g) == atan(f / g)", {"f": [0.5, 1.0], "g": [1.0, 2.0]}, [True, True]),
    ("round(asin(f) + acos(f), 4)", {"f": [0.5, 1.5]}, [1.5708, NAN]),
    ("round(tan(f), 4)", {"f": [0.0, 1.0]}, [0.0, 1.5574]),
    ("bitOr(bitAnd(i, 6), bitXor(j, 1))", {"i": [7, -1], "j": [1, 16]}, [6, 23]),
    ("min(f, g)", {"f": [1.0, NAN, 1.0], "g": [2.0, 1.0, NAN]}, [1.0, NAN, 1.0]),
    ("max(i, f)", {"i": [1, 3], "f": [2.5, 2.5]}, [2.5, 3.0]),
    ("min(s, 'm')", {"s": ["a", "z"]}, ["a", "m"]),
    # conditions
    ("f == g", {"f": [NAN, 0.0, 1.0], "g": [NAN, -0.0, 2.0]}, [False, True, False]),
    ("f != g", {"f": [NAN, 0.0], "g": [NAN, -0.0]}, [True, False]),
    ("s < r", {"s": ["a", "Z", "é", ""], "r": ["b", "a", "z", "a"]}, [True, True, False, True]),
    ("p < q", {"p": [False, True], "q": [True, True]}, [True, False]),
    ("t <= u", {"t": ["2013-01-01", "2013-01-02"], "u": ["2013-01-01", "2013-01-01"]}, [True, False]),
    ("p and not q or i > 1", {"p": [True, True, False], "q": [False, True, False], "i": [0, 0, 2]},
     [True, False, True]),
    ("j != 0 && i % j == 1", {"i": [3, 3], "j": [0, 2]}, [False, True]),
    ("i % j == 1", {"i": [3], "j": [0]}, [None]),
    ("p ? i : j", {"p": [True, False], "i": [1, 2], "j": [3, 4]}, [1, 4]),
    ("p ? i % 0 : j", {"p": [True, False], "i": [1, 2], "j": [3, 4]}, [None, 4]),
    ("p ? 1 : f", {"p": [True, False], "f": [2.5, 2.5]}, [1.0, 2.5]),
    ("p ? xs : xs", {"p": [True, False], "xs": [["a"], []]}, [["a"], []]),
    ("orElse(i % j, -1)", {"i": [5, 5], "j": [0, 3]}, [-1, 2]),
    # strings
    ("s + '-' + r", {"s": ["a", ""], "r": ["b", "ü"]}, ["a-b", "-ü"]),
    ("length(s)", {"s": ["", "Zürich", "🙂"]}, [0, 6, 1]),
    ("upper(s) + lower(s)", {"s": ["Zü"]}, ["ZÜzü"]),
    ("trim(s)", {"s": [" a b\t\n"]}, ["a b"]),
    ("substring(s, 1)", {"s": ["Zürich", "Z", ""]}, ["ürich", "", ""]),
    ("substring(s, 1, 2)", {"s": ["Zürich", "Z"]}, ["ür", ""]),
    ("substring(s, -1, 2)", {"s": ["Zürich"]}, ["Zü"]),
    ("substring(s, i, j)", {"s": ["Zürich"] * 3, "i": [1, -1, 1], "j": [2, 2, -1]}, ["ür", "Zü", ""]),
    ("substring(s, i)", {"s": ["Zürich", None], "i": [4, 4]}, ["ch", None]),
    ("contains(s, 'ü')", {"s": ["Zürich", "Bern"]}, [True, False]),
    ("contains(s, '')", {"s": ["", "Bern"]}, [True, True]),
    ("contains(s, r)", {"s": ["Zürich", "Bern"], "r": ["ich", "ich"]}, [True, False]),
    ("contains('a.c', s)", {"s": [".", "b"]}, [True, False]),
    ("startsWith(s, 'Z') or endsWith(s, 'n')", {"s": ["Zürich", "Bern", "Genf"]}, [True, True, False]),
    ("startsWith(s, r)", {"s": ["Zürich", "Bern"], "r": ["Z", "Z"]}, [True, False]),
    ("endsWith(s, r)", {"s": ["Zürich", "Bern"], "r": ["h", "h"]}, [True, False]),
    ("indexOf(s, 'r')", {"s": ["Zürich", "Genf"]}, [2, -1]),
    ("replace(s, '.', 'x')", {"s": ["a.b", "ab"]}, ["axb", "ab"]),
    ("replace(s, '', 'x')", {"s": ["ab"]}, ["ab"]),
    ("replace(s, r, 'x')", {"s": ["ab", "ab"], "r": ["b", ""]}, ["ax", "ab"]),
    ("trimStart(s) + '|' + trimEnd(s)", {"s": [" a\t"]}, ["a\t| a"]),
    ("padStart(s, 3) + padEnd(s, 3, '0')", {"s": ["ü", "abcd"]}, ["  üü00", "abcdabcd"]),
    ("reverse(s)", {"s": ["Zürich", ""]}, ["hcirüZ", ""]),
    ("split(s, ', ')", {"s": ["a, b", "", None, ", "]}, [["a", "b"], [""], None, ["", ""]]),
    ("join(xs, s)", {"xs": [["a", "b"], [], ["a"]], "s": ["-", "-", None]}, ["a-b", "", None]),
    ("regexContains(s, '^[a-z]+$')", {"s": ["abc", "aBc", None]}, [True, False, None]),
    ("regexExtract(s, '[0-9]+|x')", {"s": ["a12b3", "none", "\nx", None]}, ["12", None, "x", None]),
    (r"regexReplace(s, '([a-z])-', '\\1+')", {"s": ["a-b-", "1-"]}, ["a+b+", "1-"]),
    # conversions
    ("int64(f)", {"f": [1.9, -1.9, NAN, INF, 9.3e18, -(2.0**63), 2.0**63]}, [1, -1, None, None, None, LOW, None]),
    ("int64(p)", {"p": [True, False]}, [1, 0]),
    ("int64(s)", {"s": ["12", "-9223372036854775808", "9223372036854775808", "0x1F", " 1", "1.5", "", "a"]},
     [12, LOW, None, None, None, None, None, None]),
    ("float64(s)", {"s": ["1.5", "-2", "1e3", ".5", "NaN", "-Infinity", "1e400", "inf", "1 ", "", "0x1"]},
     [1.5, -2.0, 1000.0, 0.5, NAN, -INF, INF, None, None, None, None]),
    ("float64(i)", {"i": [2**53 + 1, HIGH]}, [2.0**53, 2.0**63]),
    ("float64(p)", {"p": [True]}, [1.0]),
    ("boolean(i)", {"i": [0, 2]}, [False, True]),
    ("boolean(f)", {"f": [0.0, NAN]}, [False, True]),
    ("boolean(s)", {"s": ["true", "false", "yes"]}, [True, False, None]),
    ("string(i)", {"i": [LOW, 0]}, ["-9223372036854775808", "0"]),
    ("string(f)", {"f": [1.0, 0.1, -0.0, NAN, INF, -INF, None]},
     ["1.0", "0.1", "-0.0", "NaN", "Infinity", "-Infinity", None]),
    ("string(p) + string(s)", {"p": [True], "s": ["x"]}, ["truex"]),
    ("string(t)", {"t": ["2013-01-01", "1969-12-31T23:59:59.999999999", "2013-01-01T00:00:00.5"]},
     ["2013-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z", "2013-01-01T00:00:00.5Z"]),
    ("timestamp(s)", {"s": ["2013-01-01", "2013-01-01 05:30", "2013-01-01T05:30:00.25+01:00"]},
     ["2013-01-01T00:00:00Z", "2013-01-01T05:30:00Z", "2013-01-01T04:30:00.25Z"]),
    ("timestamp(s)", {"s": ["2013-13-01", "3000-01-01", "today", "", "2013-01-01T00:00:00.1234567891Z"]}, [None] * 5),
    ("timestamp(i)", {"i": [1, -1, HIGH]}, ["1970-01-01T00:00:01Z", "1969-12-31T23:59:59Z", None]),
    ("timestamp(f)", {"f": [1.5, -0.25, 1356998400.123456, NAN, INF, 1e300]},
     ["1970-01-01T00:00:01.5Z", "1969-12-31T23:59:59.75Z", "2013-01-01T00:00:00.123456001Z", None, None, None]),
    # times
    ("t + 90", {"t": ["2013-01-01"]}, ["2013-01-01T00:01:30Z"]),
    ("t + 0.000000001", {"t": ["2013-01-01"]}, ["2013-01-01T00:00:00.000000001Z"]),
    ("t - 0.5", {"t": ["1970-01-01"]}, ["1969-12-31T23:59:59.5Z"]),
    ("t + f", {"t": ["2262-04-11", "1700-01-01"], "f": [1e9, -1e9]}, [None, None]),
    ("t - i", {"t": ["2262-04-11"], "i": [-(10**9)]}, [None]),
    ("t - u", {"t": ["2013-01-02", "2013-01-01"], "u": ["2013-01-01T23:59:59.5", "2013-01-02"]}, [0.5, -86400.0]),
    ("t - u", {"t": ["2262-04-11", "1677-09-22"], "u": ["1677-09-22", "2262-04-11"]}, [18446572800.0, -18446572800.0]),
    ("fromMilliseconds(i)", {"i": [1500, HIGH]}, ["1970-01-01T00:00:01.5Z", None]),
    ("fromNanoseconds(i)", {"i": [1_500_000_000]}, ["1970-01-01T00:00:01.5Z"]),
    ("toSeconds(t)", {"t": ["1970-01-01T00:00:01.5"]}, [1.5]),
    ("toSeconds(t)", {"t": ["2023-11-14T22:13:20.002", "1969-12-31T23:59:59.7", "1916-02-18T01:46:39.991", None]},
     [1700000000.002, -0.3, -1700000000.009, None]),
    ("t - u", {"t": ["2023-11-14T22:13:20.002", "1970-01-01"], "u": ["1970-01-01", "2023-11-14T22:13:20.002"]},
     [1700000000.002, -1700000000.002]),
    ("toMilliseconds(t)", {"t": ["1970-01-01T00:00:01.5009", "1969-12-31T23:59:59.9999"]}, [1500, -1]),
    ("toNanoseconds(t)", {"t": ["2013-01-01"]}, [1_356_998_400_000_000_000]),
    ("year(t) * 10000 + month(t) * 100 + day(t)", {"t": ["2013-12-31T23:59:59.9", "1969-12-31"]}, [20131231, 19691231]),
    ("hour(t) * 10000 + minute(t) * 100 + second(t)", {"t": ["2013-12-31T23:58:59.9"]}, [235859]),
    ("dayOfWeek(t)", {"t": ["2013-01-06", "2013-01-07"]}, [7, 1]),
    ("dayOfYear(t)", {"t": ["2013-01-01", "2012-12-31"]}, [1, 366]),
    ("hour(t, 'Europe/Berlin') * 100 + minute(t, 'Asia/Kolkata')", {"t": ["2013-07-01T22:10:00", "2013-01-01"]},
     [40, 130]),
    ("day(t, 'America/New_York')", {"t": ["2013-01-01T04:59:59", "2013-01-01T05:00:00"]}, [31, 1]),
    ("week(t)", {"t": ["2012-12-31", "2010-01-03"]}, [1, 53]),
    ("startOfDay(t)", {"t": ["2013-01-01T23:59:59.9", "1969-12-31T00:00:00", None]},
     ["2013-01-01T00:00:00Z", "1969-12-31T00:00:00Z", None]),
    ("startOfDay(t, 'Europe/Berlin')", {"t": ["2013-03-31T12:00:00", "2013-06-01T22:00:00"]},
     ["2013-03-30T23:00:00Z", "2013-06-01T22:00:00Z"]),
    ("startOfDay(t, 'Africa/Cairo')", {"t": ["2024-04-26T12:00:00"]}, ["2024-04-25T22:00:00Z"]),  # skips midnight
    ("startOfDay(t, 'America/Havana')", {"t": ["2024-11-03T12:00:00"]}, ["2024-11-03T04:00:00Z"]),  # has it twice
    ("startOfDay(t)", {"t": ["1677-09-21T12:00:00"]}, [None]),
    ("floorTime(t, 900)", {"t": ["2013-01-01T00:14:59.9", "1969-12-31T23:59:59", "1969-12-31T23:45:00"]},
     ["2013-01-01T00:00:00Z", "1969-12-31T23:45:00Z", "1969-12-31T23:45:00Z"]),
    ("floorTime(t, 9000000000)", {"t": ["1677-09-22"]}, [None]),
    ("formatTime(t, '%d.%m.%Y %H:%M')", {"t": ["2013-07-01T22:10:00", None]}, ["01.07.2013 22:10", None]),
    ("formatTime(t, '%H:%M %Z', 'Europe/Berlin')", {"t": ["2013-07-01T22:10:00"]}, ["00:10 CEST"]),
    ("formatTime(t, '%H:%M%z %Z')", {"t": ["2013-07-01T22:10:00"]}, ["22:10+0000 UTC"]),
    ("formatTime(t, '%%z')", {"t": ["2013-07-01T22:10:00"]}, ["%z"]),
    ("parseTime(s, '%d.%m.%Y')", {"s": ["30.02.2024", "29.02.2024", "1.3.2024", "31.12.2023"]},
     [None, "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z", "2023-12-31T00:00:00Z"]),
    ("parseTime(s, '%Y-%m-%d %H:%M:%S%z')", {"s": ["2023-02-29 00:00:00+0100", "2023-03-01 00:00:00+0000"]},
     [None, "2023-03-01T00:00:00Z"]),
    ("parseTime(s, '%H:%M:%S')", {"s": ["23:59:60", "23:59:59"]}, [None, "1900-01-01T23:59:59Z"]),
    ("parseTime(s, '%d.%m.%Y')", {"s": ["01.07.2013", "2013-07-01", "01.07.3013", None]},
     ["2013-07-01T00:00:00Z", None, None, None]),
    # lists, constants, nothing at all
    ("xs[0] + xs[-1]", {"xs": [["a", "b"], ["c"], [], None]}, ["ab", "cc", None, None]),
    ("get(xs, i)", {"xs": [["a", "b"]] * 5, "i": [1, -2, 2, -3, None]}, ["b", "a", None, None, None]),
    ("split('a b', ' ')[i]", {"i": [1, 2]}, ["b", None]),
    ("slice(xs, 1)", {"xs": [["a", "b", "c"], ["a"], [], None]}, [["b", "c"], [], [], None]),
    ("slice(xs, i, j)", {"xs": [["a", "b", "c"]] * 5, "i": [-1, 1, 5, 0, 0], "j": [2, 1, 1, -1, None]},
     [["a", "b"], ["b"], [], [], None]),
    ("contains(xs, s)", {"xs": [["a", "b"], ["a"], [], None], "s": ["b", "b", "b", "b"]}, [True, False, False, None]),
    ("indexOf(xs, 'b')", {"xs": [["a", "b", "b"], ["a"]]}, [1, -1]),
    ("hasValue(i % j)", {"i": [3, 3], "j": [0, 2]}, [False, True]),
    ("size(xs)", {"xs": [["a", "b"], []]}, [2, 0]),
    ("5", {"i": [1, 2, 3]}, [5, 5, 5]),
    ("1 + 2 * 3 % 4 == 3", {}, [True]),
    ("string(1 % 0)", {"i": [1, 2]}, [None, None]),
    ("contains(s, string(1 % 0))", {"s": ["a"]}, [None]),
    ("timestamp('2013-01-01') + 1", {}, ["2013-01-01T00:00:01Z"]),
    ("string(1.5) + string(true)", {}, ["1.5true"]),
    ("'a' + s", {"s": []}, []),
    ("string(f)", {"f": []}, []),
    ("int64(s) + i % 2", {"s": [], "i": []}, []),
    *EXAMPLES,
]  # fmt: skip


@pytest.mark.parametrize(("text", "columns", "expected"), BATCHES)
def test_expression(text, columns, expected):
    same(results(text, **columns), expected)


@pytest.mark.parametrize(("text", "columns", "expected"), BATCHES)
def test_rows_do_not_matter_to_each_other(text, columns, expected):
    """A batch that is a slice of another has offsets; a batch of one row takes other paths."""
    for row, value in enumerate(expected):
        same(results(text, **{name: values[row : row + 1] for name, values in columns.items()}), [value])
        same(results(text, row=row, **columns), [value])


@pytest.mark.parametrize(("text", "columns"), [batch[:2] for batch in BATCHES if batch[1]])
def test_no_rows_have_no_values(text, columns):
    assert results(text, **{name: [] for name in columns}) == []


def test_every_function_is_tested():
    called = {name for text, _, _ in BATCHES for name in re.findall(r"\w+(?=\()", text)}
    untested = FUNCTIONS.keys() - called
    of_nulls = {"isPresent", "coalesce", "try"}  # test_value_errors.py
    of_insides = {"keys", "values", "merge", "splitToMap", "unhex", "jsonText", "json"}  # test_insides.py
    of_decimals = {"decimal", "divide"}  # test_decimal_functions.py
    assert untested == {"exp", "log10", "sin", "cos"} | of_nulls | of_insides | of_decimals


@pytest.mark.parametrize("table", [OPERATORS, FUNCTIONS])
def test_every_signature_has_a_kernel(table):
    for function in table.values():
        for signature in function.signatures:
            assert signature.kernel in OF_ERRORS or callable(kernel(signature.kernel))


def test_a_plain_attribute_is_the_column_itself():
    tuples = pa.record_batch({"s": ["a"] * 1000})
    assert evaluate(parse("s", SCOPE), tuples).buffers()[2].address == tuples["s"].buffers()[2].address


def test_a_column_may_be_a_dictionary():
    tuples = pa.record_batch({"s": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert evaluate(parse("upper(s) + s", SCOPE), tuples).to_pylist() == ["Aa", "Bb", "Aa"]


def test_a_slice():
    tuples = pa.record_batch({"i": [1, 2, 3, 4], "f": [0.5, 1.5, 2.5, None]}).slice(1, 3)
    assert evaluate(parse("i % 2 + f % 1", SCOPE), tuples).to_pylist() == [0.5, 1.5, None]


def test_aggregates_are_not_computed_here():
    with pytest.raises(TypeError, match="Count"):
        evaluate(AggregateCall("Count", (), INT64), pa.record_batch({"i": [1]}))


# ---- against Python, one row at a time ------------------------------------------------------------------------------


def wrapped(value):
    return (value + 2**63) % 2**64 - 2**63


def divided(left, right):
    if right == 0:
        return NAN if left == 0 or left != left else math.copysign(INF, left) * math.copysign(1, right)  # noqa: PLR0124
    return left / right


def float_remainder(left, right):
    return math.fmod(left, right) if right and math.isfinite(left) else NAN


INTEGERS = {
    "+": lambda a, b: wrapped(a + b),
    "-": lambda a, b: wrapped(a - b),
    "*": lambda a, b: wrapped(a * b),
    "%": lambda a, b: None if b == 0 else abs(a) % abs(b) * (1 if a >= 0 else -1),
}
FLOATS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divided,
    "%": lambda a, b: NAN if math.isnan(a) or math.isnan(b) else float_remainder(a, b),
}
COMPARISONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

integers = st.integers(LOW, HIGH) | st.sampled_from([0, 1, -1, LOW, HIGH, 2**53 + 1])
floats = st.floats() | st.integers(-5, 5).map(float)


@st.composite
def int_expressions(draw, depth=3):
    """An expression over i and j, and what it is in Python."""
    if depth == 0 or draw(st.booleans()):
        number = draw(integers)
        leaves = [("i", lambda i, _: i), ("j", lambda _, j: j), (f"({number})", lambda _, __: number)]
        return draw(st.sampled_from(leaves))
    sign = draw(st.sampled_from([*INTEGERS]))
    (left, of_left), (right, of_right) = draw(int_expressions(depth - 1)), draw(int_expressions(depth - 1))

    def value(i, j):
        a, b = of_left(i, j), of_right(i, j)
        return None if a is None or b is None else INTEGERS[sign](a, b)

    return f"({left} {sign} {right})", value


@given(int_expressions(), st.lists(st.tuples(integers, integers), min_size=1, max_size=5))
@settings(max_examples=200)
def test_integers_are_exact(expression, rows):
    text, value = expression
    i, j = map(list, zip(*rows, strict=True))
    same(results(text, i=i, j=j), [value(*row) for row in rows])


@pytest.mark.parametrize("sign", FLOATS)
@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=5))
@settings(max_examples=100)
def test_floats_are_those_of_python(sign, rows):
    f, g = map(list, zip(*rows, strict=True))
    expected = [FLOATS[sign](a, b) for a, b in rows]
    assert all(map(alike, results(f"f {sign} g", f=f, g=g), expected))


def alike(one, other):
    return repr(one) == repr(other) or (math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize("sign", COMPARISONS)
@pytest.mark.parametrize(
    ("names", "values"), [("ij", integers), ("fg", floats), ("sr", st.text(max_size=3)), ("pq", st.booleans())]
)
@given(st.data())
@settings(max_examples=25)
def test_comparisons_are_those_of_python(sign, names, values, data):
    """Texts compare by their bytes, in which UTF-8 has the order of Python's characters."""
    rows = data.draw(st.lists(st.tuples(values, values), min_size=1, max_size=5))
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    expected = [COMPARISONS[sign](*row) for row in rows]
    assert results(f"{names[0]} {sign} {names[1]}", **columns) == expected


@given(st.text(max_size=6), st.text(max_size=2), st.text(max_size=2))
@settings(max_examples=100)
def test_constants_and_columns_give_the_same(s, old, new):
    """pyarrow computes the one, Python the other."""
    tuples = pa.record_batch({"s": [s], "o": [old], "n": [new]})
    scope = Scope("input", dict.fromkeys("son", STRING))
    quoted = {"o": quote(old), "n": quote(new)}
    for text in ("contains(s, {o})", "startsWith(s, {o})", "endsWith(s, {o})", "replace(s, {o}, {n})"):
        constant = evaluate(parse(text.format(**quoted), scope), tuples)
        column = evaluate(parse(text.format(o="o", n="n"), scope), tuples)
        assert constant.to_pylist() == column.to_pylist()


def quote(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


@given(st.lists(floats | st.none(), max_size=5))
@settings(max_examples=100)
def test_a_float_is_its_text(values):
    found = results("float64(string(f))", f=values)
    assert all(a is b is None or alike(a, b) for a, b in zip(found, values, strict=True))


def test_one_wrong_text_among_many_costs_little():
    texts = pa.array(["2013-01-01T00:00:00Z"] * 10_000 + ["2013-02-30T00:00:00Z"])
    found = evaluate(parse("timestamp(s)", SCOPE), pa.record_batch({"s": texts}))
    assert pc.sum(pc.is_null(found)).as_py() == 1
