import math

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.arrow_types import arrow_schema
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, list_of
from sluice.wire.json.json_codec import decode
from sluice.wire.json.json_write import encode

SECOND = 1_000_000_000


def decode_one(text, type_):
    """The value of attribute `a` in a single record, or the reason why it is a dead letter."""
    text = text if isinstance(text, bytes) else text.encode()
    decoded = decode(pa.array([text], pa.binary()), (("a", type_),))
    if decoded.bad:
        return decoded.bad[0][1]
    column = decoded.tuples.column(0)
    return column.cast(pa.int64())[0].as_py() if type_ == TIMESTAMP else column[0].as_py()


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ('{"a": 9007199254740993}', INT64, 9007199254740993),
        ('{"a": -9223372036854775808}', INT64, -(2**63)),
        ('{"a": -0}', INT64, 0),
        ('{"a": 1}', FLOAT64, 1.0),
        ('{"a": 0.1}', FLOAT64, 0.1),
        ('{"a": 1e3}', FLOAT64, 1000.0),
        ('{"a": 9007199254740993}', FLOAT64, 9007199254740992.0),
        ('{"a": 123456789012345678901234567890}', FLOAT64, 123456789012345678901234567890.0),
        ('{"a": 1e-400}', FLOAT64, 0.0),
        ('{"a": "Infinity"}', FLOAT64, math.inf),
        ('{"a": "-Infinity"}', FLOAT64, -math.inf),
        ('{"a": true}', BOOLEAN, True),
        ('{"a": "x\\ny\\u00e9\\ud83d\\ude00"}', STRING, "x\nyé😀"),
        ('{"a": ""}', STRING, ""),
        ('{"a": "\\u0000"}', STRING, "\0"),
        ('{"a": [1, 2]}', list_of(INT64), [1, 2]),
        ('{"a": []}', list_of(STRING), []),
        ('{"a": [[1.5], ["Infinity"]]}', list_of(list_of(FLOAT64)), [[1.5], [math.inf]]),
        ('{"a": 0}', TIMESTAMP, 0),
        ('{"a": -1.5}', TIMESTAMP, -3 * SECOND // 2),
        ('{"a": 1357041600.1234567}', TIMESTAMP, 1357041600_123456700),
        ('{"a": "1970-01-01"}', TIMESTAMP, 0),
        ('{"a": "1970-01-01T00:00:01"}', TIMESTAMP, SECOND),
        ('{"a": "1970-01-01 00:01"}', TIMESTAMP, 60 * SECOND),
        ('{"a": "1970-01-01T00:00:00.000000001Z"}', TIMESTAMP, 1),
        ('{"a": "1969-12-31T23:59:59.5Z"}', TIMESTAMP, -SECOND // 2),
        ('{"a": "1970-01-01T01:00:00+01:00"}', TIMESTAMP, 0),
        ('{"a": "2013-01-01T10:00:00-05:00"}', TIMESTAMP, 1357052400 * SECOND),
        # around the object
        (' \t\r\n{\n"a"\n:\n1\n}\n', INT64, 1),
        ('{"a": 1, "b": {"c": [null, "]}"]}, "d": null}', INT64, 1),
        ('{"a": 1, "a": 2}', INT64, 2),
        ('{"a": "x", "a": 2}', INT64, 2),
        ('{"\\u0061": 1}', INT64, 1),
    ],
)
def test_a_value_is_read(text, type_, value):
    assert decode_one(text, type_) == value


def test_nan_is_read_from_its_word():
    assert math.isnan(decode_one('{"a": "NaN"}', FLOAT64))


@pytest.mark.parametrize(
    ("text", "type_", "reason"),
    [
        ('{"a": 1.0}', INT64, "wrong type: a: expected int64, got 1.0"),
        ('{"a": 1e3}', INT64, "wrong type: a: expected int64, got 1000.0"),
        ('{"a": 9223372036854775808}', INT64, "wrong type: a: expected int64, got 9223372036854775808"),
        ('{"a": 18446744073709551616}', INT64, "wrong type: a: expected int64, got 1.8446744073709552e+19"),
        ('{"a": true}', INT64, "wrong type: a: expected int64, got true"),
        ('{"a": "1"}', INT64, 'wrong type: a: expected int64, got "1"'),
        ('{"a": "1.5"}', FLOAT64, 'wrong type: a: expected float64, got "1.5"'),
        ('{"a": "nan"}', FLOAT64, 'wrong type: a: expected float64, got "nan"'),
        ('{"a": false}', FLOAT64, "wrong type: a: expected float64, got false"),
        ('{"a": 1}', BOOLEAN, "wrong type: a: expected boolean, got 1"),
        ('{"a": 1}', STRING, "wrong type: a: expected string, got 1"),
        ('{"a": {"b": 1}}', STRING, 'wrong type: a: expected string, got {"b":1}'),
        (
            '{"a": [1, null]}',
            list_of(INT64),
            ("wrong type: a: expected list<int64>, got [1,null]; at a[1]: expected int64, got null"),
        ),
        ('{"a": 1}', list_of(INT64), "wrong type: a: expected list<int64>, got 1"),
        ('{"a": "2013-02-30"}', TIMESTAMP, 'wrong type: a: expected timestamp, got "2013-02-30"'),
        ('{"a": "2013-01-01T25:00Z"}', TIMESTAMP, 'wrong type: a: expected timestamp, got "2013-01-01T25:00Z"'),
        ('{"a": "1500-01-01"}', TIMESTAMP, 'wrong type: a: expected timestamp, got "1500-01-01"'),
        ('{"a": 1e300}', TIMESTAMP, "wrong type: a: expected timestamp, got 1e+300"),
        (
            '{"a": 1704103200000}',
            TIMESTAMP,
            (
                "wrong type: a: expected timestamp, got 1704103200000 "
                "(a number is seconds since 1970; `unit: ms` of the attribute is for milliseconds)"
            ),
        ),
        ('{"a": "2013-01-01T24:00Z"}', TIMESTAMP, 'wrong type: a: expected timestamp, got "2013-01-01T24:00Z"'),
        ('{"a": ' + "[" * 500 + "]" * 500 + "}", INT64, "wrong type: a: expected int64, got a deeply nested value"),
        ('{"a": ""}', TIMESTAMP, 'wrong type: a: expected timestamp, got ""'),
        ('{"a": null}', INT64, "null attribute: a: expected int64, got null"),
        ('{"A": 1}', INT64, "missing attribute: a: expected int64, got nothing"),
        ("{}", INT64, "missing attribute: a: expected int64, got nothing"),
        ('{"a": 1, "a": null}', INT64, "null attribute: a: expected int64, got null"),
        ("[]", INT64, "not an object: expected a JSON object, got []"),
        ("1", INT64, "not an object: expected a JSON object, got 1"),
        ("null", INT64, "not an object: expected a JSON object, got null"),
        ("", INT64, "no value: expected a JSON object, got nothing"),
    ],
)
def test_a_value_that_does_not_fit_is_bad(text, type_, reason):
    assert decode_one(text, type_) == reason


@pytest.mark.parametrize(
    "text",
    [
        b" ",
        b"{",
        b'{"a": 1',
        b'{"a": 1}}',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1}\n{"a": 2}',
        b'{"a": 1} x',
        b'{"a": 1,}',
        b'{"a" 1}',
        b"{'a': 1}",
        b'{"a": 01}',
        b'{"a": 1.}',
        b'{"a": .5}',
        b'{"a": +1}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e400}',
        b'{"a": tru}',
        b'{"a": 1, "b": 1e400}',
        b'{"a": 1, "b": "\xff"}',
        b'{"a": 1, "b": "\xed\xa0\x80"}',
        b'{"a": 1, "b": "\\ud800"}',
        b'{"a": 1, "b": "\n"}',
        b'{"a": 1, "b": "\\x"}',
        b' \xef\xbb\xbf{"a": 1}',
        b'\xef\xbb\xbf\xef\xbb\xbf{"a": 1}',
        b'{"a": 1}\x00',
        b'{"a": 1, "b": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    ],
)
def test_what_is_not_one_json_document_is_bad(text):
    assert decode_one(text, INT64).startswith("not JSON: ")


def test_bad_rows_do_not_touch_their_neighbours():
    values = [b'{"a": 1', b'{"a": 1}', b"", b'{"a": "x"}', b'{"a": 2}', None, b'{"a": 3}\n{"a": 4}', b'{"a": 5}']
    decoded = decode(pa.array(values, pa.binary()), (("a", INT64),))
    assert decoded.good.tolist() == [1, 4, 7]
    assert decoded.tuples.to_pydict() == {"a": [1, 2, 5]}
    assert [row for row, _ in decoded.bad] == [0, 2, 3, 5, 6]


def test_a_record_of_a_megabyte_is_read():
    text = "x" * 1_000_000
    assert decode_one(f'{{"a": "{text}"}}', STRING) == text


def test_a_batch_may_be_empty_or_a_slice():
    values = pa.array([b'{"a": 1}', b'{"a": 2}', b'{"a": 3}'], pa.binary())
    assert decode(values[1:], (("a", INT64),)).tuples.to_pydict() == {"a": [2, 3]}
    empty = decode(values[:0], (("a", INT64),))
    assert (empty.tuples.num_rows, empty.good.tolist(), empty.bad) == (0, [], [])


def test_a_schema_without_attributes_reads_any_object_and_writes_empty_ones():
    decoded = decode(pa.array([b'{"a": 1}', b"[]", b"{}"], pa.binary()), ())
    assert (decoded.tuples.num_rows, decoded.good.tolist()) == (2, [0, 2])
    assert encode(decoded.tuples).to_pylist() == [b"{}", b"{}"]


def encode_one(value, type_):
    schema = arrow_schema((("a", type_),))
    return encode(pa.RecordBatch.from_arrays([pa.array([value], schema.field(0).type)], schema=schema))[0].as_py()


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (1, INT64, "1"),
        (-(2**63), INT64, "-9223372036854775808"),
        (1.0, FLOAT64, "1.0"),
        (-0.0, FLOAT64, "-0.0"),
        (0.1, FLOAT64, "0.1"),
        (math.inf, FLOAT64, '"Infinity"'),
        (-math.inf, FLOAT64, '"-Infinity"'),
        (math.nan, FLOAT64, '"NaN"'),
        (True, BOOLEAN, "true"),
        ("", STRING, '""'),
        ('a\n"\\\0\x1f', STRING, '"a\\n\\"\\\\\\u0000\\u001f"'),
        (0, TIMESTAMP, '"1970-01-01T00:00:00Z"'),
        (1, TIMESTAMP, '"1970-01-01T00:00:00.000000001Z"'),
        (1357041600_500000000, TIMESTAMP, '"2013-01-01T12:00:00.5Z"'),
        (1357041600_000010000, TIMESTAMP, '"2013-01-01T12:00:00.00001Z"'),
        (-1, TIMESTAMP, '"1969-12-31T23:59:59.999999999Z"'),
        ([], list_of(INT64), "[]"),
        ([1.0, math.nan], list_of(FLOAT64), '[1.0,"NaN"]'),
        ([[math.inf]], list_of(list_of(FLOAT64)), '[["Infinity"]]'),
        ([100_000_000], list_of(TIMESTAMP), '["1970-01-01T00:00:00.1Z"]'),
    ],
)
def test_a_value_is_written(value, type_, text):
    assert encode_one(value, type_).decode() == f'{{"a":{text}}}'


def test_the_names_of_attributes_are_escaped_and_in_order():
    batch = pa.RecordBatch.from_pydict({'b"\n': [1], "a": ["x"]})
    assert encode(batch).to_pylist() == [b'{"b\\"\\n":1,"a":"x"}']


def test_rows_with_words_stay_between_the_others():
    batch = pa.RecordBatch.from_pydict({"a": [1.0, math.nan, 2.0], "s": ["x", "y\n", "z"]})
    assert encode(batch).to_pylist() == [b'{"a":1.0,"s":"x"}', b'{"a":"NaN","s":"y\\n"}', b'{"a":2.0,"s":"z"}']
    assert encode(batch[1:]).to_pylist() == [b'{"a":"NaN","s":"y\\n"}', b'{"a":2.0,"s":"z"}']
    assert np.array_equal(encode(batch[:0]).to_pylist(), [])
