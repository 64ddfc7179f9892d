"""CSV, text and raw bytes; keys, headers and defaults of any format."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.members import Member, Spelling
from sluice.model.spec import Coding, FormatOptions, Key, Stream
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, parse_type
from sluice.wire import csv_rows
from sluice.wire.formats.csv_format import CsvOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec
from sluice.wire.record_codec import Records
from tests.unit.wire.json.test_json_batch import bits, tuples

TRADE = (("symbol", STRING), ("price", FLOAT64), ("size", INT64), ("time", TIMESTAMP))
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def decoded(word, schema, *values, defaults=None, **coding):
    options = CsvOptions(**coding) if word == "csv" else FormatOptions()
    form = codec(Part(Coding(word, options), schema, defaults or {}))
    return form.decode(pa.array(values, pa.binary()))


def row(word, schema, value, **how):
    found = decoded(word, schema, value, **how)
    assert found.bad == []
    (values,) = found.tuples.to_pylist()
    return list(values.values())


def why(word, schema, value, **how):
    found = decoded(word, schema, value, **how)
    assert not found.tuples.num_rows
    ((number, reason),) = found.bad
    assert number == 0
    return reason


# ---- CSV -------------------------------------------------------------------------------------------------------------


def test_a_row():
    symbol, price, size, time = row("csv", TRADE, b"IBM,1.5,7,2013-01-01T10:00:00Z")
    assert (symbol, price, size, str(time)) == ("IBM", 1.5, 7, "2013-01-01 10:00:00+00:00")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (b"a,b", ["a", "b"]),
        (b",", ["", ""]),
        (b'"a,b","c""d"', ["a,b", 'c"d']),
        (b'"a\nb",c\r\n', ["a\nb", "c"]),
        (b"a b, c", ["a b", " c"]),
        ("é,😀".encode(), ["é", "😀"]),
    ],
)
def test_fields(text, fields):
    assert row("csv", (("a", STRING), ("b", STRING)), text) == fields


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "no value: expected a row of CSV, got nothing"),
        (b"a", "not CSV: expected 4 fields, got 1"),
        (b"a,1,2,3,4", "not CSV: expected 4 fields, got 5"),
        (b'a,1,2,3\n"b",1,2,3', "not CSV: expected one row, got 2"),
        (b'"a,1,2,3', "not CSV: unexpected end of data"),
        (b'"a"b,1,2,3', "not CSV: ',' expected after '\"'"),
        (b"a,x,2,3", 'wrong type: price: expected float64, got "x"'),
        (b"a,1,2.5,3", 'wrong type: size: expected int64, got "2.5"'),
        (b"a,1,9223372036854775808,3", 'wrong type: size: expected int64, got "9223372036854775808"'),
        (b"a,1,,3", "null attribute: size: expected int64, got nothing"),
        (b"a,1e999,2,3", 'wrong type: price: expected float64, got "1e999"'),
        (b'a,"1},{",2,3', 'wrong type: price: expected float64, got "1},{"'),
        (b"a,1,2,2013-02-30", 'wrong type: time: expected timestamp, got "2013-02-30"'),
        (b"symbol,price,size,time", 'wrong type: price: expected float64, got "price"'),
        (b"\xff,1,2,3", "not text: its bytes are not UTF-8"),
    ],
)
def test_a_row_that_is_none(text, reason):
    assert why("csv", TRADE, text) == reason


def test_an_empty_field_may_have_a_default():
    schema = (("a", INT64), ("b", STRING))
    assert row("csv", schema, b",", defaults={"a": -1, "b": "unused"}) == [-1, ""]


def test_another_delimiter():
    assert row("csv", (("a", STRING), ("b", STRING)), b"a,b;c", delimiter=";") == ["a,b", "c"]


def test_bad_rows_leave_their_neighbours_as_they_are():
    found = decoded("csv", (("a", INT64), ("b", STRING)), b"1,x", b"x,1", b'2,"y"', b"", b"3,z", b"\xff", b"4", b"5,w")
    assert found.good.tolist() == [0, 2, 4, 7]
    assert [number for number, _ in found.bad] == [1, 3, 5, 6]
    assert found.tuples.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}, {"a": 5, "b": "w"}]


@given(tuples(), st.sampled_from([",", ";", "\t", "|", "1"]))
@settings(max_examples=150)
def test_csv_that_is_written_reads_back_as_it_was(given_tuples, delimiter):
    schema, batch = given_tuples
    written = csv_rows.encode(batch, delimiter)
    for value in written.to_pylist():
        (line,) = csv.reader(io.StringIO(value.decode(), newline=""), delimiter=delimiter, strict=True)
        assert len(line) == len(schema)
    back = csv_rows.decode(written, schema, delimiter, {})
    assert back.bad == []
    assert bits(back.tuples) == bits(batch)


# ---- text and raw ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("string", 'a,"b\n', 'a,"b\n'),
        ("string", "", ""),
        ("int64", "-7", -7),
        ("float64", "1e-7", 1e-7),
        ("float64", "Infinity", float("inf")),
        ("boolean", "true", True),
        ("list<int64>", "[1, 2]", [1, 2]),
    ],
)
def test_a_text(type_, text, value):
    assert row("text", (("a", parse_type(type_)),), text.encode()) == [value]


@pytest.mark.parametrize(
    ("type_", "text"),
    [("int64", b"7 "), ("int64", b""), ("int64", b"7.0"), ("boolean", b"1"), ("float64", b"nan"), ("float64", b"\xff"),
     ("list<int64>", b"[1"), ("timestamp", b"now"), ("int64", b"7\n")],
)  # fmt: skip
def test_a_text_that_is_none(type_, text):
    assert why("text", (("a", parse_type(type_)),), text).startswith(("wrong type: a", "not text"))


def test_raw_bytes_are_base64():
    assert row("raw", (("a", STRING),), b"\x00\xff") == ["AP8="]


# ---- keys, headers, defaults -----------------------------------------------------------------------------------------

TAGGED = Stream(
    "in", (("key", STRING), ("x", INT64), ("trace", STRING), ("n", INT64)), "in",
    key=Key(("key",), Coding("text")), headers=(("trace", "trace-id"), ("n", "count")), defaults=(("n", -1), ("x", 0)),
)  # fmt: skip


def read(stream, *records):
    values, keys, headers = zip(*records, strict=True)
    return Records.of(stream, {}).decode(
        pa.array(values, pa.binary()), pa.array(keys, pa.binary()), pa.array(headers, HEADERS)
    )


def test_attributes_come_from_value_key_and_headers():
    found = read(
        TAGGED,
        (b'{"x":1}', b"a", [("trace-id", b"t"), ("count", b"7")]),
        (b'{"x":null}', b"", [("trace-id", b"old"), ("trace-id", b"new")]),
    )
    assert found.bad == []
    assert list(map(list, (row.values() for row in found.tuples.to_pylist()))) == [["a", 1, "t", 7], ["", 0, "new", -1]]


def test_a_record_is_bad_once():
    found = read(
        TAGGED,
        (b"{", None, None),
        (b"{}", None, [("trace-id", b"t")]),
        (b"{}", b"\xff", [("trace-id", b"t")]),
        (b"{}", b"a", None),
        (b"{}", b"a", [("trace-id", None)]),
        (b"{}", b"a", [("trace-id", b"t"), ("count", b"x")]),
        (b"{}", b"a", [("trace-id", b"t")]),
    )
    assert found.good.tolist() == [6]
    assert [why.partition(" got ")[0] for _, why in found.bad][1:] == [
        "missing attribute: key: expected string,",
        "not text: its bytes are not UTF-8",
        'missing attribute: trace: expected string at header["trace-id"],',
        'missing attribute: trace: expected string at header["trace-id"],',
        "wrong type: n: expected int64 at header.count,",
    ]
    assert [row for row, _ in found.bad] == [0, 1, 2, 3, 4, 5]


def test_they_are_written_where_they_came_from():
    records = Records.of(TAGGED, {})
    batch = read(TAGGED, (b'{"x":1}', b"a", [("trace-id", b"t"), ("count", b"7")])).tuples
    assert records.encode_values(batch).to_pylist() == [b'{"x":1}']
    assert records.encode_keys(batch).to_pylist() == [b"a"]
    assert {k: v.to_pylist() for k, v in records.encode_headers(batch).items()} == {"trace-id": [b"t"], "count": [b"7"]}


def test_a_key_in_json_of_two_attributes():
    stream = Stream("in", (("a", INT64), ("b", STRING), ("c", INT64)), "in", key=Key(("b", "a"), Coding("json")))
    found = read(stream, (b'{"c":3}', b'{"a":1,"b":"x"}', None))
    assert found.tuples.to_pylist() == [{"a": 1, "b": "x", "c": 3}]
    assert Records.of(stream, {}).encode_keys(found.tuples).to_pylist() == [b'{"b":"x","a":1}']


# ---- columns, paths and spellings ------------------------------------------------------------------------------------


def spelled(path=None, **spelling):
    return Member(path, Spelling(**spelling))


def texts(word, type_, value, member, **coding):
    """The value of attribute `a`, or the reason why the record is a dead letter."""
    options = CsvOptions(**coding) if word == "csv" else FormatOptions()
    found = codec(Part(Coding(word, options), (("a", type_),), members={"a": member})).decode(pa.array([value]))
    if found.bad:
        return found.bad[0][1]
    column = found.tuples.column(0)
    return column.cast(pa.int64())[0].as_py() if type_ == TIMESTAMP else column[0].as_py()


def test_columns_name_the_fields_of_a_row():
    schema, columns = (("id", STRING), ("amount", FLOAT64)), ("time", "order-id", "amount")
    part = Part(Coding("csv", CsvOptions(columns=columns)), schema, members={"id": spelled(("order-id",))})
    found = codec(part).decode(pa.array([b"10:00,a,1.5", b'"x,y",b,2', b"a,1.5"]))
    assert found.tuples.to_pylist() == [{"id": "a", "amount": 1.5}, {"id": "b", "amount": 2.0}]
    assert found.bad == [(2, "not CSV: expected 3 fields, got 2")]


@pytest.mark.parametrize("word", ["csv", "text"])
@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (INT64, b"7", 7),
        (INT64, b"7.0", 7),
        (INT64, b"1e3", 1000),
        (INT64, b"7.5", 'wrong type: a: expected int64, got "7.5"'),
        (INT64, b" 7", 'wrong type: a: expected int64, got " 7"'),
        (FLOAT64, b"7", 7.0),
        (BOOLEAN, b"1", True),
        (BOOLEAN, b"FALSE", False),
        (BOOLEAN, b"yes", 'wrong type: a: expected boolean, got "yes"'),
        (STRING, b"1.10", "1.10"),
        (TIMESTAMP, b"1.5", 1_500_000_000),
        (parse_type("list<int64>"), b'["7"]', [7]),
        (parse_type("int64?"), b"7.0", 7),
    ],
)
def test_coerce_in_texts(word, type_, value, expected):
    assert texts(word, type_, value, spelled(coerce=True)) == expected


@pytest.mark.parametrize("type_", ["int64?", "decimal(2)?", "timestamp?", "list<int64>?"])
def test_coerce_reads_an_empty_text_of_an_optional_attribute_as_null(type_):
    of_type = parse_type(type_)
    assert texts("text", of_type, b"", spelled(coerce=True)) is None
    assert texts("csv", of_type, b'""', spelled(coerce=True)) is None
    assert str(texts("text", of_type, b"", spelled())).startswith("wrong type")


@pytest.mark.parametrize("word", ["csv", "text"])
@pytest.mark.parametrize(
    ("spelling", "value", "expected"),
    [
        ({"unit": "ms"}, b"1500", 1_500_000_000),
        ({"unit": "ms"}, b"1970-01-01", 0),
        ({"unit": "ns"}, b"9223372036854775808", 'wrong type: a: expected timestamp, got "9223372036854775808"'),
        ({"pattern": "%d.%m.%Y"}, b"02.01.1970", 86_400_000_000_000),
        ({"pattern": "%Y%m%d"}, b"19700102", 86_400_000_000_000),
        ({"pattern": "%d.%m.%Y"}, b"1970-01-02", 'wrong type: a: expected timestamp, got "1970-01-02"'),
    ],
)
def test_times_in_texts(word, spelling, value, expected):
    assert texts(word, TIMESTAMP, value, spelled(**spelling)) == expected


@pytest.mark.parametrize("word", ["csv", "text"])
def test_a_time_is_written_as_it_is_read(word):
    time = pa.array([86_400_000_000_000]).view(pa.timestamp("ns", "UTC"))
    batch = pa.RecordBatch.from_arrays([time], ["a"])
    for spelling, value in [({"unit": "ms"}, b"86400000"), ({"pattern": "%d/%m/%Y"}, b"02/01/1970")]:
        options = CsvOptions() if word == "csv" else FormatOptions()
        form = codec(Part(Coding(word, options), (("a", TIMESTAMP),), members={"a": spelled(**spelling)}))
        assert form.encode(batch).to_pylist() == [value]
        assert form.decode(pa.array([value])).tuples.equals(batch.cast(form.decode(pa.array([value])).tuples.schema))


def test_paths_into_the_key_and_headers():
    members = (
        ("id", Member(("customer", "id"), Spelling(coerce=True), "key")),
        ("x", spelled(("a", "x"))),
        ("sent", spelled((), unit="ms")),
    )
    stream = Stream(
        "in", (("id", INT64), ("x", INT64), ("sent", TIMESTAMP)), "in", key=Key(("id",), Coding("json")),
        headers=(("sent", "sent-ms"),), members=members,
    )  # fmt: skip
    good = (b'{"a":{"x":1}}', b'{"customer":{"id":"7"}}', [("sent-ms", b"1500")])
    found = read(stream, good, (b'{"a":{"x":1}}', b'{"customer":null}', [("sent-ms", b"1500")]))
    assert [list(row.values())[:2] for row in found.tuples.to_pylist()] == [[7, 1]]
    assert found.bad == [(1, "missing attribute: id: expected int64 at key.customer.id, got null at key.customer")]
    records = Records.of(stream, {})
    assert records.encode_values(found.tuples).to_pylist() == [b'{"a":{"x":1}}']
    assert records.encode_keys(found.tuples).to_pylist() == [b'{"customer":{"id":7}}']
    assert records.encode_headers(found.tuples)["sent-ms"].to_pylist() == [b"1500"]


def test_the_whole_key_in_json():
    key, members = Key(("id",), Coding("json")), (("id", replace(spelled(()), part="key")),)
    stream = Stream("in", (("id", INT64), ("x", INT64)), "in", key=key, members=members)
    found = read(stream, (b'{"x":1}', b"7", None), (b'{"x":1}', None, None))
    assert found.tuples.to_pylist() == [{"id": 7, "x": 1}]
    assert found.bad == [(1, "missing attribute: id: expected int64 at key, got nothing")]


# ---- null ------------------------------------------------------------------------------------------------------------

OPTIONAL = (("s", parse_type("string?")), ("n", parse_type("int64?")), ("t", STRING))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"a,1,b", ["a", 1, "b"]),
        (b",,", [None, None, ""]),
        (b'"",,""', ["", None, ""]),
        (b'"x,y",,"z"', ["x,y", None, "z"]),
        (b',2,"a\nb"', [None, 2, "a\nb"]),
        (b'"a""b",,\r\n', ['a"b', None, ""]),
    ],
)
def test_an_empty_field_without_quotes_is_null(text, values):
    """NU4."""
    assert row("csv", OPTIONAL, text) == values


def test_an_empty_text_in_quotes_is_no_number():
    assert why("csv", OPTIONAL, b'a,"",b') == "null attribute: n: expected int64?, got nothing"


def test_a_default_takes_the_place_of_null():
    assert row("csv", OPTIONAL, b",,b", defaults={"n": 7}) == [None, 7, "b"]


def test_a_row_of_one_null():
    assert row("csv", OPTIONAL[1:2], b"") == [None]


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.none() | st.text('a," \n\r;', max_size=3), st.none() | st.integers(-9, 9), st.text('a,"', max_size=2)
        ),
        max_size=4,
    )
)
def test_null_comes_back_from_csv(rows):
    """NU5."""
    form = codec(Part(Coding("csv", CsvOptions()), OPTIONAL))
    given_tuples = pa.RecordBatch.from_pylist(
        [dict(zip("snt", one, strict=True)) for one in rows],
        schema=pa.schema([("s", pa.string()), ("n", pa.int64()), ("t", pa.string())]),
    )
    found = form.decode(form.encode(given_tuples))
    assert (found.tuples.to_pylist(), found.bad) == (given_tuples.to_pylist(), [])


def test_a_null_key_is_no_key_and_a_null_header_is_no_header():
    """NU2, NU5, NU6."""
    stream = Stream("in", (("k", parse_type("int64?")), ("h", parse_type("string?")), ("v", INT64)), topic="in",
                    key=Key(("k",), Coding("text")), headers=(("h", "trace"),))  # fmt: skip
    records = Records.of(stream, {})
    tuples = records.decode(pa.array([b'{"v":1}']), pa.array([None], pa.binary()), pa.array([None], HEADERS)).tuples
    assert tuples.to_pylist() == [{"k": None, "h": None, "v": 1}]
    assert records.encode_keys(tuples).to_pylist() == [None]
    assert records.encode_headers(tuples)["trace"].to_pylist() == [None]
