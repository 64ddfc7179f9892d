"""The fast way of reading JSON against the exact one, which is the law; and what is written reads back as it was."""

from __future__ import annotations

import json
import os
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.arrow_types import arrow_schema, arrow_type
from sluice.model.types import (
    BOOLEAN,
    FLOAT64,
    INT64,
    STRING,
    TIMESTAMP,
    BooleanType,
    Float64Type,
    Int64Type,
    ListType,
    StringType,
    TimestampType,
    list_of,
)
from sluice.wire.json.json_batch import decode_scannable
from sluice.wire.json.json_codec import decode, decode_exactly
from sluice.wire.json.json_write import encode

SEED, MUTANTS = int(os.environ.get("SLUICE_SEED", "1")), int(os.environ.get("SLUICE_MUTANTS", "10000"))
SCALARS = st.sampled_from([BOOLEAN, INT64, FLOAT64, STRING, TIMESTAMP])
TYPES = st.one_of(SCALARS, SCALARS.map(list_of))
NAMES = st.sampled_from(["a", "b", "ab", "price", "é", 'q"', "\\", "", "a b"])
SPACE = st.text(" \t\r\n", max_size=2)


@st.composite
def schemas(draw, types=TYPES, names=NAMES):
    return tuple((name, draw(types)) for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)))


def digits(least, most):
    return st.text("0123456789", min_size=least, max_size=most)


def number(whole, fraction, exponent):
    """Numbers as they can be written, most of them valid."""
    return st.tuples(
        st.sampled_from(["", "", "", "-", "+"]),
        st.one_of(st.just("0"), digits(1, whole)),
        st.one_of(st.just(""), digits(0, fraction).map(".".__add__)),
        st.one_of(
            st.just(""),
            st.just(""),
            st.tuples(st.sampled_from(["e", "E", "e+", "e-"]), digits(0, exponent)).map("".join),
        ),
    ).map("".join)


MOMENTS = st.one_of(
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.tuples(
        st.sampled_from(
            ["2013-01-31", "2012-02-29", "2013-02-29", "1678-01-01", "1677-09-21", "2262-04-11", "13-01-01"]
        ),
        st.sampled_from(["T00:00", " 23:59:59", "T24:00", "T12:60", "T12:00:60", "T1:00", "", "t00:00", "T12:00:0"]),
        st.one_of(st.just(""), digits(0, 10).map(".".__add__)),
        st.sampled_from(["", "Z", "z", "+01:00", "-23:59", "+24:00", "+0100", "+01", " Z"]),
    ).map("".join),
)
TEXTS = st.one_of(
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    MOMENTS.map(json.dumps),
    st.sampled_from(
        ['"NaN"', '"Infinity"', '"-Infinity"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\u00"', '"\\x"']
    ),
)
SIMPLE = st.one_of(
    st.sampled_from(
        ["true", "false", "null", "tru", "NaN", "-", "-0", "-0.0", "9223372036854775807", "9223372036854775808"]
    ),
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(json.dumps),
    number(20, 12, 3),
    number(310, 20, 4),
    number(3, 16, 1),
    TEXTS,
)


def joined(marks, parts):
    return SPACE.map(lambda space: marks[0] + space + ("," + space).join(parts) + space + marks[1])


VALUES = st.recursive(
    SIMPLE,
    lambda values: st.one_of(
        st.lists(values, max_size=3).flatmap(lambda items: joined("[]", items)),
        st.lists(st.tuples(TEXTS, SPACE, values).map(lambda pair: f"{pair[0]}{pair[1]}:{pair[1]}{pair[2]}"), max_size=3)
        .flatmap(lambda items: joined("{}", items)),
    ),
    max_leaves=6,
)  # fmt: skip
#: values that are likely to be right
FITTING = {
    BooleanType: st.sampled_from(["true", "false"]),
    Int64Type: st.integers(-(2**63), 2**63 - 1).map(str),
    Float64Type: st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    StringType: TEXTS,
    TimestampType: st.one_of(MOMENTS.map(json.dumps), number(10, 9, 1)),
    ListType: VALUES,
}


@st.composite
def documents(draw, schema):
    """A record: mostly a tuple of the schema, with other attributes between, in any order, written in any way."""
    names = draw(st.permutations([name for name, _ in schema] + draw(st.lists(NAMES, max_size=2))))
    types = dict(schema)
    pairs = []
    for name in names:
        fitting = FITTING[type(types[name])] if name in types and draw(st.integers(0, 5)) else VALUES
        written = json.dumps(name, ensure_ascii=draw(st.booleans()))
        pairs.append(draw(SPACE) + written + draw(SPACE) + ":" + draw(SPACE) + draw(fitting) + draw(SPACE))
    return (draw(SPACE) + "{" + ",".join(pairs) + "}" + draw(SPACE)).encode(errors="surrogatepass")


@st.composite
def mutated(draw, document):
    """The record with a few bytes removed, changed or repeated, most often none."""
    data = bytearray(document)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 5]))):
        at = draw(st.integers(0, len(data)))
        byte = draw(st.one_of(st.sampled_from(b'{}[]",:\\ \n0.e-tn'), st.integers(0, 255)))
        match draw(st.sampled_from(["insert", "remove", "change", "cut", "repeat"])):
            case "insert":
                data.insert(at, byte)
            case "remove":
                del data[at : at + 1]
            case "change":
                data[at : at + 1] = bytes([byte])
            case "cut":
                del data[at:]
            case _:
                data[at:at] = data[at : at + draw(st.integers(1, 30))]
    return bytes(data)


@st.composite
def batches(draw):
    schema = draw(schemas())
    one = documents(schema).flatmap(mutated)
    return schema, draw(st.lists(st.one_of(one, one, one, st.none(), st.binary(max_size=8)), max_size=4))


def bits(batch):
    """The columns so that only equal ones are equal: NaN is itself, and zero has a sign."""
    return [repr(flat(column)) for column in batch.columns]


def flat(column):
    return column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()


@given(batches())
@settings(max_examples=280)
def test_the_fast_way_says_what_the_exact_way_says(batch):
    schema, values = batch
    values = pa.array(values, pa.binary())
    fast, exact = decode(values, schema), decode_exactly(values, schema)
    assert (fast.good.tolist(), fast.bad) == (exact.good.tolist(), exact.bad)
    assert fast.tuples.schema == exact.tuples.schema
    assert bits(fast.tuples) == bits(exact.tuples)


VALUES_OF = {
    BooleanType: st.booleans(),
    Int64Type: st.integers(-(2**63), 2**63 - 1),
    Float64Type: st.floats(),
    StringType: st.text(max_size=8),
    TimestampType: st.integers(-(2**63), 2**63 - 1),
}


def values_of(type_):
    return st.lists(values_of(type_.element), max_size=3) if type_.element else VALUES_OF[type(type_)]


@st.composite
def tuples(draw, names=NAMES):
    schema = draw(schemas(names=names))
    count = draw(st.integers(0, 4))
    columns = [pa.array([draw(values_of(type_)) for _ in range(count)], arrow_type(type_)) for _, type_ in schema]
    return schema, pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


@given(tuples())
@settings(max_examples=200)
def test_what_is_written_reads_back_as_it_was(given_tuples):
    schema, batch = given_tuples
    written = encode(batch)
    assert all(b"\n" not in value for value in written.to_pylist())
    back = decode(written, schema)
    assert back.bad == []
    assert bits(back.tuples) == bits(batch)


@pytest.mark.parametrize(
    "text",
    [
        '{"k":"a","x":1.5,"n":-7,"t":"2013-01-01T10:00:00.25-05:00","b":true}',
        '{"k":"a\\"\\u00e9\\ud83d\\ude00é","x":1,"n":9223372036854775807,"t":1357041600,"b":false}',
        ' { "b" : true , "n" : 0 , "x" : 1e-7 , "t" : -1.5 , "k" : "" } ',
        '{"more":{"k":[1,{"n":null}],"e":{},"l":[]},"k":"a","x":17.123456789012345,"n":1,"t":0,"b":true,"null":null}',
        '{"k":"b","k":"a","x":0.5,"n":1,"t":0,"b":true}',
    ],
)
def test_ordinary_records_take_the_fast_way(text):
    schema = (("k", STRING), ("x", FLOAT64), ("n", INT64), ("t", TIMESTAMP), ("b", BOOLEAN))
    tuples, sure = decode_scannable(pa.array([text.encode()], pa.binary()), schema)
    assert sure.all()
    assert bits(tuples) == bits(decode_exactly(pa.array([text.encode()], pa.binary()), schema).tuples)


def test_every_day_that_nanoseconds_reach_is_read_as_the_calendar_has_it():
    days = np.arange(np.datetime64("1678-01-01"), np.datetime64("2262-01-01"))
    texts = pa.array([b'{"t":"%s"}' % str(day).encode() for day in days], pa.binary())
    tuples, sure = decode_scannable(texts, (("t", TIMESTAMP),))
    assert sure.all()
    assert np.array_equal(tuples.column(0).cast(pa.int64()).to_numpy(), days.astype("datetime64[ns]").astype(np.int64))


def test_floats_of_all_sizes_are_read_as_python_reads_them():
    random = np.random.default_rng(1)
    numbers = np.frombuffer(random.bytes(8 * 20_000), np.float64)
    numbers = numbers[np.isfinite(numbers)]
    texts = pa.array([b'{"x":%s}' % repr(float(x)).encode() for x in numbers], pa.binary())
    assert np.array_equal(decode(texts, (("x", FLOAT64),)).tuples.column(0).to_numpy(), numbers)


ORDINARY = [
    b'{"k":"a","x":1.5,"n":-7,"t":"2013-01-01T10:00:00.25-05:00","b":true}',
    b'{"n":9223372036854775807,"k":"a\\"\\u00e9\\ud83d\\ude00\xc3\xa9","x":1e-7,"t":1357041600.123,"b":false}',
    b' { "b" : true , "more":{"k":[1,{"n":null}],"e":{},"l":[]}, "n":0 , "x":-0.0 , "t":"2012-02-29" , "k":"" } ',
]


def mutant(random):
    """An ordinary record with one to three bytes changed, most of them into other characters of JSON."""
    data = bytearray(random.choice(ORDINARY))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data))
        byte = random.choice(b'{}[]",:\\/ \t\n0159.eE+-tfnuZT\x00\x80\xff\xed\xa0')
        data[at : at + random.choice([0, 1, 1, 1, 2])] = bytes([byte]) * random.choice([0, 1, 1, 1, 2])
    return bytes(data)


def test_thousands_of_mutants_are_read_as_the_exact_way_reads_them():
    """Each bad one is bad once, with its reason, and its neighbours are as good as ever."""
    random = Random(SEED)
    schema = (("k", STRING), ("x", FLOAT64), ("n", INT64), ("t", TIMESTAMP), ("b", BOOLEAN))
    values = pa.array([mutant(random) for _ in range(MUTANTS)], pa.binary())
    fast, exact = decode(values, schema), decode_exactly(values, schema)
    assert fast.bad == exact.bad
    assert fast.good.tolist() == exact.good.tolist()
    assert bits(fast.tuples) == bits(exact.tuples)
    assert len(fast.good) + len(fast.bad) == MUTANTS
    assert MUTANTS / 50 < len(fast.good) < MUTANTS
